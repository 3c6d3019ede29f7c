//! Decoding of block RLP, which accepts exactly the bytes that a full node accepts.
//!
//! Every item is decoded from its own slice, so that no field can reach into the next one. Then it is encoded
//! again and compared, and any other encoding than the canonical one is refused. So the hash of the decoded
//! block is the hash of the bytes.

mod header_fields;
mod receipts;

pub use receipts::{
    EncodedReceipts, SlimReceipt, decode_receipts, decode_slim_receipts, encode_receipts,
    encode_slim_receipts,
};

use std::fmt;

use alloy_consensus::{
    Block, BlockBody, Header, TxEnvelope, TxLegacy, transaction::RlpEcdsaDecodableTx,
};
use alloy_eips::{Decodable2718, eip4895::Withdrawal};
use alloy_primitives::{Sealed, keccak256};
use alloy_rlp::{Decodable, Encodable, Header as RlpHeader};

/// Index of the number among the fields of a header.
const NUMBER_FIELD: usize = 8;

/// Greatest depth of the lists in a block access list; EIP-7928 needs six levels.
const MAX_ACCESS_LIST_DEPTH: usize = 16;

/// A part of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockPart {
    /// The list around the whole block.
    Block,
    /// The list around all parts but the header, as era1 and ere files have it.
    Body,
    /// The header.
    Header,
    /// The list of transactions.
    Transactions,
    /// The transaction with this index, counted from 0.
    Transaction(usize),
    /// The list of ommers.
    Ommers,
    /// The ommer with this index, counted from 0.
    Ommer(usize),
    /// The list of withdrawals (EIP-4895).
    Withdrawals,
    /// The withdrawal with this index, counted from 0.
    Withdrawal(usize),
    /// The block access list (EIP-7928).
    AccessList,
    /// The list of receipts.
    Receipts,
    /// The receipt with this index, counted from 0.
    Receipt(usize),
}

impl fmt::Display for BlockPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block => f.write_str("the block"),
            Self::Body => f.write_str("the body"),
            Self::Header => f.write_str("the header"),
            Self::Transactions => f.write_str("the list of transactions"),
            Self::Transaction(index) => write!(f, "transaction {index}"),
            Self::Ommers => f.write_str("the list of ommers"),
            Self::Ommer(index) => write!(f, "ommer {index}"),
            Self::Withdrawals => f.write_str("the list of withdrawals"),
            Self::Withdrawal(index) => write!(f, "withdrawal {index}"),
            Self::AccessList => f.write_str("the block access list"),
            Self::Receipts => f.write_str("the list of receipts"),
            Self::Receipt(index) => write!(f, "receipt {index}"),
        }
    }
}

/// Error in a part of a block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeProblem {
    /// Bytes that are not valid RLP, or not the fields of the part.
    #[error("is malformed: {0}")]
    Rlp(alloy_rlp::Error),
    /// A header with a malformed field.
    #[error("is malformed: {0}")]
    HeaderField(String),
    /// A string where a list belongs.
    #[error("is an RLP string, a list was expected")]
    NotAList,
    /// Bytes after the end of the item.
    #[error("is followed by {0} bytes that belong to nothing")]
    TrailingBytes(usize),
    /// A number of items that no block has.
    #[error("has {found} items, {expected} were expected")]
    ItemCount {
        /// Number of items in the block.
        found: usize,
        /// Numbers of items that are allowed, in words.
        expected: &'static str,
    },
    /// A transaction or receipt type that no fork knows.
    #[error("has the type {0:#04x}, a legacy one or one of the types 0x01 to 0x04 was expected")]
    UnknownType(u8),
    /// A blob transaction with its blobs, which is the form for the network only (EIP-4844).
    #[error("carries its blobs, but in a block only their hashes are allowed")]
    BlobSidecar,
    /// Bytes that decode but are not the one encoding that Ethereum allows.
    #[error("is not in the canonical encoding, which Ethereum requires")]
    NotCanonical,
    /// Lists that are nested too deep.
    #[error("is nested more than {MAX_ACCESS_LIST_DEPTH} levels deep")]
    TooDeep,
}

/// Error of bytes that are not a block or not receipts: the part and its problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part} {problem}")]
pub struct DecodeError {
    /// Part that is malformed.
    pub part: BlockPart,
    /// Problem of the part.
    pub problem: DecodeProblem,
}

impl DecodeError {
    const fn new(part: BlockPart, problem: DecodeProblem) -> Self {
        Self { part, problem }
    }

