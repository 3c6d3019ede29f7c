//! The layer `lmpt`: its options and its entry in the list of layers.

use super::{
    kind::{Hooks, LayerKind, Parameters},
    options::LayerOptions,
};
use crate::values::parse_bytes;
use clap::{Args, value_parser};
use polytrie_lmpt::{Boundary, LmptLayer, LmptOptions, verify};
use polytrie_state::Result;
use serde::{Deserialize, Serialize};
use std::{fmt::Display, str::FromStr};

/// Default number of blocks between two rotations, as in the paper.
const DEFAULT_INTERVAL: u64 = 1_000;

/// Default number of slots of destroyed contracts that one slice of a merge removes.
const DEFAULT_SWEEP: u64 = 4_096;

/// What a user can set about `lmpt`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[command(next_help_heading = "State layers")]
pub struct LmptSettings {
    /// Blocks after which the delta of `lmpt` becomes its intermediate. Belongs to the data: a new directory gets
    /// 1000, another one keeps its own.
    #[arg(id = "lmpt.interval", long = "lmpt.interval", value_name = "BLOCKS", value_parser = value_parser!(u64).range(1..))]
    pub interval: Option<u64>,
    /// Most slots of destroyed contracts that `lmpt` removes in a block. Belongs to the data, as the interval: a new
    /// directory gets 4096.
    #[arg(id = "lmpt.sweep", long = "lmpt.sweep", value_name = "SLOTS", value_parser = value_parser!(u64).range(1..))]
    pub sweep: Option<u64>,
    /// How `lmpt` merges an interval: in `slices`, one with each block, or as the paper has it with a `switch` at the end of
    /// the next one. Belongs to the data, as the interval: a new directory gets slices.
    #[arg(id = "lmpt.boundary", long = "lmpt.boundary", value_name = "HOW")]
    pub boundary: Option<Boundary>,
    /// Bytes of delta and intermediate of `lmpt` kept in memory (k, M, G may follow); more go to a scratch store in the
    /// data directory.
    #[arg(id = "lmpt.memory", long = "lmpt.memory", value_name = "BYTES", value_parser = parse_bytes, default_value = "1G")]
    pub memory: usize,
}

impl Default for LmptSettings {
    fn default() -> Self {
        Self {
            interval: None,
            sweep: None,
            boundary: None,
            memory: LmptOptions::default().memory_bytes,
        }
    }
}

pub(super) const KIND: LayerKind = LayerKind {
    name: LmptLayer::NAME,
    about: "layered tries: new writes in small tries in memory, merged into one on disk in the background",
    canonical: false,
    tables: LmptLayer::TABLES,
    open: |place, options| {
        let options = LmptOptions {
            interval: options.lmpt.interval.unwrap_or(DEFAULT_INTERVAL),
            sweep: options.lmpt.sweep.unwrap_or(DEFAULT_SWEEP),
            boundary: options.lmpt.boundary.unwrap_or_default(),
            memory_bytes: options.lmpt.memory,
            cache_bytes: options.trie_cache,
            ..LmptOptions::default()
        };
        Ok(LmptLayer::open(place.store, options)?)
    },
    verify: Some(|_, commitment, proof| LayerKind::proven(verify(commitment.digest(), proof)?)),
    hooks: Hooks {
        settle: Some(settle),
        suit_run: Some(suit_run),
        put_off: Some(put_off),
        ..Hooks::NONE
    },
};

/// Parameters of the stamp: settings that the commitment depends on beside the blocks.
const INTERVAL: &str = "lmpt.interval";
const SWEEP: &str = "lmpt.sweep";
const BOUNDARY: &str = "lmpt.boundary";

#[expect(clippy::unnecessary_wraps, reason = "as the table wants it")]
fn settle(options: &mut LayerOptions, stamped: Option<&Parameters>) -> Result<Parameters> {
    let LmptSettings { interval, sweep, boundary, .. } = &mut options.lmpt;
    let made_with = |name| stamped.and_then(|parameters| parameters.get(name));
    let settled = [
        (INTERVAL, settle_one(interval, made_with(INTERVAL), DEFAULT_INTERVAL)),
        (SWEEP, settle_one(sweep, made_with(SWEEP), DEFAULT_SWEEP)),
        (BOUNDARY, settle_one(boundary, made_with(BOUNDARY), Boundary::default())),
    ]
    .map(|(name, value)| (name.to_owned(), value));
    Ok(Parameters::from(settled))
}

