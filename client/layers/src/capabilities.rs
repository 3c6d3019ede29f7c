//! Capabilities that only some layers have. Each is returned, or the error names a layer that has
//! it.

use super::{DEFAULT_LAYER, LAYERS, LayerKind, stateless};
use polytrie_state::{Bags, PastWitnesses, Prove, Result, StateError, StateLayer, Stateless};

/// Returns the interface for the proofs of a layer.
///
/// # Errors
///
/// Fails if the layer makes no proofs.
pub fn proofs(layer: &dyn StateLayer) -> Result<&dyn Prove> {
    let reason = "has no commitment that a proof could lead to";
    layer.proofs().ok_or_else(|| lacking(layer, reason, DEFAULT_LAYER))
}

/// Returns the interface for witnesses of blocks that are part of the chain.
///
/// # Errors
///
/// Fails if the layer makes no such witnesses.
pub fn past_witnesses(layer: &dyn StateLayer) -> Result<&dyn PastWitnesses> {
    let reason = "makes no witnesses of blocks";
    layer.past_witnesses().ok_or_else(|| lacking(layer, reason, DEFAULT_LAYER))
}

/// Returns the interface for witnesses that leave out what the layer holds.
///
/// # Errors
///
/// Fails if the layer has no such interface.
pub fn stateless_on(layer: &dyn StateLayer) -> Result<&dyn Stateless> {
    let reason = "does not hold what a witness leaves out";
    let other = || stateless().map_or(DEFAULT_LAYER, |kind| kind.name);
    layer.stateless().ok_or_else(|| lacking(layer, reason, other()))
}

/// Returns the interface of a layer for nodes that prefetchers read.
///
/// # Errors
///
/// Fails if the layer does not use such nodes.
pub fn bags(layer: &dyn StateLayer) -> Result<&dyn Bags> {
    layer.bags().ok_or_else(|| takes_no_bags(layer.name()))
}

/// Checks that a layer uses nodes that prefetchers read.
///
/// # Errors
///
/// As [`bags`].
pub fn expect_bags(kind: &LayerKind) -> Result<()> {
    if kind.takes_bags() { Ok(()) } else { Err(takes_no_bags(kind.name)) }
}

fn takes_no_bags(layer: &'static str) -> StateError {
    let other = LAYERS.iter().find(|kind| kind.takes_bags());
    let other = other.map_or_else(String::new, |kind| format!("; use `{}`", kind.name));
    let reason = format!("reads all nodes by itself and has no use for prefetchers{other}");
    StateError::Unsupported { layer, reason }
}

fn lacking(layer: &dyn StateLayer, reason: &str, other: &str) -> StateError {
    let reason = format!("{reason}; use `{other}`, for example");
    StateError::Unsupported { layer: layer.name(), reason }
}
