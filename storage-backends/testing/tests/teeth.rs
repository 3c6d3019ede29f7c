//! Tests of the suite: each layer here has one mistake, and the named part of the suite must fail for it.

use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_kv::{Batch, Op, Store, Table};
use polytrie_state::{
    Access, Account, BlockRef, CheckReport, Commitment, Fork, GenesisAccounts, LayerSession,
    Outcome, Proof, ProofError, StateError, StateLayer, StateReader, Unaccepted, Wants, WriteSet,
};
use polytrie_testing::{
    AlterLayer, AlterSession, AlteredLayer, AlteredSession, OracleLayer,
    suite::{self, LayerFactory, Proven, Verifier},
    verify_eip1186,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    CommitmentStaysBehind,
    AcceptIsForgotten,
    UndoKeepsSlots,
    WipesAreNotWritten,
    StorageIsNeverSeen,
    ReadersMoveOn,
    CheckSeesNothing,
    FailuresAreSwallowed,
    WritesBeforeItsTurn,
    HintsLeaveTraces,
    ThreadsLeaveTraces,
    BeginsTwice,
    ForksWriteThrough,
    ProofsAreNotRead,
    SourceErrorsEndTheLoad,
}

#[derive(Debug)]
struct Broken(Mistake);

impl LayerFactory for Broken {
    fn tables(&self) -> Vec<Table> {
        OracleLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        let inner = OracleLayer::open(store.clone())?;
        let first = inner.commitment();
        Ok(Arc::new(AlteredLayer::new(inner, Change { mistake: self.0, store, first })))
    }

    fn verifier(&self) -> Option<Verifier> {
        Some(if self.0 == Mistake::ProofsAreNotRead { believe } else { verify_eip1186 })
    }
}

/// Accepts the nonce that the proof claims without verifying it.
fn believe(
    commitment: &Commitment,
    address: &Address,
    slots: &[U256],
    proof: &Proof,
) -> Result<Proven, ProofError> {
    verify_eip1186(commitment, address, slots, proof).or_else(|e| {
        let claimed = proof.proof["nonce"].as_str().and_then(|text| text.parse::<U256>().ok());
        let Some(nonce) = claimed.and_then(|nonce| u64::try_from(nonce).ok()) else {
            return Err(e);
        };
        let mut honest = proof.clone();
        honest.proof["nonce"] = "0x1".into();
        let (account, values) = verify_eip1186(commitment, address, slots, &honest)?;
        Ok((account.map(|account| Account { nonce, ..account }), values))
    })
}

#[derive(Debug)]
struct Change {
    mistake: Mistake,
    store: Store,
    first: Commitment,
}

impl AlterLayer for Change {
    fn commitment(&self, inner: &Arc<dyn StateLayer>) -> Commitment {
        match self.mistake {
            Mistake::CommitmentStaysBehind => self.first.clone(),
            _ => inner.commitment(),
        }
    }

    fn reader(&self, inner: &Arc<dyn StateLayer>) -> Result<Arc<dyn StateReader>, StateError> {
        match self.mistake {
            Mistake::ReadersMoveOn => Ok(Arc::new(HeadReader(inner.clone()))),
            _ => inner.reader(),
        }
    }

    fn load(
        &self,
        inner: &Arc<dyn StateLayer>,
        accounts: GenesisAccounts<'_, '_>,
    ) -> Result<Commitment, StateError> {
        match self.mistake {
            Mistake::SourceErrorsEndTheLoad => {
                inner.load(&mut accounts.map_while(Result::ok).map(Ok))
            }
            _ => inner.load(accounts),
        }
    }

    fn begin(
        &self,
        inner: &Arc<dyn StateLayer>,
        parent: BlockRef,
    ) -> Result<Box<dyn LayerSession>, StateError> {
        let session = inner.begin(parent).or_else(|error| match self.mistake {
            Mistake::BeginsTwice => inner.fork()?.layer.begin(parent),
            _ => Err(error),
        })?;
        let change = SessionChange { mistake: self.mistake, store: self.store.clone(), hints: 0 };
        Ok(AlteredSession::boxed(session, change))
    }

    fn undo(&self, inner: &Arc<dyn StateLayer>, record: &[u8]) -> Result<Outcome, StateError> {
        let mut outcome = inner.undo(record)?;
        if self.mistake == Mistake::UndoKeepsSlots {
            outcome.batch = without(&outcome.batch, |table, op| {
                table.name == "OracleSlots" && matches!(op, Op::Delete { .. })
            });
        }
        Ok(outcome)
    }

    fn fork(&self, inner: &Arc<dyn StateLayer>) -> Result<Fork, StateError> {
        if self.mistake != Mistake::ForksWriteThrough {
            return inner.fork();
        }
        let store = self.store.clone();
        Ok(Fork { layer: OracleLayer::open(store.clone())?, store })
    }

    fn check(
        &self,
        inner: &Arc<dyn StateLayer>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<CheckReport, StateError> {
        let report = inner.check(progress);
        match self.mistake {
            Mistake::CheckSeesNothing => {
                Ok(CheckReport { problems: Vec::new(), ..report.unwrap_or_default() })
            }
            _ => report,
        }
    }
}

#[derive(Debug)]
struct SessionChange {
    mistake: Mistake,
    store: Store,
    hints: u64,
}

impl AlterSession for SessionChange {
    fn has_storage(
        &mut self,
        inner: &mut dyn LayerSession,
        address: &Address,
        hash: &B256,
    ) -> Result<bool, StateError> {
        let found = inner.has_storage(address, hash)?;
        Ok(found && self.mistake != Mistake::StorageIsNeverSeen)
    }

