//! Keeping a layer in order: one block under way at a time, and none after a failure.

use crate::{CheckReport, StateError, UndoRecord, WriteSet};
use parking_lot::Mutex;
use polytrie_kv::Store;

/// The order in which a layer may be driven, written once for all of them.
///
/// A layer owns one (shared with its sessions), asks it before every call, and tells it how a block went:
///
/// ```text
///         begin            finish             accept
///   idle ───────► started ───────► finished ─────────► idle
///                    └────── discard ──┴─────────────► idle
/// ```
///
/// A layer that computes commitments behind the blocks says so with [`Self::with_depth`]; a block of it may
/// also end with [`Self::finish_later`], after which the next one begins.
///
/// A layer that finds its state damaged opens nevertheless ([`Self::opened`]): it can be checked, which says what is
/// damaged, and filled anew; everything else fails.
#[derive(Debug)]
pub struct Lifecycle {
    store: Store,
    depth: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    /// Blocks that ended and wait to be accepted.
    waiting: usize,
    /// Number of the current or last turn; a session of an earlier turn has nothing to say any more.
    turn: u64,
    failure: Option<StateError>,
    /// Why the state cannot be used, if what was found is damaged.
    damage: Option<StateError>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    Started,
    Finished,
}

/// The right to finish what [`Lifecycle::begin`] started.
#[derive(Debug)]
pub struct Turn(u64);

impl Lifecycle {
    /// The life of a layer on `store`; idle at first.
    pub fn new(store: Store) -> Self {
        Self { store, depth: 0, state: Mutex::default() }
    }

    /// The life of a layer, and what it `read` of its store; if that is damaged, what it holds instead until it is filled
    /// anew.
    ///
    /// # Errors
    ///
    /// If reading failed for another reason than damage, or as `empty`.
    pub fn opened<T>(
        store: Store,
        read: Result<T, StateError>,
        empty: impl FnOnce() -> Result<T, StateError>,
    ) -> Result<(Self, T), StateError> {
        let mut life = Self::new(store);
        let found = match read {
            Err(damage @ StateError::Corrupt(_)) => {
                life.state.get_mut().damage = Some(damage);
                empty()?
            }
            read => read?,
        };
        Ok((life, found))
    }

