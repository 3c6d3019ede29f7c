//! What takes a block back: `rlp([number, meta before, [[key, [value before?]]…], [[key, [value before?]]…],
//! [queued…], [swept…]])` with what the delta held before the block, and what its slice of the merge did.

use crate::{generation::Change, keys::Key, merge::SliceUndo, meta::Meta, value::Value};
use alloy_primitives::Bytes;
use alloy_rlp::{Decodable, RlpDecodable, RlpEncodable};
use polytrie_state::StateError;
use polytrie_trie::LeafValue;

/// A record, decoded.
#[derive(Debug)]
pub(crate) struct UndoRecord {
    pub(crate) number: u64,
    /// Where the layer stood before the block.
    pub(crate) meta: Meta,
    /// What the delta held of the keys that the block wrote.
    pub(crate) writes: Vec<(Key, Option<Value>)>,
    pub(crate) slice: SliceUndo,
}

#[derive(Debug, RlpEncodable, RlpDecodable)]
struct Raw {
    number: u64,
    meta: Bytes,
    writes: Vec<RawEntry>,
    merged: Vec<RawEntry>,
    queued: Vec<Bytes>,
    swept: Vec<Bytes>,
}

#[derive(Debug, RlpEncodable, RlpDecodable)]
struct RawEntry {
    key: Bytes,
    /// Nothing, or one value.
    before: Vec<Bytes>,
}

/// The record of a block.
pub(crate) fn encode(number: u64, meta: &Meta, changes: &[Change], slice: &SliceUndo) -> Vec<u8> {
    let entry = |key: &Key, before: Option<Value>| RawEntry {
        key: key.to_vec().into(),
        before: before.iter().map(|value| value.to_vec().into()).collect(),
    };
    let bytes = |keys: &[[u8; 40]]| keys.iter().map(|key| Bytes::copy_from_slice(key)).collect();
    alloy_rlp::encode(Raw {
        number,
        meta: meta.encode().into(),
        writes: changes.iter().map(|change| entry(&change.key, change.before)).collect(),
        merged: slice.merged.iter().map(|(key, before)| entry(key, *before)).collect(),
        queued: bytes(&slice.queued),
        swept: bytes(&slice.swept),
    })
}

/// Reads a record back.
pub(crate) fn decode(bytes: &[u8]) -> Result<UndoRecord, StateError> {
    let mut rest = bytes;
    let raw = Raw::decode(&mut rest).ok().filter(|_| rest.is_empty()).ok_or_else(damaged)?;
    let keys = |keys: &[Bytes]| -> Result<Vec<[u8; 40]>, StateError> {
        keys.iter().map(|key| <[u8; 40]>::try_from(&key[..]).map_err(|_| damaged())).collect()
    };
    Ok(UndoRecord {
        number: raw.number,
        meta: Meta::decode(&raw.meta).map_err(|_| damaged())?,
        writes: entries(&raw.writes)?,
        slice: SliceUndo {
            merged: entries(&raw.merged)?,
            queued: keys(&raw.queued)?,
            swept: keys(&raw.swept)?,
        },
    })
}

fn entries(raw: &[RawEntry]) -> Result<Vec<(Key, Option<Value>)>, StateError> {
    raw.iter()
        .map(|entry| {
            let key = Key::parse(&entry.key).ok_or_else(damaged)?;
            let before = match &entry.before[..] {
                [] => None,
                [value] => Some(Value::decode(value).map_err(|_| damaged())?),
                _ => return Err(damaged()),
            };
            Ok((key, before))
        })
        .collect()
}

fn damaged() -> StateError {
    StateError::Corrupt("an undo record does not decode".into())
}
