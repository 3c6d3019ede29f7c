//! The filling of an empty layer from sorted accounts, in one pass.
//!
//! The library builds a trie from an iterator of its leaves and returns each node as soon as it is complete. So the
//! storage of an account is built while its leaf is requested. Neither can return an error on the way: a failure is
//! stored aside, and the leaves end.

use crate::{
    HEAD, NODES,
    codec::Ethereum,
    nodes::{put_root, row_key},
};
use alloy_primitives::{B256, keccak256};
use hash_db::Prefix;
use polytrie_kv::{Batch, Store};
use polytrie_state::{
    CODE_TABLE, GenesisAccount, GenesisAccounts, Result, StateError, clear_tables,
    in_order_of_hash, write_code,
};
use polytrie_trie::{AccountLeaf, EMPTY_ROOT, LeafValue, SlotValue};
use std::cell::RefCell;
use trie_db::{ChildReference, ProcessEncodedNode, trie_visit};

/// Bytes of rows that are written in one portion, so that a genesis of any size takes bounded memory.
const PORTION: usize = 32 << 20;

/// Loads the accounts; returns the state root. The first write empties the tables, where an earlier attempt may have
/// left rows.
///
/// # Errors
///
/// If the accounts come with an error or out of order, or the store fails.
pub(crate) fn load(store: &Store, accounts: GenesisAccounts<'_, '_>) -> Result<B256> {
    clear_tables(store, &[NODES, HEAD, CODE_TABLE])?;
    let loader = RefCell::new(Loader { store, batch: Batch::new(), failure: None });
    let leaf = |account: Result<GenesisAccount<'_>>| {
        let leaf = account.and_then(|account| account_leaf(&loader, account));
        Loader::keep(&loader, leaf)
    };
    let root = build(&loader, None, in_order_of_hash(accounts).map_while(leaf));
    let Loader { mut batch, failure, .. } = loader.into_inner();
    if let Some(failure) = failure {
        return Err(failure);
    }
    put_root(&mut batch, &root);
    store.engine_write(&batch)?;
    Ok(root)
}

/// Builds an account's storage; returns the account's leaf, with its hash.
fn account_leaf(
    loader: &RefCell<Loader<'_>>,
    account: GenesisAccount<'_>,
) -> Result<(B256, Vec<u8>)> {
    let GenesisAccount { hash, account, code, slots } = account;
    let slots = slots.map_while(|slot| {
        let leaf = slot.map(|(slot, value)| (slot, encoded(&SlotValue(value))));
        Loader::keep(loader, leaf)
    });
    let storage_root = build(loader, Some(hash), slots);
    write_code(&mut loader.borrow_mut().batch, &account, code.as_ref());
    Ok((hash, encoded(&AccountLeaf::new(&account, storage_root))))
}

fn encoded(leaf: &impl LeafValue) -> Vec<u8> {
    let mut value = Vec::new();
    leaf.encode(&mut value);
    value
}

/// Builds a trie; returns its root.
fn build(
    loader: &RefCell<Loader<'_>>,
    owner: Option<B256>,
    leaves: impl Iterator<Item = (B256, Vec<u8>)>,
) -> B256 {
    let mut sink = Sink { loader, owner, root: EMPTY_ROOT };
    trie_visit::<Ethereum, _, _, _, _>(leaves, &mut sink);
    sink.root
}

/// The common sink of all tries.
#[derive(Debug)]
struct Loader<'a> {
    store: &'a Store,
    batch: Batch,
    /// The failure for which the leaves ended early.
    failure: Option<StateError>,
}

impl Loader<'_> {
    /// Stores a failure aside; returns the value of a success.
    fn keep<T>(loader: &RefCell<Self>, found: Result<T>) -> Option<T> {
        let mut loader = loader.borrow_mut();
        match found {
            // Writing a portion, or the storage of this account, may have failed.
            Ok(found) => loader.failure.is_none().then_some(found),
            Err(failure) => {
                loader.failure.get_or_insert(failure);
                None
            }
        }
    }

    fn put(&mut self, key: &B256, node: &[u8]) {
        self.batch.put(NODES, key.as_slice(), node);
        if let Err(error) = self.store.engine_write_portion(&mut self.batch, PORTION) {
            self.failure.get_or_insert(error.into());
        }
    }
}

/// The sink of the nodes of one trie.
struct Sink<'a, 'b> {
    loader: &'a RefCell<Loader<'b>>,
    owner: Option<B256>,
    root: B256,
}

impl ProcessEncodedNode<B256> for Sink<'_, '_> {
    fn process(&mut self, _: Prefix<'_>, node: Vec<u8>, is_root: bool) -> ChildReference<B256> {
        if node.len() < 32 && !is_root {
            let mut bytes = B256::ZERO;
            bytes[..node.len()].copy_from_slice(&node);
            return ChildReference::Inline(bytes, node.len());
        }
        let hash = keccak256(&node);
        if hash != EMPTY_ROOT {
            let key = row_key(self.owner.as_ref(), &hash);
            self.loader.borrow_mut().put(&key, &node);
        }
        if is_root {
            self.root = hash;
        }
        ChildReference::Hash(hash)
    }

    fn process_inner_hashed_value(&mut self, _: Prefix<'_>, value: &[u8]) -> B256 {
        // All values are in their nodes.
        keccak256(value)
    }
}
