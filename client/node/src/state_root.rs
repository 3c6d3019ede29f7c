//! The state root of accounts and slots that come in order.

use alloy_primitives::{B256, U256};
use alloy_trie::{EMPTY_ROOT_HASH, HashBuilder, Nibbles, TrieAccount};
use polytrie_state::{Account, Result, StateError};

/// Builder of a state root. The caller adds the slots of an account in the order of their hashes, then the account;
/// accounts come in the order of their hashes too.
#[derive(Debug, Default)]
pub(crate) struct RootBuilder {
    accounts: Ordered,
    slots: Option<Ordered>,
}

impl RootBuilder {
    pub(crate) fn slot(&mut self, hash: B256, value: &U256) -> Result<()> {
        Ordered::add_slot(&mut self.slots, hash, value)
    }

    /// Adds an account after its slots. Returns the root of its storage.
    pub(crate) fn account(&mut self, hash: B256, account: &Account) -> Result<B256> {
        let storage_root = Ordered::root(self.slots.take());
        let Account { nonce, balance, code_hash } = *account;
        let leaf = TrieAccount { nonce, balance, storage_root, code_hash };
        self.accounts.add(hash, &alloy_rlp::encode(leaf))?;
        Ok(storage_root)
    }

    pub(crate) fn root(mut self) -> B256 {
        self.accounts.builder.root()
    }
}

/// A trie of leaves that must come in order. The order is checked, because the builder panics if it is wrong, and a
/// damaged store may have a wrong order.
#[derive(Debug, Default)]
struct Ordered {
    builder: HashBuilder,
    last: Option<B256>,
}

/// Callback that gets slots, in the order of their hashes.
type SlotVisit<'a> = dyn FnMut(B256, &U256) -> Result<()> + 'a;

/// Returns the storage root of the slots that `visit` passes, in the order of their hashes.
///
/// # Errors
///
/// Fails if a slot comes out of order, and with the errors of `visit`.
pub fn storage_root(visit: impl FnOnce(&mut SlotVisit<'_>) -> Result<()>) -> Result<B256> {
    let mut slots = None;
    visit(&mut |hash, value| Ordered::add_slot(&mut slots, hash, value))?;
    Ok(Ordered::root(slots))
}

impl Ordered {
    fn add_slot(slots: &mut Option<Self>, hash: B256, value: &U256) -> Result<()> {
        slots.get_or_insert_default().add(hash, &alloy_rlp::encode_fixed_size(value))
    }

    /// Returns the root of these leaves, of which there may be none.
    fn root(leaves: Option<Self>) -> B256 {
        leaves.map_or(EMPTY_ROOT_HASH, |mut leaves| leaves.builder.root())
    }

    fn add(&mut self, hash: B256, leaf: &[u8]) -> Result<()> {
        if self.last.replace(hash).is_some_and(|last| last >= hash) {
            return Err(StateError::Corrupt(format!(
                "the key {hash} does not follow the one before"
            )));
        }
        self.builder.add_leaf(Nibbles::unpack(hash), leaf);
        Ok(())
    }
}
