//! Capabilities that only some layers have. Each is returned, or the error names a layer that has
//! it.

use super::{DEFAULT_LAYER, stateless};
use polytrie_state::{PastWitnesses, Prove, StateError, StateLayer, Stateless};

/// Returns the interface for the proofs of a layer.
///
/// # Errors
///
/// Fails if the layer makes no proofs.
pub fn proofs(layer: &dyn StateLayer) -> Result<&dyn Prove, StateError> {
    let reason = "has no commitment that a proof could lead to";
    layer.proofs().ok_or_else(|| lacking(layer, reason, DEFAULT_LAYER))
}

/// Returns the interface for witnesses of blocks that are part of the chain.
///
/// # Errors
///
/// Fails if the layer makes no such witnesses.
pub fn past_witnesses(layer: &dyn StateLayer) -> Result<&dyn PastWitnesses, StateError> {
    let reason = "makes no witnesses of blocks";
    layer.past_witnesses().ok_or_else(|| lacking(layer, reason, DEFAULT_LAYER))
}

/// Returns the interface for witnesses that leave out what the layer holds.
///
/// # Errors
///
/// Fails if the layer has no such interface.
pub fn stateless_on(layer: &dyn StateLayer) -> Result<&dyn Stateless, StateError> {
    let reason = "does not hold what a witness leaves out";
    let other = || stateless().map_or(DEFAULT_LAYER, |kind| kind.name);
    layer.stateless().ok_or_else(|| lacking(layer, reason, other()))
}

fn lacking(layer: &dyn StateLayer, reason: &str, other: &str) -> StateError {
    let reason = format!("{reason}; use `{other}`, for example");
    StateError::Unsupported { layer: layer.name(), reason }
}
