//! The oracle as a state layer.

use super::{
    Oracle,
    rows::{self, ACCOUNTS, ROOT, SLOTS},
};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use parking_lot::Mutex;
use polytrie_kv::{Batch, Store, Table};
use polytrie_state::{
    Account, AccountVisit, BlockRef, CODE_TABLE, CheckReport, Commitment, Fork, GenesisAccounts,
    HeadChange, LayerSession, Lifecycle, Outcome, Proof, Proposal, Prove, SlotVisit, StateError,
    StateLayer, StateReader, UndoRecord, WIPED_TABLE, WriteSet,
};
use std::sync::Arc;

/// The oracle as a state layer: it holds the whole state in memory, computes every state root from all of it, and
/// copies it for every block.
///
/// Slow and simple; a reference for comparisons and a stand-in for tests of the code above the layer interface. Never
/// for users.
#[derive(Debug)]
pub struct OracleLayer {
    store: Store,
    lifecycle: Arc<Lifecycle>,
    head: Arc<Mutex<Head>>,
}

#[derive(Debug, Clone)]
struct Head {
    state: Arc<Oracle>,
    root: B256,
}

/// The next head of the layer.
#[derive(Debug)]
struct NextHead {
    head: Arc<Mutex<Head>>,
    next: Option<Head>,
}

impl HeadChange for NextHead {
    fn accept(&mut self) -> Result<(), StateError> {
        if let Some(next) = self.next.take() {
            *self.head.lock() = next;
        }
        Ok(())
    }
}

impl OracleLayer {
    /// The tables that the layer needs in its store.
    pub const TABLES: &[Table] = &[ACCOUNTS, SLOTS, ROOT, CODE_TABLE, WIPED_TABLE];

    /// Opens the layer on a store that has [`Self::TABLES`], and reads all of it.
    ///
    /// # Errors
    ///
    /// If the store fails, or its rows are damaged.
    pub fn open(store: Store) -> Result<Arc<Self>, StateError> {
        let state = Arc::new(rows::read(&store)?);
        let head = Arc::new(Mutex::new(Head { root: state.state_root(), state }));
        Ok(Arc::new(Self { lifecycle: Lifecycle::new(store.clone()), store, head }))
    }

    /// Returns the state at the head.
    pub fn state(&self) -> Arc<Oracle> {
        self.head.lock().state.clone()
    }

    fn next_head(&self) -> NextHead {
        NextHead { head: self.head.clone(), next: None }
    }
}

/// Returns the outcome of a block that changes `state`.
fn finish(
    mut proposal: Proposal<NextHead>,
    state: &Oracle,
    writes: &WriteSet,
    undo: Vec<u8>,
) -> Result<Outcome, StateError> {
    let mut next = state.clone();
    next.apply_set(writes);
    let root = next.state_root();
    let mut batch = Batch::new();
    rows::write(&mut batch, writes, root);
    proposal.change.next = Some(Head { state: Arc::new(next), root });
    proposal.finish(Commitment::state_root(root), batch, undo)
}

impl Prove for OracleLayer {
    fn prove(&self, address: &Address, slots: &[U256]) -> Result<Proof, StateError> {
        self.lifecycle.ready()?;
        self.state()
            .prove(self.name(), address, slots)
            .map_err(|e| StateError::Corrupt(format!("a proof has no JSON form ({e})")))
    }
}

