//! The life cycle of a layer: one block in progress at a time, and none after a failure.

use crate::{CheckReport, HeadChange, Proposal, Result, StateError, UndoRecord, WriteSet, corrupt};
use parking_lot::{Condvar, Mutex};
use polytrie_kv::{Snapshot, Store};
use std::{collections::VecDeque, sync::Arc};

/// The order in which a layer's methods may be called, enforced in one place for all layers.
///
/// A layer has one and checks it before every call. Any change of the head begins here, and is a [`Proposal`] from
/// then on:
///
/// ```text
///         begin            finish                 accept
///   idle ───────► started ───────► finished ─────────────► idle
///                    └── dropped ────┴── dropped ────────► idle
/// ```
///
/// A layer that computes commitments behind the blocks sets how many blocks may wait ([`Self::with_depth`]). Such a
/// block may also end with [`Proposal::wait`], after which the next one begins.
///
/// A layer that finds its stored state damaged opens nevertheless ([`Self::opened`]). It can be checked, which
/// reports the damage, and filled again; every other call fails.
#[derive(Debug)]
pub struct Lifecycle {
    store: Store,
    depth: usize,
    state: Mutex<State>,
    /// Signals that a proposal was accepted or discarded, or that the layer has failed.
    settled: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The proposals that are neither accepted nor void, oldest first, by their numbers.
    open: VecDeque<u64>,
    /// The phase of the newest open proposal.
    phase: Phase,
    /// Whether proposals on top of the open ones were discarded. Memory is rolled back when the last open one is
    /// settled.
    is_void_above: bool,
    /// Number of the last proposal.
    last: u64,
    failure: Option<StateError>,
    /// The damage of the stored state, for which it cannot be used.
    damage: Option<StateError>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No proposal is open.
    #[default]
    Idle,
    /// The newest proposal is in progress.
    Started,
    /// The newest proposal has ended, and the next one may begin.
    Waiting,
    /// The newest proposal has ended, and nothing begins before it is settled.
    Finished,
}

impl State {
    /// Removes this proposal and those on top of it.
    fn close_from(&mut self, position: usize) {
        self.open.truncate(position);
        self.phase = if self.open.is_empty() { Phase::Idle } else { Phase::Waiting };
        self.is_void_above = !self.open.is_empty();
    }
}

impl Lifecycle {
    /// Creates the life cycle of a layer on `store`, with no proposal.
    pub fn new(store: Store) -> Arc<Self> {
        Self::with_depth(store, 0)
    }

    /// Creates the life cycle of a layer in which this many blocks may begin on top of a waiting one.
    pub fn with_depth(store: Store, depth: usize) -> Arc<Self> {
        Arc::new(Self { store, depth, state: Mutex::default(), settled: Condvar::new() })
    }

    /// Creates the life cycle of a layer, and returns what was `read` from its store. If that is damaged, returns
    /// `empty` instead, which the layer holds until it is filled again.
    ///
    /// # Errors
    ///
    /// If reading failed for another reason than damage, and any error of `empty`.
    pub fn opened<T>(
        store: Store,
        read: Result<T>,
        empty: impl FnOnce() -> Result<T>,
    ) -> Result<(Arc<Self>, T)> {
        let life = Self::new(store);
        let found = match read {
            Err(damage @ StateError::Corrupt(_)) => {
                life.state.lock().damage = Some(damage);
                empty()?
            }
            read => read?,
        };
        Ok((life, found))
    }

    /// Checks that the layer may be used.
    ///
    /// # Errors
    ///
    /// [`StateError::Poisoned`] if the store or the layer failed before; the damage, if the stored state is damaged.
    pub fn ready(&self) -> Result<()> {
        self.fillable()?;
        self.state.lock().damage.clone().map_or(Ok(()), Err)
    }