/// Sets `asked`, if it is not set, to the value that the data was made with or else to the default. Returns the value
/// as text.
fn settle_one<T: FromStr + Display>(
    asked: &mut Option<T>,
    made_with: Option<&String>,
    default: T,
) -> String {
    let made_with = || made_with.and_then(|value| value.parse().ok());
    asked.get_or_insert_with(|| made_with().unwrap_or(default)).to_string()
}

/// Returns the interval for a run that measures `measured` blocks after a warm-up of `warmup` blocks.
///
/// A merge is half of the layer's work and starts only when the first interval has ended, while a node that has run for
/// days is always merging. So the first interval is the warm-up, and the measured blocks have two intervals at least.
pub fn interval_of_run(warmup: u64, measured: u64) -> u64 {
    warmup.min(measured / 2).clamp(1, DEFAULT_INTERVAL)
}

fn suit_run(options: &mut LayerOptions, warmup: u64, measured: u64) -> Option<String> {
    if options.lmpt.interval.is_some() {
        return None;
    }
    let interval = interval_of_run(warmup, measured);
    options.lmpt.interval = Some(interval);
    Some(format!(
        "lmpt merges in intervals of {interval} blocks, so that merges are measured (--lmpt.interval {interval})"
    ))
}

/// Returns a note for the reader of a report if the run ended before the first merge.
fn put_off(options: &LayerOptions, above: u64, last: u64) -> Option<String> {
    let interval = options.lmpt.interval.unwrap_or(DEFAULT_INTERVAL).max(1);
    // Intervals end with the multiples of their length, and blocks may begin between two of them.
    let first_end = (above / interval + 1).saturating_mul(interval);
    let head_start = match options.lmpt.boundary.unwrap_or_default() {
        Boundary::Slices => interval / 4,
        Boundary::Switch => interval - 1,
    };
    (last <= first_end.saturating_add(head_start)).then(|| {
        format!(
            "lmpt has merged nothing: its intervals have {interval} blocks, and the run ends with block {last}; with a smaller --lmpt.interval, or more blocks, merges are part of its figures"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_are_measured() {
        for warmup in 1..40 {
            for measured in 2..200 {
                let interval = interval_of_run(warmup, measured);
                assert!(
                    interval <= warmup,
                    "an interval is there to be merged from the first block on"
                );
                assert!(2 * interval <= measured, "two intervals are measured");
            }
        }
        assert_eq!(interval_of_run(30, 270), 30);
    }

    #[test]
    fn long_runs_have_the_interval_of_a_node() {
        assert_eq!(interval_of_run(1_000, 2_000), DEFAULT_INTERVAL);
        assert_eq!(interval_of_run(u64::MAX, u64::MAX), DEFAULT_INTERVAL);
    }

    #[test]
    fn there_is_always_one() {
        assert_eq!([interval_of_run(0, 0), interval_of_run(7, 1), interval_of_run(0, 9)], [1; 3]);
    }

    #[test]
    fn a_run_without_a_merge_has_a_note() {
        let with = |interval| LayerOptions {
            lmpt: LmptSettings { interval, ..LmptSettings::default() },
            ..LayerOptions::default()
        };
        assert!(put_off(&with(Some(4)), 0, 5).is_some());
        assert_eq!(put_off(&with(Some(4)), 0, 6), None);
        // Where nothing sets an interval, the layer is opened with its default.
        assert!(put_off(&with(None), 0, DEFAULT_INTERVAL).is_some());
        assert_eq!(put_off(&with(None), 0, 2 * DEFAULT_INTERVAL), None);
        // Real blocks begin anywhere.
        assert!(put_off(&with(None), 20_000_100, 20_000_200).is_some());
        assert!(put_off(&with(None), 20_000_900, 20_001_250).is_some());
        assert_eq!(put_off(&with(None), 20_000_900, 20_001_251), None);
        // The last block of the next interval brings the whole merge.
        let mut switched = with(Some(4));
        switched.lmpt.boundary = Some(Boundary::Switch);
        assert!(put_off(&switched, 0, 7).is_some());
        assert_eq!(put_off(&switched, 0, 8), None);
    }

    #[test]
    fn an_interval_that_was_given_stays() {
        let lmpt = LmptSettings { interval: Some(7), ..LmptSettings::default() };
        let mut options = LayerOptions { lmpt, ..LayerOptions::default() };
        assert_eq!(suit_run(&mut options, 30, 270), None);
        assert_eq!(options.lmpt.interval, Some(7));
    }
}
