//! Options of every command that measures layers.

use super::{
    Failure,
    output::{OutputArgs, Outputs},
    workload::CacheArg,
};
use crate::{
    bench::{BenchError, Comparison, Report, Settings, Subject, equip},
    cli::{
        args::{ENGINE_NAME, EngineArgs, LAYER_NAME, core_count},
        signals::on_interrupt,
    },
    layers::values::parse_bytes,
    layers::{DEFAULT_ENGINE, LAYERS, LayerOptions},
};
use clap::Args;
use std::{collections::BTreeMap, fs, sync::Arc};

/// Default bytes of RocksDB's caches and of the write buffer in a cold run: small against any state worth measuring.
const COLD_CACHE: usize = 64 << 20;
/// Default number of runs of each layer.
const RUNS: u16 = 3;
/// Smallest --memory-limit in bytes: no run works with less.
const LEAST_MEMORY: usize = 64 << 20;
/// Most percent by which a layer can be slowed: a run that takes ten thousand times as long never ends anyway.
const MOST_SLOWED: f64 = 1e6;

/// Help for `--lmpt.interval`: a benchmark run is too short for the default of a node.
const LMPT_INTERVAL: &str = "Blocks after which the delta of `lmpt` becomes its intermediate, which the next so many merge [default: as many as the warm-up has, at most half of those measured and at most 1000]";

/// What is compared, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Comparison", mut_arg("lmpt.interval", |arg| arg.help(LMPT_INTERVAL)))]
pub(super) struct MeasureArgs {
    /// State layers to compare, in the order of their first turn; every second turn is in reverse [default: all of this
    /// build]
    #[arg(long, value_name = "LAYER,…", value_delimiter = ',', value_parser = LAYER_NAME)]
    states: Vec<String>,
    /// Engines to measure each layer on. A cluster of `cassandra` is refused, since it cannot be copied for each run.
    #[arg(long, value_name = "ENGINE,…", value_delimiter = ',', default_value = DEFAULT_ENGINE,
        value_parser = ENGINE_NAME)]
    kv: Vec<String>,
    /// Runs of each layer, each in a process of its own on a fresh copy of the store; the median counts. With an even
    /// number each layer stands as often early as late in a turn; `bench compare` wants five or more [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    runs: Option<u16>,
    /// Threads that a run shares its work among, beside those that layers have for themselves (--replica.workers and the
    /// like); --pin bounds all [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Bind runs to the first cores of this process, one for each of --threads (takes `taskset` of util-linux).
    #[arg(long)]
    pin: bool,
    /// Memory that a run may use (k, M, G may follow), pages of files included. The caches of layer and engine are sized for
    /// it, and a control group enforces it if this user may make one, which the report says.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory_limit: Option<usize>,
    /// Measure with nothing in memory: RocksDB past the page cache and with a cache of 64 MiB, MDBX with its pages
    /// dropped. A run that reads less than 4 KiB from the device in every second operation is refused. So is a run of worst
    /// cases with a cold test that reads less than a quarter of its first block's rows from the device.
    #[arg(long)]
    cold: bool,
    /// Make every block of a layer, and the flush at the end, take so many percent longer, as a test of `bench compare`.
    #[arg(long, value_name = "LAYER=PERCENT", value_parser = slowed)]
    slow_down: Option<(String, f64)>,
    #[command(flatten)]
    cache: CacheArg,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    layer: LayerOptions,
}

impl MeasureArgs {
    /// Measures and writes the result. The output files are opened before the measurement starts.
    pub(super) fn run(
        &self,
        output: &OutputArgs,
        measure: impl FnOnce(&Comparison) -> Result<Report, BenchError>,
    ) -> Result<(), Failure> {
        self.subjects()?;
        // A path that cannot be written must fail now, not after an hour of measuring.
        let outputs = Outputs::open(output)?;
        let report = measure(&self.equipped()?)?;
        outputs.write(&report)
    }

    /// The comparison, with the setups that its layers cannot be opened without.
    pub(super) fn equipped(&self) -> Result<Comparison, Failure> {
        let mut comparison = self.comparison(RUNS)?;
        let notes = equip(&comparison.subjects, &mut comparison.settings, &comparison.cache)?;
        comparison.notes.extend(notes);
        Ok(comparison)
    }

    /// The comparison for figures of papers, which prepare the setups of their layers by themselves.
    pub(super) fn comparison_for_paper(&self, quick: bool) -> Result<Comparison, Failure> {
        self.comparison(if quick { 1 } else { RUNS })
    }

