//! Undo records:
//! `rlp([number, meta before, [[key, [value before?]]…], [[key, [value before?]]…], [queued…], [swept…], state])`.
//! They hold the delta's former values, the undo of the block's slice of the merge, and the state's former values in
//! the form of [`polytrie_state::UndoRecord`], for reads at earlier blocks.

use crate::{generation::Change, keys::Key, merge::SliceUndo, meta::Meta, value::Value};
use alloy_primitives::Bytes;
use alloy_rlp::{RlpDecodable, RlpEncodable};
use polytrie_kv::Read;
use polytrie_state::{Result, StateError, UndoRecord, UndoRecords, UndoSteps, WriteSet, corrupt};
use polytrie_trie::LeafValue;

/// A decoded record, without the part that only reads at earlier blocks need.
#[derive(Debug)]
pub(crate) struct LmptUndo {
    pub(crate) number: u64,
    /// The meta row before the block.
    pub(crate) meta: Meta,
    /// The delta's former values of the keys that the block wrote.
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
    /// The former value: no item if there was none, else one.
    before: Vec<Bytes>,
}

/// Encodes the record of a block.
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

/// Decodes a record.
pub(crate) fn decode(bytes: &[u8]) -> Result<LmptUndo> {
    let raw = raw(bytes)?;
    let keys = |keys: &[Bytes]| -> Result<Vec<[u8; 40]>> {
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

/// The decoder of the layer's undo records.
#[derive(Debug)]
pub(crate) struct LmptRecords;

impl UndoRecords for LmptRecords {
    fn steps(&self, record: &[u8], _: &dyn Read) -> Result<UndoSteps> {
        // The tries have a wiped storage again as soon as its account is restored.
        Ok(UndoSteps::one(record))
    }

    fn writes(&self, record: &[u8], _: &dyn Read) -> Result<WriteSet> {
        Ok(UndoRecord::decode(&raw(record)?.state)?.into_writes())
    }
}

fn raw(bytes: &[u8]) -> Result<Raw> {
    alloy_rlp::decode_exact(bytes).map_err(|_| damaged())
}

fn entries(raw: &[RawEntry]) -> Result<Vec<(Key, Option<Value>)>> {
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
    corrupt!("an undo record does not decode")
}
