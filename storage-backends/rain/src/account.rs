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
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.account == other.account && self.storage.is_same(&other.storage)
    }
}

impl Entry {
    fn leaf(&self) -> AccountLeaf {
        AccountLeaf {
            nonce: self.account.nonce,
            balance: self.account.balance,
            storage_root: self.storage.root(),
            code_hash: self.account.code_hash,
        }
    }
}

impl From<AccountLeaf> for Entry {
    fn from(leaf: AccountLeaf) -> Self {
        let AccountLeaf { nonce, balance, storage_root, code_hash } = leaf;
        let account = Account { nonce, balance, code_hash };
        Self { account, storage: CowTrie::stored(storage_root) }
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
    fn pruned(&self, keep: &Keep) -> Option<Self> {
        // The levels that stay are those of the account trie.
        let storage = self.storage.pruned(&Keep { levels: 0, ..*keep })?;
        Some(Self { account: self.account, storage })
    }

    fn bytes(&self) -> usize {
        self.storage.bytes()
    }
}