    fn wants(&self, inner: &dyn LayerSession) -> Wants {
        Wants { hints: true, ..inner.wants() }
    }

    fn hint(&mut self, _: &mut dyn LayerSession, _: Access) {
        self.hints += 1;
    }

    fn finish(
        self,
        inner: Box<dyn LayerSession>,
        writes: &WriteSet,
    ) -> Result<Outcome, StateError> {
        let mut outcome = inner.finish(writes)?;
        let stray = OracleLayer::TABLES[0];
        match self.mistake {
            Mistake::WipesAreNotWritten => {
                outcome.batch =
                    without(&outcome.batch, |_, op| matches!(op, Op::DeleteRange { .. }));
            }
            Mistake::WritesBeforeItsTurn => {
                self.store.write(std::mem::take(&mut outcome.batch))?;
            }
            Mistake::HintsLeaveTraces if self.hints > 0 => {
                outcome.batch.put(stray, b"hints", b"");
            }
            Mistake::ThreadsLeaveTraces => {
                let threads = rayon::current_num_threads().to_string();
                outcome.batch.put(stray, b"threads", threads.as_bytes());
            }
            Mistake::AcceptIsForgotten | Mistake::FailuresAreSwallowed => {
                let mistake = self.mistake;
                outcome.proposal = Box::new(Unsettled { mistake, inner: outcome.proposal });
            }
            _ => {}
        }
        Ok(outcome)
    }
}

/// An outcome that is not accepted correctly.
#[derive(Debug)]
struct Unsettled {
    mistake: Mistake,
    inner: Box<dyn Unaccepted>,
}

impl Unaccepted for Unsettled {
    fn accept(self: Box<Self>) -> Result<(), StateError> {
        match self.mistake {
            Mistake::AcceptIsForgotten => self.inner.discard(),
            _ => self.inner.accept().or(Ok(())),
        }
    }

    fn discard(self: Box<Self>) -> Result<(), StateError> {
        self.inner.discard()
    }
}

fn without(batch: &Batch, unwanted: impl Fn(Table, &Op<'_>) -> bool) -> Batch {
    let mut kept = Batch::new();
    for (table, op) in batch.ops().filter(|(table, op)| !unwanted(*table, op)) {
        kept.push_op(table, op);
    }
    kept
}

/// A reader that answers at the current head instead of its own block.
#[derive(Debug)]
struct HeadReader(Arc<dyn StateLayer>);

impl StateReader for HeadReader {
    fn account(&self, address: &Address) -> Result<Option<Account>, StateError> {
        self.0.reader()?.account(address)
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        self.0.reader()?.slot(address, slot)
    }

    fn code(&self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        self.0.reader()?.code(code_hash)
    }

    fn has_storage(&self, address: &Address) -> Result<bool, StateError> {
        self.0.reader()?.has_storage(address)
    }
}

type Part = fn(&dyn LayerFactory);

fn bites(mistake: Mistake, parts: &[Part]) {
    for part in parts {
        let passed = catch_unwind(AssertUnwindSafe(|| part(&Broken(mistake)))).is_ok();
        let expected = mistake == Mistake::None;
        assert_eq!(passed, expected, "{mistake:?}: whether a part of the suite passed");
    }
}

#[test]
fn without_a_mistake_it_passes() {
    bites(
        Mistake::None,
        &[suite::random_histories, suite::hints_change_nothing, suite::forks_go_their_own_way],
    );
}

#[test]
fn wrong_commitments_are_noticed() {
    bites(Mistake::CommitmentStaysBehind, &[suite::adversarial_history, suite::blocks_are_undone]);
    bites(Mistake::AcceptIsForgotten, &[suite::random_histories, suite::loading_equals_building]);
}

#[test]
fn wrong_rows_are_noticed() {
    bites(
        Mistake::UndoKeepsSlots,
        &[
            suite::blocks_are_undone,
            suite::other_blocks_follow_an_undo,
            suite::clean_layers_check_clean,
            suite::a_crash_around_a_change_of_branch_is_survived,
        ],
    );
    bites(
        Mistake::WipesAreNotWritten,
        &[suite::blocks_are_undone, suite::clean_layers_check_clean],
    );
    bites(
        Mistake::WritesBeforeItsTurn,
        &[suite::a_crash_at_any_write_is_survived, suite::discarded_blocks_leave_nothing],
    );
    bites(Mistake::HintsLeaveTraces, &[suite::hints_change_nothing]);
    bites(Mistake::ThreadsLeaveTraces, &[suite::threads_change_nothing]);
}

#[test]
fn forks_that_are_none_are_noticed() {
    bites(Mistake::ForksWriteThrough, &[suite::forks_go_their_own_way]);
}

#[test]
fn wrong_reads_are_noticed() {
    bites(
        Mistake::StorageIsNeverSeen,
        &[suite::adversarial_history, suite::write_sets_are_minimal],
    );
    bites(Mistake::ReadersMoveOn, &[suite::readers_keep_their_block]);
}

#[test]
fn swallowed_errors_are_noticed() {
    bites(Mistake::CheckSeesNothing, &[suite::damage_is_found]);
    bites(Mistake::FailuresAreSwallowed, &[suite::a_failed_write_poisons]);
    bites(Mistake::BeginsTwice, &[suite::calls_out_of_order_are_refused]);
    bites(Mistake::SourceErrorsEndTheLoad, &[suite::an_interrupted_load_is_repeated]);
    bites(Mistake::ProofsAreNotRead, &[suite::tampered_proofs_do_not]);
}
