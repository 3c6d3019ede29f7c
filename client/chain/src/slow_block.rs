//! A line of JSON for each slow block, in the form that clients agreed on: geth writes it with `--debug.logslowblock`,
//! under the same names.
//!
//! The names mean the same as in geth, with these exceptions, whose figures `scripts/compare-slow-blocks` shows:
//!
//! - Hits are reads that the block itself, or for code an earlier block, had done before; a read from the layer is a
//!   miss, whether or not the layer or the engine has the value in memory.
//! - Code is counted by its hash, so contracts that share it count once.
//! - A repeated read counts once, also if nothing is there; geth reads an account that does not exist each time. Slots
//!   of a contract that the block has made are not read.
//! - Writes are the values that differ after the block. geth also counts values that were set and are as before, and
//!   deletions of values that were not there.

use super::{Chain, candidate::BlockStats};
use alloy_primitives::B256;
use polytrie_state::{BlockRef, SessionCounters};
use serde::Serialize;
use std::time::Duration;

#[derive(Debug, Serialize)]
struct SlowBlock {
    level: &'static str,
    msg: &'static str,
    block: Block,
    timing: Timing,
    throughput: Throughput,
    state_reads: Reads,
    state_writes: Writes,
    cache: Caches,
}

#[derive(Debug, Serialize)]
struct Block {
    number: u64,
    hash: B256,
    gas_used: u64,
    tx_count: u64,
}

/// Times of a block; the four parts add up to the total.
#[derive(Debug, Serialize)]
struct Timing {
    /// Time of the EVM, and of the rules.
    execution_ms: f64,
    /// Time of waiting for accounts, slots and code, estimated from a sample.
    state_read_ms: f64,
    /// Time of the commitment. If a layer computes it while later blocks run, the block that waits for it has the time.
    state_hash_ms: f64,
    /// Time of passing the block to the store.
    commit_ms: f64,
    total_ms: f64,
}

#[derive(Debug, Serialize)]
struct Throughput {
    mgas_per_sec: f64,
}

