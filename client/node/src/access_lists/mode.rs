//! The use of access lists in an import.

use polytrie_chain::ListUse;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How the access lists of blocks are used; each mode does what those before it do.
#[derive(
    Debug, Default, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum AccessListMode {
    /// Lists are not read.
    #[default]
    Off,
    /// The accounts and slots of a list are announced to the layer, and may be read ahead.
    Hints,
    /// The commitment is computed from them while blocks run.
    Trie,
    /// Transactions run at the same time.
    Parallel,
}

impl fmt::Display for AccessListMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Hints => "hints",
            Self::Trie => "trie",
            Self::Parallel => "parallel",
        })
    }
}

impl AccessListMode {
    /// Whether there is nothing to do.
    pub fn is_off(&self) -> bool {
        *self == Self::Off
    }

    /// Returns the use of lists by the chain, with this number of threads for transactions.
    pub const fn list_use(self, threads: usize) -> ListUse {
        match self {
            Self::Off | Self::Hints => ListUse::Check,
            Self::Trie => ListUse::Commit,
            Self::Parallel => ListUse::Run { threads },
        }
    }
}
