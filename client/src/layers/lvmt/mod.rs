//! `lvmt`, and the setup that it needs.

mod provision;
mod setup;

pub use setup::{LvmtNeeds, default_dir, find};

use super::{
    kind::{Hooks, LayerKind, Parameters},
    options::LayerOptions,
};
use clap::Args;
use polytrie_lvmt::{LvmtLayer, LvmtOptions, Proofs, stored_setup, verify};
use polytrie_state::StateError;
use serde::{Deserialize, Serialize};

/// What a user can set about `lvmt`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[command(next_help_heading = "LVMT")]
pub struct LvmtSettings {
    /// What the layer can prove: `none`; `full`, every key; or I/N, the keys of shard I of N (a power of two).
    #[arg(id = "lvmt.proofs", long = "lvmt.proofs", value_name = "WHAT", default_value_t)]
    pub proofs: Proofs,
    /// Where the setup is.
    #[command(flatten)]
    #[serde(flatten)]
    pub needs: LvmtNeeds,
}

pub(super) const KIND: LayerKind = LayerKind {
    name: LvmtLayer::NAME,
    about: "multi-layer versioned multipoint trie: versions in vector commitments over BN254, values in append-only Merkle trees",
    canonical: false,
    tables: LvmtLayer::TABLES,
    open: |store, options| {
        let setup = setup::open(&options.lvmt, stored_setup(&store)?)?;
        let options = LvmtOptions { proofs: options.lvmt.proofs };
        Ok(LvmtLayer::open(store, setup, options)?)
    },
    verify: Some(|needs, commitment, proof| {
        let wanted = proof.proof.get("setup").and_then(|id| id.as_str()?.parse().ok());
        let (dir, key) = setup::find(&needs.lvmt, wanted)?;
        setup::warn_if_insecure(key.is_insecure(), &dir);
        LayerKind::proven(verify(&key, commitment, proof)?)
    }),
    hooks: Hooks { settle: Some(settle), provision: Some(provision::lacking), ..Hooks::NONE },
};

fn settle(
    options: &mut LayerOptions,
    stamped: Option<&Parameters>,
) -> Result<Parameters, StateError> {
    let wanted = stamped.and_then(|parameters| parameters.get(setup::SETUP)?.parse().ok());
    let needs = &mut options.lvmt.needs;
    let (dir, key) = setup::find(needs, wanted)?;
    needs.setup = Some(dir);
    Ok(setup::parameters(&key))
}
