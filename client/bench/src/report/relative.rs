//! The changes of layers beyond the common change of the machine.
//!
//! Layers that run in turns meet the same machine. In logarithms, the throughput of a run is the speed of the layer,
//! plus the effect of the machine in that turn, plus chance. Subtracting the mean of all layers of the turn leaves the
//! speed of the layer compared with the others in the same minutes. From one report to the other each layer has moved.
//! The median of these moves is the machine's: one layer that became slower changes the mean, but not the median.

use super::verdict::{p_value, shift};
use serde::Serialize;

/// Common change, and the change of each layer beyond it.
#[derive(Debug)]
pub(super) struct Relative {
    /// Common change of all layers: the second throughput divided by the first.
    pub(super) machine: f64,
    /// Changes of the layers, in their order.
    pub(super) layers: Vec<RelativeChange>,
}

/// Change of one layer beyond the common one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RelativeChange {
    /// Second throughput divided by the first, each in units of the machine's.
    pub ratio: f64,
    /// Probability that turns of the same program differ as much: the test of the absolute throughputs, applied to
    /// throughputs divided by the geometric mean of all layers of the turn.
    pub p: f64,
}

impl Relative {
    /// Compares the runs of some layers, each in the order of the turns, with those of the same layers in another
    /// report. `None` if there are fewer than two layers, or they did not run in turns.
    pub(super) fn of(a: &[&[f64]], b: &[&[f64]]) -> Option<Self> {
        let (a, b) = (Turns::of(a)?, Turns::of(b)?);
        let together = shift(&a.means, &b.means);
        let pairs = || a.layers.iter().zip(&b.layers);
        let moves = pairs().map(|(a, b)| together + shift(a, b)).collect::<Vec<_>>();
        let machine = middle(&moves);
        let change = |((a, b), moved): ((&Vec<f64>, &Vec<f64>), &f64)| {
            let b: Vec<f64> = b.iter().map(|value| value + together - machine).collect();
            RelativeChange { ratio: (moved - machine).exp(), p: p_value(a, &b) }
        };
        let layers = pairs().zip(&moves).map(change).collect();
        Some(Self { machine: machine.exp(), layers })
    }
}

/// Runs of one report, in logarithms.
struct Turns {
    /// Mean of all layers, for each turn.
    means: Vec<f64>,
    /// Distance of each layer from that mean, in each turn.
    layers: Vec<Vec<f64>>,
}

impl Turns {
    fn of(layers: &[&[f64]]) -> Option<Self> {
        let turns = layers.first()?.len();
        let measured = |run: &f64| *run > 0.0 && run.is_finite();
        let complete = |runs: &&[f64]| runs.len() == turns && runs.iter().all(measured);
        if layers.len() < 2 || turns == 0 || !layers.iter().all(complete) {
            return None;
        }
        let mut layers: Vec<Vec<f64>> =
            layers.iter().map(|runs| runs.iter().map(|run| run.ln()).collect()).collect();
        let count = layers.len() as f64;
        let mean = |turn| layers.iter().map(|runs| runs[turn]).sum::<f64>() / count;
        let means: Vec<f64> = (0..turns).map(mean).collect();
        for runs in &mut layers {
            runs.iter_mut().zip(&means).for_each(|(run, mean)| *run -= mean);
        }
        Some(Self { means, layers })
    }
}