    /// Returns the store as it is now, if the layer may be used.
    ///
    /// # Errors
    ///
    /// Those of [`Self::ready`].
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.ready()?;
        Ok(self.store.snapshot())
    }

    /// Checks that the layer may be filled, which is possible even if the stored state is damaged.
    ///
    /// # Errors
    ///
    /// [`StateError::Poisoned`] if the store or the layer failed before.
    pub fn fillable(&self) -> Result<()> {
        let failure = self.state.lock().failure.clone();
        let failure = failure.or_else(|| self.store.poisoned().map(StateError::Store));
        failure.map_or(Ok(()), |failure| Err(StateError::Poisoned(Box::new(failure))))
    }

    /// Notes that the layer is being filled, after [`Self::fillable`]. Until [`Self::filled`] it can be checked and filled
    /// again, and nothing else: a load that fails leaves some of the rows.
    pub fn filling(&self) {
        self.state.lock().damage = Some(corrupt!("it was not filled to its end"));
    }

    /// Notes that the layer was filled, which removes any damage.
    pub fn filled(&self) {
        self.state.lock().damage = None;
    }

    /// Returns the report of a check if the stored state was found damaged; else `None`.
    ///
    /// # Errors
    ///
    /// Those of [`Self::fillable`].
    pub fn damage(&self) -> Result<Option<CheckReport>> {
        self.fillable()?;
        let damage = self.state.lock().damage.clone();
        Ok(damage.map(|damage| {
            let mut report = CheckReport::default();
            report.problem(damage.to_string());
            report
        }))
    }

    /// Begins a block or an undo. `change` decides what happens to the layer's memory when the proposal is accepted
    /// or dropped.
    ///
    /// # Errors
    ///
    /// Those of [`Self::ready`]; [`StateError::Protocol`] if the last proposal is neither accepted nor discarded, or
    /// too many blocks wait.
    pub fn begin<C: HeadChange>(self: &Arc<Self>, change: C) -> Result<Proposal<C>> {
        self.ready()?;
        let mut state = self.state.lock();
        let has_ended = matches!(state.phase, Phase::Idle | Phase::Waiting);
        if !has_ended || state.is_void_above || state.open.len() > self.depth {
            return Err(StateError::Protocol(
                "a block was begun before the last one was accepted or discarded",
            ));
        }
        state.last += 1;
        let number = state.last;
        state.open.push_back(number);
        state.phase = Phase::Started;
        drop(state);
        Ok(Proposal::new(Arc::clone(self), number, change))
    }

    /// Begins an undo in a layer with plain [`UndoRecord`]s. Returns the writes that it makes, too.
    ///
    /// # Errors
    ///
    /// Those of [`Self::begin`]; [`StateError::Corrupt`] if `record` is damaged.
    pub fn begin_undo<C: HeadChange>(
        self: &Arc<Self>,
        record: &[u8],
        change: C,
    ) -> Result<(Proposal<C>, WriteSet)> {
        self.ready()?;
        self.settled()?;
        let record = UndoRecord::decode(record)?;
        if !record.is_whole() {
            let error = "a block that is taken back in steps was taken back in one";
            return Err(StateError::Protocol(error));
        }
        Ok((self.begin(change)?, record.into_writes()))
    }

    /// Checks that no ended block waits to be accepted, for actions that are not allowed meanwhile.
    ///
    /// # Errors
    ///
    /// [`StateError::Protocol`] if a block waits.
    pub fn settled(&self) -> Result<()> {
        let state = self.state.lock();
        let under_way = usize::from(state.phase == Phase::Started);
        if state.open.len() > under_way {
            return Err(StateError::Protocol("blocks wait to be accepted"));
        }
        Ok(())
    }

    /// Notes a failure after which the layer must not go on (a worker thread that died, memory and store that
    /// disagree) and returns it. Only the first failure is kept.
    pub fn poison(&self, failure: StateError) -> StateError {
        self.state.lock().failure.get_or_insert_with(|| failure.clone());
        self.settled.notify_all();
        failure
    }

    /// Waits while an ended block is neither accepted nor discarded, unless the layer has failed. The store may have the
    /// rows of that block already.
    pub(crate) fn wait_until_settled(&self) {
        let mut state = self.state.lock();
        while state.phase == Phase::Finished && state.failure.is_none() {
            self.settled.wait(&mut state);
        }
    }

    /// Checks that this proposal is the one in progress.
    pub(crate) fn check(&self, number: u64) -> Result<()> {
        self.ready()?;
        let state = self.state.lock();
        if state.phase == Phase::Started && state.open.back() == Some(&number) {
            return Ok(());
        }
        Err(StateError::Protocol("a block was continued after it had been discarded"))
    }

    /// Ends this proposal, which must be in progress.
    pub(crate) fn end(&self, number: u64, may_wait: bool) -> Result<()> {
        self.check(number)?;
        self.state.lock().phase = if may_wait { Phase::Waiting } else { Phase::Finished };
        Ok(())
    }

    /// Returns how many open proposals are below this one; `None` if it is void.
    pub(crate) fn below(&self, number: u64) -> Option<usize> {
        self.state.lock().open.iter().position(|open| *open == number)
    }

    /// Whether this proposal, the oldest one, is the only open one, and others on top of it were discarded.
    pub(crate) fn is_last_below_void(&self) -> bool {
        let state = self.state.lock();
        state.is_void_above && state.open.len() == 1
    }

    /// Notes that the oldest proposal was accepted.
    pub(crate) fn accepted(&self) {
        let mut state = self.state.lock();
        state.open.pop_front();
        if state.open.is_empty() {
            (state.phase, state.is_void_above) = (Phase::Idle, false);
        }
        self.settled.notify_all();
    }

    /// Notes that this proposal and those on top of it are void.
    pub(crate) fn discarded(&self, number: u64) {
        let mut state = self.state.lock();
        if let Some(position) = state.open.iter().position(|open| *open == number) {
            state.close_from(position);
        }
        self.settled.notify_all();
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{CODE_TABLE, Commitment, Outcome};
    use polytrie_kv::Batch;

    fn lifecycle(depth: usize) -> Arc<Lifecycle> {
        Lifecycle::with_depth(Store::memory(&[CODE_TABLE]).unwrap(), depth)
    }

    /// A head change that notes each call, and fails on request.
    #[derive(Debug, Clone, Default)]
    struct Notes {
        name: &'static str,
        fails: bool,
        notes: Arc<Mutex<Vec<String>>>,
    }

    impl Notes {
        fn named(&self, name: &'static str) -> Self {
            Self { name, ..self.clone() }
        }

        fn note(&self, what: &str) -> Result<()> {
            self.notes.lock().push(format!("{what} {}", self.name));
            if self.fails { Err(StateError::Corrupt("on purpose".into())) } else { Ok(()) }
        }

        fn take(&self) -> Vec<String> {
            std::mem::take(&mut self.notes.lock())
        }
    }

    impl HeadChange for Notes {
        fn accept(&mut self) -> Result<()> {
            self.note("accept")
        }

        fn discard(&mut self) -> Result<()> {
            self.note("discard")
        }
    }

    fn finish<C: HeadChange>(proposal: Proposal<C>) -> Outcome {
        proposal.finish(Commitment::none(), Batch::new(), Vec::new()).unwrap()
    }

    fn waiting(life: &Arc<Lifecycle>, change: Notes) -> Proposal<Notes> {
        let mut proposal = life.begin(change).unwrap();
        proposal.wait().unwrap();
        proposal
    }

    #[test]
    fn what_is_finished_is_accepted_or_dropped() {
        let (life, notes) = (lifecycle(0), Notes::default());
        let proposal = life.begin(notes.named("a")).unwrap();
        assert!(matches!(life.begin(()), Err(StateError::Protocol(_))));
        life.settled().unwrap();
        let outcome = finish(proposal);
        assert!(matches!(life.begin(()), Err(StateError::Protocol(_))));
        assert!(life.settled().is_err());
        outcome.accept().unwrap();
        assert_eq!(notes.take(), ["accept a"]);

        drop(life.begin(notes.named("b")).unwrap());
        drop(finish(life.begin(notes.named("c")).unwrap()));
        finish(life.begin(notes.named("d")).unwrap()).discard().unwrap();
        assert_eq!(notes.take(), ["discard b", "discard c", "discard d"]);
        assert!(matches!(life.begin_undo(&[], ()), Err(StateError::Corrupt(_))));
        life.begin(()).unwrap();
    }

    #[test]
    fn as_many_blocks_wait_as_were_announced() {
        let (life, notes) = (lifecycle(2), Notes::default());
        let [first, second, third] = ["a", "b", "c"].map(|name| waiting(&life, notes.named(name)));
        assert!(matches!(life.begin(()), Err(StateError::Protocol(_))));
        assert!(life.settled().is_err());
        finish(first).accept().unwrap();
        let fourth = life.begin(notes.named("d")).unwrap();
        finish(second).accept().unwrap();
        fourth.check().unwrap();
        assert_eq!(notes.take(), ["accept a", "accept b"]);
        // With the oldest proposal, all are void.
        drop(third);
        assert_eq!(notes.take(), ["discard c"]);
        assert!(matches!(fourth.check(), Err(StateError::Protocol(_))));
        life.settled().unwrap();
        let fifth = life.begin(notes.named("e")).unwrap();
        drop(fourth);
        fifth.check().unwrap();
        assert_eq!(notes.take(), [""; 0]);
    }

    #[test]
    fn outcomes_are_accepted_in_order() {
        let (life, notes) = (lifecycle(2), Notes::default());
        let [first, second] = ["a", "b"].map(|name| waiting(&life, notes.named(name)));
        assert!(matches!(finish(second).accept(), Err(StateError::Protocol(_))));
        finish(first).accept().unwrap();
        assert_eq!(notes.take(), ["accept a", "discard a"]);
    }

    /// A block is dropped while others wait below it: they stay, and memory is rolled back to the last of them.
    #[test]
    fn what_waits_below_stands() {
        let (life, notes) = (lifecycle(2), Notes::default());
        let [first, second] = ["a", "b"].map(|name| waiting(&life, notes.named(name)));
        drop(life.begin(notes.named("c")).unwrap());
        assert!(matches!(life.begin(()), Err(StateError::Protocol(_))));
        finish(first).accept().unwrap();
        assert_eq!(notes.take(), ["accept a"]);
        finish(second).accept().unwrap();
        assert_eq!(notes.take(), ["accept b", "discard b"]);
        life.begin(()).unwrap();
    }

    #[test]
    fn a_wait_for_an_ended_block_ends_with_it_or_with_the_layer() {
        let life = lifecycle(0);
        life.wait_until_settled();
        let started = life.begin(()).unwrap();
        life.wait_until_settled();
        drop(started);
        let ends: [fn(&Lifecycle, Outcome); 3] = [
            |_, outcome| {
                outcome.accept().unwrap();
            },
            |_, outcome| drop(outcome),
            |life, outcome| {
                life.poison(StateError::Corrupt("on purpose".into()));
                drop(outcome);
            },
        ];
        for end in ends {
            let outcome = finish(life.begin(()).unwrap());
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| life.wait_until_settled());
                assert!(!waiting.is_finished());
                end(&life, outcome);
                waiting.join().unwrap();
            });
        }
    }

    #[test]
    fn a_change_that_fails_poisons() {
        for is_accepted in [true, false] {
            let life = lifecycle(0);
            let notes = Notes { fails: true, ..Notes::default() };
            let outcome = finish(life.begin(notes.clone()).unwrap());
            if is_accepted {
                assert!(matches!(outcome.accept(), Err(StateError::Corrupt(_))));
            } else {
                drop(outcome);
            }
            assert_eq!(notes.take().len(), 1);
            assert!(matches!(life.begin(()), Err(StateError::Poisoned(_))));
        }
    }

    #[test]
    fn a_damaged_state_is_checked_and_filled_and_nothing_else() {
        let store = Store::memory(&[CODE_TABLE]).unwrap();
        let damage = StateError::Corrupt("a row".into());
        let (life, found) =
            Lifecycle::opened(store.clone(), Err(damage.clone()), || Ok("empty")).unwrap();
        assert_eq!(found, "empty");
        for found in [life.ready(), life.begin(()).map(drop)] {
            assert_eq!(found.unwrap_err().to_string(), damage.to_string());
        }
        assert_eq!(life.damage().unwrap().unwrap().problems, [damage.to_string()]);
        life.fillable().unwrap();
        life.filled();
        assert_eq!(life.damage().unwrap(), None);
        life.begin(()).unwrap();
        life.filling();
        life.fillable().unwrap();
        assert!(matches!(life.ready(), Err(StateError::Corrupt(_))));
        life.filled();
        life.ready().unwrap();

        let (life, found) = Lifecycle::opened(store.clone(), Ok(7), || Ok(0)).unwrap();
        assert_eq!((found, life.damage().unwrap()), (7, None));
        life.ready().unwrap();
        let failed = Err(StateError::Protocol("another failure"));
        assert!(Lifecycle::opened(store, failed, || Ok(0)).is_err());
    }

    #[test]
    fn the_first_failure_is_reported_for_ever() {
        let (life, notes) = (lifecycle(0), Notes::default());
        let outcome = finish(life.begin(notes.clone()).unwrap());
        life.poison(StateError::Corrupt("the first".into()));
        life.poison(StateError::Corrupt("the second".into()));
        for found in [life.ready(), life.begin(()).map(drop), outcome.accept().map(drop)] {
            let error = found.unwrap_err();
            assert!(matches!(error, StateError::Poisoned(_)));
            assert!(error.to_string().contains("the first"), "{error}");
        }
        assert_eq!(notes.take(), [""; 0]);
    }
}
