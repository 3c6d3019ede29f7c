//! The layer `binary`: its options and its entry in the list of layers.

use super::{
    kind::{Hooks, LayerKind, Parameters},
    options::LayerOptions,
};
use clap::{Args, ValueEnum, builder::RangedU64ValueParser};
use polytrie_binary::{BinaryLayer, BinaryOptions, GroupDepth, Reads, verify};
use polytrie_state::Result;
use serde::{Deserialize, Serialize};

/// What a user can set about `binary`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, Args)]
#[command(next_help_heading = "State layers")]
pub struct BinarySettings {
    /// Levels of the tree of `binary` in one row, 1 to 8: a larger row is read less often, and more of it is hashed and
    /// written for a change. Belongs to the data: a new directory gets 5, another one keeps its own.
    #[arg(id = "binary.group-depth", long = "binary.group-depth", value_name = "LEVELS", value_parser = levels())]
    pub group_depth: Option<u8>,
    /// What reads of `binary` go through: `flat`, rows beside the tree, or `tree`, the tree itself. A directory has both.
    #[arg(id = "binary.reads", long = "binary.reads", value_name = "WHAT", value_enum, default_value_t = ReadsOf::Flat)]
    pub reads: ReadsOf,
}

fn levels() -> RangedU64ValueParser<u8> {
    RangedU64ValueParser::new().range(1..=8)
}

/// What reads go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ReadsOf {
    /// Flat rows beside the tree.
    #[default]
    Flat,
    /// The tree.
    Tree,
}

impl From<ReadsOf> for Reads {
    fn from(reads: ReadsOf) -> Self {
        match reads {
            ReadsOf::Flat => Self::Flat,
            ReadsOf::Tree => Self::Tree,
        }
    }
}

pub(super) const KIND: LayerKind = LayerKind {
    name: BinaryLayer::NAME,
    about: "the binary tree that is proposed to replace the trie (EIP-7864), in rows of several levels",
    canonical: false,
    tables: BinaryLayer::TABLES,
    open: |place, options| {
        let BinarySettings { group_depth, reads } = options.binary;
        let group_depth = group_depth.and_then(GroupDepth::new).unwrap_or(GroupDepth::DEFAULT);
        let (cache_bytes, reads) = (options.trie_cache, reads.into());
        let options = BinaryOptions { group_depth, cache_bytes, reads, ..BinaryOptions::default() };
        Ok(BinaryLayer::open(place.store, options)?)
    },
    verify: Some(|_, commitment, proof| LayerKind::proven(verify(commitment.digest(), proof)?)),
    hooks: Hooks { settle: Some(settle), ..Hooks::NONE },
};

/// Parameter of the stamp with the depth of a row. The layer would take rows of another depth for damage.
const GROUP_DEPTH: &str = "binary.group-depth";

#[expect(clippy::unnecessary_wraps, reason = "as the table wants it")]
fn settle(options: &mut LayerOptions, stamped: Option<&Parameters>) -> Result<Parameters> {
    let made_with = stamped.and_then(|parameters| parameters.get(GROUP_DEPTH)?.parse().ok());
    let default = GroupDepth::DEFAULT.levels();
    let asked = &mut options.binary.group_depth;
    let levels = *asked.get_or_insert(made_with.unwrap_or(default));
    Ok(Parameters::from([(GROUP_DEPTH.to_owned(), levels.to_string())]))
}
