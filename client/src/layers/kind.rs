//! What is said of a layer so that everything else can do without knowing which one it is.

use super::LayerOptions;
use polytrie_kv::{Store, Table};
use polytrie_state::{Commitment, Proof, ProofError, StateError, StateLayer};
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc};
use thiserror::Error;

/// Settings that the data of a layer depends on, as the stamp of a data directory keeps them.
pub type Parameters = BTreeMap<String, String>;

type OpenLayer = fn(Store, &LayerOptions) -> Result<Arc<dyn StateLayer>, StateError>;
type VerifyProof = fn(&LayerOptions, &Commitment, &Proof) -> Result<serde_json::Value, VerifyError>;
type Settle = fn(&mut LayerOptions, Option<&Parameters>) -> Result<Parameters, StateError>;

/// A state layer that is compiled in.
#[derive(Debug, Clone, Copy)]
pub struct LayerKind {
    /// Its name for `--state`.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// Whether its commitment is the state root of the headers.
    pub canonical: bool,
    /// The tables it needs in its store.
    pub tables: &'static [Table],
    /// Opens it on a store.
    pub open: OpenLayer,
    /// Checks one of its proofs and returns what it proves; `None` if it makes none.
    pub verify: Option<VerifyProof>,
    /// Whether it can keep a flat state in a directory of its own, which `--replica.path` names.
    pub(super) keeps_flat: bool,
    /// Settles the options that its data depends on, see [`Self::settle_parameters`]; `None` if there are none.
    pub(super) settle: Option<Settle>,
}

impl LayerKind {
    /// Settles the settings of a layer that its data depends on, and returns them for the stamp. A directory that
    /// has a stamp already (`stamped`) gets the settings it was made with, where they can be found.
    ///
    /// # Errors
    ///
    /// If what the layer needs is not there, or it has nothing to put where another one has.
    pub fn settle_parameters(
        &self,
        options: &mut LayerOptions,
        stamped: Option<&Parameters>,
    ) -> Result<Parameters, StateError> {
        if stamped.is_none() && !self.keeps_flat && options.replica_path.is_some() {
            let reason = "keeps no flat state in a directory of its own; leave out --replica.path, or use --state replica";
            return Err(StateError::Unsupported { layer: self.name, reason: reason.to_owned() });
        }
        self.settle.map_or_else(|| Ok(Parameters::new()), |settle| settle(options, stamped))
    }

    /// What a proof proves, in the form in which [`Self::verify`] gives it.
    ///
    /// # Errors
    ///
    /// If JSON has no words for it.
    pub fn proven(what: impl Serialize) -> Result<serde_json::Value, VerifyError> {
        Ok(serde_json::to_value(what).map_err(|e| ProofError::Malformed(e.to_string()))?)
    }
}

/// A proof could not be verified, or does not hold.
#[derive(Debug, Clone, Error)]
pub enum VerifyError {
    /// It does not hold.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// What is needed to verify it is not there.
    #[error(transparent)]
    Unable(#[from] StateError),
}
