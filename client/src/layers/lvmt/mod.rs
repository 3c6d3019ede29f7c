//! `lvmt`, and the setup that it needs.

mod setup;

pub use setup::{LvmtSettings, default_dir, find};

use super::{
    kind::{LayerKind, Parameters},
    options::LayerOptions,
};
use polytrie_lvmt::{LvmtLayer, LvmtOptions, stored_setup, verify};
use polytrie_state::StateError;

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
    verify: Some(|options, commitment, proof| {
        let wanted = proof.proof.get("setup").and_then(|id| id.as_str()?.parse().ok());
        let (dir, key) = setup::find(&options.lvmt, wanted)?;
        setup::warn_if_insecure(key.is_insecure(), &dir);
        LayerKind::proven(verify(&key, commitment, proof)?)
    }),
    keeps_flat: false,
    settle: Some(settle),
};

fn settle(
    options: &mut LayerOptions,
    stamped: Option<&Parameters>,
) -> Result<Parameters, StateError> {
    let wanted = stamped.and_then(|parameters| parameters.get(setup::SETUP)?.parse().ok());
    let (dir, key) = setup::find(&options.lvmt, wanted)?;
    options.lvmt.setup = Some(dir);
    Ok(setup::parameters(&key))
}
