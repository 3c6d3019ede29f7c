//! The order in which points are measured.
//!
//! Without `--hours` every point is measured, figure by figure. Within `--hours` the parts with headline claims come
//! first, and of these the shorter points before the longer ones. The points of `--quick` come before all of these,
//! unless there is time for one large point of every figure.
//!
//! A point that does not fit into the time left, or that cannot be measured here, is left out, and the result says
//! so. If a part has a large point, its small ones are not shown. A point that two figures share is measured once. A
//! figure is shown when neither it nor any figure before it has points left.

use super::{
    Experiment, Part, Point, PointWork, Variant, kept::Kept, replicate::MeasuredPoint,
    result::Replication,
};
use crate::{BenchError, Comparison, GivenChain, Result, report::bounds};
use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

/// Number of layers for which [`Needs`](super::Needs) holds.
const LAYERS: f64 = 3.0;
/// Runs of each layer for which it holds; small points run once.
const RUNS: f64 = 3.0;

/// Limits and inputs of experiments: their time, the directory of kept points, and the user's chain.
#[derive(Debug, Clone, Default)]
pub struct Budget {
    /// Time that may be used, roughly; `None` for no limit.
    pub time: Option<Duration>,
    /// Directory that keeps each point when it is measured. Points in it are not measured again.
    pub kept: Option<PathBuf>,
    /// The user's chain, for experiments that can count on any chain.
    pub given: Option<Arc<GivenChain>>,
}

/// Indices of a point: experiment, part, and point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    experiment: usize,
    part: usize,
    point: usize,
    /// Whether the point is one of `--quick`.
    small: bool,
}

/// Measures experiments within a budget. `base` gives the engines, the number of runs and the limits; the layers that
/// are in both `base` and an experiment are measured. `show` gets each experiment as soon as neither it nor one
/// before it has points left. After an interrupt, or an error that is not of one point alone, the results so far are
/// returned with the error.
///
/// # Errors
///
/// If there is no result at all. Points that were measured are in the directory of the budget.
pub fn replicate(
    experiments: &[&'static Experiment],
    base: &Comparison,
    quick: bool,
    budget: &Budget,
    show: &mut dyn FnMut(&Replication),
) -> Result<(Vec<Replication>, Option<BenchError>)> {
    let given = budget.given.as_deref();
    let kept = budget.kept.as_deref().map(|dir| Kept::open(dir, base, quick, given)).transpose()?;
    let mut run = Run {
        experiments,
        quick,
        began: Instant::now(),
        before: Duration::ZERO,
        time: budget.time,
        found: Vec::new(),
        failed: None,
        ended: None,
    };
    let mut results = Vec::new();
    let places = run.places(base);
    let bases: Vec<_> = experiments.iter().map(|experiment| experiment.bounded(base)).collect();
    for (number, place) in places.iter().enumerate() {
        let found = run.find(*place, &bases[place.experiment], given, kept.as_ref())?;
        run.found.push((*place, found));
        // With the first measured point it is certain that there will be a result.
        if run.has_result() {
            while run.is_decided(results.len(), &places[number + 1..]) {
                let result = run.result(results.len(), &bases[results.len()]);
                show(&result);
                results.push(result);
            }
        }
    }
    if !run.has_result()
        && let Some(error) = run.ended.take().or(run.failed.take())
    {
        return Err(error);
    }
    while results.len() < experiments.len() {
        let result = run.result(results.len(), &bases[results.len()]);
        show(&result);
        results.push(result);
    }
    Ok((results, run.ended))
}

/// The reason why a point is left out after the measurement ended early.
const NOT_REACHED: &str = "left out: the measuring ended before";

/// Whether an error concerns one point alone: it is not about the command, and no layer answered wrongly.
fn is_of_one(error: &BenchError, base: &Comparison) -> bool {
    let stops = matches!(
        error,
        BenchError::Usage(_)
            | BenchError::Wrong(_)
            | BenchError::Interrupted(_)
            | BenchError::Child { code: Some(1), .. }
    );
    !stops && !base.interrupt.load(Ordering::Relaxed)
}

/// The measurement of a point, or the reason why there is none.
type Found = Result<MeasuredPoint, String>;

/// Experiments in progress.
struct Run<'a> {
    experiments: &'a [&'static Experiment],
    quick: bool,
    began: Instant,
    /// Time that the points took which an earlier run measured.
    before: Duration,
    time: Option<Duration>,
    /// Points that were handled, in that order.
    found: Vec<(Place, Found)>,
    /// The last error that concerned one point alone.
    failed: Option<BenchError>,
    /// The error that ended the measurement.
    ended: Option<BenchError>,
}

