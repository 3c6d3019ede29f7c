//! The description of a layer, through which all other code uses it without knowing which layer it is.

use super::{LayerNeeds, LayerOptions, Place};
use polytrie_kv::{MemoryEngine, StoreOptions, Table};
use polytrie_state::{Commitment, Proof, ProofError, StateError, StateLayer, Witness};
use serde::Serialize;
use std::{collections::BTreeMap, fmt, path::Path, sync::Arc};
use thiserror::Error;

/// Settings that the data of a layer depends on, as the stamp of a data directory keeps them.
pub type Parameters = BTreeMap<String, String>;

type SuitRun = fn(&mut LayerOptions, u64, u64) -> Option<String>;
type MakeProvision = Box<dyn FnOnce(&Path) -> Result<(), StateError>>;
type OpenLayer = fn(Place, &LayerOptions) -> Result<Arc<dyn StateLayer>, StateError>;
type JoinProofs = fn(&[Proof]) -> Result<Proof, ProofError>;
type VerifyProof = fn(&LayerNeeds, &Commitment, &Proof) -> Result<serde_json::Value, VerifyError>;

/// A state layer that is compiled in.
#[derive(Debug, Clone, Copy)]
pub struct LayerKind {
    /// Its name for `--state`.
    pub name: &'static str,
    /// A description in one line, for `--help`.
    pub about: &'static str,
    /// Whether its commitment is the state root of the headers.
    pub canonical: bool,
    /// The tables it needs in its store.
    pub tables: &'static [Table],
    /// Opens it.
    pub open: OpenLayer,
    /// Checks one of its proofs and returns what it proves; `None` if it makes none.
    pub verify: Option<VerifyProof>,
    /// What only some layers have.
    pub(super) hooks: Hooks,
}

/// What only some layers have, and others do without.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hooks {
    /// The tables of the flat state that it can keep in a directory of its own, which `--replica.path` names.
    pub(super) flat: Option<&'static [Table]>,
    /// Settles the options that its data depends on, see [`LayerKind::settle_parameters`].
    pub(super) settle: Option<Settle>,
    /// The parameters that only say where something is, see [`LayerKind::is_place`].
    pub(super) places: &'static [&'static str],
    /// See [`LayerKind::suit_run`].
    pub(super) suit_run: Option<SuitRun>,
    /// See [`LayerKind::put_off`].
    pub(super) put_off: Option<fn(&LayerOptions, u64) -> Option<String>>,
    /// How it executes blocks from witnesses.
    pub(super) stateless: Option<Stateless>,
    /// Whether it can use nodes that prefetchers read.
    pub(super) bags: bool,
    /// See [`LayerKind::writes_each_block`].
    pub(super) flushes_each_block: fn(&LayerOptions) -> bool,
    /// See [`LayerKind::provision`].
    pub(super) provision: Option<fn(&LayerOptions) -> Option<Provision>>,
    /// See [`LayerKind::join`].
    pub(super) join: Option<JoinProofs>,
}

type Settle = fn(&mut LayerOptions, Option<&Parameters>) -> Result<Parameters, StateError>;

impl Hooks {
    /// The hooks of a layer that has none of these things.
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

/// How a layer executes blocks from witnesses, without their state.
#[derive(Debug, Clone, Copy)]
pub struct Stateless {
    /// The layer's name.
    pub name: &'static str,
    /// A layer in memory that knows nothing but what the witness holds, which leaves out nothing.
    pub on_witness: fn(&Witness) -> Result<Arc<dyn StateLayer>, StateError>,
}

/// Something that a layer cannot be opened without and that may be made up where it is not relied on: for benchmarks, and
/// for chains in memory.
pub struct Provision {
    /// Name of the directory for it.
    pub name: &'static str,
    /// All that it depends on.
    pub parameters: serde_json::Value,
    /// Makes it in a directory of its own.
    pub make: MakeProvision,
    /// Has the layer use what is in the directory.
    pub take: fn(&mut LayerOptions, &Path),
    /// What readers of the figures should know of it.
    pub note: &'static str,
}

impl fmt::Debug for Provision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provision").field("name", &self.name).finish_non_exhaustive()
    }
}

impl LayerKind {
    /// The tables of the flat state that it can keep in a directory of its own.
    pub const fn flat_tables(&self) -> Option<&'static [Table]> {
        self.hooks.flat
    }

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
        if stamped.is_none() && self.hooks.flat.is_none() && options.replica_path.is_some() {
            let reason = "keeps no flat state in a directory of its own; leave out --replica.path, or use --state replica";
            return Err(StateError::Unsupported { layer: self.name, reason: reason.to_owned() });
        }
        self.hooks.settle.map_or_else(|| Ok(Parameters::new()), |settle| settle(options, stamped))
    }

    /// Whether a parameter says where something is, which may be moved: the stamp remembers it and does not insist.
    pub fn is_place(&self, parameter: &str) -> bool {
        self.hooks.places.contains(&parameter)
    }

    /// Has the layer do in a measured run, of so many blocks after a warm-up of so many, what it does in a node that has
    /// run for days, unless the user said otherwise. Returns what readers of the figures should know of it.
    pub fn suit_run(
        &self,
        options: &mut LayerOptions,
        warmup: u64,
        measured: u64,
    ) -> Option<String> {
        self.hooks.suit_run?(options, warmup, measured)
    }

    /// Which of its work the layer had put off when a run ended with this block, if that is a good part of it.
    pub fn put_off(&self, options: &LayerOptions, last_block: u64) -> Option<String> {
        self.hooks.put_off?(options, last_block)
    }

    /// Whether each block that is executed is a write of the engine by itself, because an engine should see all that the
    /// layer does. What is done to stored blocks stays one write, so that a command which fails on the way has changed
    /// nothing.
    pub fn writes_each_block(&self, settings: &LayerOptions) -> bool {
        (self.hooks.flushes_each_block)(settings) && settings.executes
    }

    /// The options of a store for this layer, opened with these settings.
    #[must_use]
    pub fn suit_store(&self, mut options: StoreOptions, settings: &LayerOptions) -> StoreOptions {
        if self.writes_each_block(settings) {
            options.flush_every = 1;
        }
        options
    }

    /// Why it makes no difference in how large groups blocks become durable (`--flush-every`), if it does not.
    pub fn ignores_groups(&self, engine: &str, settings: &LayerOptions) -> Option<String> {
        let name = self.name;
        if self.writes_each_block(settings) {
            return Some(format!("`{name}` has each block written to the engine by itself"));
        }
        (engine == MemoryEngine::NAME)
            .then(|| format!("the engine `{engine}` keeps nothing on disk"))
    }

    /// How it executes blocks from witnesses, if it does.
    pub fn stateless(&self) -> Option<Stateless> {
        self.hooks.stateless
    }

    /// Whether it can use nodes that prefetchers read ([`bags`](crate::bags)).
    pub const fn takes_bags(&self) -> bool {
        self.hooks.bags
    }

    /// What the layer lacks, if it cannot be opened and that may be made up.
    pub fn provision(&self, options: &LayerOptions) -> Option<Provision> {
        self.hooks.provision?(options)
    }

    /// Puts together what several nodes proved of one account, each the keys that it answers for.
    ///
    /// # Errors
    ///
    /// If they do not belong together, or every node of this layer answers for all keys.
    pub fn join(&self, proofs: &[Proof]) -> Result<Proof, ProofError> {
        let join = self.hooks.join.ok_or_else(|| {
            let name = self.name;
            ProofError::Invalid(format!("a proof of `{name}` has no parts; give one proof"))
        })?;
        join(proofs)
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
