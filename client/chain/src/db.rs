//! The rows of the chain: reading them, and adding them to a batch.

use super::{
    error::{ChainError, Result},
    head::Head,
    receipts::{decode_stored_receipts, encode_stored_receipts},
    signers::remove_signers,
    start::StartAncestor,
    tables::{BLOCKS, CANONICAL, HEAD_KEY, META, NUMBERS, RECEIPTS, SIDE_BLOCKS, UNDO},
};
use crate::executor::BlockHashes;
use alloy_consensus::{Block, Header, ReceiptEnvelope, Sealed, TxEnvelope};
use alloy_primitives::{B256, Bytes, U256, hex};
use alloy_rlp::Encodable;
use polytrie_consensus::decode::{decode_block, decode_header, decode_lone_header};
use polytrie_kv::{Batch, KeyRange, KvError, Read, Store};
use polytrie_state::{StateError, each_row};
use std::{collections::VecDeque, ops::ControlFlow};

/// Rows of the chain in a store or in a snapshot of one.
#[derive(Debug, Clone)]
pub struct ChainDb<R = Store> {
    store: R,
}

/// Number of bytes before the header in an index row.
const INDEX_START: usize = 64;

/// Returns hash and total difficulty in an index row.
fn hash_and_difficulty(row: &[u8]) -> (B256, U256) {
    (B256::from_slice(&row[..32]), U256::from_be_slice(&row[32..INDEX_START]))
}

/// The parts of a block that becomes rows of a batch.
#[derive(Debug)]
pub(super) struct BlockRow<'a> {
    pub(super) number: u64,
    pub(super) hash: B256,
    pub(super) total_difficulty: U256,
    pub(super) header: &'a Header,
    pub(super) rlp: &'a [u8],
    pub(super) receipts: &'a [ReceiptEnvelope],
    pub(super) undo: &'a [u8],
}

impl ChainDb {
    /// Returns the head that a crash would leave: that of the blocks that were flushed into the
    /// engine.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::head`] does.
    pub fn flushed_head(&self) -> Result<Option<Head>> {
        ChainDb::new(self.store.flushed()).head()
    }
}

impl<R: Read> BlockHashes for ChainDb<R> {
    fn block_hash(&self, number: u64) -> Result<Option<B256>, StateError> {
        match self.canonical(number) {
            Ok(row) => Ok(row.map(|(hash, _)| hash)),
            Err(ChainError::State(error)) => Err(error),
            Err(ChainError::Corrupt(what)) => Err(StateError::Corrupt(what)),
            Err(error) => Err(StateError::Corrupt(error.to_string())),
        }
    }
}

impl<R: Read> ChainDb<R> {
    /// Returns the rows of the chain in `store`.
    pub const fn new(store: R) -> Self {
        Self { store }
    }

    /// Returns the store.
    pub const fn store(&self) -> &R {
        &self.store
    }

    /// Returns the head; `None` in a store without genesis block.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or is damaged.
    pub fn head(&self) -> Result<Option<Head>> {
        let Some((number, hash)) = self.head_row()? else { return Ok(None) };
        let head = self.block_head(number)?;
        if head.hash() != hash {
            return Err(ChainError::Corrupt(format!(
                "the head is not block {number} of the chain"
            )));
        }
        Ok(Some(head))
    }

    /// Returns number and hash of the head from its row.
    pub(super) fn head_row(&self) -> Result<Option<(u64, B256)>> {
        let Some(row) = self.store.get(META, HEAD_KEY)? else { return Ok(None) };
        match row.split_first_chunk::<8>() {
            Some((number, hash)) if hash.len() == 32 => {
                Ok(Some((u64::from_be_bytes(*number), B256::from_slice(hash))))
            }
            _ => Err(ChainError::Corrupt("the head's row has another length than 40".into())),
        }
    }

