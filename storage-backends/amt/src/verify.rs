//! The verification of openings.

use crate::{
    Opening, PowersOfTau, Versions,
    fft::root_of_unity,
    point::{compress, compress_g2, decompress, decompress_g2, encode_point},
    versions::{entry_scalar, is_valid},
};
use alloy_primitives::{B256, Keccak256, keccak256};
use ark_bn254::{Bn254, Fr, G1Affine, G1Projective, G2Affine};
use ark_ec::{AffineRepr, CurveGroup, VariableBaseMSM, pairing::Pairing};
use ark_ff::{AdditiveGroup, Field, PrimeField, Zero};

/// The verifying key of a setup: a few points, also for large tables.
#[derive(Debug, Clone)]
pub struct VerifyingKey {
    height: u8,
    insecure: bool,
    /// The point `τ^(n-1)·G1`.
    top: G1Affine,
    /// The points `τ^(2^k)·G2` for `k` below the height.
    powers: Vec<G2Affine>,
    id: B256,
    /// `G2` and `powers`, prepared for pairings.
    prepared: Vec<<Bn254 as Pairing>::G2Prepared>,
}

/// The claim of an opening: the entry at `index` of the committed vector holds these versions.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// The commitment to the vector.
    pub commitment: G1Affine,
    /// The index of the entry.
    pub index: u32,
    /// The version numbers of the entry.
    pub versions: Versions,
    /// The proof of the claim.
    pub opening: &'a Opening,
}

impl VerifyingKey {
    /// Creates the key of the setup that is derived from these powers.
    pub fn new(powers: &PowersOfTau) -> Self {
        let top = powers.g1()[(1 << powers.height()) - 1];
        Self::assemble(powers.height(), powers.is_insecure(), top, powers.g2().to_vec())
    }

    fn assemble(height: u8, insecure: bool, top: G1Affine, powers: Vec<G2Affine>) -> Self {
        let prepared =
            std::iter::once(G2Affine::generator()).chain(powers.clone()).map(Into::into).collect();
        let mut key = Self { height, insecure, top, powers, id: B256::ZERO, prepared };
        let mut hasher = Keccak256::new();
        hasher.update(b"polytrie amt setup 1");
        hasher.update(key.encode());
        key.id = hasher.finalize();
        key
    }

    /// Encodes the key: height, 1 if the setup is insecure (else 0), `τ^(n-1)·G1` and the powers in G2, compressed.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.height, u8::from(self.insecure)];
        out.extend_from_slice(&compress(&self.top));
        for power in &self.powers {
            out.extend_from_slice(&compress_g2(power));
        }
        out
    }

    /// Decodes the bytes of [`Self::encode`]; `None` if they are not a key. It is not checked that the points belong
    /// together: the key is as trustworthy as its source, or as the [`id`](Self::id) that it is compared with.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let ([height, insecure], rest) = bytes.split_first_chunk::<2>()?;
        let (top, rest) = rest.split_first_chunk::<32>()?;
        if !(1..=crate::MAX_HEIGHT).contains(height)
            || *insecure > 1
            || rest.len() != 64 * usize::from(*height)
        {
            return None;
        }
        let powers = rest
            .chunks_exact(64)
            .map(|bytes| decompress_g2(bytes.try_into().ok()?))
            .collect::<Option<_>>()?;
        Some(Self::assemble(*height, *insecure == 1, decompress(top)?, powers))
    }

    /// Returns the name of the setup: the hash of this key. Keys are equal if their names are.
    pub const fn id(&self) -> B256 {
        self.id
    }

    /// Returns the height of the vectors.
    pub const fn height(&self) -> u8 {
        self.height
    }

    /// Whether tau is known, so that proofs can be forged.
    pub const fn is_insecure(&self) -> bool {
        self.insecure
    }
}

