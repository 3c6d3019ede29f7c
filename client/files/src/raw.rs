//! A block as it stands in a file.

use std::sync::Arc;

use alloy_consensus::{Block, Header, Sealed, TxEnvelope};
use alloy_primitives::{Bytes, U256};

use crate::error::{BlockFileError, BlockFileErrorKind, Place};
use polytrie_consensus::decode::{DecodeError, EncodedReceipts, decode_block, decode_header};

/// A block as it stands in a file: its bytes and their place, not decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawBlock {
    /// Exact RLP of the block: `[header, transactions, ommers, withdrawals?, access list?]`.
    ///
    /// In an era1 or ere file header and body are separate records; this is the block joined from them, byte for
    /// byte what other clients export.
    pub rlp: Bytes,
    /// Name of the file for error messages, or `standard input`.
    pub file: Arc<str>,
    /// Offset of the block in the file, in bytes: in the decompressed file for gzip, of the line for hex, of the
    /// header record for era1 and ere.
    pub offset: u64,
    /// Position of the block in the file, counted from 0.
    pub index: u64,
    /// Receipts of the block, if the file has them (era1, and ere with some profiles).
    pub receipts: Option<EncodedReceipts>,
    /// Total difficulty up to and including this block, if the file has it (era1, and ere up to the merge).
    pub total_difficulty: Option<U256>,
}

impl RawBlock {
    /// Returns the place of the block in its file.
    ///
    /// The number is decoded from the header, and missing if the header is malformed. The function is for
    /// messages, not for the fast path.
    pub fn place(&self) -> Place {
        let number = decode_header(&self.rlp).ok().map(|header| header.number);
        Place { index: self.index, offset: self.offset, number }
    }

    /// Returns the number of bytes of the block and its receipts.
    pub fn byte_len(&self) -> usize {
        let receipts = match &self.receipts {
            Some(EncodedReceipts::Full(rlp) | EncodedReceipts::Slim(rlp)) => rlp.len(),
            None => 0,
        };
        self.rlp.len() + receipts
    }

    /// Decodes the block.
    ///
    /// # Errors
    ///
    /// Fails as [`decode_block`] does, with the file and the place in it.
    pub fn decode(&self) -> Result<Block<TxEnvelope>, BlockFileError> {
        decode_block(&self.rlp).map_err(|error| self.malformed(error))
    }

    /// Decodes the block's header and no other part.
    ///
    /// # Errors
    ///
    /// Fails as [`decode_header`] does, with the file and the place in it.
    pub fn decode_header(&self) -> Result<Sealed<Header>, BlockFileError> {
        decode_header(&self.rlp).map_err(|error| self.malformed(error))
    }

    fn malformed(&self, error: DecodeError) -> BlockFileError {
        let kind = BlockFileErrorKind::Decode { place: self.place(), error };
        BlockFileError::new(&self.file, kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of few bytes may hold receipts of many, because it is compressed.
    #[test]
    fn receipts_count_as_the_block_does() {
        let (rlp, receipts) = (Bytes::from(vec![0xc0; 30]), Bytes::from(vec![0xc0; 70]));
        let mut raw = RawBlock {
            rlp,
            file: "test".into(),
            offset: 0,
            index: 0,
            receipts: None,
            total_difficulty: None,
        };
        assert_eq!(raw.byte_len(), 30);
        for receipts in [EncodedReceipts::Full(receipts.clone()), EncodedReceipts::Slim(receipts)] {
            raw.receipts = Some(receipts);
            assert_eq!(raw.byte_len(), 100);
        }
    }
}
