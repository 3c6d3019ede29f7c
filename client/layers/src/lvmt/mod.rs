//! The layer `lvmt`: its options, its entry in the list of layers, and the setup that it needs.

mod provision;
mod setup;
mod witnesses;

pub use setup::{LvmtNeeds, Remembered, default_dir, find};

use super::{
    kind::{Hooks, LayerKind, Parameters},
    options::LayerOptions,
    place::Place,
};
use clap::Args;
use polytrie_lvmt::{KnownSetup, LvmtLayer, LvmtOptions, Proofs, join, stored_setup, verify};
use polytrie_state::Result;
use serde::{Deserialize, Serialize};

/// What a user can set about `lvmt`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[command(next_help_heading = "LVMT")]
pub struct LvmtSettings {
    /// What the layer can prove: `none`; `on-request`, every key, for which nothing is kept; `full`, every key, from
    /// witnesses that are kept current with each block; or I/N, the keys of shard I of N (a power of two) from its witnesses.
    /// Witnesses belong to the data: a directory keeps its choice [default: none].
    #[arg(id = "lvmt.proofs", long = "lvmt.proofs", value_name = "WHAT")]
    pub proofs: Option<Proofs>,
    /// Whether the command makes proofs: then the default of `proofs` is `on-request`.
    #[arg(skip)]
    #[serde(skip)]
    pub proving: bool,
    /// Directory of the setup.
    #[command(flatten)]
    #[serde(flatten)]
    pub needs: LvmtNeeds,
    /// Setup that the stamp of a data directory names.
    #[arg(skip)]
    #[serde(skip)]
    pub remembered: Option<Remembered>,
}

impl LvmtSettings {
    /// Returns the proofs that the layer can make.
    pub(crate) fn proofs(&self) -> Proofs {
        self.proofs.unwrap_or_default()
    }
}

pub(super) const KIND: LayerKind = LayerKind {
    name: LvmtLayer::NAME,
    about: "multi-layer versioned multipoint trie: versions in vector commitments over BN254, values in append-only Merkle trees",
    canonical: false,
    tables: LvmtLayer::TABLES,
    open: |Place { store, .. }, options| {
        let settings = options.lvmt.clone();
        let setup = match (stored_setup(&store)?, &settings.remembered) {
            (Some(id), Some(remembered)) if !options.executes => {
                let height = remembered.height;
                KnownSetup::named(id, height, move || setup::open(&settings, Some(id)))
            }
            (id, _) => setup::open(&settings, id)?.into(),
        };
        let options = LvmtOptions { proofs: options.lvmt.proofs(), ..LvmtOptions::default() };
        Ok(LvmtLayer::open(store, setup, options)?)
    },
    verify: Some(|needs, commitment, proof| {
        let wanted = proof.proof.get("setup").and_then(|id| id.as_str()?.parse().ok());
        let (dir, key) = setup::find(&needs.lvmt, wanted, None)?;
        setup::warn_if_insecure(key.is_insecure(), &dir);
        LayerKind::proven(verify(&key, commitment, proof)?)
    }),
    hooks: Hooks {
        settle: Some(settle),
        places: &[setup::PLACE],
        provision: Some(provision::lacking),
        join: Some(join),
        ..Hooks::NONE
    },
};

fn settle(options: &mut LayerOptions, stamped: Option<&Parameters>) -> Result<Parameters> {
    let settings = &mut options.lvmt;
    settings.remembered = stamped.and_then(Remembered::of);
    let remembered = settings.remembered.as_ref();
    let wanted = remembered.map(|remembered| remembered.id);
    match (setup::find(&settings.needs, wanted, remembered), stamped) {
        (Ok((dir, key)), _) => {
            let mut parameters = setup::parameters(&key, &dir);
            settings.needs.setup = Some(dir);
            parameters.append(&mut witnesses::settle(options, stamped, Some(key.height()))?);
            if stamped.is_none() {
                witnesses::expect_tables(&options.lvmt)?;
            }
            Ok(parameters)
        }
        // If the setup is needed later after all, it is searched again.
        (Err(_), Some(made_with)) if wanted.is_some() && !options.executes => {
            let mut parameters = made_with.clone();
            parameters.append(&mut witnesses::settle(options, stamped, None)?);
            Ok(parameters)
        }
        (Err(error), _) => Err(error),
    }
}
