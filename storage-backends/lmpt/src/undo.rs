//! What takes a block back: `rlp([number, meta before, [[key, [value before?]]…], [[key, [value before?]]…],
//! [queued…], [swept…], state])` with what the delta held before the block, what its slice of the merge did, and what
//! the block overwrote in the state, as [`polytrie_state::UndoRecord`] has it, for reads at earlier blocks.

use crate::{generation::Change, keys::Key, merge::SliceUndo, meta::Meta, value::Value};
use alloy_primitives::Bytes;
use alloy_rlp::{Decodable, RlpDecodable, RlpEncodable};
use polytrie_kv::Read;
use polytrie_state::{StateError, UndoRecord, UndoRecords, UndoSteps, WriteSet};
use polytrie_trie::LeafValue;

/// A record, decoded, without what only reads at earlier blocks need.
#[derive(Debug)]
pub(crate) struct LmptUndo {
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
    state: Bytes,
}

#[derive(Debug, RlpEncodable, RlpDecodable)]
struct RawEntry {
    key: Bytes,
    /// Nothing, or one value.
    before: Vec<Bytes>,
}

/// The record of a block.
pub(crate) fn encode(
    number: u64,
    meta: &Meta,
    changes: &[Change],
    slice: &SliceUndo,
    state: &UndoRecord,
) -> Vec<u8> {
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
        state: state.encode().into(),
    })
}

/// Reads a record back.
pub(crate) fn decode(bytes: &[u8]) -> Result<LmptUndo, StateError> {
    let raw = raw(bytes)?;
    let keys = |keys: &[Bytes]| -> Result<Vec<[u8; 40]>, StateError> {
        keys.iter().map(|key| <[u8; 40]>::try_from(&key[..]).map_err(|_| damaged())).collect()
    };
    Ok(LmptUndo {
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

/// The layer's undo records.
#[derive(Debug)]
pub(crate) struct LmptRecords;

impl UndoRecords for LmptRecords {
    fn steps(&self, record: &[u8], _: &dyn Read) -> Result<UndoSteps, StateError> {
        // The tries have a wiped storage again as soon as its account is there again.
        Ok(UndoSteps::one(record))
    }

    fn writes(&self, record: &[u8], _: &dyn Read) -> Result<WriteSet, StateError> {
        Ok(UndoRecord::decode(&raw(record)?.state)?.into_writes())
    }
}

fn raw(mut bytes: &[u8]) -> Result<Raw, StateError> {
    Raw::decode(&mut bytes).ok().filter(|_| bytes.is_empty()).ok_or_else(damaged)
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