/// Returns the median; for an even number of values, the value between the two in the middle that is nearest to no
/// change. So of two layers the one whose throughput changed less counts as unchanged.
fn middle(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let upper = values.len() / 2;
    let lower = (values.len() - 1) / 2;
    0.0_f64.clamp(values[lower], values[upper])
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::{
        super::verdict::Verdict::{self, Faster, Same, Slower},
        *,
    };
    use crate::Random;
    use std::slice;

    /// A machine whose throughputs depend on a seed only.
    struct Machine {
        random: Random,
        /// Whether the noise is normally distributed, with a standard deviation of 3 %; otherwise it is evenly
        /// distributed and at most 3 %.
        normal: bool,
    }

    impl Machine {
        fn new(seed: u64, normal: bool) -> Self {
            Self { random: Random::new(seed, 0), normal }
        }

        /// Returns a number from -1 to 1, evenly distributed.
        fn even(&mut self) -> f64 {
            self.random.below(2_000_001) as f64 / 1e6 - 1.0
        }

        fn noise(&mut self) -> f64 {
            match self.normal {
                // The sum of twelve such numbers has a variance of four.
                true => (0..12).map(|_| self.even()).sum::<f64>() / 2.0 * 0.03,
                false => self.even() * 0.03,
            }
        }

        /// Returns the runs of layers, one of which may take a tenth longer, on a machine that is up to 30 % slower in
        /// this report, and again in each turn.
        fn report(&mut self, layers: usize, turns: usize, slowed: Option<usize>) -> Vec<Vec<f64>> {
            let report = 1.0 - 0.15 * (1.0 + self.even());
            let mut runs = vec![Vec::new(); layers];
            for _ in 0..turns {
                let turn = report * (1.0 - 0.15 * (1.0 + self.even()));
                for (layer, runs) in runs.iter_mut().enumerate() {
                    let time = if slowed == Some(layer) { 1.1 } else { 1.0 };
                    let base = 50_000.0 * (layer + 1) as f64 / time;
                    runs.push(base * turn * (1.0 + self.noise()));
                }
            }
            runs
        }
    }

    fn relative(a: &[Vec<f64>], b: &[Vec<f64>]) -> Option<Relative> {
        let (a, b): (Vec<&[f64]>, Vec<&[f64]>) =
            (a.iter().map(Vec::as_slice).collect(), b.iter().map(Vec::as_slice).collect());
        Relative::of(&a, &b)
    }

    fn verdicts(a: &[Vec<f64>], b: &[Vec<f64>]) -> Vec<Verdict> {
        let runs = (a[0].len(), b[0].len());
        let verdict =
            |change: &RelativeChange| Verdict::of(change.ratio, change.p, runs, a.len(), 0.05);
        relative(a, b).unwrap().layers.iter().map(verdict).collect()
    }

    /// Returns how many of a hundred seeds give these verdicts.
    fn seeds(
        normal: bool,
        layers: usize,
        turns: usize,
        slowed: Option<usize>,
        expected: impl Fn(&[Verdict]) -> bool,
    ) -> usize {
        let as_expected = |seed: &u64| {
            let mut machine = Machine::new(*seed, normal);
            let a = machine.report(layers, turns, None);
            let b = machine.report(layers, turns, slowed);
            expected(&verdicts(&a, &b))
        };
        (0..100).filter(as_expected).count()
    }

    #[test]
    fn a_tenth_is_found_and_nobody_else_is_accused() {
        for (normal, layers, turns, least) in
            [(false, 3, 5, 95), (false, 6, 5, 95), (true, 3, 7, 85), (true, 6, 7, 85)]
        {
            for slowed in [0, layers - 1] {
                let alone = |verdicts: &[Verdict]| {
                    verdicts.iter().enumerate().all(|(layer, verdict)| {
                        *verdict == if layer == slowed { Slower } else { Same }
                    })
                };
                let found = seeds(normal, layers, turns, Some(slowed), alone);
                assert!(found >= least, "{found} of 100: {layers} layers, {turns} turns, {normal}");
            }
        }
    }

    #[test]
    fn the_same_is_called_the_same() {
        for (normal, layers, turns) in
            [(false, 3, 5), (true, 2, 5), (true, 3, 5), (true, 6, 5), (true, 3, 10)]
        {
            let all_same = |verdicts: &[Verdict]| verdicts.iter().all(|v| *v == Same);
            let same = seeds(normal, layers, turns, None, all_same);
            assert!(same >= 95, "{same} of 100: {layers} layers, {turns} turns, {normal}");
        }
    }

    #[test]
    fn the_machine_is_not_a_layer() {
        let mut machine = Machine::new(1, false);
        let a = machine.report(3, 5, None);
        let halved: Vec<Vec<f64>> =
            a.iter().map(|runs| runs.iter().map(|run| run / 2.0).collect()).collect();
        let found = relative(&a, &halved).unwrap();
        assert!((found.machine - 0.5).abs() < 1e-9, "{}", found.machine);
        assert!(found.layers.iter().all(|layer| (layer.ratio - 1.0).abs() < 1e-9));
        // In one turn the whole machine stood still for a while.
        let mut stalled = a.clone();
        stalled.iter_mut().for_each(|runs| runs[2] /= 10.0);
        let found = relative(&a, &stalled).unwrap();
        assert!((found.machine - 1.0).abs() < 0.2, "{}", found.machine);
        assert!(found.layers.iter().all(|layer| (layer.ratio - 1.0).abs() < 1e-9));
        assert_eq!(verdicts(&a, &stalled), [Same; 3]);
    }

    #[test]
    fn of_two_layers_the_one_that_changed_more_did_it() {
        let a = [vec![100.0, 101.0, 102.0, 103.0, 101.0], vec![201.0, 200.0, 203.0, 202.0, 201.0]];
        let scaled = |factors: [f64; 2]| -> Vec<Vec<f64>> {
            let runs = a.iter().zip(factors);
            runs.map(|(runs, factor)| runs.iter().map(|run| run * factor).collect()).collect()
        };
        assert_eq!(verdicts(&a, &scaled([1.0, 0.9])), [Same, Slower]);
        assert_eq!(verdicts(&a, &scaled([1.01, 0.9])), [Same, Slower]);
        assert_eq!(verdicts(&a, &scaled([1.12, 1.01])), [Faster, Same]);
        assert_eq!(verdicts(&a, &scaled([0.7, 0.7])), [Same, Same]);
    }

    #[test]
    fn layers_alone_have_nothing_to_be_beside() {
        let runs = vec![1.0, 2.0, 3.0];
        assert!(relative(&[], &[]).is_none());
        assert!(relative(slice::from_ref(&runs), slice::from_ref(&runs)).is_none());
        // In these reports some layers did not run in every turn.
        let uneven = [runs.clone(), vec![1.0, 2.0]];
        assert!(relative(&uneven, &uneven).is_none());
        let stopped = [runs.clone(), vec![1.0, 0.0, 1.0]];
        assert!(relative(&stopped, &[runs.clone(), runs]).is_none());
    }
}