    const fn rlp(part: BlockPart, error: alloy_rlp::Error) -> Self {
        Self::new(part, DecodeProblem::Rlp(error))
    }
}

/// An RLP item, with and without its prefix.
#[derive(Debug, Clone, Copy)]
struct Item<'a> {
    list: bool,
    raw: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Item<'a> {
    /// Cuts the next item off `rest`.
    fn next(rest: &mut &'a [u8], part: BlockPart) -> Result<Self, DecodeError> {
        let whole = *rest;
        let mut tail = whole;
        let head = RlpHeader::decode(&mut tail).map_err(|error| DecodeError::rlp(part, error))?;
        let prefix = whole.len() - tail.len();
        let end = prefix + head.payload_length;
        let (Some(raw), Some(payload), Some(after)) =
            (whole.get(..end), whole.get(prefix..end), whole.get(end..))
        else {
            return Err(DecodeError::rlp(part, alloy_rlp::Error::InputTooShort));
        };
        *rest = after;
        Ok(Self { list: head.list, raw, payload })
    }

    fn next_list(rest: &mut &'a [u8], part: BlockPart) -> Result<Self, DecodeError> {
        let item = Self::next(rest, part)?;
        if item.list { Ok(item) } else { Err(DecodeError::new(part, DecodeProblem::NotAList)) }
    }

    /// Reads `bytes` as one list with nothing after it.
    fn whole_list(mut bytes: &'a [u8], part: BlockPart) -> Result<Self, DecodeError> {
        let item = Self::next_list(&mut bytes, part)?;
        if bytes.is_empty() {
            Ok(item)
        } else {
            Err(DecodeError::new(part, DecodeProblem::TrailingBytes(bytes.len())))
        }
    }
}

/// Items of a block, split but not decoded.
#[derive(Debug)]
pub struct BlockItems<'a> {
    /// Header with its RLP prefix.
    pub header: &'a [u8],
    /// RLP of all items after the header: transactions, ommers, withdrawals, access list.
    pub body: &'a [u8],
}

impl<'a> BlockItems<'a> {
    /// Cuts a block into its header and the other items.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not the list of a block.
    pub fn split(rlp: &'a [u8]) -> Result<Self, DecodeError> {
        let block = Item::whole_list(rlp, BlockPart::Block)?;
        let mut body = block.payload;
        if body.is_empty() {
            return Err(item_count(0));
        }
        let header = Item::next_list(&mut body, BlockPart::Header)?;
        Ok(Self { header: header.raw, body })
    }
}

/// Returns the payload of `bytes`, which must be one list with nothing after it.
///
/// # Errors
///
/// Fails if the bytes are no list, the length is not in its shortest form, or bytes follow the list; the
/// error names `part`.
pub fn list_payload(bytes: &[u8], part: BlockPart) -> Result<&[u8], DecodeError> {
    Ok(Item::whole_list(bytes, part)?.payload)
}

const fn item_count(found: usize) -> DecodeError {
    let expected = "3 (header, transactions, ommers), 4 (and withdrawals) or, if the header has its hash, 5 (and the block access list)";
    DecodeError::new(BlockPart::Block, DecodeProblem::ItemCount { found, expected })
}

/// Decodes a block.
///
/// A block has three items (header, transactions, ommers), four (with withdrawals, EIP-4895) or five (with
/// the block access list of EIP-7928, which is checked to be well-formed and then left out). Nothing else is
/// accepted: no bytes after or between items, no encoding but the canonical one, no blobs with blob
/// transactions. The rules of the block's fork are not checked.
///
/// # Errors
///
/// Fails with the malformed part and its problem.
pub fn decode_block(rlp: &[u8]) -> Result<Block<TxEnvelope>, DecodeError> {
    let items = BlockItems::split(rlp)?;
    decode_items(&items)
}

/// Decodes a block as [`decode_block`] does, and returns it with the block hash, which is taken from the
/// header's bytes.
///
/// # Errors
///
/// Fails as [`decode_block`] does.
pub fn decode_sealed_block(rlp: &[u8]) -> Result<Sealed<Block<TxEnvelope>>, DecodeError> {
    let items = BlockItems::split(rlp)?;
    Ok(Sealed::new_unchecked(decode_items(&items)?, keccak256(items.header)))
}

/// Decodes the header of a block and no other item; the seal is the block hash.
///
/// # Errors
///
/// Fails if the bytes are not a list that starts with a header.
pub fn decode_header(rlp: &[u8]) -> Result<Sealed<Header>, DecodeError> {
    let items = BlockItems::split(rlp)?;
    decode_lone_header(items.header)
}