    /// The same for a layer with this many blocks that may be begun on top of one that waits.
    #[must_use]
    pub const fn with_depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        self
    }

    /// Whether the layer may be driven any further.
    ///
    /// # Errors
    ///
    /// [`StateError::Poisoned`] if the store or the layer failed before; the damage, if what was found is damaged.
    pub fn ready(&self) -> Result<(), StateError> {
        self.fillable()?;
        self.state.lock().damage.clone().map_or(Ok(()), Err)
    }

    /// Whether the layer may be filled: damage goes with what was there before.
    ///
    /// # Errors
    ///
    /// [`StateError::Poisoned`] if the store or the layer failed before.
    pub fn fillable(&self) -> Result<(), StateError> {
        let failure = self.state.lock().failure.clone();
        let failure = failure.or_else(|| self.store.poisoned().map(StateError::Store));
        failure.map_or(Ok(()), |failure| Err(poisoned(failure)))
    }

    /// The layer was filled: what was damaged is gone.
    pub fn filled(&self) {
        self.state.lock().damage = None;
    }

    /// All that a check can say of a state that was found damaged; `None` if it was not.
    ///
    /// # Errors
    ///
    /// As [`Self::fillable`].
    pub fn damage(&self) -> Result<Option<CheckReport>, StateError> {
        self.fillable()?;
        let damage = self.state.lock().damage.clone();
        Ok(damage.map(|damage| {
            let mut report = CheckReport::default();
            report.problem(damage.to_string());
            report
        }))
    }

    /// A session or an undo starts.
    ///
    /// # Errors
    ///
    /// As [`Self::ready`]; [`StateError::Protocol`] if the last turn was neither accepted nor discarded, or too many blocks
    /// wait.
    pub fn begin(&self) -> Result<Turn, StateError> {
        self.ready()?;
        let mut state = self.state.lock();
        if state.phase != Phase::Idle || state.waiting > self.depth {
            return Err(StateError::Protocol(
                "a block was begun before the last one was accepted or discarded",
            ));
        }
        state.phase = Phase::Started;
        state.turn += 1;
        Ok(Turn(state.turn))
    }

    /// An undo starts, in a layer whose records are plain [`UndoRecord`]s: what it changes, too.
    ///
    /// # Errors
    ///
    /// As [`Self::begin`]; [`StateError::Corrupt`] if `record` is damaged, and then nothing has started.
    pub fn begin_undo(&self, record: &[u8]) -> Result<(Turn, WriteSet), StateError> {
        let turn = self.begin()?;
        let record = UndoRecord::decode(record).map_err(|error| self.give_up(error))?;
        if !record.is_whole() {
            let error = "a block that is taken back in steps was taken back in one";
            return Err(self.give_up(StateError::Protocol(error)));
        }
        Ok((turn, record.into_writes()))
    }

    /// Whether the turn is still under way.
    ///
    /// # Errors
    ///
    /// As [`Self::ready`]; [`StateError::Protocol`] if the turn is over: its block was discarded, and another one may be under
    /// way.
    pub fn check(&self, turn: &Turn) -> Result<(), StateError> {
        self.ready()?;
        let state = self.state.lock();
        if state.phase == Phase::Started && state.turn == turn.0 {
            Ok(())
        } else {
            Err(StateError::Protocol("a block was continued after it had been discarded"))
        }
    }

    /// The outcome of the turn is known and waits to be accepted.
    ///
    /// # Errors
    ///
    /// As [`Self::check`].
    pub fn finish(&self, turn: Turn) -> Result<(), StateError> {
        self.ready()?;
        let mut state = self.state.lock();
        if state.phase != Phase::Started || state.turn != turn.0 {
            return Err(StateError::Protocol("a block was finished after it had been discarded"));
        }
        state.phase = Phase::Finished;
        Ok(())
    }

    /// The turn has ended, its outcome will be known later; the next one may begin.
    ///
    /// # Errors
    ///
    /// As [`Self::check`].
    pub fn finish_later(&self, turn: Turn) -> Result<(), StateError> {
        self.finish(turn)?;
        let mut state = self.state.lock();
        state.phase = Phase::Idle;
        state.waiting += 1;
        Ok(())
    }

    /// Whether no blocks wait, for what must not happen meanwhile.
    ///
    /// # Errors
    ///
    /// [`StateError::Protocol`] if blocks wait to be accepted.
    pub fn settled(&self) -> Result<(), StateError> {
        match self.state.lock().waiting {
            0 => Ok(()),
            _ => Err(StateError::Protocol("blocks wait to be accepted")),
        }
    }

    /// The outcome was written: that of the oldest block that waits, or of the one that was finished.
    ///
    /// # Errors
    ///
    /// As [`Self::ready`]; [`StateError::Protocol`] if nothing was finished.
    pub fn accept(&self) -> Result<(), StateError> {
        self.ready()?;
        let mut state = self.state.lock();
        if state.waiting > 0 {
            state.waiting -= 1;
        } else if state.phase == Phase::Finished {
            state.phase = Phase::Idle;
        } else {
            return Err(StateError::Protocol("nothing was finished that could be accepted"));
        }
        Ok(())
    }

    /// What was under way, if anything was, is void.
    ///
    /// # Errors
    ///
    /// As [`Self::fillable`].
    pub fn discard(&self) -> Result<(), StateError> {
        self.fillable()?;
        let mut state = self.state.lock();
        state.phase = Phase::Idle;
        state.waiting = 0;
        Ok(())
    }

    /// Ends a turn that came to nothing, and changed nothing, with this error, and hands it back.
    pub fn give_up(&self, error: StateError) -> StateError {
        // If the layer failed meanwhile, the error says why.
        let _ = self.discard();
        error
    }

    /// Notes a failure after which the layer must not go on (a worker that died, memory and store that
    /// disagree) and hands it back. The first one is kept.
    pub fn poison(&self, failure: StateError) -> StateError {
        self.state.lock().failure.get_or_insert_with(|| failure.clone());
        failure
    }
}