    /// Returns header, hash and total difficulty of a block of the chain.
    ///
    /// # Errors
    ///
    /// Fails if the block is not there, or if the store fails or is damaged.
    pub fn block_head(&self, number: u64) -> Result<Head> {
        let row = match self.index_row(number)? {
            // A block before the start may have only its hash here.
            Some(row) if row.len() > INDEX_START => row,
            _ => return Err(self.missing(number)),
        };
        let (hash, total_difficulty) = hash_and_difficulty(&row);
        let header = decode_lone_header(&row[INDEX_START..]).map_err(|e| {
            ChainError::Corrupt(format!("the header of block {number} does not decode: {e}"))
        })?;
        if header.hash() != hash {
            return Err(ChainError::Corrupt(format!(
                "block {number} does not have the hash {hash}"
            )));
        }
        Ok(Head { header, total_difficulty })
    }

    /// Returns the error for a missing block: the store is damaged, unless the chain begins after this
    /// block.
    pub fn missing(&self, number: u64) -> ChainError {
        match self.start() {
            Ok(Some(start)) if number <= start => ChainError::NotHere { number, start },
            Ok(_) => ChainError::Corrupt(format!("block {number} is missing")),
            Err(error) => error,
        }
    }

    fn index_row(&self, number: u64) -> Result<Option<Vec<u8>>> {
        let row = self.store.get(CANONICAL, &number.to_be_bytes())?;
        if row.as_ref().is_some_and(|row| row.len() < INDEX_START) {
            return Err(damaged_index(number));
        }
        Ok(row)
    }

    /// Returns the hashes of the chain's blocks from `first` to `last` in their order, or the newest first. They end before a
    /// block that is not known.
    pub(super) fn hashes(
        &self,
        first: u64,
        last: u64,
        newest_first: bool,
    ) -> Result<VecDeque<B256>> {
        let (from, to) = (first.to_be_bytes(), last.checked_add(1).map(u64::to_be_bytes));
        let to = to.as_ref().map(<[u8; 8]>::as_slice);
        let range = KeyRange { from: &from, to, reverse: newest_first };
        let (mut hashes, mut damaged) = (VecDeque::new(), None);
        let mut next = Some(if newest_first { last } else { first });
        self.store.scan(CANONICAL, range, &mut |key, row| {
            let Some(number) = next.filter(|number| *key == number.to_be_bytes()) else {
                return Ok(ControlFlow::Break(()));
            };
            if row.len() < INDEX_START {
                damaged = Some(number);
                return Ok(ControlFlow::Break(()));
            }
            hashes.push_back(hash_and_difficulty(row).0);
            next = if newest_first { number.checked_sub(1) } else { number.checked_add(1) };
            Ok(ControlFlow::Continue(()))
        })?;
        damaged.map_or(Ok(hashes), |number| Err(damaged_index(number)))
    }

    /// Returns hash and total difficulty of the chain's block with this number.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or is damaged.
    pub fn canonical(&self, number: u64) -> Result<Option<(B256, U256)>> {
        Ok(self.index_row(number)?.map(|row| hash_and_difficulty(&row)))
    }