/// Returns the number in the header of a block. No other field is decoded, and the header is not hashed.
///
/// # Errors
///
/// Fails if the bytes are not a list that starts with a header, or the field is no number.
pub fn block_number(rlp: &[u8]) -> Result<u64, DecodeError> {
    let header = BlockItems::split(rlp)?.header;
    let mut fields = Item::whole_list(header, BlockPart::Header)?.payload;
    for _ in 0..NUMBER_FIELD {
        Item::next(&mut fields, BlockPart::Header)?;
    }
    u64::decode(&mut fields).map_err(|error| DecodeError::rlp(BlockPart::Header, error))
}

/// Decodes a header alone.
///
/// # Errors
///
/// Fails with the malformed field and its problem.
pub fn decode_lone_header(rlp: &[u8]) -> Result<Sealed<Header>, DecodeError> {
    let item = Item::whole_list(rlp, BlockPart::Header)?;
    let header = header_of(item, BlockPart::Header, &mut Vec::with_capacity(rlp.len()))?;
    Ok(Sealed::new_unchecked(header, keccak256(rlp)))
}

/// Returns the encoding (EIP-2718) of each transaction of a block, as it stands in the block's bytes.
///
/// # Errors
///
/// Fails if the bytes are not a list that starts with a header and a list.
pub fn encoded_transactions(rlp: &[u8]) -> Result<Vec<&[u8]>, DecodeError> {
    let mut body = BlockItems::split(rlp)?.body;
    let list = Item::next_list(&mut body, BlockPart::Transactions)?;
    each(list.payload, BlockPart::Transactions, BlockPart::Transaction, |item, _| {
        Ok(if item.list { item.raw } else { item.payload })
    })
}

/// Decodes the list of a block's transactions as [`decode_block`] does.
///
/// # Errors
///
/// Fails with the malformed part and its problem.
pub fn decode_transactions(rlp: &[u8]) -> Result<Vec<TxEnvelope>, DecodeError> {
    each_transaction(Item::whole_list(rlp, BlockPart::Transactions)?, &mut Vec::new())
}

fn decode_items(items: &BlockItems<'_>) -> Result<Block<TxEnvelope>, DecodeError> {
    let mut scratch = Vec::new();
    let mut rest = items.header;
    let header = Item::next_list(&mut rest, BlockPart::Header)?;
    let header = header_of(header, BlockPart::Header, &mut scratch)?;

    let mut rest = items.body;
    if rest.is_empty() {
        return Err(item_count(1));
    }
    let list = Item::next_list(&mut rest, BlockPart::Transactions)?;
    let transactions = each_transaction(list, &mut scratch)?;

    if rest.is_empty() {
        return Err(item_count(2));
    }
    let list = Item::next_list(&mut rest, BlockPart::Ommers)?;
    let ommers = each(list.payload, BlockPart::Ommers, BlockPart::Ommer, |item, part| {
        header_of(item, part, &mut scratch)
    })?;

    let withdrawals = if rest.is_empty() {
        None
    } else {
        let list = Item::next_list(&mut rest, BlockPart::Withdrawals)?;
        let withdrawals: Vec<Withdrawal> =
            each(list.payload, BlockPart::Withdrawals, BlockPart::Withdrawal, |item, part| {
                exact(item.raw, part, &mut scratch)
            })?;
        Some(withdrawals.into())
    };

    // If no header had the hash of the list, an attacker could add any list to a block.
    if !rest.is_empty() && header.block_access_list_hash.is_some() {
        let list = Item::next_list(&mut rest, BlockPart::AccessList)?;
        well_formed(list.payload, MAX_ACCESS_LIST_DEPTH)?;
    }
    if !rest.is_empty() {
        let mut found = if header.block_access_list_hash.is_some() { 5 } else { 3 };
        found += usize::from(found == 3 && withdrawals.is_some());
        while !rest.is_empty() {
            Item::next(&mut rest, BlockPart::Block)?;
            found += 1;
        }
        return Err(item_count(found));
    }
    Ok(Block { header, body: BlockBody { transactions, ommers, withdrawals } })
}

/// Greatest number of items for which memory is reserved before any is decoded. Without the limit a block of
/// one-byte items would ask for hundreds of times its own size.
const MAX_RESERVED: usize = 4096;