#[derive(Debug, Serialize)]
struct Reads {
    accounts: u64,
    storage_slots: u64,
    code: u64,
    code_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Writes {
    /// Number of written accounts, without the deleted ones.
    accounts: u64,
    accounts_deleted: u64,
    /// Number of written slots, without those that became zero.
    storage_slots: u64,
    storage_slots_deleted: u64,
    code: u64,
    code_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Caches {
    account: Cache,
    storage: Cache,
    code: CodeCache,
}

#[derive(Debug, Serialize)]
struct Cache {
    hits: u64,
    misses: u64,
    /// Share of hits in per cent.
    hit_rate: f64,
}

#[derive(Debug, Serialize)]
struct CodeCache {
    #[serde(flatten)]
    counts: Cache,
    hit_bytes: u64,
    miss_bytes: u64,
}

impl Cache {
    fn of(hits: u64, misses: u64) -> Self {
        Self { hits, misses, hit_rate: 100.0 * hits as f64 / (hits + misses).max(1) as f64 }
    }
}

impl SlowBlock {
    fn of(block: BlockRef, stats: &BlockStats) -> Self {
        let asked = &stats.session;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let total = stats.total();
        Self {
            level: "warn",
            msg: "Slow block",
            block: Block {
                number: block.number,
                hash: block.hash,
                gas_used: stats.gas,
                tx_count: stats.txs,
            },
            timing: Timing {
                execution_ms: ms(stats.check + stats.execute),
                state_read_ms: ms(stats.state_read),
                state_hash_ms: ms(stats.state_commit),
                commit_ms: ms(stats.write),
                total_ms: ms(total),
            },
            throughput: Throughput {
                mgas_per_sec: stats.gas as f64 / 1e6 / total.as_secs_f64().max(1e-9),
            },
            state_reads: Reads {
                accounts: asked.accounts_read.calls,
                storage_slots: asked.slots_read.calls,
                code: asked.codes_known + asked.codes_read.calls,
                code_bytes: asked.code_bytes_known + asked.code_bytes_read,
            },
            state_writes: Writes {
                accounts: asked.accounts_written - asked.accounts_deleted,
                accounts_deleted: asked.accounts_deleted,
                storage_slots: asked.slots_written - asked.slots_deleted,
                storage_slots_deleted: asked.slots_deleted,
                code: asked.codes_written,
                code_bytes: asked.code_bytes_written,
            },
            cache: Caches::of(asked),
        }
    }
}

impl Caches {
    fn of(asked: &SessionCounters) -> Self {
        Self {
            account: Cache::of(asked.accounts_known, asked.accounts_read.calls),
            storage: Cache::of(asked.slots_known, asked.slots_read.calls),
            code: CodeCache {
                counts: Cache::of(asked.codes_known, asked.codes_read.calls),
                hit_bytes: asked.code_bytes_known,
                miss_bytes: asked.code_bytes_read,
            },
        }
    }
}

impl Chain {
    /// Logs the line of a block if it took at least the time in the options.
    pub(super) fn log_if_slow(&self, block: BlockRef, stats: &BlockStats) {
        if self.options.log_slow_blocks.is_none_or(|least| stats.total() < least) {
            return;
        }
        match serde_json::to_string(&SlowBlock::of(block, stats)) {
            Ok(line) => tracing::warn!("{line}"),
            Err(error) => tracing::warn!("the figures of a slow block do not serialise: {error}"),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{ChainOptions, testing};
    use alloy_primitives::{Address, Bytes, U256, keccak256};
    use polytrie_kv::MemoryEngine;
    use polytrie_layers::LAYERS;
    use polytrie_state::{Account, AccountChange, TxWrites};
    use serde_json::{Value, json};
    use std::sync::Arc;

    /// Returns the creation of an account with this code and these slots.
    fn contract(code: &Bytes, slots: Vec<(U256, U256)>) -> TxWrites {
        let account = Account { nonce: 1, code_hash: keccak256(code), ..Account::default() };
        let change = AccountChange {
            address: Address::repeat_byte(0xc0),
            account: Some(account),
            wiped: false,
            code: Some((account.code_hash, code.clone())),
            slots,
        };
        TxWrites { accounts: vec![change] }
    }

    fn line(stats: &BlockStats) -> Value {
        serde_json::to_value(SlowBlock::of(BlockRef { number: 1, hash: B256::ZERO }, stats))
            .unwrap()
    }

    #[test]
    fn the_parts_make_up_the_whole_and_every_count_is_there_on_every_layer() {
        for layer in LAYERS {
            let engine = Arc::new(MemoryEngine::new());
            let mut chain = testing::open(layer, &engine, ChainOptions::default());
            let code = Bytes::from(vec![0; 7]);
            let slot = |slot: u64, value: u64| (U256::from(slot), U256::from(value));
            let mut next = |before: &TxWrites| {
                let built = testing::build(&mut chain, 0, before);
                chain.adopt(built).unwrap().1
            };
            next(&contract(&code, vec![slot(1, 1), slot(2, 1)]));
            let found = line(&next(&contract(&code, vec![slot(1, 0), slot(3, 1)])));
            let parts = ["execution_ms", "state_read_ms", "state_hash_ms", "commit_ms"];
            let sum: f64 = parts.iter().map(|part| found["timing"][part].as_f64().unwrap()).sum();
            let total = found["timing"]["total_ms"].as_f64().unwrap();
            assert!((sum - total).abs() <= 0.02 * total, "{}: {sum} of {total}", layer.name);
            // The system contracts of the block write other slots.
            let deleted = &found["state_writes"]["storage_slots_deleted"];
            assert_eq!(*deleted, json!(1), "{}", layer.name);
            assert_eq!(found["state_writes"]["code"], json!(0));
            for kind in ["account", "storage", "code"] {
                let cache = &found["cache"][kind];
                let [hits, misses] = ["hits", "misses"].map(|name| cache[name].as_u64().unwrap());
                let rate = 100.0 * hits as f64 / (hits + misses).max(1) as f64;
                assert_eq!(cache["hit_rate"].as_f64().unwrap(), rate);
            }
            assert_eq!(found["cache"]["account"]["misses"], found["state_reads"]["accounts"]);
            assert_eq!(found["cache"]["storage"]["misses"], found["state_reads"]["storage_slots"]);
        }
    }

    #[test]
    fn the_names_are_those_of_geth() {
        let found = line(&BlockStats::default());
        let names =
            |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
        let mut all = names(&found);
        all.sort();
        let top = [
            "block",
            "cache",
            "level",
            "msg",
            "state_reads",
            "state_writes",
            "throughput",
            "timing",
        ];
        assert_eq!(all, top);
        let mut code = names(&found["cache"]["code"]);
        code.sort();
        assert_eq!(code, ["hit_bytes", "hit_rate", "hits", "miss_bytes", "misses"]);
        let mut writes = names(&found["state_writes"]);
        writes.sort();
        let expected = [
            "accounts",
            "accounts_deleted",
            "code",
            "code_bytes",
            "storage_slots",
            "storage_slots_deleted",
        ];
        assert_eq!(writes, expected);
    }
}
