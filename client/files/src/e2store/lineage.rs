//! The checks between one block of a file and the next.

use alloy_consensus::Header;
use alloy_primitives::{B256, Sealed, U256, bytes::Bytes};
use alloy_rlp::Header as RlpHeader;

use super::error::E2StoreProblem;

/// The blocks of one file so far, each of which must follow the one before.
#[derive(Debug, Default)]
pub(crate) struct Lineage {
    first: Option<u64>,
    last: Option<(u64, B256)>,
    total_difficulty: Option<U256>,
}

impl Lineage {
    /// Returns the number of the first block.
    pub(crate) const fn first(&self) -> Option<u64> {
        self.first
    }

    /// Returns the number that the next block must have.
    pub(crate) fn next_number(&self) -> Option<u64> {
        self.last.map(|(number, _)| number.saturating_add(1))
    }

    /// Adds a block, which must have the next number and name the last block as its parent.
    pub(crate) fn follow(&mut self, header: &Sealed<Header>) -> Result<(), E2StoreProblem> {
        if let Some((number, hash)) = self.last {
            let expected = number.saturating_add(1);
            if header.number != expected {
                return Err(E2StoreProblem::Number { found: header.number, expected });
            }
            if header.parent_hash != hash {
                let (found, expected) = (header.parent_hash, hash);
                return Err(E2StoreProblem::Parent { found, expected });
            }
        }
        if self.first.is_none() {
            self.first = Some(header.number);
            // The total difficulty before block 0 is zero; before any other block it is not known yet.
            self.total_difficulty = (header.number == 0).then_some(U256::ZERO);
        }
        self.last = Some((header.number, header.hash()));
        Ok(())
    }

    /// Adds the total difficulty up to the next block, which must be the sum of the one before and the block's
    /// difficulty.
    pub(crate) fn add_up(&mut self, difficulty: U256, found: U256) -> Result<(), E2StoreProblem> {
        if let Some(before) = self.total_difficulty {
            let expected = before.saturating_add(difficulty);
            if found != expected {
                return Err(E2StoreProblem::TotalDifficulty { found, expected });
            }
        }
        self.total_difficulty = Some(found);
        Ok(())
    }
}

/// Joins the RLP of a header and the items of a body to the RLP list of a block.
pub(crate) fn join(header: &[u8], body: &[u8]) -> Bytes {
    let list = RlpHeader { list: true, payload_length: header.len() + body.len() };
    let mut rlp = Vec::with_capacity(list.length_with_payload());
    list.encode(&mut rlp);
    rlp.extend_from_slice(header);
    rlp.extend_from_slice(body);
    rlp.into()
}
