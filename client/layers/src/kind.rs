//! The description of a layer, through which all other code uses it without knowing which layer it is.

use super::{LayerNeeds, LayerOptions, Place};
use polytrie_kv::{MemoryEngine, StoreOptions, Table};
use polytrie_state::{Commitment, Proof, ProofError, Result, StateError, StateLayer, Witness};
use serde::Serialize;
use std::{collections::BTreeMap, path::Path, sync::Arc};
use thiserror::Error;

/// Settings that the data of a layer depends on, as the stamp of a data directory stores them.
pub type Parameters = BTreeMap<String, String>;

type SuitRun = fn(&mut LayerOptions, u64, u64) -> Option<String>;
type PutOff = fn(&LayerOptions, u64, u64) -> Option<String>;
type MakeProvision = Box<dyn FnOnce(&Path) -> Result<()>>;
type OpenLayer = fn(Place, &LayerOptions) -> Result<Arc<dyn StateLayer>>;
type JoinProofs = fn(&[Proof]) -> Result<Proof, ProofError>;
type VerifyProof = fn(&LayerNeeds, &Commitment, &Proof) -> Result<serde_json::Value, VerifyError>;

/// Description of a state layer of this build.
#[derive(Debug, Clone, Copy)]
pub struct LayerKind {
    /// Name for `--state`.
    pub name: &'static str,
    /// Description in one line, for `--help`.
    pub about: &'static str,
    /// Whether the layer's commitment is the state root of the headers.
    pub canonical: bool,
    /// Tables that the layer needs in its store.
    pub tables: &'static [Table],
    /// Function that opens the layer.
    pub open: OpenLayer,
    /// Function that checks a proof of the layer and returns what it proves; `None` if the layer makes no proofs.
    pub verify: Option<VerifyProof>,
    /// Functions that only some layers have.
    pub(super) hooks: Hooks,
}

/// Functions and tables that only some layers have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hooks {
    /// Tables of the flat state if the layer can keep it in another directory, which `--replica.path` names.
    pub(super) flat: Option<&'static [Table]>,
    /// Function that settles the options that the layer's data depends on, see [`LayerKind::settle_parameters`].
    pub(super) settle: Option<Settle>,
    /// Parameters that only name a place, see [`LayerKind::is_place`].
    pub(super) places: &'static [&'static str],
    /// Function of [`LayerKind::suit_run`].
    pub(super) suit_run: Option<SuitRun>,
    /// Function of [`LayerKind::put_off`].
    pub(super) put_off: Option<PutOff>,
    /// Functions that execute blocks from witnesses.
    pub(super) stateless: Option<Stateless>,
    /// Whether the layer can use nodes that prefetchers read.
    pub(super) bags: bool,
    /// Function of [`LayerKind::writes_each_block`].
    pub(super) flushes_each_block: fn(&LayerOptions) -> bool,
    /// Function of [`LayerKind::provision`].
    pub(super) provision: Option<fn(&LayerOptions) -> Option<Provision>>,
    /// Function of [`LayerKind::join`].
    pub(super) join: Option<JoinProofs>,
}

type Settle = fn(&mut LayerOptions, Option<&Parameters>) -> Result<Parameters>;

impl Hooks {
    /// Hooks of a layer that has none of them.
    #[cfg_attr(
        not(any(
            feature = "binary",
            feature = "lmpt",
            feature = "lvmt",
            feature = "mpt",
            feature = "mpt-hash",
            feature = "nomt",
            feature = "qmdb",
            feature = "rain",
            feature = "raw",
            feature = "replica"
        )),
        expect(dead_code, reason = "a build without layers")
    )]
    pub(super) const NONE: Self = Self {
        flat: None,
        settle: None,
        places: &[],
        suit_run: None,
        put_off: None,
        stateless: None,
        bags: false,
        flushes_each_block: |_| false,
        provision: None,
        join: None,
    };
}

/// Functions of a layer that executes blocks from witnesses, without their state.
#[derive(Debug, Clone, Copy)]
pub struct Stateless {
    /// Name of the layer.
    pub name: &'static str,
    /// Function that makes a layer in memory with the state of a complete witness.
    pub on_witness: fn(&Witness) -> Result<Arc<dyn StateLayer>>,
}

/// Files that a layer needs to be opened, and that may be generated if no one relies on its proofs: for
/// benchmarks, and for chains in memory.
pub struct Provision {
    /// Name of the directory for the files.
    pub name: &'static str,
    /// Parameters that the files depend on.
    pub parameters: serde_json::Value,
    /// Function that makes the files in an empty directory.
    pub make: MakeProvision,
    /// Function that sets the options of the layer to the files in a directory.
    pub take: fn(&mut LayerOptions, &Path),
    /// Note for the readers of a benchmark's figures.
    pub note: &'static str,
}

polytrie_kv::debug_fields!(Provision { name });

