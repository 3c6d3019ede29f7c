//! The state layer as of an earlier block.

use super::{ChainDb, ChainError, Result};
use polytrie_state::{Fork, StateLayer};
use std::{sync::Arc, time::Instant};

/// Returns the layer as of block `number`, for requests that only a head can answer, such as a proof. `fork` is a
/// fork of the layer in the chain's store; only the fork is written to. The undo must end before `deadline` if there
/// is one.
///
/// # Errors
///
/// Fails if `number` is above the head, an undo record is dropped already ([`ChainError::NoUndo`]), the undo takes
/// too long ([`ChainError::TooLong`]), or the store fails or is damaged.
pub fn layer_at(fork: Fork, number: u64, deadline: Option<Instant>) -> Result<Arc<dyn StateLayer>> {
    let db = ChainDb::new(fork.store.clone());
    let (head, _) = db.head_row()?.ok_or(ChainError::AboveHead { asked: number, head: 0 })?;
    if number > head {
        return Err(ChainError::AboveHead { asked: number, head });
    }
    db.check_undo(number, head)?;
    for block in (number + 1..=head).rev() {
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(ChainError::TooLong { asked: number, head, reached: block });
        }
        let record = db.undo(block)?.ok_or(ChainError::NoUndo { asked: number, lowest: block })?;
        fork.undo(&record)?;
    }
    let expected = db.block_head(number)?.header.state_root;
    match fork.layer.commitment().as_state_root() {
        Some(found) if found != expected => Err(ChainError::OtherState { number, found, expected }),
        _ => Ok(fork.layer),
    }
}
