//! The state layer alone: random reads and writes of slots, one durable commit a block.

use super::{
    Result,
    durable::{before_warmup_block, durable_block},
};
use crate::{
    Random, SlotKeys,
    fixture::OpenStore,
    measure::{Measured, Recorder},
};
use alloy_primitives::U256;
use polytrie_state::{Access, AccountChange, Session, StateError, TxWrites};
use serde::{Deserialize, Serialize};

/// Parameters of `bench store`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreBench {
    /// Slots before the first block.
    pub keys: u64,
    /// Blocks that are measured.
    pub blocks: u64,
    /// Operations in a block: each reads one key and then writes it.
    pub ops: u64,
    /// Whether operations write new keys, instead of random keys that exist.
    pub fresh: bool,
    /// Parts of an operation: the read, the write, or both.
    #[serde(default, skip_serializing_if = "Mode::is_both")]
    pub mode: Mode,
    /// Seed of keys and values.
    pub seed: u64,
    /// Blocks that run before the measured ones.
    pub warmup_blocks: u64,
}

/// What an operation of [`StoreBench`] does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Reads a key, then writes it.
    #[default]
    Both,
    /// Reads a key.
    Read,
    /// Writes a key without having read it; what was there, the layer looks up for itself.
    Write,
}

impl Mode {
    const fn is_both(&self) -> bool {
        matches!(self, Self::Both)
    }
}

impl StoreBench {
    /// Default number of warm-up blocks. `lmpt` gets an interval of as many blocks. With an interval of one, each
    /// commit would wait for the merge of the one before, which would have no block's time to run in the background.
    pub const DEFAULT_WARMUP: u64 = 2;

    /// Keys of the slots that the store is filled with.
    pub const fn slot_keys(&self) -> SlotKeys {
        SlotKeys { seed: self.seed, keys: self.keys }
    }

    /// Runs the benchmark on a store that is filled with [`Self::slot_keys`].
    pub(super) fn run(&self, open: &OpenStore, rss_before: u64) -> Result<Measured> {
        let mut draw = Draw::new(self);
        let mut ops = Vec::new();
        let mut checksum = U256::ZERO;
        let mut block = |number, ops: &[(U256, U256)]| {
            durable_block(open, number, |session| operate(session, ops, self.mode, &mut checksum))
        };
        for number in 0..self.warmup_blocks {
            draw.block(&mut ops);
            before_warmup_block(open, number, self.warmup_blocks)?;
            block(number, &ops)?;
        }
        let mut recorder = Recorder::start(open, rss_before)?;
        for number in self.warmup_blocks..self.warmup_blocks + self.blocks {
            draw.block(&mut ops);
            let (times, session) = block(number, &ops)?;
            recorder.block(self.ops, None, times, session);
        }
        Ok(Measured { checksum: Some(checksum.into()), ..recorder.finish(open)? })
    }
}

/// Source of the keys and values of each block.
#[derive(Debug)]
struct Draw {
    keys: SlotKeys,
    ops: u64,
    /// Number of the next new key; `None` if operations use existing keys.
    fresh: Option<u64>,
    random: Random,
}

impl Draw {
    fn new(bench: &StoreBench) -> Self {
        Self {
            keys: bench.slot_keys(),
            ops: bench.ops,
            fresh: bench.fresh.then_some(bench.keys),
            random: Random::new(bench.seed, 5),
        }
    }

    /// Replaces `ops` by the keys and non-zero values of the next block.
    fn block(&mut self, ops: &mut Vec<(U256, U256)>) {
        ops.clear();
        for _ in 0..self.ops {
            let number = match &mut self.fresh {
                Some(next) => {
                    *next += 1;
                    *next - 1
                }
                None => self.random.below(self.keys.keys),
            };
            let value = U256::from_be_bytes(self.random.bytes::<32>()) | U256::ONE;
            ops.push((self.keys.key(number), value));
        }
    }
}

