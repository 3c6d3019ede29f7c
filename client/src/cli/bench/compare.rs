//! Options of every command that compares layers.

use super::{Failure, workload::CacheArg};
use crate::{
    bench::{Comparison, Report, Settings, Subject},
    blocks::OutputFile,
    cli::{
        args::{EngineArgs, LayerArgs},
        import::on_interrupt,
        output,
    },
    layers::DEFAULT_ENGINE,
};
use clap::Args;
use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

/// RocksDB's block cache in a cold run, unless told otherwise: small against any state worth measuring.
const COLD_CACHE: usize = 64 << 20;

/// What is compared, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Comparison")]
pub(super) struct CompareArgs {
    /// State layers to compare, in the order of their turns.
    #[arg(long, value_name = "LAYER,…", value_delimiter = ',', required = true)]
    states: Vec<String>,
    /// Engines to measure each layer on: mdbx, rocksdb, memory.
    #[arg(long, value_name = "ENGINE,…", value_delimiter = ',', default_value = DEFAULT_ENGINE)]
    kv: Vec<String>,
    /// Runs of each layer, each in a process of its own on a fresh copy of the store; the median counts.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Threads that a run may use to work in parallel [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Measure with nothing in memory: RocksDB past the page cache and with a cache of 64 MiB, MDBX with its pages
    /// dropped. A run that reads less than 4 KiB from the device in every second operation is refused.
    #[arg(long)]
    cold: bool,
    /// Count nothing at the seams: to find out what counting costs.
    #[arg(long)]
    no_counters: bool,
    #[command(flatten)]
    cache: CacheArg,
    /// Write everything as JSON to this file; `-` for standard output. The file appears when the benchmark is complete.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    layer: LayerArgs,
}

impl CompareArgs {
    /// Measures and tells the result.
    pub(super) fn run(
        &self,
        measure: impl FnOnce(&Comparison) -> Result<Report, crate::bench::BenchError>,
    ) -> Result<(), Failure> {
        let subjects = self.subjects()?;
        let interrupt = on_interrupt()?;
        // A file that cannot be written should not be noticed after an hour of measuring.
        let json = self.json.as_deref().map(OutputFile::create).transpose()?;
        let cache = self.cache.open()?.with_interrupt(Arc::clone(&interrupt));
        let mut settings = Settings { layer: self.layer.options(), engine: self.engine.options() };
        if self.cold {
            settings.engine.direct_io = true;
            settings.engine.cache.get_or_insert(COLD_CACHE);
        }
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        let report = measure(&Comparison {
            subjects,
            runs: self.runs.into(),
            settings,
            counters: !self.no_counters,
            cold: self.cold,
            threads: self.threads.map_or_else(cores, usize::from),
            cache: Arc::new(cache),
            interrupt,
        })?;
        if let Some(mut file) = json {
            let text = serde_json::to_string_pretty(&report)
                .map_err(|e| Failure::Machine(format!("the result does not serialise: {e}")))?;
            let name = self.json.as_deref().unwrap_or(Path::new("-")).display().to_string();
            writeln!(file, "{text}")
                .map_err(|e| Failure::Machine(format!("cannot write {name}: {e}")))?;
            file.finish()?;
        }
        if output::takes_stdout(self.json.as_deref()) {
            return Ok(());
        }
        output::line(report.table().trim_end())
    }

    /// Every layer on every engine.
    fn subjects(&self) -> Result<Vec<Subject>, Failure> {
        let mut subjects = Vec::new();
        for kv in &self.kv {
            for state in &self.states {
                let subject = Subject { state: state.clone(), kv: kv.clone() };
                subject.check()?;
                if subjects.contains(&subject) {
                    return Err(Failure::Usage(format!("{subject} is named twice; name it once")));
                }
                subjects.push(subject);
            }
        }
        Ok(subjects)
    }
}
