//! Which points are measured, in what order, and where they are kept for a run that goes on later.
//!
//! Without a limit every point is measured, figure by figure. Within `--hours` the first points of every figure come
//! first, then the second ones: the points of a figure grow, so each figure has its small points before one has its large
//! ones. A point that does not fit into what is left of the time is left out, and the result says so.

use super::{Experiment, PointWork, replicate::MeasuredPoint, result::Replication};
use crate::{BenchError, Comparison};
use polytrie_files::OutputFile;
use serde_json::{Value, json};
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Layers that [`Needs`](super::Needs) counts with, each in so many runs.
const LAYER_RUNS: f64 = 9.0;

/// How long experiments may take, and where their points are kept.
#[derive(Debug, Clone, Default)]
pub struct Budget {
    /// About how long; as long as it takes if `None`.
    pub time: Option<Duration>,
    /// Each point is kept here when it is measured; those that are here are not measured again.
    pub kept: Option<PathBuf>,
}

/// A point of an experiment's part, by numbers.
#[derive(Debug, Clone, Copy)]
struct Place {
    experiment: usize,
    part: usize,
    point: usize,
}

/// Measures experiments within a budget. `base` says on which engines, how often and within which limits; of its layers,
/// those that an experiment knows are measured.
///
/// # Errors
///
/// If there is no result. What was measured before is in the directory of the budget.
pub fn replicate(
    experiments: &[&'static Experiment],
    base: &Comparison,
    quick: bool,
    budget: &Budget,
) -> Result<Vec<Replication>, BenchError> {
    let kept = budget.kept.as_deref().map(|dir| Kept::open(dir, base, quick)).transpose()?;
    let mut run =
        Run { experiments, quick, began: Instant::now(), time: budget.time, found: Vec::new() };
    for place in run.places() {
        let (experiment, part) = run.part(place);
        let points = (part.points)(quick);
        let point = &points[place.point];
        let name = format!("{}, {} at {}", experiment.id, part.title, point.name);
        if let Some(measured) =
            kept.as_ref().map(|kept| kept.read(&run, place)).transpose()?.flatten()
        {
            tracing::info!("{name}: measured before");
            run.found.push((place, Ok(measured)));
            continue;
        }
        if let Some(reason) = run.reason_to_leave_out(place, base) {
            tracing::info!("{name}: {reason}");
            run.found.push((place, Err(reason)));
            continue;
        }
        tracing::info!("{name}");
        let measured = part.measure(base, point)?;
        if let Some(kept) = &kept {
            kept.write(&run, place, &measured)?;
        }
        run.found.push((place, Ok(measured)));
    }
    Ok(run.results(base))
}

/// Experiments under way.
struct Run<'a> {
    experiments: &'a [&'static Experiment],
    quick: bool,
    began: Instant,
    time: Option<Duration>,
    /// What was measured, or why it was not.
    found: Vec<(Place, Result<MeasuredPoint, String>)>,
}