impl Run<'_> {
    /// All points in the order in which they are measured.
    fn places(&self, base: &Comparison) -> Vec<Place> {
        let places = self.points(self.quick);
        let Some(time) = self.time else { return places };
        let first: Duration = places
            .iter()
            .filter(|place| place.point == 0)
            .map(|place| self.expected(*place, base))
            .sum();
        let mut ordered = Vec::new();
        if !self.quick && first * 2 > time {
            ordered = self.points(true);
            ordered.sort_by_key(|place| (place.point, self.expected(*place, base)));
        }
        let mut places = places;
        let is_headline = |place: &Place| {
            let (_, part) = self.part(*place);
            part.claims.iter().any(|claim| claim.is_headline)
        };
        places.sort_by_key(|place| (!is_headline(place), self.expected(*place, base)));
        ordered.extend(places);
        ordered
    }

    /// Gets the measurement of a point: kept from an earlier run, shared with another figure, or measured now.
    ///
    /// # Errors
    ///
    /// If a kept point cannot be read or written. Errors of the measurement itself are stored in this value.
    fn find(
        &mut self,
        place: Place,
        base: &Comparison,
        given: Option<&GivenChain>,
        kept: Option<&Kept<'_>>,
    ) -> Result<Found> {
        let (experiment, part) = self.part(place);
        let point = self.point(place);
        let name = format!("{}, {} at {}", experiment.id, part.title, point.name);
        let (file, of) = (self.file(place), self.description(place, base));
        if let Some(measured) = kept.map(|kept| kept.read(&file, &of)).transpose()?.flatten() {
            tracing::info!("{name}: measured before");
            // The time of a shared point counts once.
            if self.measured_elsewhere(place).is_none() {
                self.before += Duration::from_secs_f64(measured.seconds);
            }
            return Ok(Ok(measured));
        }
        if self.ended.is_some() {
            return Ok(Err(NOT_REACHED.to_owned()));
        }
        let measured = if let Some(measured) = self.measured_elsewhere(place) {
            tracing::info!("{name}: measured for another figure");
            measured
        } else {
            if let Some(reason) = self.reason_to_leave_out(place, base) {
                tracing::info!("{name}: {reason}");
                return Ok(Err(reason));
            }
            tracing::info!("{name}");
            match part.measure(base, &point, place.small, given) {
                Ok(measured) => measured,
                // A figure that lacks something, such as contracts or enough disk, must not end hours
                // of other measurements.
                Err(error) if is_of_one(&error, base) => {
                    let reason = format!("left out: {error}");
                    tracing::warn!("{name}: {reason}");
                    self.failed = Some(error);
                    return Ok(Err(reason));
                }
                Err(error) => {
                    self.ended = Some(error);
                    return Ok(Err(NOT_REACHED.to_owned()));
                }
            }
        };
        if let Some(kept) = kept {
            kept.write(&file, of, &measured)?;
        }
        Ok(Ok(measured))
    }

    /// Whether any point was measured.
    fn has_result(&self) -> bool {
        self.found.iter().any(|(_, found)| found.is_ok())
    }

    /// Whether the experiment exists and none of its points is left.
    fn is_decided(&self, experiment: usize, left: &[Place]) -> bool {
        experiment < self.experiments.len()
            && left.iter().all(|place| place.experiment != experiment)
    }

    /// The measurement of the same work for another figure, if that measured all variants of this one.
    fn measured_elsewhere(&self, place: Place) -> Option<MeasuredPoint> {
        let (experiment, part) = self.part(place);
        let point = self.point(place);
        if point.work.is_done_once() {
            return None;
        }
        let has_all = |(of, found): &(Place, Found)| {
            let (of_other, other) = self.part(*of);
            let same = self.point(*of);
            found.is_ok()
                && (same.work, same.set) == (point.work, point.set)
                && of_other.memory == experiment.memory
                && part.variants.iter().all(|variant| other.variants.contains(variant))
        };
        self.found.iter().find(|one| has_all(one)).and_then(|(_, found)| found.clone().ok())
    }

    /// All small points, or all large ones, figure by figure.
    fn points(&self, small: bool) -> Vec<Place> {
        let mut places = Vec::new();
        for (experiment, of) in self.experiments.iter().enumerate() {
            for (part, of) in of.parts.iter().enumerate() {
                let points = 0..(of.points)(small).len();
                places.extend(points.map(|point| Place { experiment, part, point, small }));
            }
        }
        places
    }

    fn part(&self, place: Place) -> (&'static Experiment, &'static Part) {
        let experiment = self.experiments[place.experiment];
        (experiment, &experiment.parts[place.part])
    }

    fn point(&self, place: Place) -> Point {
        (self.part(place).1.points)(place.small).swap_remove(place.point)
    }

    /// A description of the work at a point, with all parameters: points with the same work have the same description.
    fn description(&self, place: Place, base: &Comparison) -> String {
        let (_, part) = self.part(place);
        let point = self.point(place);
        let memory = base.memory_limit;
        let task = point.work.task(place.small);
        format!("{task:?} with {:?} of {:?} within {memory:?}", point.set, part.variants)
    }

    /// Name of the file that keeps the point.
    fn file(&self, place: Place) -> String {
        let id = self.part(place).0.id;
        // A directory belongs to `--quick` or not. In the latter case small points are beside large ones.
        let small = if place.small && !self.quick { "small-" } else { "" };
        format!("{id}-{small}{}-{}", place.part + 1, place.point + 1)
    }

    fn work(&self, place: Place) -> PointWork {
        self.point(place).work
    }

    /// The reason why a point does not fit into the time left; `None` if it fits.
    fn reason_to_leave_out(&self, place: Place, base: &Comparison) -> Option<String> {
        let left = self.time?.saturating_sub(self.began.elapsed() + self.before);
        let takes = self.estimate(place, base);
        let minutes = |time: Duration| time.as_secs().div_ceil(60);
        (takes > left).then(|| {
            format!(
                "left out, as it takes about {} minutes and {} of --hours are left",
                minutes(takes),
                minutes(left)
            )
        })
    }

    /// Estimates the time of a point. The last measured point of the same part is scaled by the amount of work. The
    /// first point of a part takes its expected time, scaled by the pace of the points so far.
    fn estimate(&self, place: Place, base: &Comparison) -> Duration {
        let size = self.work(place).size();
        let measured = self.found.iter().rev().find_map(|(of, found)| {
            let is_same = Place { point: place.point, ..*of } == place;
            Some((self.work(*of).size(), found.as_ref().ok().filter(|_| is_same)?.seconds))
        });
        measured.map_or_else(
            || self.expected(place, base).mul_f64(self.pace(place.small, base)),
            |(of, seconds)| Duration::from_secs_f64(seconds * size / of),
        )
    }

    /// Ratio of measured to expected time of the small or large points so far; 1 if there are none.
    fn pace(&self, small: bool, base: &Comparison) -> f64 {
        let (mut took, mut expected) = (0.0, 0.0);
        for (place, found) in &self.found {
            if let Ok(measured) = found
                && place.small == small
                && !self.work(*place).is_done_once()
            {
                took += measured.seconds;
                expected += self.expected(*place, base).as_secs_f64();
            }
        }
        if took > 0.0 && expected > 0.0 { took / expected } else { 1.0 }
    }

    /// Expected time of a point by the needs of its experiment, for the layers and runs of this comparison.
    fn expected(&self, place: Place, base: &Comparison) -> Duration {
        let (experiment, part) = self.part(place);
        let work = self.work(place);
        let all = experiment.parts.iter().flat_map(|part| (part.points)(place.small));
        let whole: f64 = all.map(|point| point.work.size()).sum();
        let needs = if place.small { experiment.quick } else { experiment.needs };
        let of_variant = |variant: &Variant| {
            base.subjects.iter().filter(|subject| subject.state == variant.state).count()
        };
        let layers: usize = part.variants.iter().map(of_variant).sum();
        let runs = match work.is_done_once() {
            true => 1.0,
            false => (layers * base.runs) as f64 / LAYERS / if place.small { 1.0 } else { RUNS },
        };
        Duration::from_secs_f64(f64::from(needs.minutes) * 60.0 * work.size() / whole * runs)
    }

    /// The result of an experiment.
    fn result(&self, number: usize, base: &Comparison) -> Replication {
        let experiment = self.experiments[number];
        let parts = experiment.parts.iter().enumerate().map(|(of, part)| {
            let (small, measured, mut notes) = self.of_part(number, of, part);
            if experiment.memory.is_some() {
                notes.extend(bounds(base.memory_limit.as_ref(), None));
            }
            part.result(base, small, measured, notes)
        });
        Replication::new(experiment, base, self.quick, parts.collect())
    }

    /// The points of a part: whether they are the small ones, the measurement of each, and notes on points left out.
    fn of_part(
        &self,
        experiment: usize,
        number: usize,
        part: &Part,
    ) -> (bool, Vec<Option<MeasuredPoint>>, Vec<String>) {
        let is_of_part = |place: &Place| (place.experiment, place.part) == (experiment, number);
        let found = self.found.iter().filter(|(place, _)| is_of_part(place)).cloned();
        let (small, large): (Vec<_>, Vec<_>) = found.partition(|(place, _)| place.small);
        let is_measured = |(_, found): &(Place, Found)| found.is_ok();
        let shows_small = self.quick || !large.iter().any(is_measured) && !small.is_empty();
        let mut notes = Vec::new();
        if shows_small && !self.quick {
            notes.push("small points, for the shape only: no large one was measured".into());
        }
        let mut measured = Vec::new();
        for (shown, found) in [(shows_small, small), (!shows_small, large)] {
            for (place, one) in found {
                let points = (part.points)(place.small);
                // Small points that only stood in for large ones are not reported as missing.
                if let Err(reason) = &one
                    && (shown || !place.small)
                {
                    notes.push(format!("{}: {reason}", points[place.point].name));
                }
                if shown {
                    measured.resize(points.len().max(measured.len()), None);
                    measured[place.point] = one.ok();
                }
            }
        }
        (shows_small, measured, notes)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{
        Subject,
        paper::{find, testing::comparison},
    };
    use tempfile::TempDir;

    fn run<'a>(time: Option<Duration>, experiments: &'a [&'static Experiment]) -> Run<'a> {
        Run {
            experiments,
            quick: false,
            began: Instant::now(),
            before: Duration::ZERO,
            time,
            found: Vec::new(),
            failed: None,
            ended: None,
        }
    }

    fn of_mpt() -> (TempDir, Comparison) {
        let (dir, base) = comparison(3);
        let subjects = vec![Subject::new("mpt", "mdbx")];
        (dir, Comparison { subjects, ..base })
    }

    fn measured(seconds: f64) -> MeasuredPoint {
        MeasuredPoint { seconds, ..MeasuredPoint::default() }
    }

    #[test]
    fn within_a_time_what_papers_are_known_for_comes_first() {
        let (experiments, (_dir, base)) = (find("lmpt"), of_mpt());
        let order = |hours: Option<u64>| {
            let run = run(hours.map(|hours| Duration::from_secs(hours * 3600)), &experiments);
            run.places(&base)
        };
        let all = order(None);
        assert!(all.is_sorted_by_key(|place| (place.experiment, place.point)));
        assert!(all.iter().all(|place| !place.small));
        // A long time has room for large points of every figure; in a short time the small points of each come first.
        let (long, short) = (order(Some(1000)), order(Some(0)));
        assert_eq!(long.len(), all.len());
        // Three figures have a headline claim, each with its largest point last; the table of caches has none.
        let (headlines, others) = long.split_at(9);
        assert!(others.iter().all(|place| place.experiment == 3));
        for experiment in 0..3 {
            let of = headlines.iter().filter(|place| place.experiment == experiment);
            assert!(of.is_sorted_by_key(|place| place.point));
        }
        let (small, large) = short.split_at(short.len() - all.len());
        assert!(small.iter().all(|place| place.small) && large == long);
        for experiment in 0..4 {
            assert!(small[..4].iter().any(|place| place.experiment == experiment));
        }
    }

    /// Figures 4, 5 and 6 of LVMT's paper use the same runs.
    #[test]
    fn what_figures_have_in_common_is_measured_once() {
        let experiments = find("lvmt");
        let mut run = run(None, &experiments);
        let number = |id| experiments.iter().position(|one| one.id == id).unwrap();
        let place = |id, point| Place { experiment: number(id), part: 0, point, small: false };
        assert!(run.measured_elsewhere(place("lvmt-5", 1)).is_none());
        run.found.push((place("lvmt-4", 1), Ok(measured(7.0))));
        assert_eq!(run.measured_elsewhere(place("lvmt-5", 1)).unwrap().seconds, 7.0);
        assert!(run.measured_elsewhere(place("lvmt-6", 1)).is_some());
        assert!(run.measured_elsewhere(place("lvmt-5", 2)).is_none());
        // Swaps are another workload.
        assert!(run.measured_elsewhere(place("lvmt-8", 1)).is_none());
    }

    /// A point measured within a limit of memory does not serve a figure with no limit or another one.
    #[test]
    fn points_belong_to_a_bound_of_memory() {
        let (experiments, (_dir, base)) = (find("replica-tables-3-5"), comparison(1));
        let bounded = experiments[0].bounded(&base);
        assert_eq!(bounded.memory_limit.map(|limit| limit.bytes), experiments[0].memory);
        let run = run(None, &experiments);
        let place = run.points(false)[0];
        assert_ne!(run.description(place, &bounded), run.description(place, &base));
        // The user's limit takes precedence.
        let (of_user, cold) = (base.clone().within(3 << 30), Comparison { cold: true, ..base });
        assert_eq!(experiments[0].bounded(&of_user).memory_limit, of_user.memory_limit);
        assert_eq!(experiments[0].bounded(&cold).memory_limit, None);
    }

    /// A figure is shown as soon as its points are measured, not at the end, and in the order of the request.
    #[test]
    fn a_figure_is_shown_when_its_points_are_measured() {
        let (dir, base) = comparison(1);
        let points = dir.path().join("points");
        let experiments = [find("lmpt-11"), find("lmpt-10")].concat();
        let file = |id: &str| points.join(format!("{id}-1-1.json"));
        let mut shown = Vec::new();
        let budget = Budget { kept: Some(points.clone()), ..Budget::default() };
        let (all, ended) = replicate(&experiments, &base, true, &budget, &mut |one| {
            shown.push((one.id, file(one.id).exists(), file("lmpt-10").exists()));
        })
        .unwrap();
        assert!(ended.is_none());
        assert_eq!(shown, [("lmpt-11", true, false), ("lmpt-10", true, true)]);
        assert_eq!(all.iter().map(|one| one.id).collect::<Vec<_>>(), ["lmpt-11", "lmpt-10"]);
    }

    /// Within a time, small points come before large ones of every figure, and no figure is shown before
    /// its last point.
    #[test]
    fn a_figure_with_points_left_is_not_shown() {
        let experiments = find("lmpt");
        let run = run(None, &experiments);
        let place = |experiment, small| Place { experiment, part: 0, point: 0, small };
        assert!(run.is_decided(0, &[place(1, true), place(1, false)]));
        assert!(!run.is_decided(1, &[place(2, true), place(1, false)]));
        assert!(!run.is_decided(experiments.len(), &[]));
    }

    /// Small points are shown if there are no others.
    #[test]
    fn large_points_take_the_place_of_small_ones() {
        let experiments = find("lmpt-10");
        let part = &experiments[0].parts[0];
        let place = |point, small| Place { experiment: 0, part: 0, point, small };
        let mut run = run(Some(Duration::ZERO), &experiments);
        let left_out = || Err("left out".to_owned());
        run.found.push((place(0, true), Ok(measured(1.0))));
        run.found.push((place(1, true), left_out()));
        run.found.push((place(1, false), left_out()));
        let (small, points, notes) = run.of_part(0, 0, part);
        assert!(small && points.len() == (part.points)(true).len() && points[0].is_some());
        assert_eq!(notes[1..], ["100k: left out", "3M: left out"]);
        run.found.push((place(2, false), Ok(measured(2.0))));
        let (small, points, notes) = run.of_part(0, 0, part);
        assert!(!small && points[..2].iter().all(Option::is_none) && points[2].is_some());
        assert_eq!(notes, ["3M: left out"]);
    }

    /// The estimate scales with accounts and transactions from the point before.
    #[test]
    fn a_point_is_estimated_by_the_one_before() {
        let (experiments, (_dir, base)) = (find("lmpt-10"), comparison(3));
        let mut run = run(Some(Duration::from_secs(1000)), &experiments);
        let [first, second, _] = run.points(false)[..] else { panic!("three sizes") };
        run.found.push((first, Ok(measured(700.0))));
        let ratio = run.work(second).size() / run.work(first).size();
        let estimate = run.estimate(second, &base).as_secs_f64();
        assert!((estimate - 700.0 * ratio).abs() < 1e-6);
        assert!(ratio > 1.4 && run.reason_to_leave_out(second, &base).is_some());
        run.time = None;
        assert_eq!(run.reason_to_leave_out(second, &base), None);
    }

    /// The first point of a part is expected to take longer in the same proportion as others did.
    #[test]
    fn a_machine_that_is_slow_is_noticed() {
        let (experiments, (_dir, base)) = (find("lmpt"), of_mpt());
        let mut run = run(Some(Duration::from_secs(1)), &experiments);
        let points = run.points(false);
        let other = points.iter().find(|place| place.experiment == 1).copied().unwrap();
        let expected = |run: &Run<'_>, place| run.expected(place, &base).as_secs_f64();
        let estimate = |run: &Run<'_>, place| run.estimate(place, &base).as_secs_f64();
        assert!((estimate(&run, other) - expected(&run, other)).abs() < 1e-6);
        let twice = 2.0 * expected(&run, points[0]);
        run.found.push((points[0], Ok(measured(twice))));
        assert!((estimate(&run, other) - 2.0 * expected(&run, other)).abs() < 1e-6);
        // Small points have their own pace.
        let small = Place { small: true, ..other };
        assert!((estimate(&run, small) - expected(&run, small)).abs() < 1e-6);
    }

    /// The program cannot always tell its build. Another one may run the same point with other parameters.
    #[test]
    fn a_point_is_described_by_all_that_decides_its_work() {
        let (_dir, base) = comparison(1);
        let described = |id: &str, small: bool| {
            let experiments = find(id);
            let run = run(None, &experiments);
            run.description(run.points(small)[0], &base)
        };
        for (id, parameters) in [
            ("lmpt-10", ["new_recipients: 0", "warmup_blocks: ", "seed: 1"]),
            ("rainblock-7", ["fresh: false", "warmup_blocks: 300", "seed: 1"]),
            ("rainblock-4.3", ["new_recipients: 0", "accounts: 100000", "seed: 1"]),
        ] {
            let text = described(id, false);
            for parameter in parameters {
                assert!(text.contains(parameter), "no `{parameter}` in {text}");
            }
            assert_ne!(text, described(id, true));
        }
    }

    #[test]
    fn small_points_are_kept_beside_large_ones() {
        let experiments = find("lmpt-10");
        let mut run = run(None, &experiments);
        let place = run.points(false)[1];
        let small = Place { small: true, ..place };
        assert_eq!([place, small].map(|p| run.file(p)), ["lmpt-10-1-2", "lmpt-10-small-1-2"]);
        let (_dir, base) = comparison(1);
        assert_ne!(run.description(place, &base), run.description(small, &base));
        run.quick = true;
        assert_eq!(run.file(small), "lmpt-10-1-2");
    }
}
