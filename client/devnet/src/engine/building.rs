//! Payloads that the node builds for a consensus layer.
//!
//! A forkchoice update with attributes starts a payload: an empty block is built at once, so that there is always an
//! answer. Each request for the payload (`engine_getPayload`) builds it again from the pool, as long as its parent is
//! still the head.

use super::{Engine, EngineError};
use crate::{Node, NodeError, Payload};
use alloy_primitives::{B64, B256, Keccak256};
use alloy_rpc_types_engine::PayloadId;
use polytrie_chain::executor::InternalError;
use polytrie_chain::{BuildError, ChainError, NextBlock};
use std::{collections::VecDeque, sync::Arc};

/// Maximum number of payloads that are kept; the oldest is dropped for a new one.
const JOBS: usize = 16;

/// The payloads that were started, oldest first.
#[derive(Debug, Default)]
pub(super) struct Jobs(VecDeque<Job>);

/// A payload that was started, and the parameters to build it again.
#[derive(Debug)]
struct Job {
    id: PayloadId,
    parent: B256,
    next: NextBlock,
    /// The last block that was built for it.
    payload: Arc<Payload>,
}

impl Jobs {
    /// Starts a payload on the head, which is `parent`, and returns its ID; `None` if another request has made another block
    /// the head since the caller looked. An equal payload is not started again.
    pub(super) fn begin(
        &mut self,
        node: &Node,
        version: u8,
        parent: B256,
        next: NextBlock,
    ) -> Result<Option<PayloadId>, EngineError> {
        let id = id(version, parent, &next);
        if self.0.iter().any(|job| job.id == id) {
            return Ok(Some(id));
        }
        let payload = match node.draft(next.clone(), false) {
            Ok(payload) if payload.header.parent_hash != parent => return Ok(None),
            Ok(payload) => Arc::new(payload),
            Err(NodeError::Build(BuildError::Refused(reason))) => {
                return Err(EngineError::Attributes(reason));
            }
            Err(error) => return Err(error.into()),
        };
        while self.0.len() >= JOBS {
            self.0.pop_front();
        }
        self.0.push_back(Job { id, parent, next, payload });
        Ok(Some(id))
    }

    fn find(&mut self, id: PayloadId) -> Option<&mut Job> {
        self.0.iter_mut().find(|job| job.id == id)
    }
}

impl Engine {
    /// Returns a payload that was started, built again from the pool if its parent is still the head.
    ///
    /// # Errors
    ///
    /// If no payload with this ID is kept, or the node fails.
    pub fn payload(&self, id: PayloadId) -> Result<Arc<Payload>, EngineError> {
        let (parent, next, last) = match self.jobs.lock().find(id) {
            Some(job) => (job.parent, job.next.clone(), Arc::clone(&job.payload)),
            None => return Err(EngineError::UnknownPayload(id.to_string())),
        };
        if self.node.view().hash() != parent {
            return Ok(last);
        }
        let built = match self.node.draft(next, true) {
            Ok(payload) if payload.header.parent_hash == parent => Arc::new(payload),
            // Another request has changed the head since.
            Ok(_) => return Ok(last),
            // The block that was built before is still valid.
            Err(NodeError::Build(BuildError::Refused(reason))) => {
                tracing::warn!("no payload could be made of the pool: {reason}");
                return Ok(last);
            }
            Err(NodeError::Build(BuildError::Broken(ChainError::Execution(
                error @ InternalError::MissingBlockHash { .. },
            )))) => {
                tracing::warn!("no payload could be made of the pool: {error}");
                return Ok(last);
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(job) = self.jobs.lock().find(id) {
            job.payload = Arc::clone(&built);
        }
        Ok(built)
    }
}

/// Returns the ID of a payload: the first 8 bytes of a hash of the method's version, the parent and the attributes.
fn id(version: u8, parent: B256, next: &NextBlock) -> PayloadId {
    let mut hasher = Keccak256::new();
    hasher.update([version]);
    hasher.update(parent);
    hasher.update(next.timestamp.to_be_bytes());
    hasher.update(next.prev_randao);
    hasher.update(next.beneficiary);
    hasher.update(next.parent_beacon_block_root);
    hasher.update(alloy_rlp::encode(&next.withdrawals));
    hasher.update(next.gas_limit.to_be_bytes());
    hasher.update(next.slot_number.unwrap_or_default().to_be_bytes());
    let hash = hasher.finalize();
    let mut id = [0; 8];
    id.copy_from_slice(&hash[..8]);
    PayloadId(B64::new(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_eips::eip4895::Withdrawal;

    #[test]
    fn an_id_says_what_the_payload_is_made_of() {
        let next = NextBlock { timestamp: 5, ..NextBlock::default() };
        let first = id(3, B256::ZERO, &next);
        assert_eq!(id(3, B256::ZERO, &next), first);
        assert_ne!(id(2, B256::ZERO, &next), first);
        assert_ne!(id(3, B256::repeat_byte(1), &next), first);
        let withdrawals = vec![Withdrawal::default()];
        assert_ne!(id(3, B256::ZERO, &NextBlock { withdrawals, ..next.clone() }), first);
        let slot_number = Some(1);
        assert_ne!(id(3, B256::ZERO, &NextBlock { slot_number, ..next.clone() }), first);
        assert_ne!(id(3, B256::ZERO, &NextBlock { gas_limit: 1, ..next.clone() }), first);
        assert_ne!(id(3, B256::ZERO, &NextBlock { timestamp: 6, ..next }), first);
    }
}
