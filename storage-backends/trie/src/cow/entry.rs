//! The leaf of an account trie, which holds the storage trie of its account, so that a version of the account trie has
//! its storage tries.

use super::{CowTrie, CowValue, Keep};
use crate::{AccountLeaf, Ages, LeafValue, SlotValue};
use polytrie_state::Account;
use std::{
    ops::{Deref, DerefMut},
    sync::LazyLock,
};

/// An account with its storage trie.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The account.
    pub account: Account,
    /// The storage trie of the account.
    pub storage: Storage,
}

/// The storage trie of an account. It is boxed, because most accounts have none and it is as large as the rest of them.
#[derive(Debug, Clone, Default)]
pub struct Storage(Option<Box<CowTrie<SlotValue>>>);

/// The storage trie of accounts without storage.
static NONE: LazyLock<CowTrie<SlotValue>> = LazyLock::new(CowTrie::empty);

impl From<CowTrie<SlotValue>> for Storage {
    fn from(trie: CowTrie<SlotValue>) -> Self {
        Self((!trie.is_empty()).then(|| Box::new(trie)))
    }
}

impl Deref for Storage {
    type Target = CowTrie<SlotValue>;

    fn deref(&self) -> &Self::Target {
        self.0.as_deref().unwrap_or_else(|| &NONE)
    }
}

impl DerefMut for Storage {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.0.get_or_insert_with(|| Box::new(CowTrie::empty()))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.account == other.account && self.storage.is_same(&other.storage)
    }
}

impl Entry {
    /// Returns the leaf that the account and its storage root make.
    pub fn leaf(&self) -> AccountLeaf {
        AccountLeaf::new(&self.account, self.storage.root())
    }
}

impl From<AccountLeaf> for Entry {
    fn from(leaf: AccountLeaf) -> Self {
        Self { account: leaf.account(), storage: CowTrie::stored(leaf.storage_root).into() }
    }
}

impl LeafValue for Entry {
    fn encode(&self, out: &mut Vec<u8>) {
        self.leaf().encode(out);
    }

    fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        AccountLeaf::decode(bytes).map(Self::from)
    }

    fn encode_row(&self, out: &mut Vec<u8>) {
        self.leaf().encode_row(out);
    }

    fn decode_row(bytes: &[u8]) -> Result<Self, &'static str> {
        AccountLeaf::decode_row(bytes).map(Self::from)
    }
}

impl CowValue for Entry {
    fn prune(&mut self, keep: &Keep) -> usize {
        // Levels that stay are counted in the account trie only.
        let keep = Keep { levels: 0, ..*keep };
        self.storage.0.as_mut().map_or(0, |trie| trie.prune(&keep))
    }

    fn add_ages(&self, now: u64, ages: &mut Ages) -> usize {
        self.storage.0.as_ref().map_or(0, |trie| size_of_val(&**trie) + trie.add_ages(now, ages))
    }
}