impl Run<'_> {
    /// All points in the order in which they are measured.
    fn places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        for (experiment, of) in self.experiments.iter().enumerate() {
            for (part, of) in of.parts.iter().enumerate() {
                let points = 0..(of.points)(self.quick).len();
                places.extend(points.map(|point| Place { experiment, part, point }));
            }
        }
        if self.time.is_some() {
            places.sort_by_key(|place| place.point);
        }
        places
    }

    fn part(&self, place: Place) -> (&'static Experiment, &'static super::Part) {
        let experiment = self.experiments[place.experiment];
        (experiment, &experiment.parts[place.part])
    }

    fn work(&self, place: Place) -> PointWork {
        (self.part(place).1.points)(self.quick)[place.point].work
    }

    /// Why a point does not fit; `None` if it does.
    fn reason_to_leave_out(&self, place: Place, base: &Comparison) -> Option<String> {
        let left = self.time?.saturating_sub(self.began.elapsed());
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

    /// How long a point takes: as the one of its part that was measured last, in proportion to what there is to do; the
    /// first as the experiment says, for the layers and runs of this comparison.
    fn estimate(&self, place: Place, base: &Comparison) -> Duration {
        let (experiment, part) = self.part(place);
        let size = self.work(place).size();
        let measured = self.found.iter().rev().find_map(|(of, found)| {
            let is_same = of.experiment == place.experiment && of.part == place.part;
            Some((self.work(*of).size(), found.as_ref().ok().filter(|_| is_same)?.seconds))
        });
        let seconds = measured.map_or_else(
            || {
                let all = experiment.parts.iter().flat_map(|part| (part.points)(self.quick));
                let whole: f64 = all.map(|point| point.work.size()).sum();
                let needs = if self.quick { experiment.quick } else { experiment.needs };
                let is_measured =
                    |state| base.subjects.iter().any(|subject| subject.state == state);
                let layers =
                    part.variants.iter().filter(|variant| is_measured(variant.state)).count();
                let runs = (layers * base.runs) as f64 / LAYER_RUNS;
                f64::from(needs.minutes) * 60.0 * size / whole * runs
            },
            |(of, seconds)| seconds * size / of,
        );
        Duration::from_secs_f64(seconds)
    }

    fn results(self, base: &Comparison) -> Vec<Replication> {
        let Self { experiments, quick, mut found, .. } = self;
        found.sort_by_key(|(place, _)| (place.experiment, place.part, place.point));
        let mut found = found.into_iter().peekable();
        let mut results = Vec::new();
        for (index, experiment) in experiments.iter().enumerate() {
            let mut parts = Vec::new();
            for (number, part) in experiment.parts.iter().enumerate() {
                let (mut measured, mut notes) = (Vec::new(), Vec::new());
                let is_here = |place: &Place| (place.experiment, place.part) == (index, number);
                let points = (part.points)(quick);
                while let Some((place, one)) = found.next_if(|(place, _)| is_here(place)) {
                    if let Err(reason) = &one {
                        notes.push(format!("{}: {reason}", points[place.point].name));
                    }
                    measured.push(one.ok());
                }
                parts.push(part.result(base, quick, measured, notes));
            }
            results.push(Replication::new(experiment, base, quick, parts));
        }
        results
    }
}

/// A directory of measured points.
struct Kept<'a>(&'a Path);

impl<'a> Kept<'a> {
    /// Opens it, if what it has was measured under the conditions of this comparison.
    fn open(dir: &'a Path, base: &Comparison, quick: bool) -> Result<Self, BenchError> {
        fs::create_dir_all(dir).map_err(|error| wrong(dir, &error))?;
        let kept = Self(dir);
        let conditions = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "quick": quick,
            "subjects": base.subjects,
            "runs": base.runs,
            "settings": base.settings,
            "cold": base.cold,
            "threads": base.threads,
            "pinned": base.pinned,
            "memory_limit": base.memory_limit,
        });
        let file = dir.join("conditions.json");
        match read::<Value>(&file)? {
            Some(found) if found == conditions => {}
            Some(_) => {
                return Err(BenchError::Usage(format!(
                    "the points in {} were measured with other layers, engines, runs, limits or settings; name another --resume directory",
                    dir.display()
                )));
            }
            None => write(&file, &conditions)?,
        }
        Ok(kept)
    }

    fn file(&self, run: &Run<'_>, place: Place) -> PathBuf {
        let id = run.part(place).0.id;
        self.0.join(format!("{id}-{}-{}.json", place.part + 1, place.point + 1))
    }

    fn read(&self, run: &Run<'_>, place: Place) -> Result<Option<MeasuredPoint>, BenchError> {
        read(&self.file(run, place))
    }

    fn write(&self, run: &Run<'_>, place: Place, of: &MeasuredPoint) -> Result<(), BenchError> {
        write(&self.file(run, place), of)
    }
}

fn wrong(file: &Path, error: &dyn std::fmt::Display) -> BenchError {
    BenchError::Usage(format!("--resume: {}: {error}", file.display()))
}