/// Whether all claims hold.
///
/// With `z = w^index`, `C` the commitment, `a` the entry, `B` its basis point, `π_d` the nodes and `M_d` the
/// powers `2^(height-d)`, an opening holds if
///
/// ```text
/// e(C - a·B + Σ_d z^(M_d)·π_d, G2) = Π_d e(π_d, τ^(M_d)·G2)
/// e(z·B - (z/n)·G1, G2)            = e(B - (z/n)·τ^(n-1)·G1, τ·G2)
/// ```
///
/// All equations of all claims are added with weights that no prover can choose: the hash of all claims. So
/// `height + 1` pairings decide about any number of claims.
pub fn verify(key: &VerifyingKey, claims: &[Claim<'_>]) -> bool {
    let height = usize::from(key.height);
    let n = 1u64 << height;
    let well_formed = |claim: &Claim<'_>| {
        let points = [&claim.commitment, &claim.opening.basis];
        u64::from(claim.index) < n
            && is_valid(&claim.versions)
            && claim.opening.nodes.len() == height
            && points.into_iter().chain(&claim.opening.nodes).all(G1Affine::is_on_curve)
    };
    if !claims.iter().all(well_formed) {
        return false;
    }
    let seed = transcript(key, claims);
    let (w, inverse) = (root_of_unity(key.height), Fr::from(n).inverse().unwrap_or(Fr::ZERO));
    // The terms paired with G2, and those paired with each power in G2, by its exponent.
    let mut constant = Sum::default();
    let mut by_power: Vec<Sum> = (0..height).map(|_| Sum::default()).collect();
    for (n, claim) in claims.iter().enumerate() {
        let (r, s) = (weight(&seed, 2 * n), weight(&seed, 2 * n + 1));
        let z = w.pow([u64::from(claim.index)]);
        let opening = claim.opening;
        constant.add(claim.commitment, r);
        constant.add(opening.basis, s * z - r * entry_scalar(&claim.versions));
        constant.add(G1Affine::generator(), -(s * z * inverse));
        let mut power = z;
        for (k, node) in opening.nodes.iter().rev().enumerate() {
            // The node has depth `height - k`, where M is `2^k`.
            constant.add(*node, r * power);
            by_power[k].add(*node, -r);
            power.square_in_place();
        }
        by_power[0].add(opening.basis, -s);
        by_power[0].add(key.top, s * z * inverse);
    }
    let sums: Vec<G1Projective> =
        std::iter::once(&constant).chain(&by_power).map(Sum::value).collect();
    let sums = G1Projective::normalize_batch(&sums);
    Bn254::multi_pairing(sums, key.prepared.iter().cloned()).is_zero()
}

/// A sum of points times scalars.
#[derive(Debug, Default)]
struct Sum {
    points: Vec<G1Affine>,
    scalars: Vec<Fr>,
}

impl Sum {
    fn add(&mut self, point: G1Affine, scalar: Fr) {
        self.points.push(point);
        self.scalars.push(scalar);
    }

    fn value(&self) -> G1Projective {
        if self.points.len() < 4 {
            self.points.iter().zip(&self.scalars).map(|(p, s)| *p * s).sum()
        } else {
            G1Projective::msm_unchecked(&self.points, &self.scalars)
        }
    }
}

/// Returns the hash of all claims and of the key.
fn transcript(key: &VerifyingKey, claims: &[Claim<'_>]) -> B256 {
    let mut hasher = Keccak256::new();
    hasher.update(b"polytrie amt verify 1");
    hasher.update(key.id);
    for claim in claims {
        hasher.update(encode_point(&claim.commitment));
        hasher.update(claim.index.to_be_bytes());
        for version in claim.versions {
            hasher.update(version.to_be_bytes());
        }
        for point in std::iter::once(&claim.opening.basis).chain(&claim.opening.nodes) {
            hasher.update(encode_point(point));
        }
    }
    hasher.finalize()
}

/// Returns 128 bits that are hashed from a seed, which is itself a hash of all that is checked.
pub(crate) fn weight(seed: &B256, number: usize) -> Fr {
    let hash = keccak256([seed.as_slice(), &(number as u64).to_be_bytes()].concat());
    Fr::from_be_bytes_mod_order(&hash[..16])
}
