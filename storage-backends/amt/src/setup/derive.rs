//! The derivation of the tables from powers of tau.

use super::{Setup, table::Table};
use crate::{
    PowersOfTau, SLOT_BITS, SLOTS, VerifyingKey,
    batch::double_all,
    fft::{Transform, powers_of, root_of_unity},
};
use ark_bn254::{Fr, G1Affine, G1Projective};
use ark_ec::{PrimeGroup, ScalarMul, scalar_mul::BatchMulPreprocessing};
use ark_ff::{Field, fields::batch_inversion};
use rayon::prelude::*;

/// Number of points that one thread doubles at a time.
const CHUNK: usize = 1024;

/// The progress of the derivation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Derivation {
    /// Number of transforms and tables that are done.
    pub done: u32,
    /// Total number of transforms and tables.
    pub total: u32,
}

impl Setup {
    /// Derives the tables; those for proofs only if `proofs` is set. `progress` is called after each step; the steps
    /// take about the same time.
    ///
    /// From a ceremony this takes `height + 1` Fourier transforms of points. If tau is known, the tables are
    /// multiples of the generator and computed in a moment, with the same result.
    pub fn derive(
        powers: &PowersOfTau,
        proofs: bool,
        progress: &mut dyn FnMut(Derivation),
    ) -> Self {
        let height = powers.height();
        let total = if proofs { u32::from(height) + 2 } else { 2 };
        let mut done = 0;
        let mut step = || {
            done += 1;
            progress(Derivation { done, total });
        };
        let mut quotients = Vec::new();
        let basis = match powers.tau() {
            Some(tau) => {
                let known = KnownTau::new(height, tau);
                for depth in 1..=height {
                    if proofs {
                        quotients.extend(known.quotients(depth));
                        step();
                    }
                }
                known.basis()
            }
            None => {
                let mut transform = Transform::new(height, powers.g1());
                for _ in 0..height {
                    if proofs {
                        quotients.extend(transform.quotients());
                        step();
                    }
                    transform.advance();
                }
                transform.basis()
            }
        };
        step();
        let slots = slot_table(basis);
        step();
        Self {
            key: VerifyingKey::new(powers),
            slots: Table::Owned(slots),
            quotients: proofs.then_some(Table::Owned(quotients)),
        }
    }
}

/// Computes the basis for all slots: forty doublings from one to the next.
fn slot_table(basis: Vec<G1Affine>) -> Vec<G1Affine> {
    let mut table = Vec::with_capacity(SLOTS * basis.len());
    let mut slot = basis;
    for n in 0..SLOTS {
        if n > 0 {
            slot.par_chunks_mut(CHUNK).for_each(|chunk| {
                for _ in 0..SLOT_BITS {
                    double_all(chunk);
                }
            });
        }
        table.extend_from_slice(&slot);
    }
    table
}

/// The computation of tables from a known tau: in fields only, with one multiple of the generator an entry.
struct KnownTau {
    height: u8,
    tau: Fr,
    /// The Lagrange polynomials at tau.
    lagrange: Vec<Fr>,
    generator: BatchMulPreprocessing<G1Projective>,
}

impl KnownTau {
    fn new(height: u8, tau: Fr) -> Self {
        let n = 1u64 << height;
        let roots = powers_of(root_of_unity(height), 1 << height);
        let mut lagrange: Vec<Fr> = roots.iter().map(|root| (tau - root) * Fr::from(n)).collect();
        batch_inversion(&mut lagrange);
        let numerator = tau.pow([n]) - Fr::ONE;
        for (value, root) in lagrange.iter_mut().zip(&roots) {
            *value *= numerator * root;
        }
        let generator = BatchMulPreprocessing::new(G1Projective::generator(), lagrange.len());
        Self { height, tau, lagrange, generator }
    }

    fn basis(&self) -> Vec<G1Affine> {
        self.multiples(&self.lagrange)
    }

    fn quotients(&self, depth: u8) -> Vec<G1Affine> {
        let m = 1u64 << (self.height - depth);
        let (power, step) = (self.tau.pow([m]), root_of_unity(self.height).pow([m]));
        let mut scalars = powers_of(step, self.lagrange.len());
        scalars.iter_mut().for_each(|root| *root += power);
        batch_inversion(&mut scalars);
        for (scalar, lagrange) in scalars.iter_mut().zip(&self.lagrange) {
            *scalar *= lagrange;
        }
        self.multiples(&scalars)
    }

    fn multiples(&self, scalars: &[Fr]) -> Vec<G1Affine> {
        let chunk =
            |chunk: &[Fr]| G1Projective::batch_mul_with_preprocessing(&self.generator, chunk);
        scalars.par_chunks(CHUNK).flat_map_iter(chunk).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_tau_gives_the_same_tables() {
        let known = PowersOfTau::insecure_dev(5, "derive").unwrap_or_else(|e| panic!("{e}"));
        let mut unknown = known.clone();
        unknown.forget();
        let mut steps = Vec::new();
        let fast = Setup::derive(&known, true, &mut |step| steps.push(step));
        let slow = Setup::derive(&unknown, true, &mut |_| {});
        assert_eq!(steps.len(), 7);
        assert_eq!(steps.last(), Some(&Derivation { done: 7, total: 7 }));
        for index in 0..32 {
            for slot in 0..SLOTS {
                assert_eq!(fast.point(slot, index), slow.point(slot, index));
            }
            for depth in 1..=5 {
                assert_eq!(fast.quotient(depth, index), slow.quotient(depth, index));
            }
        }
        assert_ne!(fast.id(), slow.id(), "an insecure setup has another name");
    }
}
