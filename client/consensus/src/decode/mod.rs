//! Block RLP to types, accepting exactly what a full node accepts.
//!
//! Every item is decoded from its own slice, so that no field can reach into the next one, and encoded
//! again for comparison: what is not the canonical encoding is refused. So the hash of what was decoded
//! is the hash of the bytes.

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

/// How deep a block access list may be nested; EIP-7928 needs six levels.
const MAX_ACCESS_LIST_DEPTH: usize = 16;

/// A part of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockPart {
    /// The list around everything.
    Block,
    /// The list around everything but the header, as era1 and ere files have it.
    Body,
    /// The header.
    Header,
    /// The list of transactions.
    Transactions,
    /// One transaction, counted from 0.
    Transaction(usize),
    /// The list of ommers.
    Ommers,
    /// One ommer, counted from 0.
    Ommer(usize),
    /// The list of withdrawals (EIP-4895).
    Withdrawals,
    /// One withdrawal, counted from 0.
    Withdrawal(usize),
    /// The block access list (EIP-7928).
    AccessList,
    /// The list of receipts.
    Receipts,
    /// One receipt, counted from 0.
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

/// What is wrong with a part of a block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeProblem {
    /// Not valid RLP, or not the fields that belong there.
    #[error("is malformed: {0}")]
    Rlp(alloy_rlp::Error),
    /// A header with a field that is not as it should be.
    #[error("is malformed: {0}")]
    HeaderField(String),
    /// A string where a list belongs.
    #[error("is an RLP string, a list was expected")]
    NotAList,
    /// Bytes behind the end of the item.
    #[error("is followed by {0} bytes that belong to nothing")]
    TrailingBytes(usize),
    /// The block has a number of items that no block can have.
    #[error("has {found} items, {expected} were expected")]
    ItemCount {
        /// Items that are there.
        found: usize,
        /// The numbers of items that are allowed.
        expected: &'static str,
    },
    /// A transaction or receipt type that no fork knows.
    #[error("has the type {0:#04x}, a legacy one or one of the types 0x01 to 0x04 was expected")]
    UnknownType(u8),
    /// A blob transaction in the form that only travels between pools (EIP-4844).
    #[error("carries its blobs, but in a block only their hashes are allowed")]
    BlobSidecar,
    /// Decodes, but is not the one encoding that Ethereum allows.
    #[error("is not in the canonical encoding, which Ethereum requires")]
    NotCanonical,
    /// Lists in lists in lists.
    #[error("is nested more than {MAX_ACCESS_LIST_DEPTH} levels deep")]
    TooDeep,
}

/// Why bytes are not a block (or not receipts): the part and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part} {problem}")]
pub struct DecodeError {
    /// Which part.
    pub part: BlockPart,
    /// What is wrong with it.
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

/// One RLP item: with its prefix, and without.
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

    /// `bytes` as one list and nothing behind it.
    fn whole_list(mut bytes: &'a [u8], part: BlockPart) -> Result<Self, DecodeError> {
        let item = Self::next_list(&mut bytes, part)?;
        if bytes.is_empty() {
            Ok(item)
        } else {
            Err(DecodeError::new(part, DecodeProblem::TrailingBytes(bytes.len())))
        }
    }
}

/// The items of a block, split but not decoded.
#[derive(Debug)]
pub struct BlockItems<'a> {
    /// The header with its prefix.
    pub header: &'a [u8],
    /// Everything behind the header: transactions, ommers, withdrawals, access list.
    pub body: &'a [u8],
}

impl<'a> BlockItems<'a> {
    /// Cuts a block into header and the rest.
    ///
    /// # Errors
    ///
    /// If the bytes are not the list of a block.
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

/// The payload of `bytes`, which must be one list and nothing behind it.
///
/// # Errors
///
/// It is no list, its length is not in the shortest form, or bytes follow it; `part` is what the error names.
pub fn list_payload(bytes: &[u8], part: BlockPart) -> Result<&[u8], DecodeError> {
    Ok(Item::whole_list(bytes, part)?.payload)
}

const fn item_count(found: usize) -> DecodeError {
    let expected = "3 (header, transactions, ommers), 4 (and withdrawals) or, if the header has its hash, 5 (and the block access list)";
    DecodeError::new(BlockPart::Block, DecodeProblem::ItemCount { found, expected })
}

/// Decodes a block.
///
/// It has three items (header, transactions, ommers), four (withdrawals, EIP-4895) or five (the block
/// access list of EIP-7928, checked to be well-formed and then left out). Nothing else is accepted: no
/// bytes behind or between, no encoding but the canonical one, no blobs with blob transactions. Whether the
/// block obeys the rules of its fork is not looked at.
///
/// # Errors
///
/// Names the part that is malformed and what is wrong with it.
pub fn decode_block(rlp: &[u8]) -> Result<Block<TxEnvelope>, DecodeError> {
    let items = BlockItems::split(rlp)?;
    decode_items(&items)
}

/// As [`decode_block`], with the block hash, which is taken from the bytes at hand.
///
/// # Errors
///
/// As [`decode_block`].
pub fn decode_sealed_block(rlp: &[u8]) -> Result<Sealed<Block<TxEnvelope>>, DecodeError> {
    let items = BlockItems::split(rlp)?;
    Ok(Sealed::new_unchecked(decode_items(&items)?, keccak256(items.header)))
}

/// Decodes the header of a block and leaves the rest alone; the seal is the block hash.
///
/// # Errors
///
/// If the bytes are not a list that starts with a header.
pub fn decode_header(rlp: &[u8]) -> Result<Sealed<Header>, DecodeError> {
    let items = BlockItems::split(rlp)?;
    decode_lone_header(items.header)
}

/// Decodes a header that stands by itself.
///
/// # Errors
///
/// Names the field that is malformed and what is wrong with it.
pub fn decode_lone_header(rlp: &[u8]) -> Result<Sealed<Header>, DecodeError> {
    let item = Item::whole_list(rlp, BlockPart::Header)?;
    let header = header_of(item, BlockPart::Header, &mut Vec::with_capacity(rlp.len()))?;
    Ok(Sealed::new_unchecked(header, keccak256(rlp)))
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
    let transactions =
        each(list.payload, BlockPart::Transactions, BlockPart::Transaction, |item, part| {
            transaction(item, part, &mut scratch)
        })?;

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

    // Where no header commits to it anybody could add to a block what they like.
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

/// The most items for which memory is set aside before any is decoded. A block of one-byte items would
/// otherwise ask for hundreds of times its own size.
const MAX_RESERVED: usize = 4096;

/// Decodes each item of a list. They are counted first, so that for usual blocks nothing is allocated twice.
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

/// As [`exact`] for what EIP-2718 puts into envelopes: a list is a legacy one, a string starts with a type.
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

fn transaction(
    item: Item<'_>,
    part: BlockPart,
    scratch: &mut Vec<u8>,
) -> Result<TxEnvelope, DecodeError> {
    // With its blobs, the fields of a blob transaction are a list of their own, and come first.
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