    /// Returns the block's RLP, byte for byte as it was imported.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    pub fn block_rlp(&self, number: u64) -> Result<Option<Bytes>> {
        Ok(self.store.get(BLOCKS, &number.to_be_bytes())?.map(Bytes::from))
    }

    /// Returns the block, decoded.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or is damaged.
    pub fn block(&self, number: u64) -> Result<Option<Block<TxEnvelope>>> {
        Ok(self.block_and_size(number)?.map(|(block, _)| block))
    }

    /// Returns the block, decoded, and the length of its RLP in bytes.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or is damaged.
    pub fn block_and_size(&self, number: u64) -> Result<Option<(Block<TxEnvelope>, usize)>> {
        let Some(rlp) = self.block_rlp(number)? else { return Ok(None) };
        let block = decode_block(&rlp)
            .map_err(|e| ChainError::Corrupt(format!("block {number} does not decode: {e}")))?;
        Ok(Some((block, rlp.len())))
    }

    /// Returns the number of the chain's block with this hash.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or is damaged.
    pub fn number_of(&self, hash: &B256) -> Result<Option<u64>> {
        let Some(row) = self.store.get(NUMBERS, hash.as_slice())? else { return Ok(None) };
        let bytes = row
            .try_into()
            .map_err(|_| ChainError::Corrupt(format!("the number of block {hash} is damaged")))?;
        Ok(Some(u64::from_be_bytes(bytes)))
    }

    /// Returns the receipts of a block of the chain.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or is damaged.
    pub fn receipts(&self, number: u64) -> Result<Option<Vec<ReceiptEnvelope>>> {
        let Some(row) = self.store.get(RECEIPTS, &number.to_be_bytes())? else { return Ok(None) };
        decode_stored_receipts(&row).map(Some).map_err(|e| {
            ChainError::Corrupt(format!("the receipts of block {number} do not decode: {e}"))
        })
    }

    pub(super) fn undo(&self, number: u64) -> Result<Option<Vec<u8>>> {
        Ok(undo_row(&self.store, number)?)
    }

    /// Checks that there is an undo record for every block above `number`, up to the head.
    pub(super) fn check_undo(&self, number: u64, head: u64) -> Result<()> {
        // Records are dropped from the oldest on: if the first one is there, all are.
        if number >= head || self.undo(number + 1)?.is_some() {
            return Ok(());
        }
        // The search goes down from the head: the first missing record shows how far back the chain
        // can go.
        for above in (number + 1..=head).rev() {
            if self.undo(above)?.is_none() {
                return Err(ChainError::NoUndo { asked: number, lowest: above });
            }
        }
        Ok(())
    }

    /// Visits the undo records, in the order of their blocks.
    ///
    /// # Errors
    ///
    /// Fails if the store fails, and with any error of `visit`.
    pub fn each_undo_record(
        &self,
        visit: &mut dyn FnMut(&[u8]) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        each_row(&self.store, UNDO, KeyRange::ALL, |_, record| visit(record))
    }

    /// Returns total difficulty and RLP of a block of another branch.
    pub(super) fn side_block(&self, hash: &B256) -> Result<Option<(U256, Bytes)>> {
        let Some(row) = self.store.get(SIDE_BLOCKS, hash.as_slice())? else { return Ok(None) };
        if row.len() < 32 {
            return Err(ChainError::Corrupt(format!("the row of side block {hash} is damaged")));
        }
        let total_difficulty = U256::from_be_slice(&row[..32]);
        Ok(Some((total_difficulty, Bytes::from(row).slice(32..))))
    }

    /// Returns a block of another branch, decoded, and the length of its RLP in bytes.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or is damaged.
    pub fn side_block_and_size(&self, hash: &B256) -> Result<Option<(Block<TxEnvelope>, usize)>> {
        let Some((_, rlp)) = self.side_block(hash)? else { return Ok(None) };
        let block = decode_block(&rlp)
            .map_err(|e| ChainError::Corrupt(format!("side block {hash} does not decode: {e}")))?;
        Ok(Some((block, rlp.len())))
    }

    /// Returns the headers of all blocks of other branches, in no particular order.
    pub(super) fn side_headers(&self) -> Result<Vec<Sealed<Header>>> {
        let mut headers = Vec::new();
        self.store.scan(SIDE_BLOCKS, KeyRange::ALL, &mut |key, row| {
            headers.push(match row.get(32..).map(decode_header) {
                Some(Ok(header)) => Ok(header),
                _ => Err(ChainError::Corrupt(format!(
                    "the row of side block {} is damaged",
                    hex::encode_prefixed(key)
                ))),
            });
            Ok(ControlFlow::Continue(()))
        })?;
        headers.into_iter().collect()
    }

    /// Returns header and total difficulty of a known block, on any branch.
    pub(super) fn known(&self, hash: &B256) -> Result<Option<Head>> {
        if let Some(number) = self.number_of(hash)? {
            return self.block_head(number).map(Some);
        }
        let Some((total_difficulty, rlp)) = self.side_block(hash)? else { return Ok(None) };
        let header: Sealed<Header> = decode_header(&rlp)
            .map_err(|e| ChainError::Corrupt(format!("side block {hash} does not decode: {e}")))?;
        Ok(Some(Head { header, total_difficulty }))
    }
}

