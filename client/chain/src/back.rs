//! Taking back a block in several writes.
//!
//! A block that wiped a large contract is taken back in many writes ([`polytrie_state::undo_in_steps`]), and between
//! them the state is that of no block. A row records this: the first write adds it, and the last write, which makes the
//! parent the head, removes it. Opening a chain with such a row first does the remaining steps.

use super::{
    Chain, ChainDb,
    error::{ChainError, Result},
    tables::{META, WAY_BACK_KEY},
};
use polytrie_kv::{Batch, Read};
use polytrie_state::{WIPED_TABLE, has_wiped, remove_wiped};

/// The block at the head that is being taken back, and its progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WayBack {
    /// Number of the block.
    pub(super) number: u64,
    /// Number of steps that are done.
    pub(super) done: u64,
    /// Whether the block is kept as a block of another branch.
    pub(super) keep: bool,
}

impl WayBack {
    /// Adds the row of this progress to a batch.
    pub(super) fn put(&self, batch: &mut Batch) {
        let (number, done) = (self.number.to_be_bytes(), self.done.to_be_bytes());
        let row = [&number[..], &done, &[u8::from(self.keep)]].concat();
        batch.put(META, WAY_BACK_KEY, &row);
    }

    fn decode(row: &[u8]) -> Option<Self> {
        let (number, rest) = row.split_first_chunk::<8>()?;
        let (done, keep) = rest.split_first_chunk::<8>()?;
        let keep = match keep {
            [0] => false,
            [1] => true,
            _ => return None,
        };
        Some(Self { number: u64::from_be_bytes(*number), done: u64::from_be_bytes(*done), keep })
    }
}

/// Removes the row: no block is being taken back after this batch.
pub(super) fn remove_way_back(batch: &mut Batch) {
    batch.delete(META, WAY_BACK_KEY);
}

impl<R: Read> ChainDb<R> {
    /// Returns the progress of taking back the block at the head, if a crash interrupted that.
    pub(super) fn way_back(&self) -> Result<Option<WayBack>> {
        let Some(row) = self.store().get(META, WAY_BACK_KEY)? else { return Ok(None) };
        let damaged = || ChainError::Corrupt("the row of a way back is damaged".into());
        WayBack::decode(&row).map(Some).ok_or_else(damaged)
    }

    /// Whether a crash interrupted taking back the block at the head, so that the state is that of no block.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or is damaged.
    pub fn is_half_back(&self) -> Result<bool> {
        Ok(self.way_back()?.is_some())
    }
}

impl Chain {
    /// Does the remaining steps if a crash interrupted taking back a block.
    pub(super) fn end_way_back(&mut self) -> Result<()> {
        let Some(WayBack { number, keep, .. }) = self.db.way_back()? else { return Ok(()) };
        if number != self.head.number() {
            let head = self.head.number();
            return Err(ChainError::Corrupt(format!(
                "block {number} is being taken back, but the head is block {head}"
            )));
        }
        tracing::warn!(number, "taking the block back was interrupted; going on with it");
        self.unwind_one(keep)
    }

    /// Whether the store has slots that the blocks from `first` to the one before `end` have wiped.
    pub(super) fn has_wiped(&self, first: u64, end: Option<u64>) -> Result<bool> {
        let store = self.db.store();
        Ok(store.tables().contains(&WIPED_TABLE) && has_wiped(store, first, end)?)
    }