/// Decodes each item of a list. The items are counted first, so that a usual block needs no second
/// allocation.
fn each<'a, T>(
    payload: &'a [u8],
    list: BlockPart,
    part: impl Fn(usize) -> BlockPart,
    mut decode: impl FnMut(Item<'a>, BlockPart) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let mut count = 0;
    let mut rest = payload;
    while !rest.is_empty() {
        Item::next(&mut rest, part(count))?;
        count += 1;
    }
    let mut decoded = Vec::with_capacity(count.min(MAX_RESERVED));
    rest = payload;
    for index in 0..count {
        let item = Item::next(&mut rest, list)?;
        decoded.push(decode(item, part(index))?);
    }
    Ok(decoded)
}

/// Decodes the whole of `raw` and checks that it is the canonical encoding.
fn exact<T: Decodable + Encodable>(
    raw: &[u8],
    part: BlockPart,
    scratch: &mut Vec<u8>,
) -> Result<T, DecodeError> {
    canonical(raw, raw, part, scratch, T::decode)
}

/// Decodes an item in an envelope of EIP-2718, and checks that it is canonical as [`exact`] does: a list is a
/// legacy item, a string starts with the type.
fn enveloped<T: Decodable2718 + Encodable>(
    item: Item<'_>,
    part: BlockPart,
    scratch: &mut Vec<u8>,
    legacy: impl FnOnce(&mut &[u8]) -> alloy_rlp::Result<T>,
) -> Result<T, DecodeError> {
    if item.list {
        return canonical(item.raw, item.raw, part, scratch, legacy);
    }
    match item.payload.first() {
        Some(0x01..=0x04) => canonical(item.payload, item.raw, part, scratch, |payload| {
            T::decode_2718(payload).map_err(alloy_rlp::Error::from)
        }),
        Some(unknown) => Err(DecodeError::new(part, DecodeProblem::UnknownType(*unknown))),
        None => Err(DecodeError::rlp(part, alloy_rlp::Error::InputTooShort)),
    }
}

/// Decodes the whole of `content` and checks that the encoding of the result is `raw`.
fn canonical<T: Encodable>(
    mut content: &[u8],
    raw: &[u8],
    part: BlockPart,
    scratch: &mut Vec<u8>,
    decode: impl FnOnce(&mut &[u8]) -> alloy_rlp::Result<T>,
) -> Result<T, DecodeError> {
    let value = decode(&mut content).map_err(|error| DecodeError::rlp(part, error))?;
    if !content.is_empty() {
        return Err(DecodeError::new(part, DecodeProblem::TrailingBytes(content.len())));
    }
    scratch.clear();
    value.encode(scratch);
    if scratch.as_slice() == raw {
        Ok(value)
    } else {
        Err(DecodeError::new(part, DecodeProblem::NotCanonical))
    }
}

fn header_of(
    item: Item<'_>,
    part: BlockPart,
    scratch: &mut Vec<u8>,
) -> Result<Header, DecodeError> {
    if !item.list {
        return Err(DecodeError::new(part, DecodeProblem::NotAList));
    }
    exact(item.raw, part, scratch).map_err(|error| match header_fields::describe(item.payload) {
        Some(field) => DecodeError::new(part, DecodeProblem::HeaderField(field)),
        None => error,
    })
}

fn each_transaction(list: Item<'_>, scratch: &mut Vec<u8>) -> Result<Vec<TxEnvelope>, DecodeError> {
    each(list.payload, BlockPart::Transactions, BlockPart::Transaction, |item, part| {
        transaction(item, part, scratch)
    })
}

fn transaction(
    item: Item<'_>,
    part: BlockPart,
    scratch: &mut Vec<u8>,
) -> Result<TxEnvelope, DecodeError> {
    // In a blob transaction with blobs, the transaction's fields are a list within the list, and come first.
    if let [0x03, fields @ ..] = item.payload
        && !item.list
    {
        let mut fields = fields;
        let wrapper = RlpHeader::decode(&mut fields).is_ok_and(|head| head.list);
        if wrapper && fields.first().is_some_and(|first| *first >= 0xc0) {
            return Err(DecodeError::new(part, DecodeProblem::BlobSidecar));
        }
    }
    enveloped(item, part, scratch, |rlp| Ok(TxEnvelope::Legacy(TxLegacy::rlp_decode_signed(rlp)?)))
}

/// Checks that the payload of a list is a sequence of canonical RLP items, down to the leaves.
fn well_formed(mut payload: &[u8], depth: usize) -> Result<(), DecodeError> {
    while !payload.is_empty() {
        let item = Item::next(&mut payload, BlockPart::AccessList)?;
        if item.list {
            let Some(depth) = depth.checked_sub(1) else {
                return Err(DecodeError::new(BlockPart::AccessList, DecodeProblem::TooDeep));
            };
            well_formed(item.payload, depth)?;
        }
    }
    Ok(())
}