    fn comparison(&self, runs: u16) -> Result<Comparison, Failure> {
        let subjects = self.subjects()?;
        let notes = self.slow_down.as_ref().map(|slowed| note_slowed(slowed, &subjects));
        let interrupt = on_interrupt();
        let cache = self.cache.open()?.with_interrupt(Arc::clone(&interrupt));
        let mut settings = Settings { layer: self.layer.clone(), engine: self.engine.options() };
        if self.cold {
            settings.engine.direct_io = true;
            settings.engine.cache.get_or_insert(COLD_CACHE);
            // The most recent writes are in memory too, so the write buffer is small as well.
            settings.engine.buffer.get_or_insert(COLD_CACHE);
        }
        let threads = self.threads.map_or_else(core_count, usize::from);
        let comparison = Comparison {
            subjects,
            runs: self.runs.unwrap_or(runs).into(),
            settings,
            variants: BTreeMap::new(),
            cold: self.cold,
            threads,
            pinned: if self.pin { Some(cores(threads)?) } else { None },
            memory_limit: None,
            slowed: self.slow_down.clone(),
            log_slow_blocks: None,
            in_place: false,
            notes: notes.transpose()?.into_iter().collect(),
            cache: Arc::new(cache),
            interrupt,
        };
        match self.memory_limit {
            None => Ok(comparison),
            Some(bytes) if bytes < LEAST_MEMORY => Err(Failure::Usage(format!(
                "--memory-limit is {bytes} bytes, and no layer runs in less than {}M; choose more",
                LEAST_MEMORY >> 20
            ))),
            Some(bytes) => Ok(comparison.within(bytes as u64)),
        }
    }

    /// Warns of layers on which `--flush-every` has no effect.
    pub(super) fn warn_of_groups(&self) -> Result<(), Failure> {
        for subject in self.subjects()? {
            let reason = subject.check()?.ignores_groups(&subject.kv, &self.layer);
            if let Some(reason) = reason {
                tracing::warn!("--flush-every has no effect on {subject}: {reason}");
            }
        }
        Ok(())
    }

    /// Refuses --slow-down where it has no effect.
    pub(super) fn expect_not_slowed(&self) -> Result<(), Failure> {
        match self.slow_down {
            None => Ok(()),
            Some(_) => Err(Failure::Usage(
                "--slow-down is for `bench compare` to find, which compares reports of `bench store` and `bench chain`; leave it out"
                    .into(),
            )),
        }
    }

    /// Every layer on every engine, as the options name them.
    fn subjects(&self) -> Result<Vec<Subject>, Failure> {
        let all: Vec<String> = LAYERS.iter().map(|kind| kind.name.to_owned()).collect();
        let states = if self.states.is_empty() { &all } else { &self.states };
        let (mut subjects, engine) = (Vec::new(), self.engine.options());
        for kv in &self.kv {
            for state in states {
                let subject = Subject::new(&**state, &**kv);
                subject.check()?;
                if subject.is_elsewhere() {
                    return Err(Failure::Usage(format!(
                        "{subject} cannot be measured here: a cluster is not copied for each run; import a chain that `bench generate` makes, with `polytrie import --kv cassandra --json FILE`"
                    )));
                }
                engine.expect_for(kv)?;
                if self.cold && subject.is_in_memory() {
                    return Err(Failure::Usage(format!(
                        "--cold does not go with {subject}: there is no disk to read from; choose --kv mdbx or rocksdb"
                    )));
                }
                if subjects.contains(&subject) {
                    return Err(Failure::Usage(format!("{subject} is named twice; name it once")));
                }
                subjects.push(subject);
            }
        }
        // An option may be for one of several engines.
        if let Some(first) = self.kv.first()
            && self.kv.iter().all(|kv| engine.expect_used(kv).is_err())
        {
            engine.expect_used(first)?;
        }
        Ok(subjects)
    }
}

/// Numbers of the first cores that this process may use, one for each thread, as `taskset` reads them.
fn cores(threads: usize) -> Result<String, Failure> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let allowed = list.map(|list| parse_cores(list.trim())).unwrap_or_default();
    if allowed.len() < threads {
        return Err(Failure::Usage(format!(
            "--pin needs a core for each of {threads} threads, and this process may use {}; choose fewer --threads",
            allowed.len()
        )));
    }
    let first: Vec<String> = allowed[..threads].iter().map(ToString::to_string).collect();
    Ok(first.join(","))
}

/// Core numbers in a list such as `0-3,8`.
fn parse_cores(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse::<usize>().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

fn slowed(text: &str) -> Result<(String, f64), String> {
    let wrong = || {
        format!("`{text}` is not LAYER=PERCENT, as in mpt=10, with at most {MOST_SLOWED} percent")
    };
    let (layer, percent) = text.split_once('=').ok_or_else(wrong)?;
    let percent: f64 = percent.parse().map_err(|_| wrong())?;
    if (0.0..=MOST_SLOWED).contains(&percent) {
        Ok((layer.to_owned(), percent / 100.0))
    } else {
        Err(wrong())
    }
}

/// The note in a report on a layer that was made slower on purpose.
fn note_slowed((layer, part): &(String, f64), subjects: &[Subject]) -> Result<String, Failure> {
    if !subjects.iter().any(|subject| subject.state == *layer) {
        return Err(Failure::Usage(format!(
            "--slow-down names `{layer}`, which is not measured; name one of --states"
        )));
    }
    let percent = (part * 1e4).round() / 1e2;
    Ok(format!("{layer} was made {percent} % slower on purpose (--slow-down)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_read() {
        assert_eq!(parse_cores("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(parse_cores("7"), [7]);
        assert!(parse_cores("").is_empty());
    }

    #[test]
    fn slow_downs_are_read() {
        assert_eq!(slowed("mpt=10"), Ok(("mpt".to_owned(), 0.1)));
        for wrong in ["mpt", "mpt=-1", "mpt=NaN", "mpt=inf", "mpt=1e300"] {
            assert!(slowed(wrong).is_err(), "{wrong}");
        }
    }
}