/// Runs the operations of a block, and folds the values that it reads into the checksum.
fn operate(
    session: &mut Session,
    ops: &[(U256, U256)],
    mode: Mode,
    checksum: &mut U256,
) -> Result<(), StateError> {
    let address = SlotKeys::ADDRESS;
    let change = AccountChange {
        address,
        account: Some(SlotKeys::account()),
        wiped: false,
        code: None,
        slots: Vec::with_capacity(1),
    };
    let mut writes = TxWrites { accounts: vec![change] };
    for (key, value) in ops {
        // The EVM reads a slot before it writes it, so the hooks would send the hint first.
        session.hint(match mode {
            Mode::Read => Access::SlotRead(address, *key),
            Mode::Both | Mode::Write => Access::SlotWrite(address, *key),
        });
        if mode != Mode::Write {
            *checksum = checksum.rotate_left(1) ^ session.slot(&address, key)?;
        }
        if mode == Mode::Read {
            continue;
        }
        let slots = &mut writes.accounts[0].slots;
        slots.clear();
        slots.push((*key, *value));
        session.apply(&writes)?;
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{Base, BaseSpec, Cache, Settings, Subject};
    use polytrie_kv::{CountersSnapshot, Durability, StoreOptions};
    use polytrie_layers::LayerOptions;
    use std::{collections::HashSet, sync::Arc};

    /// Bytes that reading an account counts for: its address, nonce, balance and code hash.
    const ACCOUNT_BYTES: u64 = 104;

    const BENCH: StoreBench = StoreBench {
        keys: 300,
        blocks: 4,
        ops: 50,
        fresh: false,
        mode: Mode::Both,
        seed: 9,
        warmup_blocks: 1,
    };

    /// Returns the figures, and the counts of the store with those of the warm-up and of filling it.
    fn counted(subject: &Subject, bench: StoreBench) -> (Measured, CountersSnapshot) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Arc::new(Cache::open(dir.path()).unwrap());
        let durability = Durability::EveryWrite;
        let options = StoreOptions { durability, ..StoreOptions::default() };
        let settings = Settings { layer: LayerOptions::for_tests(), ..Settings::default() };
        let open = OpenStore::open(subject, dir.path(), &settings, options).unwrap();
        open.fill(&Base::new(BaseSpec::Slots(bench.slot_keys()), cache)).unwrap();
        (bench.run(&open, 0).unwrap(), open.store.counters())
    }

    fn run(subject: &Subject, bench: StoreBench) -> Measured {
        counted(subject, bench).0
    }

    #[test]
    fn every_layer_reads_the_same_values() {
        for fresh in [false, true] {
            let bench = StoreBench { fresh, ..BENCH };
            let mut checksums = HashSet::new();
            for layer in polytrie_layers::LAYERS {
                let measured = run(&Subject::new(layer.name, "memory"), bench);
                assert_eq!((measured.blocks, measured.operations), (4, 200));
                assert_eq!(measured.commitment.canonical, layer.canonical);
                let amplification = measured.amplification;
                // An account counts once for each block, and so does a key that occurs twice in a block.
                let slots_read = amplification.layer_reads - measured.blocks;
                let expected = if fresh { 200..=200 } else { 100..=199 };
                assert!(expected.contains(&slots_read), "{amplification:?}");
                let account_bytes = amplification.layer_read_bytes - 64 * slots_read;
                assert_eq!(account_bytes, ACCOUNT_BYTES * measured.blocks);
                checksums.insert(measured.checksum);
            }
            assert_eq!(checksums.len(), 1, "{checksums:?}");
        }
    }

    /// Reads are timed by a sample, and may be made for a write.
    #[test]
    fn the_parts_of_the_time_are_the_whole() {
        for mode in [Mode::Both, Mode::Read, Mode::Write] {
            let bench = StoreBench { mode, ..BENCH };
            let Measured { time, seconds, .. } = run(&Subject::new("mpt", "memory"), bench);
            let parts = time.execution + time.structure + time.engine;
            assert!((parts - seconds).abs() < 1e-9, "{mode:?}: {time:?} of {seconds}");
        }
    }

    /// `mpt-hash` shows what the papers' baselines did: every row that a block puts or deletes reaches the engine,
    /// whatever later blocks do to it. Blocks that give keys new values replace as many nodes as they add.
    #[test]
    fn nothing_of_the_baseline_is_hidden_from_the_engine() {
        let measured = run(&Subject::new("mpt-hash", "memory"), BENCH);
        let counters = measured.counters;
        assert_eq!((counters.flushes, counters.batches), (4, 4));
        assert_eq!(
            (counters.engine_puts, counters.engine_deletes),
            (counters.puts, counters.deletes)
        );
        assert!(counters.deletes > 200 && counters.puts > counters.deletes, "{counters:?}");
        let (added, replaced) = (measured.layer["nodes_added"], measured.layer["nodes_replaced"]);
        assert_eq!(added, replaced);
        assert!(added > 200, "{added}");
    }

    /// A block is durable in the journal of MDBX, which writes the pages later: those of the last blocks are part of the
    /// run, and those of the warm-up are not.
    #[test]
    fn what_a_journal_holds_reaches_the_engine_while_the_clock_runs() {
        let counters =
            run(&Subject::new("raw", "mdbx"), StoreBench { blocks: 1, ..BENCH }).counters;
        assert_eq!((counters.journal_batches, counters.flushes), (1, 1), "{counters:?}");
        // MDBX also notes which part of the journal it has.
        let expected = counters.puts..=counters.puts + 1;
        assert!(counters.puts > 0 && expected.contains(&counters.engine_puts), "{counters:?}");
    }

    /// While the last block of the warm-up is written to the engine, a merge goes on that no clock measures. The blocks before
    /// it do not make that longer.
    #[test]
    fn the_clock_starts_soon_after_the_warm_up() {
        let flushes = |warmup_blocks| {
            let bench = StoreBench { blocks: 1, warmup_blocks, ..BENCH };
            counted(&Subject::new("raw", "mdbx"), bench).1.flushes
        };
        assert_eq!(flushes(3), flushes(1) + 1);
    }
}
