//! The leaf of the account trie, which holds the storage trie of its account.

use polytrie_state::Account;
use polytrie_trie::{
    AccountLeaf, LeafValue, SlotValue,
    cow::{CowTrie, CowValue, Keep},
};

/// An account with its storage.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) account: Account,
    pub(crate) storage: CowTrie<SlotValue>,
    /// Number of the change that began the storage anew; 0 if it came from the store.
    pub(crate) begun: u64,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.account == other.account && self.storage.is_same(&other.storage)
    }
}

impl LeafValue for Entry {
    fn encode(&self, out: &mut Vec<u8>) {
        let leaf = AccountLeaf {
            nonce: self.account.nonce,
            balance: self.account.balance,
            storage_root: self.storage.root(),
            code_hash: self.account.code_hash,
        };
        leaf.encode(out);
    }

    fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let AccountLeaf { nonce, balance, storage_root, code_hash } = AccountLeaf::decode(bytes)?;
        let account = Account { nonce, balance, code_hash };
        Ok(Self { account, storage: CowTrie::stored(storage_root), begun: 0 })
    }
}

impl CowValue for Entry {
    fn pruned(&self, keep: &Keep) -> Option<Self> {
        // The levels that stay are those of the account trie.
        let storage = self.storage.pruned(&Keep { levels: 0, ..*keep })?;
        Some(Self { account: self.account, storage, begun: self.begun })
    }

    fn bytes(&self) -> usize {
        self.storage.bytes()
    }
}
