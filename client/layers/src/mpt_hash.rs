//! The layer `mpt-hash`: its options and its entry in the list of layers.

use super::{
    kind::{Hooks, LayerKind, Parameters},
    options::LayerOptions,
};
use crate::values::parse_bytes;
use clap::{Args, ValueEnum};
use polytrie_mpt_hash::{Cached, MptHashLayer, MptHashOptions, Pruning, verify};
use polytrie_state::Result;
use serde::{Deserialize, Serialize};

/// What a user can set about `mpt-hash`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[command(next_help_heading = "State layers")]
pub struct MptHashSettings {
    /// Bytes of nodes that `mpt-hash` keeps in memory (k, M, G may follow): what OpenEthereum's --cache-size-db was.
    #[arg(id = "mpt-hash.cache", long = "mpt-hash.cache", value_name = "BYTES", value_parser = parse_bytes, default_value = "128M")]
    pub cache: usize,
    /// Nodes that `mpt-hash` keeps in memory: `used`, read or written last; `written`, those of the last blocks only, as in
    /// OpenEthereum's overlay, while nodes that were only read are read from the engine again.
    #[arg(
        id = "mpt-hash.cached",
        long = "mpt-hash.cached",
        value_name = "WHICH",
        default_value = "used"
    )]
    pub cached: WhichStay,
    /// Nodes that `mpt-hash` deletes: `replaced`, those that a block replaced, with that block; `none`, all states stay, as
    /// in an archive. Belongs to the data: a new directory gets `replaced`, another one keeps its own.
    #[arg(id = "mpt-hash.pruning", long = "mpt-hash.pruning", value_name = "WHICH")]
    pub pruning: Option<WhichGo>,
}

/// Which nodes stay in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum WhichStay {
    /// The nodes that were read or written last.
    Used,
    /// The nodes that blocks wrote last.
    Written,
    /// The nodes that were read for the block in progress. Only `bench paper` sets this, to repeat a benchmark.
    #[value(skip)]
    Block,
}

impl From<WhichStay> for Cached {
    fn from(which: WhichStay) -> Self {
        match which {
            WhichStay::Used => Self::Used,
            WhichStay::Written => Self::Written,
            WhichStay::Block => Self::Block,
        }
    }
}

/// Which nodes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum WhichGo {
    /// Nodes that a block replaced go with that block.
    Replaced,
    /// None.
    None,
}

impl WhichGo {
    /// Returns the name on the command line and in the stamp.
    const fn name(self) -> &'static str {
        match self {
            Self::Replaced => "replaced",
            Self::None => "none",
        }
    }
}

impl From<WhichGo> for Pruning {
    fn from(which: WhichGo) -> Self {
        match which {
            WhichGo::Replaced => Self::Replaced,
            WhichGo::None => Self::None,
        }
    }
}

impl Default for MptHashSettings {
    fn default() -> Self {
        Self {
            cache: MptHashOptions::default().cache_bytes,
            cached: WhichStay::Used,
            pruning: None,
        }
    }
}

pub(super) const KIND: LayerKind = LayerKind {
    name: MptHashLayer::NAME,
    about: "Ethereum's trie with a row for every node under its hash: what the papers measured against",
    canonical: true,
    tables: MptHashLayer::TABLES,
    open: |place, options| {
        let MptHashSettings { cache, cached, pruning } = options.mpt_hash;
        let pruning = pruning.map_or_else(Pruning::default, Pruning::from);
        let options = MptHashOptions { cache_bytes: cache, cached: cached.into(), pruning };
        Ok(MptHashLayer::open(place.store, options)?)
    },
    verify: Some(|_, commitment, proof| LayerKind::proven(verify(commitment.digest(), proof)?)),
    // If an engine got two blocks at once it would not see a row that one block puts and the next deletes.
    hooks: Hooks { settle: Some(settle), flushes_each_block: |_| true, ..Hooks::NONE },
};

/// Parameter of the stamp. A layer that drops replaced nodes would take kept ones for damage.
const PRUNING: &str = "mpt-hash.pruning";

#[expect(clippy::unnecessary_wraps, reason = "as the table wants it")]
fn settle(options: &mut LayerOptions, stamped: Option<&Parameters>) -> Result<Parameters> {
    let made_with =
        stamped.and_then(|parameters| WhichGo::from_str(parameters.get(PRUNING)?, false).ok());
    let asked = &mut options.mpt_hash.pruning;
    let which = *asked.get_or_insert(made_with.unwrap_or(WhichGo::Replaced));
    Ok(Parameters::from([(PRUNING.to_owned(), which.name().to_owned())]))
}
