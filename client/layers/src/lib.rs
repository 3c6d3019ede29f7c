//! The list of every state layer and every engine; no other crate names them. A new layer is a file here with its entry
//! and its options, a line in [`LAYERS`] and in `NAMES` (and in [`LayerOptions`] if it has options), a feature in
//! `Cargo.toml` and a crate; a new engine is an entry in [`ENGINES`].

#[cfg(feature = "binary")]
pub mod binary;
mod cache;
mod capabilities;
mod engines;
mod flat_path;
mod kind;
#[cfg(feature = "lmpt")]
pub mod lmpt;
#[cfg(feature = "lvmt")]
pub mod lvmt;
#[cfg(feature = "mpt")]
mod mpt;
#[cfg(feature = "mpt-hash")]
pub mod mpt_hash;
#[cfg(feature = "nomt")]
pub mod nomt;
mod options;
mod place;
#[cfg(feature = "qmdb")]
pub mod qmdb;
#[cfg(feature = "rain")]
pub mod rain;
#[cfg(feature = "raw")]
mod raw;
#[cfg(feature = "replica")]
pub mod replica;
#[cfg(any(test, feature = "testing"))]
pub mod testsetup;
mod unknown;
pub mod values;

pub use cache::user_cache;
pub use capabilities::{bags, expect_bags, past_witnesses, proofs, stateless_on};
pub use engines::{
    DEFAULT_ENGINE, ENGINES, EngineError, EngineKind, EngineOptions, expect_engine, is_elsewhere,
    open_engine,
};
pub use flat_path::normal;
pub use flat_path::{adopt_replica_path, replica_path};
pub use kind::{LayerKind, Parameters, Provision, Stateless, VerifyError};
pub use options::{LayerNeeds, LayerOptions};
pub use place::Place;
pub use unknown::UnknownKind;

/// Names that `--state` may have in some build. Each is also the name of a Cargo feature.
const NAMES: &[&str] =
    &["raw", "mpt", "mpt-hash", "replica", "lmpt", "lvmt", "rain", "binary", "nomt", "qmdb"];

/// Layers of this build.
pub const LAYERS: &[LayerKind] = &[
    #[cfg(feature = "lmpt")]
    lmpt::KIND,
    #[cfg(feature = "mpt")]
    mpt::KIND,
    #[cfg(feature = "mpt-hash")]
    mpt_hash::KIND,
    #[cfg(feature = "lvmt")]
    lvmt::KIND,
    #[cfg(feature = "replica")]
    replica::KIND,
    #[cfg(feature = "rain")]
    rain::KIND,
    #[cfg(feature = "binary")]
    binary::KIND,
    #[cfg(feature = "raw")]
    raw::KIND,
    #[cfg(feature = "nomt")]
    nomt::KIND,
    #[cfg(feature = "qmdb")]
    qmdb::KIND,
];

/// Name of the layer that a new data directory gets by default.
pub const DEFAULT_LAYER: &str = "mpt";

/// Returns the layer of this name.
///
/// # Errors
///
/// Fails if this build has no layer of this name.
pub fn layer(name: &str) -> Result<&'static LayerKind, UnknownKind> {
    if let Some(kind) = LAYERS.iter().find(|kind| kind.name == name) {
        return Ok(kind);
    }
    let name = name.to_owned();
    if NAMES.contains(&name.as_str()) {
        return Err(UnknownKind::NotCompiledIn { what: "the state layer", name });
    }
    let available: Vec<_> = LAYERS.iter().map(|kind| kind.name).collect();
    Err(UnknownKind::Layer { name, available: available.join(", ") })
}

/// Returns the functions of the layer that executes blocks from witnesses.
///
/// # Errors
///
/// Fails if this build does not have that layer.
pub fn stateless() -> Result<Stateless, UnknownKind> {
    LAYERS.iter().find_map(LayerKind::stateless).ok_or_else(|| UnknownKind::NotCompiledIn {
        what: "the state layer",
        name: "rain".to_owned(),
    })
}