impl LayerKind {
    /// Returns the tables of the flat state if the layer can keep it in another directory.
    pub const fn flat_tables(&self) -> Option<&'static [Table]> {
        self.hooks.flat
    }

    /// Settles the settings that the layer's data depends on, and returns them for the stamp. If the directory has a
    /// stamp already (`stamped`), the settings that it was made with are kept wherever the stamp has them.
    ///
    /// # Errors
    ///
    /// Fails if files that the layer needs are missing, or if `--replica.path` is given for a layer that has no flat
    /// state to put there.
    pub fn settle_parameters(
        &self,
        options: &mut LayerOptions,
        stamped: Option<&Parameters>,
    ) -> Result<Parameters> {
        if stamped.is_none() && self.hooks.flat.is_none() && options.replica_path.is_some() {
            let reason = "keeps no flat state in a directory of its own; leave out --replica.path, or use --state replica";
            return Err(StateError::Unsupported { layer: self.name, reason: reason.to_owned() });
        }
        self.hooks.settle.map_or_else(|| Ok(Parameters::new()), |settle| settle(options, stamped))
    }

    /// Whether a parameter names a place, which a user may move: the stamp stores it, and another value is no error.
    pub fn is_place(&self, parameter: &str) -> bool {
        self.hooks.places.contains(&parameter)
    }

    /// Sets the options for a run that measures `measured` blocks after a warm-up of `warmup` blocks, so that the layer
    /// does the same work as in a node that has run for days; options that the user set stay. Returns a note for the
    /// readers of the figures.
    pub fn suit_run(
        &self,
        options: &mut LayerOptions,
        warmup: u64,
        measured: u64,
    ) -> Option<String> {
        self.hooks.suit_run?(options, warmup, measured)
    }

    /// Returns a note about the work that the layer had put off when a run from above block `above` to block `last` ended, if
    /// it is a good part of the work.
    pub fn put_off(&self, options: &LayerOptions, above: u64, last: u64) -> Option<String> {
        self.hooks.put_off?(options, above, last)
    }

    /// Whether each executed block is a write of its own to the engine, because the engine must see every row that the
    /// layer puts and deletes. Changes to blocks that are stored already stay one write, so that a command that fails
    /// halfway has changed nothing.
    fn writes_each_block(&self, settings: &LayerOptions) -> bool {
        (self.hooks.flushes_each_block)(settings) && settings.executes
    }

    /// Returns the options of a store for this layer with these settings.
    #[must_use]
    pub fn suit_store(&self, mut options: StoreOptions, settings: &LayerOptions) -> StoreOptions {
        if self.writes_each_block(settings) {
            options.flush_every = 1;
        }
        options
    }

    /// Returns the reason why the number of blocks per flush (`--flush-every`) has no effect, if it has none.
    pub fn ignores_groups(&self, engine: &str, settings: &LayerOptions) -> Option<String> {
        let name = self.name;
        if self.writes_each_block(settings) {
            return Some(format!("`{name}` has each block written to the engine by itself"));
        }
        (engine == MemoryEngine::NAME)
            .then(|| format!("the engine `{engine}` keeps nothing on disk"))
    }

    /// Returns the functions that execute blocks from witnesses; `None` if the layer has none.
    pub fn stateless(&self) -> Option<Stateless> {
        self.hooks.stateless
    }

    /// Returns whether the layer can use nodes that prefetchers read ([`bags`](crate::bags)).
    pub const fn takes_bags(&self) -> bool {
        self.hooks.bags
    }

    /// Returns the files that the layer lacks, if it cannot be opened without them and they may be generated.
    pub fn provision(&self, options: &LayerOptions) -> Option<Provision> {
        self.hooks.provision?(options)
    }

    /// Joins the proofs of several nodes about one account into one; each node proves the keys of its shard.
    ///
    /// # Errors
    ///
    /// Fails if the proofs do not belong together, or if a node of this layer proves all keys.
    pub fn join(&self, proofs: &[Proof]) -> Result<Proof, ProofError> {
        let join = self.hooks.join.ok_or_else(|| {
            let name = self.name;
            ProofError::Invalid(format!("a proof of `{name}` has no parts; give one proof"))
        })?;
        join(proofs)
    }

    /// Returns the content of a proof in the form in which [`Self::verify`] returns it.
    ///
    /// # Errors
    ///
    /// Fails if the content cannot be written as JSON.
    pub fn proven(what: impl Serialize) -> Result<serde_json::Value, VerifyError> {
        Ok(serde_json::to_value(what).map_err(|e| ProofError::Malformed(e.to_string()))?)
    }
}

/// Error of the verification of a proof.
#[derive(Debug, Clone, Error)]
pub enum VerifyError {
    /// A proof that does not hold.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// A verification that lacks a file or a setting.
    #[error(transparent)]
    Unable(#[from] StateError),
}
