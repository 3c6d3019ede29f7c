//! The opening of the files, and bringing them level with the chain's store.

use super::{
    State, Tree,
    database::{Database, is_there, log_of},
    files::{self, Files},
    fill::append,
};
use crate::{
    NAME,
    mark::{Log, Mark, Step},
};
use polytrie_kv::Store;
use polytrie_state::{Lacking, Mark as _, Result, StateError, Trail, corrupt};
use std::sync::Arc;

impl State {
    /// Opens the files of a number, which must exist unless they were only reserved; opens a copy if they must not
    /// change.
    pub(super) fn open_files(
        &mut self,
        files: &Files,
        number: u64,
        at_most: Option<u64>,
    ) -> Result<()> {
        let origin = files.path(number)?;
        // The crate writes to the files that it opens, even if nothing is lacking.
        let (path, lock) = files.locked(&origin)?;
        let (database, log) = Database::open(path, origin, &files.options, at_most)?;
        (self.open, self.at) = (Some((database, lock)), log);
        Ok(())
    }
}

impl Tree {
    /// Opens the database, and brings it level with the end of the trail except for waiting steps.
    pub(super) fn opened(
        &self,
        state: &mut State,
        trail: &Trail<Mark>,
        store: &Store,
    ) -> Result<()> {
        if state.open.is_some() {
            return Ok(());
        }
        if !trail.mark().is_filled() {
            return Err(StateError::Protocol("the layer was not filled"));
        }
        if let Some(failed) = &state.failed {
            return Err(failed.clone());
        }
        let origin = state.origin.as_ref().map(|origin| Arc::clone(&origin.tree));
        let opened = match origin {
            Some(origin) => self.copied(state, &origin),
            None => self.catch_up(state, trail, store),
        };
        // A later attempt may succeed: another process may have the files open now.
        opened.inspect_err(|_| state.open = None)
    }

    /// Applies the steps that the files lack by the trail. All of them are durable in the chain's store when it is
    /// opened.
    fn catch_up(&self, state: &mut State, trail: &Trail<Mark>, store: &Store) -> Result<()> {
        let files = trail.mark().files;
        let path = self.files.path(files)?;
        if !is_there(&path) {
            return Err(corrupt!(
                "the files of qmdb are not in {}; put them back together with the chain's store, or fill another data directory with `db convert` or `db dump`: rows alone do not tell the root, which depends on how they came about",
                path.display()
            ));
        }
        state.open_files(&self.files, files, None)?;
        if self.is_ahead(state, trail, store)? {
            tracing::warn!(
                "the files of qmdb in {} have blocks that the chain's store does not have any more: they are cut to its last block",
                path.display()
            );
            state.at = state.database()?.go_back(trail.mark().log.operations)?;
        }
        let Some(lacking) = trail.since(store, &Mark { files, log: state.at })? else {
            let Log { operations, root } = state.at;
            return Err(corrupt!(
                "the files of qmdb in {} have {operations} operations and the root {root}, which the chain's store does not know; put back a copy of both of the same moment",
                path.display()
            ));
        };
        let (base, blocks) = shortest(state.at, lacking);
        if base != state.at {
            state.at = state.database()?.go_back(base.operations)?;
            expect(state.at, base)?;
        }
        for Lacking { step, after } in blocks {
            if let Step::Block(changes) = step {
                state.at = append(state.database()?, changes)?;
                expect(state.at, after.log)?;
            }
        }
        state.first = state.database()?.sync(None)?;
        (state.base, state.done) = (state.at, trail.last());
        expect(state.at, trail.mark().log)
    }

    /// Whether the files continue the log at the end of the trail, and are not on the trail: the chain's store was
    /// repaired, or an older copy of it put back. A cut is for good, so a copy is cut first.
    fn is_ahead(&self, state: &State, trail: &Trail<Mark>, store: &Store) -> Result<bool> {
        let Mark { files, log } = trail.mark();
        let at = Mark { files, log: state.at };
        if at.log.operations <= log.operations || trail.since::<Step>(store, &at)?.is_some() {
            return Ok(false);
        }
        let origin = &state.database()?.path;
        let copy = self.files.copied(origin)?;
        let (path, options) = (copy.path().to_owned(), &self.files.options);
        match Database::open(path, origin.clone(), options, Some(log.operations)) {
            Ok((_, found)) => Ok(found == log),
            // The log cannot be cut that far: these files are of no use to this store.
            Err(StateError::Corrupt(_)) => Ok(false),
            // A full disk, say, does not mean that the files are of no use.
            Err(error) => Err(error),
        }
    }

    /// Copies the files of the database that a fork comes from, cut to the present position of the fork, and computes
    /// the waiting steps on them.
    fn copied(&self, state: &mut State, origin: &Self) -> Result<()> {
        let files = self.files.reserve(0)?;
        {
            let theirs = origin.state.lock();
            files::copy(&theirs.database()?.path, &self.files.path(files)?)?;
        }
        state.open_files(&self.files, files, Some(state.base.operations))?;
        if state.at != state.base {
            let reason = "has gone back below the block that it was asked for, in favour of another branch; ask again";
            return Err(StateError::Unsupported { layer: NAME, reason: reason.to_owned() });
        }
        (state.cut, state.origin) = (None, None);
        let mut on = None;
        let (open, waiting) = (&state.open, &mut state.waiting);
        let Some((database, _)) = open else { return Ok(()) };
        for next in waiting.iter_mut() {
            let computed = &mut next.work.computed;
            let overlay = database.compute(on.take(), Arc::clone(&computed.changes))?;
            expect(log_of(&overlay), computed.log)?;
            computed.overlay = Some(Arc::clone(&overlay));
            on = Some(overlay);
        }
        Ok(())
    }
}

/// Returns the log to cut back to, and the blocks from there on, without undone ones.
fn shortest(at: Log, lacking: Vec<Lacking<Mark, Step>>) -> (Log, Vec<Lacking<Mark, Step>>) {
    let (mut base, mut blocks) = (at, Vec::<Lacking<Mark, Step>>::new());
    for next in lacking {
        if matches!(next.step, Step::Block(_)) {
            blocks.push(next);
            continue;
        }
        while blocks.pop_if(|last| last.after != next.after).is_some() {}
        if blocks.is_empty() {
            base = next.after.log;
        }
    }
    (base, blocks)
}

/// Checks that the log is the one that the chain's store has for it.
pub(super) fn expect(found: Log, expected: Log) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(corrupt!(
        "the files of qmdb have {} operations and the root {}, expected {} and {}",
        found.operations,
        found.root,
        expected.operations,
        expected.root
    ))
}
