//! The row about everything: which setup, and how many epochs.

use crate::{META, record::Position};
use alloy_primitives::{B256, keccak256};
use polytrie_kv::Read;
use polytrie_state::StateError;

/// The row about everything: the setup's name, the number of epochs, and eight bytes of the hash of both, so
/// that damage is not taken for another setup.
pub(crate) fn meta_row(setup: &B256, epochs: u64) -> Vec<u8> {
    let mut row = [setup.as_slice(), &epochs.to_be_bytes()].concat();
    let checksum = keccak256(&row);
    row.extend_from_slice(&checksum[..8]);
    row
}

/// Reads [`meta_row`]'s bytes.
pub(crate) fn parse_meta(row: &[u8]) -> Option<(B256, u64)> {
    let (setup, rest) = row.split_first_chunk::<32>()?;
    let (epochs, _) = rest.split_first_chunk::<8>()?;
    let (setup, epochs) = (B256::from(*setup), u64::from_be_bytes(*epochs));
    (epochs <= Position::MAX_EPOCHS && meta_row(&setup, epochs) == row).then_some((setup, epochs))
}

/// Reads [`meta_row`]; `None` in an empty store.
pub(crate) fn read_meta(store: &dyn Read) -> Result<Option<(B256, u64)>, StateError> {
    let Some(row) = store.get(META, &[])? else { return Ok(None) };
    let damaged = || StateError::Corrupt("the row about the whole state is damaged".into());
    parse_meta(&row).map(Some).ok_or_else(damaged)
}