impl StateLayer for OracleLayer {
    fn name(&self) -> &'static str {
        "oracle"
    }

    fn commitment(&self) -> Commitment {
        Commitment::state_root(self.head.lock().root)
    }

    fn reader(&self) -> Result<Arc<dyn StateReader>, StateError> {
        self.lifecycle.ready()?;
        Ok(Arc::new(OracleReader(self.state())))
    }

    fn load(&self, accounts: GenesisAccounts<'_, '_>) -> Result<Commitment, StateError> {
        self.lifecycle.fillable()?;
        self.lifecycle.filling();
        let mut state = Oracle::default();
        for account in accounts {
            state.insert(account?)?;
        }
        let root = state.state_root();
        let mut batch = Batch::new();
        rows::write_all(&mut batch, &state, root);
        self.store.engine_write(&batch)?;
        *self.head.lock() = Head { state: Arc::new(state), root };
        self.lifecycle.filled();
        Ok(Commitment::state_root(root))
    }

    fn begin(&self, parent: BlockRef) -> Result<Box<dyn LayerSession>, StateError> {
        Ok(Box::new(OracleSession {
            proposal: self.lifecycle.begin(self.next_head())?,
            store: self.store.clone(),
            number: parent.number + 1,
            head: self.state(),
            so_far: None,
        }))
    }

    fn undo(&self, record: &[u8]) -> Result<Outcome, StateError> {
        let (proposal, writes) = self.lifecycle.begin_undo(record, self.next_head())?;
        finish(proposal, &self.state(), &writes, Vec::new())
    }

    fn fork(&self) -> Result<Fork, StateError> {
        let store = self.store.fork()?;
        Ok(Fork { layer: Self::open(store.clone())?, store })
    }

    fn proofs(&self) -> Option<&dyn Prove> {
        Some(self)
    }

    fn accounts(&self, from: B256, visit: &mut AccountVisit<'_>) -> Result<(), StateError> {
        self.lifecycle.ready()?;
        for (hash, entry) in self.state().accounts.range(from..) {
            if visit(*hash, entry.account)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn slots(
        &self,
        account: B256,
        from: B256,
        visit: &mut SlotVisit<'_>,
    ) -> Result<(), StateError> {
        self.lifecycle.ready()?;
        if let Some(entry) = self.state().accounts.get(&account) {
            for (hash, value) in entry.slots.range(from..) {
                if visit(*hash, *value)?.is_break() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport, StateError> {
        self.lifecycle.ready()?;
        let state = rows::read(&self.store)?;
        let mut report = CheckReport {
            accounts: state.accounts.len() as u64,
            slots: state.accounts.values().map(|entry| entry.slots.len() as u64).sum(),
            ..CheckReport::default()
        };
        progress(report.accounts);
        let (found, expected) = (state.state_root(), rows::read_root(&self.store)?);
        if expected.unwrap_or(alloy_trie::EMPTY_ROOT_HASH) != found {
            report.problem(format!("the state has the root {found}, expected {expected:?}"));
        }
        for (hash, code) in &state.codes {
            if keccak256(code) != *hash {
                report.problem(format!("the code {hash} has another hash"));
            }
        }
        for (hash, entry) in &state.accounts {
            let code_hash = entry.account.code_hash;
            if entry.account.has_code() && !state.codes.contains_key(&code_hash) {
                report.problem(format!(
                    "account {hash} has the code {code_hash}, which is not there"
                ));
            }
            if entry.slots.values().any(U256::is_zero) {
                report.problem(format!("account {hash} has a slot that is zero"));
            }
        }
        Ok(report)
    }
}

#[derive(Debug)]
struct OracleReader(Arc<Oracle>);

impl StateReader for OracleReader {
    fn account(&self, address: &Address) -> Result<Option<Account>, StateError> {
        Ok(self.0.account(address))
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        Ok(self.0.slot(address, slot))
    }

    fn code(&self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        Ok(self.0.codes.get(code_hash).cloned())
    }

    fn has_storage(&self, address: &Address) -> Result<bool, StateError> {
        Ok(self.0.has_storage(address))
    }
}

#[derive(Debug)]
struct OracleSession {
    proposal: Proposal<NextHead>,
    store: Store,
    /// Number of the block.
    number: u64,
    head: Arc<Oracle>,
    /// State within the block, for the roots between its transactions.
    so_far: Option<Oracle>,
}

impl LayerSession for OracleSession {
    fn account(&mut self, _: &Address, hash: &B256) -> Result<Option<Account>, StateError> {
        Ok(self.head.accounts.get(hash).map(|entry| entry.account))
    }

    fn slot(
        &mut self,
        _: &Address,
        account: &B256,
        _: &U256,
        hash: &B256,
    ) -> Result<U256, StateError> {
        Ok(self.head.slot_by_hash(account, hash))
    }

    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        Ok(self.head.codes.get(code_hash).cloned())
    }

    fn has_storage(&mut self, _: &Address, hash: &B256) -> Result<bool, StateError> {
        Ok(self.head.accounts.get(hash).is_some_and(|entry| !entry.slots.is_empty()))
    }

    fn state_root_so_far(&mut self, since_last: &WriteSet) -> Result<Option<B256>, StateError> {
        let so_far = self.so_far.get_or_insert_with(|| (*self.head).clone());
        so_far.apply_set(since_last);
        Ok(Some(so_far.state_root()))
    }

    fn finish(self: Box<Self>, writes: &WriteSet) -> Result<Outcome, StateError> {
        let slots = |account: &B256, visit: &mut SlotVisit<'_>| {
            let entry = self.head.accounts.get(account);
            let mut slots = entry.into_iter().flat_map(|entry| entry.slots.iter());
            slots.try_for_each(|(slot, value)| visit(*slot, *value).map(drop))
        };
        let undo = UndoRecord::of(writes, (&self.store, self.number), slots)?.encode();
        finish(self.proposal, &self.head, writes, undo)
    }
}