    /// Removes the wiped slots of blocks that never became durable.
    pub(super) fn remove_void_wiped(&self) -> Result<()> {
        let Some(next) = self.head.number().checked_add(1) else { return Ok(()) };
        if self.has_wiped(next, None)? {
            let mut batch = Batch::new();
            remove_wiped(&mut batch, next, None);
            self.db.store().write(batch)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{ChainOptions, StateHistory, check_state, testing};
    use alloy_primitives::{Address, B256, U256};
    use polytrie_kv::MemoryEngine;
    use polytrie_layers::{LAYERS, LayerKind};
    use polytrie_state::{
        Account, AccountChange, SLOTS_A_PIECE, TxWrites, UndoRecord, hash_address,
    };
    use std::sync::Arc;

    const CONTRACT: Address = Address::repeat_byte(0xcc);
    const SLOTS: u64 = SLOTS_A_PIECE as u64 * 5 / 2;

    fn open(layer: &LayerKind, engine: &Arc<MemoryEngine>, undo_blocks: u64) -> Chain {
        testing::open(layer, engine, ChainOptions { undo_blocks, ..ChainOptions::default() })
    }

    fn block(chain: &mut Chain, balance: u64, account: Address, slots: std::ops::Range<u64>) {
        let balance = U256::from(balance);
        let account = AccountChange {
            address: account,
            account: (!balance.is_zero()).then(|| Account { balance, ..Account::default() }),
            wiped: balance.is_zero(),
            code: None,
            slots: slots.map(|n| (U256::from(n), U256::from(n + 1))).collect(),
        };
        let built = testing::build(chain, 0, &TxWrites { accounts: vec![account] });
        chain.adopt(built).unwrap();
    }

    /// Inserts a large contract in block 1, more slots of it in block 2, its destruction in block 3, and a block on
    /// top.
    fn wiped(chain: &mut Chain) -> [B256; 5] {
        let mut commitments = [B256::ZERO; 5];
        let somebody = Address::repeat_byte(1);
        let blocks =
            [(1, CONTRACT, 0..SLOTS), (2, CONTRACT, SLOTS..SLOTS + 10), (0, CONTRACT, 0..0)];
        commitments[0] = chain.layer().commitment().digest();
        for (number, (balance, account, slots)) in
            (1..).zip(blocks.into_iter().chain([(9, somebody, 0..0)]))
        {
            block(chain, balance, account, slots);
            commitments[number] = chain.layer().commitment().digest();
        }
        commitments
    }

    #[test]
    fn the_past_of_a_wiped_contract_is_read_and_forgotten() {
        for layer in LAYERS {
            let mut chain = open(layer, &Arc::new(MemoryEngine::new()), 4);
            wiped(&mut chain);
            assert_eq!(check_state(chain.db(), &**chain.layer()).unwrap(), Vec::<String>::new());
            let history = StateHistory::new(chain.layer().clone());
            let snapshot = chain.db().store().snapshot();
            for number in 0..=4 {
                let head = chain.layer().reader().unwrap();
                let reader = history.at(chain.head(), head, &snapshot, number).unwrap().unwrap();
                let there = match number {
                    1 => SLOTS,
                    2 => SLOTS + 10,
                    _ => 0,
                };
                for n in (0..SLOTS).step_by(61).chain([SLOTS - 1, SLOTS, SLOTS + 9, SLOTS + 10]) {
                    let found = reader.slot(&CONTRACT, &U256::from(n)).unwrap();
                    let expected = if n < there { n + 1 } else { 0 };
                    assert_eq!(found, U256::from(expected), "{} {number} {n}", layer.name);
                }
                assert_eq!(reader.has_storage(&CONTRACT).unwrap(), there > 0, "{}", layer.name);
            }
            let in_full = chain.db().undo_writes(&**chain.layer(), 3).unwrap();
            let contract = hash_address(&CONTRACT);
            let write = in_full.accounts().iter().find(|write| write.hash == contract).unwrap();
            assert_eq!(write.slots.len() as u64, SLOTS + 10, "{}", layer.name);

            let has = |chain: &Chain| chain.has_wiped(0, None).unwrap();
            assert_eq!(has(&chain), layer.name != "lvmt");
            (0..4).for_each(|n| block(&mut chain, 10 + n, Address::repeat_byte(2), 0..0));
            assert!(!has(&chain), "{}: what was wiped is kept beyond the way back", layer.name);
        }
    }

    #[test]
    fn a_way_back_that_was_interrupted_is_gone_to_its_end() {
        for layer in LAYERS {
            let engine = Arc::new(MemoryEngine::new());
            let mut chain = open(layer, &engine, 100);
            let commitments = wiped(&mut chain);
            chain.unwind_to(3).unwrap();
            let (layer_here, store) = (chain.layer(), chain.db().store());
            let record = chain.db().undo(3).unwrap().unwrap();
            if UndoRecord::decode(&record).is_ok_and(|record| !record.is_whole()) {
                let mut steps = layer_here.undo_records().steps(&record, store).unwrap();
                for done in 1..=2 {
                    let step = steps.next(store).unwrap().unwrap();
                    let mut outcome = layer_here.undo(&step).unwrap();
                    WayBack { number: 3, done, keep: false }.put(&mut outcome.batch);
                    outcome.write(store).unwrap();
                }
                chain.flush().unwrap();
                assert!(chain.db().is_half_back().unwrap());
                let unsettled = chain.db().check_settled().unwrap_err().to_string();
                assert!(unsettled.contains("db unwind --to 2"), "{unsettled}");
                let problems = check_state(chain.db(), &**chain.layer()).unwrap();
                assert_eq!(problems, Vec::<String>::new());
            } else {
                chain.unwind_to(2).unwrap();
                chain.flush().unwrap();
            }
            drop(chain);

            let mut chain = open(layer, &engine, 100);
            assert_eq!(chain.head().number(), 2, "{}", layer.name);
            assert_eq!(chain.layer().commitment().digest(), commitments[2], "{}", layer.name);
            chain.db().check_settled().unwrap();
            assert!(!chain.db().is_half_back().unwrap());
            assert!(!chain.has_wiped(0, None).unwrap());
            let reader = chain.layer().reader().unwrap();
            for n in 0..SLOTS + 10 {
                assert_eq!(reader.slot(&CONTRACT, &U256::from(n)).unwrap(), U256::from(n + 1));
            }
            drop(reader);

            // A block that never became durable may have left wiped slots.
            let gone = AccountChange {
                address: CONTRACT,
                account: None,
                wiped: true,
                code: None,
                slots: Vec::new(),
            };
            drop(testing::build(&mut chain, 0, &TxWrites { accounts: vec![gone] }));
            assert_eq!(chain.has_wiped(3, None).unwrap(), layer.name != "lvmt");
            chain.flush().unwrap();
            drop(chain);
            let mut chain = open(layer, &engine, 100);
            assert!(!chain.has_wiped(0, None).unwrap(), "{}: left behind", layer.name);
            chain.unwind_to(0).unwrap();
            assert_eq!(chain.layer().commitment().digest(), commitments[0], "{}", layer.name);
        }
    }
}
