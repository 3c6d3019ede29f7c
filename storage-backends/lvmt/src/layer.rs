//! The layer: its head, and how it moves.

use crate::{
    ACCOUNTS, ENTRIES, EPOCHS, HISTORY, LEAVES, META, SLOTS, TREES,
    account::AccountState,
    check, collect,
    commitment::Body,
    history::{History, parse_meta, read_meta},
    key::Key,
    load,
    path::{Path, entry_index},
    prove,
    read::{LvmtReader, read_record, state_of, visit_slots},
    record::Record,
    session::LvmtSession,
    trees::{Head, HeadUpdate, Tree},
    undo::Undo,
};
use alloy_primitives::{Address, B256, U256};
use parking_lot::{Mutex, RwLock};
use polytrie_amt::{ProofTree, Setup};
use polytrie_kv::{Batch, KeyRange, Read, Snapshot, Store, Table};
use polytrie_state::{
    AccountVisit, BlockRef, CODE_TABLE, CheckReport, Commitment, Fork, GenesisAccount,
    LayerSession, Lifecycle, Outcome, Proof, Pruned, SlotVisit, StateError, StateLayer,
    StateReader, Turn, WriteSet, scan,
};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, sync::Arc, thread, time::Duration};

/// How much the layer can prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Proofs {
    /// Nothing: no tables for proofs are in memory.
    #[default]
    None,
    /// Every key.
    Full,
    /// The keys of one of `of` shards, `shard` from 1. `of` is a power of two.
    Shard {
        /// Which.
        shard: u32,
        /// Of how many.
        of: u32,
    },
}

impl FromStr for Proofs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shard = || {
            let (shard, of) = text.split_once('/')?;
            let (shard, of) = (shard.parse().ok()?, of.parse::<u32>().ok()?);
            let good = (1..=of).contains(&shard) && of.is_power_of_two() && of <= 1 << 16;
            good.then_some(Self::Shard { shard, of })
        };
        match text {
            "none" => Ok(Self::None),
            "full" => Ok(Self::Full),
            _ => shard().ok_or_else(|| {
                format!("`{text}` is none of `none`, `full` and `I/N` with I from 1 to N and N a power of two up to 65536, such as 3/16")
            }),
        }
    }
}

impl fmt::Display for Proofs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "none"),
            Self::Full => write!(f, "full"),
            Self::Shard { shard, of } => write!(f, "{shard}/{of}"),
        }
    }
}

/// What the layer lets a user set. None of it changes a commitment or a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LvmtOptions {
    /// How much it can prove.
    pub proofs: Proofs,
}

/// The multi-layer versioned multipoint trie as a state layer.
#[derive(Debug)]
pub struct LvmtLayer {
    shared: Arc<Shared>,
}

/// What the layer and its sessions share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) setup: Arc<Setup>,
    options: LvmtOptions,
    head: RwLock<Arc<Head>>,
    /// What the finished block, or the undone one, changes of the head.
    pending: Mutex<Option<HeadUpdate>>,
    /// The proofs of the root tree, as far as they were asked for.
    root_proofs: Mutex<Option<ProofTree>>,
    /// Why the head could not be read when the layer was opened.
    damage: Option<StateError>,
    lifecycle: Lifecycle,
}

impl Shared {
    pub(crate) fn head(&self) -> Arc<Head> {
        Arc::clone(&self.head.read())
    }

    /// A block is finished and waits to be accepted.
    pub(crate) fn finish(&self, turn: Turn, update: Option<HeadUpdate>) -> Result<(), StateError> {
        self.lifecycle.finish(turn)?;
        *self.pending.lock() = update;
        Ok(())
    }
}

