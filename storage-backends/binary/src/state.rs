//! Reads of a state: through flat rows, or through the tree.

use crate::{
    FLAT, Reads,
    account::account_of,
    key::{AccountKeys, BALANCE_REST, BASIC_DATA, CODE_HASH},
    node::Node,
    stem::Leaves,
    tree::Tree,
};
use alloy_primitives::{Address, B256, U256};
use polytrie_state::{Account, Result, corrupt};

/// The rows of a state, with the root and the way of reading.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) tree: Tree<'a>,
    /// The node at the root.
    pub(crate) root: &'a Node,
    pub(crate) reads: Reads,
}

impl View<'_> {
    /// Reads an account.
    ///
    /// # Errors
    ///
    /// If the store fails or is damaged.
    pub(crate) fn account(&self, address: &Address, hash: &B256) -> Result<Option<Account>> {
        match self.reads {
            Reads::Flat => FLAT.account(self.tree.rows, hash),
            Reads::Tree => {
                let keys = AccountKeys::new(*address);
                let leaves = self.tree.leaves(self.root, &keys.header)?;
                account_in(&leaves, address)
            }
        }
    }

    /// Reads a slot; zero if it is not set.
    pub(crate) fn slot(
        &self,
        (address, account): (&Address, &B256),
        (slot, hash): (&U256, &B256),
    ) -> Result<U256> {
        match self.reads {
            Reads::Flat => FLAT.slot(self.tree.rows, account, hash),
            Reads::Tree => {
                let key = AccountKeys::new(*address).slot(slot);
                let leaves = self.tree.leaves(self.root, &key.stem)?;
                Ok(leaves.get(key.sub).map_or(U256::ZERO, |value| (*value).into()))
            }
        }
    }
}

/// Decodes the account in the leaves of its own stem; `None` if there are no leaves.
pub(crate) fn account_in(leaves: &Leaves, address: &Address) -> Result<Option<Account>> {
    if leaves.all().is_empty() {
        return Ok(None);
    }
    let account = match (leaves.get(BASIC_DATA), leaves.get(CODE_HASH)) {
        (Some(basic), Some(code_hash)) => account_of(basic, code_hash, leaves.get(BALANCE_REST)),
        _ => None,
    };
    let damaged = || corrupt!("the leaves of account {address} are no account");
    account.map(Some).ok_or_else(damaged)
}
