//! The accounts at genesis, in a packed form. A built-in chain carries them compressed, and they are unpacked
//! only when a caller asks for them. A genesis of millions of accounts costs about 35 bytes for each account.

mod packed;
mod root;

use std::{borrow::Cow, sync::Arc};

use alloy_genesis::GenesisAccount;
use alloy_primitives::{Address, B256};

pub(crate) use packed::Builder;
use packed::Packed;

/// Genesis accounts of one chain. A clone copies no account.
#[derive(Clone)]
pub(crate) enum Allocation {
    /// The gzip stream of the packed form, a part of this program.
    BuiltIn(&'static [u8]),
    /// The packed form of accounts that come from a file or from a caller.
    Unpacked(Arc<Vec<u8>>),
    /// No accounts: the chain was made from an outline.
    Absent,
}

impl Allocation {
    pub(crate) fn from_accounts(
        accounts: impl IntoIterator<Item = (Address, GenesisAccount)>,
    ) -> Self {
        let mut builder = Builder::default();
        for (address, account) in accounts {
            builder.push(address, &account);
        }
        // The later of two equal addresses wins, as in a map.
        builder.finish().0
    }

    /// Returns the accounts in ascending order of address.
    pub(crate) fn accounts(&self) -> GenesisAccounts<'_> {
        let packed = match self {
            Self::BuiltIn(compressed) => Packed::new(Cow::Owned(packed::decompress(compressed))),
            Self::Unpacked(bytes) => Packed::new(Cow::Borrowed(bytes.as_slice())),
            Self::Absent => Packed::empty(),
        };
        GenesisAccounts { packed }
    }

    /// Returns the root of the Merkle Patricia trie of the accounts (yellow paper, section 4.1).
    pub(crate) fn state_root(&self) -> B256 {
        root::state_root(self.accounts())
    }
}

impl std::fmt::Debug for Allocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BuiltIn(compressed) => {
                write!(f, "Allocation({} bytes compressed)", compressed.len())
            }
            Self::Unpacked(bytes) => write!(f, "Allocation({} bytes)", bytes.len()),
            Self::Absent => f.write_str("Allocation(absent)"),
        }
    }
}

/// The accounts of a genesis state, in ascending order of address.
#[derive(Debug)]
pub struct GenesisAccounts<'a> {
    packed: Packed<'a>,
}

impl Iterator for GenesisAccounts<'_> {
    type Item = (Address, GenesisAccount);

    fn next(&mut self) -> Option<Self::Item> {
        self.packed.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.packed.size_hint()
    }
}

impl ExactSizeIterator for GenesisAccounts<'_> {}