fn damaged_index(number: u64) -> ChainError {
    ChainError::Corrupt(format!("the index row of block {number} is damaged"))
}

/// Returns the undo record of a block.
pub(super) fn undo_row(store: &dyn Read, number: u64) -> Result<Option<Vec<u8>>, KvError> {
    store.get(UNDO, &number.to_be_bytes())
}

/// Returns the number of the first block from which on all blocks up to the head have an undo record; if none has one, that of
/// the block after the head.
pub(super) fn first_undo(store: &dyn Read, head: u64) -> Result<u64, KvError> {
    // Records are dropped from the oldest on. A scan may look at each place that ever had one.
    let (mut low, mut high) = (0, head.saturating_add(1));
    while low < high {
        let middle = low + (high - low) / 2;
        if undo_row(store, middle)?.is_some() {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(low)
}

/// Adds the rows of a block, which becomes the head.
pub(super) fn put_block(batch: &mut Batch, row: &BlockRow<'_>) {
    let number = row.number.to_be_bytes();
    let mut index = Vec::with_capacity(INDEX_START + row.header.length());
    index.extend_from_slice(row.hash.as_slice());
    index.extend_from_slice(&row.total_difficulty.to_be_bytes::<32>());
    row.header.encode(&mut index);
    batch.put(BLOCKS, &number, row.rlp);
    batch.put(CANONICAL, &number, &index);
    batch.put(NUMBERS, row.hash.as_slice(), &number);
    batch.put(RECEIPTS, &number, &encode_stored_receipts(row.receipts));
    if !row.undo.is_empty() {
        batch.put(UNDO, &number, row.undo);
    }
    put_head(batch, row.number, &row.hash);
}

/// Adds the known rows of a block at or before the one that the chain begins with.
pub(super) fn put_ancestor(
    batch: &mut Batch,
    number: u64,
    known: &StartAncestor,
    total_difficulty: U256,
) {
    let number = number.to_be_bytes();
    let mut index = Vec::with_capacity(INDEX_START);
    index.extend_from_slice(known.hash.as_slice());
    index.extend_from_slice(&total_difficulty.to_be_bytes::<32>());
    if let Some(header) = &known.header {
        header.encode(&mut index);
        batch.put(NUMBERS, known.hash.as_slice(), &number);
    }
    batch.put(CANONICAL, &number, &index);
    if let Some(rlp) = &known.block {
        batch.put(BLOCKS, &number, rlp);
    }
}

/// Removes the rows of the block at the head; `parent` becomes the head.
pub(super) fn remove_block(batch: &mut Batch, number: u64, hash: &B256, parent: &B256) {
    let key = number.to_be_bytes();
    for table in [BLOCKS, CANONICAL, RECEIPTS, UNDO] {
        batch.delete(table, &key);
    }
    remove_signers(batch, number);
    batch.delete(NUMBERS, hash.as_slice());
    put_head(batch, number - 1, parent);
}

pub(super) fn remove_undo(batch: &mut Batch, number: u64) {
    batch.delete(UNDO, &number.to_be_bytes());
}

pub(super) fn put_side_block(batch: &mut Batch, hash: &B256, total_difficulty: U256, rlp: &[u8]) {
    let mut row = Vec::with_capacity(32 + rlp.len());
    row.extend_from_slice(&total_difficulty.to_be_bytes::<32>());
    row.extend_from_slice(rlp);
    batch.put(SIDE_BLOCKS, hash.as_slice(), &row);
}

pub(super) fn remove_side_block(batch: &mut Batch, hash: &B256) {
    batch.delete(SIDE_BLOCKS, hash.as_slice());
}

pub(super) fn put_head(batch: &mut Batch, number: u64, hash: &B256) {
    let mut row = [0; 40];
    row[..8].copy_from_slice(&number.to_be_bytes());
    row[8..].copy_from_slice(hash.as_slice());
    batch.put(META, HEAD_KEY, &row);
}
