//! What can be set.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// How much the layer can prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Proofs {
    /// Nothing: no tables for proofs are in memory.
    #[default]
    None,
    /// Every key.
    Full,
    /// The keys of one of `of` shards, `shard` from 1. `of` is a power of two.
    Shard {
        /// Which.
        shard: u32,
        /// Of how many.
        of: u32,
    },
}

impl FromStr for Proofs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shard = || {
            let (shard, of) = text.split_once('/')?;
            let (shard, of) = (shard.parse().ok()?, of.parse::<u32>().ok()?);
            let good = (1..=of).contains(&shard) && of.is_power_of_two() && of <= 1 << 16;
            good.then_some(Self::Shard { shard, of })
        };
        match text {
            "none" => Ok(Self::None),
            "full" => Ok(Self::Full),
            _ => shard().ok_or_else(|| {
                format!("`{text}` is none of `none`, `full` and `I/N` with I from 1 to N and N a power of two up to 65536, such as 3/16")
            }),
        }
    }
}

impl fmt::Display for Proofs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "none"),
            Self::Full => write!(f, "full"),
            Self::Shard { shard, of } => write!(f, "{shard}/{of}"),
        }
    }
}

/// What the layer lets a user set. None of it changes a commitment or a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LvmtOptions {
    /// How much it can prove.
    pub proofs: Proofs,
}