/// The name of the setup that the state in a store was made with; `None` if there is no state, or none that can
/// be read (which opening the layer reports).
///
/// # Errors
///
/// If the store fails.
pub fn stored_setup(store: &dyn Read) -> Result<Option<B256>, StateError> {
    match read_meta(store) {
        Ok(meta) => Ok(meta.map(|(setup, _)| setup)),
        Err(StateError::Corrupt(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The head of what is stored, if it was made with this setup.
fn stored_head(store: &Store, setup: &Setup) -> Result<Head, StateError> {
    let epochs = match read_meta(store)? {
        Some((found, _)) if found != setup.id() => {
            return Err(StateError::Unsupported {
                layer: LvmtLayer::NAME,
                reason: format!(
                    "was given the setup {}, but the state was made with {found}; name the directory of that one with --lvmt.setup, or import again into another --datadir",
                    setup.id()
                ),
            });
        }
        Some((_, epochs)) => epochs,
        None => 0,
    };
    Head::load(store, setup.height(), History::load(store, epochs)?)
}

impl LvmtLayer {
    /// The layer's name.
    pub const NAME: &'static str = "lvmt";

    /// The tables it needs in its store.
    pub const TABLES: &'static [Table] =
        &[ACCOUNTS, SLOTS, ENTRIES, TREES, LEAVES, EPOCHS, HISTORY, META, CODE_TABLE];

    /// Opens the layer on what the store holds; an empty store is the empty state.
    ///
    /// # Errors
    ///
    /// If the store holds a state of another setup, or the setup cannot do what the options ask for. A head that
    /// is damaged is no error yet: [`check`](StateLayer::check) reports it, every other call fails.
    pub fn open(
        store: Store,
        setup: Arc<Setup>,
        options: LvmtOptions,
    ) -> Result<Arc<Self>, StateError> {
        if options.proofs != Proofs::None && !setup.can_prove() {
            let reason = format!(
                "has no tables for proofs, but was asked for proofs `{}`; open it with the tables",
                options.proofs
            );
            return Err(StateError::Unsupported { layer: Self::NAME, reason });
        }
        let lifecycle = Lifecycle::new(store.clone());
        let (head, damage) = match stored_head(&store, &setup) {
            Ok(head) => (head, None),
            // Still to be looked at by `check`, and good for nothing else.
            Err(damage @ StateError::Corrupt(_)) => {
                (Head::empty(setup.height()), Some(lifecycle.poison(damage)))
            }
            Err(error) => return Err(error),
        };
        let shared = Shared {
            store,
            setup,
            options,
            head: RwLock::new(Arc::new(head)),
            pending: Mutex::new(None),
            root_proofs: Mutex::new(None),
            damage,
            lifecycle,
        };
        Ok(Arc::new(Self { shared: Arc::new(shared) }))
    }

    /// The head, and a snapshot of the store at the same block. Between the writing of a block and its
    /// acceptance the two differ for a moment.
    fn at_head(&self) -> Result<(Arc<Head>, Snapshot), StateError> {
        for _ in 0..200 {
            let head = self.shared.head();
            let snapshot = self.shared.store.snapshot();
            let epochs = read_meta(&snapshot)?.map_or(0, |(_, epochs)| epochs);
            if epochs == head.history.size() {
                return Ok((head, snapshot));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Err(StateError::Protocol("a block was written and neither accepted nor discarded"))
    }

    /// What undoing the last block changes, from its record.
    fn undone(&self, record: &[u8]) -> Result<(Batch, Option<HeadUpdate>), StateError> {
        let shared = &*self.shared;
        let head = shared.head();
        let height = shared.setup.height();
        let rows = Undo::read(record)?.rows;
        let mut batch = Batch::new();
        let mut update =
            HeadUpdate { root: head.root, first: Vec::new(), history: History::default() };
        let mut epochs = None;
        for row in &rows {
            match row.value {
                Some(value) => batch.put(row.table, row.key, value),
                None => batch.delete(row.table, row.key),
            }
            if row.table == META {
                epochs = row.value.map_or(Some(0), |old| Some(parse_meta(old)?.1));
            } else if row.table == TREES {
                let path = Path::from_row_key(height, row.key)?;
                let tree = row.value.map(|old| Tree::read(&path, old)).transpose()?;
                let tree = tree.unwrap_or(Tree::NEVER);
                match path.level {
                    0 => update.root = tree.commitment,
                    1 => update.first.push((entry_index(height, 0, &path.prefix), tree)),
                    _ => {}
                }
            }
        }
        if rows.is_empty() {
            return Ok((batch, None));
        }
        let size = head.history.size();
        let Some(epochs) = epochs.filter(|epochs| epochs + 1 == size) else {
            return Err(StateError::Corrupt("an undo record is not that of the last block".into()));
        };
        update.history = History::load(&shared.store, epochs)?;
        Ok((batch, Some(update)))
    }
}

impl StateLayer for LvmtLayer {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn commitment(&self) -> Commitment {
        Body::of(self.shared.setup.id(), &self.shared.head()).commitment()
    }

    fn reader(&self) -> Result<Arc<dyn StateReader>, StateError> {
        self.shared.lifecycle.ready()?;
        Ok(Arc::new(LvmtReader(self.shared.store.snapshot())))
    }

    fn load(
        &self,
        accounts: &mut dyn Iterator<Item = Result<GenesisAccount<'_>, StateError>>,
    ) -> Result<Commitment, StateError> {
        let shared = &*self.shared;
        shared.lifecycle.ready()?;
        // What is in memory must not outlive the rows, should the load fail half-way.
        *shared.head.write() = Arc::new(Head::empty(shared.setup.height()));
        let head = load::load(&shared.store, &shared.setup, accounts)?;
        *shared.head.write() = Arc::new(head);
        Ok(self.commitment())
    }

    fn begin(&self, _: BlockRef) -> Result<Box<dyn LayerSession>, StateError> {
        let turn = self.shared.lifecycle.begin()?;
        Ok(Box::new(LvmtSession::new(Arc::clone(&self.shared), turn)))
    }

    fn accept(&self) -> Result<(), StateError> {
        let mut pending = self.shared.pending.lock();
        self.shared.lifecycle.accept()?;
        if let Some(update) = pending.take() {
            // A proof under way keeps the head it began with.
            Arc::make_mut(&mut self.shared.head.write()).apply(update);
        }
        Ok(())
    }

    fn discard(&self) -> Result<(), StateError> {
        let mut pending = self.shared.pending.lock();
        self.shared.lifecycle.discard()?;
        *pending = None;
        Ok(())
    }

    fn undo(&self, record: &[u8]) -> Result<Outcome, StateError> {
        let shared = &*self.shared;
        let turn = shared.lifecycle.begin()?;
        let (batch, update) = match self.undone(record) {
            Ok(undone) => undone,
            Err(error) => {
                shared.lifecycle.discard()?;
                return Err(error);
            }
        };
        let body = update.as_ref().map_or_else(
            || Body::of(shared.setup.id(), &shared.head()),
            |update| Body::after(shared.setup.id(), update),
        );
        shared.finish(turn, update)?;
        Ok(Outcome { commitment: body.commitment(), batch, undo: Vec::new() })
    }

    fn undo_writes(&self, record: &[u8], rows: &dyn Read) -> Result<WriteSet, StateError> {
        Undo::read(record)?.writes(rows)
    }

    fn fork(&self) -> Result<Fork, StateError> {
        let Shared { store, setup, options, lifecycle, .. } = &*self.shared;
        lifecycle.ready()?;
        let store = store.fork()?;
        Ok(Fork { layer: Self::open(store.clone(), Arc::clone(setup), *options)?, store })
    }

    fn prove(&self, address: &Address, slots: &[U256]) -> Result<Proof, StateError> {
        let shared = &*self.shared;
        shared.lifecycle.ready()?;
        let (head, snapshot) = self.at_head()?;
        let source = prove::Source {
            store: &snapshot,
            setup: &shared.setup,
            head: &head,
            root_proofs: &shared.root_proofs,
            proofs: shared.options.proofs,
        };
        prove::prove(source, address, slots)
    }

    fn accounts(&self, from: B256, visit: &mut AccountVisit<'_>) -> Result<(), StateError> {
        self.shared.lifecycle.ready()?;
        let snapshot = self.shared.store.snapshot();
        scan(&snapshot, ACCOUNTS, KeyRange::from(from.as_slice()), |key, row| {
            let Key::Account(hash) = Key::from_row(ACCOUNTS, key)? else {
                return Err(StateError::Corrupt("a slot is among the accounts".into()));
            };
            match AccountState::read(&Record::read(row)?.value)?.account {
                Some(account) => visit(hash, account),
                None => Ok(std::ops::ControlFlow::Continue(())),
            }
        })
    }

    fn slots(
        &self,
        account: B256,
        from: B256,
        visit: &mut SlotVisit<'_>,
    ) -> Result<(), StateError> {
        self.shared.lifecycle.ready()?;
        let snapshot = self.shared.store.snapshot();
        let record = read_record(&snapshot, &Key::Account(account), &mut Vec::new())?;
        let incarnation = state_of(record.as_ref())?.incarnation;
        visit_slots(&snapshot, &account, incarnation, &from, visit)
    }

    fn prune(&self, undo_records: &[Vec<u8>]) -> Result<Option<Pruned>, StateError> {
        let shared = &*self.shared;
        shared.lifecycle.begin()?;
        let pruned = collect::collect(&shared.store, undo_records);
        shared.lifecycle.discard()?;
        pruned.map(Some)
    }

    fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport, StateError> {
        if let Some(damage) = &self.shared.damage {
            let mut report = CheckReport::default();
            report.problem(damage.to_string());
            return Ok(report);
        }
        self.shared.lifecycle.ready()?;
        let (head, snapshot) = self.at_head()?;
        check::check(&snapshot, &self.shared.setup, &head, progress)
    }
}