fn poisoned(failure: StateError) -> StateError {
    StateError::Poisoned(Box::new(failure))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::CODE_TABLE;

    fn lifecycle() -> Lifecycle {
        Lifecycle::new(Store::memory(&[CODE_TABLE]).unwrap())
    }

    #[test]
    fn a_turn_ends_once() {
        let life = lifecycle();
        assert!(matches!(life.accept(), Err(StateError::Protocol(_))));
        let turn = life.begin().unwrap();
        assert!(matches!(life.begin(), Err(StateError::Protocol(_))));
        assert!(matches!(life.accept(), Err(StateError::Protocol(_))));
        life.finish(turn).unwrap();
        assert!(matches!(life.begin(), Err(StateError::Protocol(_))));
        life.accept().unwrap();
        assert!(matches!(life.accept(), Err(StateError::Protocol(_))));
    }

    #[test]
    fn a_discarded_turn_cannot_end_another_one() {
        let life = lifecycle();
        let stale = life.begin().unwrap();
        life.discard().unwrap();
        let turn = life.begin().unwrap();
        assert!(matches!(life.finish(stale), Err(StateError::Protocol(_))));
        life.finish(turn).unwrap();
        life.discard().unwrap();
        life.begin().unwrap();
        let error = life.give_up(StateError::Corrupt("a record".into()));
        assert!(matches!(error, StateError::Corrupt(_)));
        assert!(matches!(life.begin_undo(&[]), Err(StateError::Corrupt(_))));
        life.begin().unwrap();
        assert!(matches!(life.begin_undo(&[]), Err(StateError::Protocol(_))));
    }

    #[test]
    fn as_many_blocks_wait_as_were_announced() {
        let life = lifecycle().with_depth(2);
        for _ in 0..3 {
            let turn = life.begin().unwrap();
            life.finish_later(turn).unwrap();
        }
        assert!(matches!(life.begin(), Err(StateError::Protocol(_))));
        assert!(life.settled().is_err());
        life.accept().unwrap();
        let turn = life.begin().unwrap();
        life.accept().unwrap();
        life.check(&turn).unwrap();
        life.discard().unwrap();
        life.settled().unwrap();
        assert!(matches!(life.accept(), Err(StateError::Protocol(_))));
        assert!(matches!(life.check(&turn), Err(StateError::Protocol(_))));
    }

    #[test]
    fn a_damaged_state_is_checked_and_filled_and_nothing_else() {
        let store = Store::memory(&[CODE_TABLE]).unwrap();
        let damage = StateError::Corrupt("a row".into());
        let (life, found) =
            Lifecycle::opened(store.clone(), Err(damage.clone()), || Ok("empty")).unwrap();
        assert_eq!(found, "empty");
        for found in [life.ready(), life.begin().map(drop), life.accept()] {
            assert_eq!(found.unwrap_err().to_string(), damage.to_string());
        }
        life.discard().unwrap();
        assert_eq!(life.damage().unwrap().unwrap().problems, [damage.to_string()]);
        life.fillable().unwrap();
        life.filled();
        assert_eq!(life.damage().unwrap(), None);
        life.begin().unwrap();

        let (life, found) = Lifecycle::opened(store.clone(), Ok(7), || Ok(0)).unwrap();
        assert_eq!((found, life.damage().unwrap()), (7, None));
        life.ready().unwrap();
        let failed = Err(StateError::Protocol("another failure"));
        assert!(Lifecycle::opened(store, failed, || Ok(0)).is_err());
    }

    #[test]
    fn the_first_failure_is_reported_for_ever() {
        let life = lifecycle();
        life.poison(StateError::Corrupt("the first".into()));
        life.poison(StateError::Corrupt("the second".into()));
        for found in [life.ready(), life.begin().map(drop), life.accept(), life.discard()] {
            let error = found.unwrap_err();
            assert!(matches!(error, StateError::Poisoned(_)));
            assert!(error.to_string().contains("the first"), "{error}");
        }
    }
}
