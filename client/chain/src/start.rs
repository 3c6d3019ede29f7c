//! A chain that begins with the state at some block: blocks before it are not here.
//!
//! ```text
//! genesis            as in any chain
//! 1 … N-257          nothing
//! N-256 … N-1        in CanonicalHeaders, as far as they are known: the hash alone, or the header too; some in Blocks
//! N                  the header; the state is that after it
//! N+1 …              as in any chain
//! ```

use super::{
    db::{ChainDb, put_ancestor, put_head},
    error::ChainError,
    genesis,
    head::Head,
    recent::BLOCK_HASHES,
    tables::{META, START_KEY},
};
use alloy_consensus::{Header, Sealed};
use alloy_primitives::{B256, Bytes};
use polytrie_chainspec::ChainSpec;
use polytrie_kv::{Batch, Read};
use std::collections::BTreeMap;

/// Where a chain begins whose blocks before that are not here.
#[derive(Debug)]
pub struct Start {
    /// The block that the state is of.
    pub head: Head,
    /// The RLP of that block, if all of it is known.
    pub block: Option<Bytes>,
    /// What is known of blocks before it.
    pub ancestors: BTreeMap<u64, StartAncestor>,
}

/// A block before the first one that is here. `BLOCKHASH` asks for hashes, and ommers for whole blocks.
#[derive(Debug)]
pub struct StartAncestor {
    /// Its hash.
    pub hash: B256,
    /// Its header.
    pub header: Option<Sealed<Header>>,
    /// Its RLP.
    pub block: Option<Bytes>,
}

impl Start {
    /// Of how many blocks before the head, without a gap, the hashes are known; and how many `BLOCKHASH` may ask for.
    pub fn known_hashes(&self) -> (u64, u64) {
        let head = self.head.number();
        let wanted = head.min(BLOCK_HASHES as u64);
        let known = (1..=wanted).take_while(|back| self.ancestors.contains_key(&(head - back)));
        (known.count() as u64, wanted)
    }
}

impl ChainDb {
    /// Makes the store, whose state layer was filled with the state at `start`, hold a chain that begins there.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn begin_at(&self, spec: &ChainSpec, start: &Start) -> Result<(), ChainError> {
        genesis::clear(self)?;
        let mut batch = Batch::new();
        genesis::put(&mut batch, spec);
        let (head, number) = (&start.head, start.head.number());
        if number > spec.genesis_header().number {
            let mut total_difficulty = head.total_difficulty;
            let mut child = &head.header;
            let after_genesis = spec.genesis_header().number + 1..number;
            for (number, known) in start.ancestors.range(after_genesis).rev() {
                total_difficulty = total_difficulty.saturating_sub(child.difficulty);
                put_ancestor(&mut batch, *number, known, total_difficulty);
                let Some(header) = &known.header else { continue };
                child = header;
            }
            let known = StartAncestor {
                hash: head.hash(),
                header: Some(head.header.clone()),
                block: start.block.clone(),
            };
            put_ancestor(&mut batch, number, &known, head.total_difficulty);
            put_head(&mut batch, number, &head.hash());
            batch.put(META, START_KEY, &number.to_be_bytes());
        }
        self.store().write(batch)?;
        Ok(self.store().flush()?)
    }
}

impl<R: Read> ChainDb<R> {
    /// The block that the chain begins with, if that is not its genesis block: all blocks after it are here.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    pub fn start(&self) -> Result<Option<u64>, ChainError> {
        let Some(row) = self.store().get(META, START_KEY)? else { return Ok(None) };
        let number = row.try_into().map_err(|_| {
            ChainError::Corrupt("the row of the block that the chain begins with is damaged".into())
        })?;
        Ok(Some(u64::from_be_bytes(number)))
    }
}
