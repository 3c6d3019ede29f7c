//! The accounts and slots that a layer is filled with.

use crate::{Account, Result, StateError};
use alloy_primitives::{B256, Bytes, U256};
use polytrie_kv::{Batch, Store, Table};
use std::iter;

/// An account to fill a layer with.
#[derive(Debug)]
pub struct GenesisAccount<'a> {
    /// Keccak-256 of the address.
    pub hash: B256,
    /// The account.
    pub account: Account,
    /// The account's code, if it has any. It may be left out where an account before it has the same code.
    pub code: Option<Bytes>,
    /// The account's slots.
    pub slots: GenesisSlots<'a>,
}

/// The accounts to fill a layer with, streamed by a source: sorted by hash, each once.
pub type GenesisAccounts<'r, 'a> = &'r mut (dyn Iterator<Item = Result<GenesisAccount<'a>>> + 'r);

/// The slots of an account to fill a layer with, streamed because there may be more than fit into memory: sorted by
/// hash, each once, none of them zero. A source that breaks these rules leads to an error.
pub struct GenesisSlots<'a> {
    source: Box<dyn Iterator<Item = Result<(B256, U256)>> + 'a>,
    last: Option<B256>,
}

impl<'a> GenesisSlots<'a> {
    /// Wraps a source of slots.
    pub fn new(source: impl Iterator<Item = Result<(B256, U256)>> + 'a) -> Self {
        Self { source: Box::new(source), last: None }
    }
}

impl Default for GenesisSlots<'_> {
    /// Returns no slots.
    fn default() -> Self {
        Self::new(iter::empty())
    }
}

impl From<Vec<(B256, U256)>> for GenesisSlots<'_> {
    fn from(slots: Vec<(B256, U256)>) -> Self {
        // Most accounts have no slots, and an empty list needs no allocation.
        if slots.is_empty() { Self::default() } else { Self::new(slots.into_iter().map(Ok)) }
    }
}

impl Iterator for GenesisSlots<'_> {
    type Item = Result<(B256, U256)>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.source.next()?;
        Some(next.and_then(|(hash, value)| {
            in_order(&mut self.last, hash)?;
            if value.is_zero() {
                return Err(StateError::Protocol("a slot to load must not be zero"));
            }
            Ok((hash, value))
        }))
    }
}

polytrie_kv::debug_fields!(GenesisSlots['_] {});

/// Empties tables directly in the engine, so that they can be filled: an interrupted attempt may have left rows.
///
/// # Errors
///
/// If the store fails.
pub fn clear_tables(store: &Store, tables: &[Table]) -> Result<()> {
    let mut batch = Batch::new();
    for table in tables {
        batch.delete_range(*table, &[], None);
    }
    Ok(store.engine_write(&batch)?)
}

/// Passes on the accounts of a source; an account that is out of order becomes an error.
pub fn in_order_of_hash<'a>(
    accounts: GenesisAccounts<'_, 'a>,
) -> impl Iterator<Item = Result<GenesisAccount<'a>>> {
    let mut last = None;
    accounts.map(move |account| {
        let account = account?;
        in_order(&mut last, account.hash)?;
        Ok(account)
    })
}

fn in_order(last: &mut Option<B256>, hash: B256) -> Result<()> {
    if last.replace(hash).is_some_and(|last| last >= hash) {
        return Err(StateError::Protocol(
            "accounts and slots to load must be sorted by hash, each of them once",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(of: &[(u8, u8)]) -> Result<Vec<(B256, U256)>> {
        let slots = of.iter().map(|&(hash, value)| (B256::repeat_byte(hash), U256::from(value)));
        GenesisSlots::from(slots.collect::<Vec<_>>()).collect()
    }

    #[test]
    fn sources_are_checked() {
        assert!(slots(&[]).is_ok_and(|slots| slots.is_empty()));
        assert!(slots(&[(1, 1), (3, 1)]).is_ok_and(|slots| slots.len() == 2));
        for wrong in [[(1, 1), (1, 2)], [(2, 1), (1, 1)], [(1, 1), (2, 0)]] {
            assert!(matches!(slots(&wrong), Err(StateError::Protocol(_))), "{wrong:?}");
        }
        let accounts = |hashes: &[u8]| {
            let account = |hash: &u8| GenesisAccount {
                hash: B256::repeat_byte(*hash),
                account: Account::default(),
                code: None,
                slots: GenesisSlots::default(),
            };
            in_order_of_hash(&mut hashes.iter().map(account).map(Ok)).all(|account| account.is_ok())
        };
        assert!(accounts(&[1, 2, 4]));
        assert!(!accounts(&[1, 1]));
        assert!(!accounts(&[2, 1]));
    }
}
