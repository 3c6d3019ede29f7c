//! The settings of the layer.

use crate::kept::Share;
use polytrie_state::Result;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The keys that the layer can prove, and the rows that it keeps for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Proofs {
    /// No key: no tables for proofs are in memory.
    #[default]
    None,
    /// Every key. No rows are kept: a proof is computed from the versions on request.
    OnRequest,
    /// Every key, from witnesses that are updated for all of them.
    Full,
    /// The keys of one of `of` shards, `shard` from 1, from witnesses that are updated for these. `of` is a power of
    /// two.
    Shard {
        /// The number of the shard.
        shard: u32,
        /// The number of shards.
        of: u32,
    },
}

impl Proofs {
    /// Returns the share of the keys with kept witnesses.
    pub(crate) fn share(self) -> Option<Share> {
        match self {
            Self::None | Self::OnRequest => None,
            Self::Full => Some(Share::FULL),
            Self::Shard { shard, of } => Share::new(shard, of),
        }
    }

    /// Whether witnesses are kept: then they belong to the data.
    pub const fn are_kept(self) -> bool {
        matches!(self, Self::Full | Self::Shard { .. })
    }

    /// Checks that a layer with trees of this height supports these proofs.
    ///
    /// # Errors
    ///
    /// If there is no such shard, or the root tree has fewer entries than there are shards.
    pub fn expect_fits(self, height: u8) -> Result<()> {
        match self.share() {
            Some(share) => share.expect_fits(height),
            None if self.are_kept() => Err(crate::unsupported(format!(
                "has no shard {self}; the number of shards is a power of two, and the first one is 1"
            ))),
            None => Ok(()),
        }
    }
}

impl FromStr for Proofs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shard = || {
            let (shard, of) = text.split_once('/')?;
            let (shard, of) = (shard.parse().ok()?, of.parse::<u32>().ok()?);
            Share::new(shard, of)?;
            Some(if of == 1 { Self::Full } else { Self::Shard { shard, of } })
        };
        match text {
            "none" => Ok(Self::None),
            "on-request" => Ok(Self::OnRequest),
            "full" => Ok(Self::Full),
            _ => shard().ok_or_else(|| {
                format!("`{text}` is none of `none`, `on-request`, `full` and `I/N` with I from 1 to N and N a power of two up to 65536, such as 3/16")
            }),
        }
    }
}

impl fmt::Display for Proofs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "none"),
            Self::OnRequest => write!(f, "on-request"),
            Self::Full => write!(f, "full"),
            Self::Shard { shard, of } => write!(f, "{shard}/{of}"),
        }
    }
}

/// The user's settings of the layer. None of them changes a commitment; kept witnesses add rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LvmtOptions {
    /// The keys that the layer can prove.
    pub proofs: Proofs,
    /// Whether blocks are read ahead on many threads even if the store is fast; no result depends on it.
    pub read_ahead: bool,
}