fn read<T: serde::de::DeserializeOwned>(file: &Path) -> Result<Option<T>, BenchError> {
    match fs::read(file) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| wrong(file, &error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(wrong(file, &error)),
    }
}

/// Writes a file that is there whole or not at all.
fn write(file: &Path, value: &impl serde::Serialize) -> Result<(), BenchError> {
    let mut output = OutputFile::create(file).map_err(|error| wrong(file, &error))?;
    serde_json::to_writer(&mut output, value).map_err(|error| wrong(file, &error))?;
    output.finish().map_err(|error| wrong(file, &error))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{Cache, Settings, paper::find};
    use std::sync::Arc;

    fn run<'a>(time: Option<Duration>, experiments: &'a [&'static Experiment]) -> Run<'a> {
        Run { experiments, quick: false, began: Instant::now(), time, found: Vec::new() }
    }

    fn measured(seconds: f64) -> MeasuredPoint {
        MeasuredPoint { seconds, ..MeasuredPoint::default() }
    }

    fn comparison(dir: &Path, runs: usize) -> Comparison {
        Comparison {
            subjects: Vec::new(),
            runs,
            settings: Settings::default(),
            cold: false,
            threads: 1,
            pinned: None,
            memory_limit: None,
            slowed: None,
            log_slow_blocks: None,
            notes: Vec::new(),
            cache: Arc::new(Cache::open(dir).unwrap()),
            interrupt: Arc::default(),
        }
    }

    #[test]
    fn within_a_time_every_figure_has_its_small_points_first() {
        let experiments = find("lmpt");
        let order = |time| {
            let places = run(time, &experiments).places();
            places.iter().map(|place| (place.experiment, place.point)).collect::<Vec<_>>()
        };
        assert!(order(None).is_sorted());
        let hours = order(Some(Duration::from_secs(1)));
        assert!(hours.is_sorted_by_key(|(_, point)| *point));
        assert_eq!(hours[..4], [(0, 0), (1, 0), (2, 0), (3, 0)]);
    }

    /// A point takes as long as the one before it, for each account and transaction.
    #[test]
    fn a_point_is_estimated_by_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let (experiments, base) = (find("lmpt-10"), comparison(dir.path(), 3));
        let mut run = run(Some(Duration::from_secs(1000)), &experiments);
        let [first, second, _] = run.places()[..] else { panic!("three sizes") };
        run.found.push((first, Ok(measured(700.0))));
        let ratio = run.work(second).size() / run.work(first).size();
        let estimate = run.estimate(second, &base).as_secs_f64();
        assert!((estimate - 700.0 * ratio).abs() < 1e-6);
        assert!(ratio > 1.4 && run.reason_to_leave_out(second, &base).is_some());
        run.time = None;
        assert_eq!(run.reason_to_leave_out(second, &base), None);
    }

    #[test]
    fn a_point_is_kept_for_its_conditions() {
        let dir = tempfile::tempdir().unwrap();
        let (experiments, base) = (find("lmpt-10"), comparison(dir.path(), 3));
        let (run, points) = (run(None, &experiments), dir.path().join("points"));
        let kept = Kept::open(&points, &base, false).unwrap();
        let place = run.places()[1];
        assert!(kept.read(&run, place).unwrap().is_none());
        kept.write(&run, place, &measured(7.0)).unwrap();
        let again = Kept::open(&points, &base, false).unwrap();
        assert_eq!(again.read(&run, place).unwrap().unwrap().seconds, 7.0);
        for error in [
            Kept::open(&points, &base, true).err(),
            Kept::open(&points, &comparison(dir.path(), 4), false).err(),
        ] {
            assert!(error.unwrap().to_string().contains("name another --resume directory"));
        }
        // A file that was damaged is named, and nothing is measured over it.
        fs::write(kept.file(&run, place), "{").unwrap();
        assert!(kept.read(&run, place).unwrap_err().to_string().contains("lmpt-10-1-2.json"));
    }
}
