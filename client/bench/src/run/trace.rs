//! A benchmark that replays a trace of writes on the state layer alone.

use super::{
    BenchError, Result,
    durable::{before_warmup_block, durable_block},
};
use crate::{
    fixture::OpenStore,
    measure::{Measured, Recorder},
    workload::{Field, Trace, TraceWrite},
};
use alloy_primitives::{Address, B256, U256};
use polytrie_state::{Access, AccountChange, Session, StateError, TxWrites};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Parameters of `bench store --trace`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceBench {
    /// Path of the trace.
    pub file: PathBuf,
    /// keccak256 of the content of the trace.
    pub hash: B256,
    /// Blocks of the trace that become one block.
    pub merge: usize,
    /// Number of replays. Every second one goes backwards and writes the old values, so that the state ends
    /// where it began.
    pub rounds: u64,
    /// Blocks that run before the measured ones.
    pub warmup_blocks: u64,
}

impl TraceBench {
    /// Number of blocks in all rounds; saturates.
    pub(super) fn blocks(&self, trace: &Trace) -> u64 {
        (trace.blocks.len().div_ceil(self.merge.max(1)) as u64).saturating_mul(self.rounds)
    }

    /// The error for a trace of so many blocks, all of which are in the warm-up.
    pub(super) fn nothing_left(&self, blocks: u64) -> BenchError {
        BenchError::Usage(format!(
            "the trace makes {blocks} blocks, all of them in the warm-up of {}; choose a smaller --warmup or --merge, or more --rounds",
            self.warmup_blocks
        ))
    }

    /// Runs the trace on a store that holds the trace's accounts.
    pub(super) fn run(&self, open: &OpenStore, rss_before: u64) -> Result<Measured> {
        let trace = Trace::read_again(&self.file, self.hash)?;
        let forwards: Vec<Vec<Vec<TraceWrite>>> =
            trace.blocks.chunks(self.merge.max(1)).map(|blocks| blocks.concat()).collect();
        let backwards = backwards(&forwards);
        let mut recorder = None;
        let mut checksum = U256::ZERO;
        let mut number = 0;
        for round in 0..self.rounds {
            let blocks = if round % 2 == 0 { &forwards } else { &backwards };
            for block in blocks {
                if number == self.warmup_blocks {
                    recorder = Some(Recorder::start(open, rss_before)?);
                }
                before_warmup_block(open, number, self.warmup_blocks)?;
                let (times, session) = durable_block(open, number, |session| {
                    block.iter().try_for_each(|writes| transaction(session, writes, &mut checksum))
                })?;
                if let Some(recorder) = &mut recorder {
                    let writes = block.iter().map(|transaction| transaction.len() as u64).sum();
                    recorder.block(writes, None, times, session);
                }
                number += 1;
            }
        }
        match recorder {
            Some(recorder) => {
                Ok(Measured { checksum: Some(checksum.into()), ..recorder.finish(open)? })
            }
            None => Err(self.nothing_left(number)),
        }
    }
}

/// Blocks that undo these: in reverse order, with old and new values exchanged.
fn backwards(blocks: &[Vec<Vec<TraceWrite>>]) -> Vec<Vec<Vec<TraceWrite>>> {
    let turned = |write: &TraceWrite| TraceWrite { old: write.new, new: write.old, ..*write };
    let transaction = |writes: &Vec<TraceWrite>| writes.iter().rev().map(turned).collect();
    let block = |block: &Vec<Vec<TraceWrite>>| block.iter().rev().map(transaction).collect();
    blocks.iter().rev().map(block).collect()
}

/// Reads every value right before it is written, and applies all writes of the transaction at the end.
fn transaction(
    session: &mut Session,
    writes: &[TraceWrite],
    checksum: &mut U256,
) -> Result<(), StateError> {
    let mut changes: Vec<AccountChange> = Vec::new();
    for write in writes {
        let index = match changes.iter().position(|change| change.address == write.address) {
            Some(index) => index,
            None => {
                changes.push(unchanged(session, write.address)?);
                changes.len() - 1
            }
        };
        let change = &mut changes[index];
        let account = change.account.get_or_insert_default();
        let read = match write.field {
            Field::Balance => std::mem::replace(&mut account.balance, write.new),
            Field::Nonce => {
                let old = account.nonce;
                account.nonce = write.new.saturating_to();
                U256::from(old)
            }
            Field::Slot(slot) => {
                session.hint(Access::SlotWrite(write.address, slot));
                let old = session.slot(&write.address, &slot)?;
                change.slots.retain(|(known, _)| *known != slot);
                change.slots.push((slot, write.new));
                old
            }
        };
        *checksum = checksum.rotate_left(1) ^ read;
    }
    for change in &mut changes {
        change.account = change.account.filter(|account| !account.is_empty());
    }
    session.apply(&TxWrites { accounts: changes })
}

fn unchanged(session: &mut Session, address: Address) -> Result<AccountChange, StateError> {
    let account = session.account(&address)?;
    Ok(AccountChange { address, account, wiped: false, code: None, slots: Vec::new() })
}
