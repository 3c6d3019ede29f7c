//! What only some layers can do, or a sentence that names one that can.

use super::{DEFAULT_LAYER, stateless};
use polytrie_state::{PastWitnesses, Prove, StateError, StateLayer, Stateless};

/// The proofs of a layer.
///
/// # Errors
///
/// If it makes none.
pub fn proofs(layer: &dyn StateLayer) -> Result<&dyn Prove, StateError> {
    let reason = "has no commitment that a proof could lead to";
    layer.proofs().ok_or_else(|| lacking(layer, reason, DEFAULT_LAYER))
}

/// The witnesses of blocks that are part of the chain.
///
/// # Errors
///
/// If the layer makes none.
pub fn past_witnesses(layer: &dyn StateLayer) -> Result<&dyn PastWitnesses, StateError> {
    let reason = "makes no witnesses of blocks";
    layer.past_witnesses().ok_or_else(|| lacking(layer, reason, DEFAULT_LAYER))
}

/// What a layer can do with witnesses that leave out what it holds.
///
/// # Errors
///
/// If it can do nothing.
pub fn stateless_on(layer: &dyn StateLayer) -> Result<&dyn Stateless, StateError> {
    let reason = "does not hold what a witness leaves out";
    let other = || stateless().map_or(DEFAULT_LAYER, |kind| kind.name);
    layer.stateless().ok_or_else(|| lacking(layer, reason, other()))
}

fn lacking(layer: &dyn StateLayer, reason: &str, other: &str) -> StateError {
    let reason = format!("{reason}; use `{other}`, for example");
    StateError::Unsupported { layer: layer.name(), reason }
}
