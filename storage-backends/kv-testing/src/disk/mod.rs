//! A simulated disk that forgets unsynced writes.
//!
//! The files below its directory are real ones, and it notes everything that [`polytrie_kv::disk`] does to them. At a
//! loss of power they get a content that a disk might hold then. Of the bytes written since a file's last sync this
//! is nothing, all, the beginning, or any of their sectors of 512 bytes. Of the names that were created, changed or
//! removed since the last sync of their directory, any subset survives. Files that were created in another way stay
//! as they are.

mod content;
mod names;
mod suite;

pub use suite::{Lived, STORE_SYNCS, disk_seeds, first_caught, power_loss};

use crate::{Random, Wrapped};
use content::Content;
use names::Names;
use polytrie_kv::{
    Changes, Engine, KvError,
    disk::{Access, Action, Mount, SimulatedDisk},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A failure at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The power is lost: the action of the call may have begun, and no later call does anything.
    Power,
    /// The call fails (`EIO`). If it is a sync, the bytes it should have written never become durable.
    Io,
    /// From this call on, nothing can be written for this many calls (`ENOSPC`).
    Full(u64),
}

/// A directory on a disk that forgets unsynced writes.
///
/// ```no_run
/// # use polytrie_kv_testing::{Failure, ForgetfulDisk};
/// let disk = ForgetfulDisk::new(1);
/// disk.fail_at(17, Failure::Power);
/// // … work in disk.dir(), until it fails …
/// disk.restart();
/// ```
#[derive(Debug)]
pub struct ForgetfulDisk {
    temp: tempfile::TempDir,
    dir: PathBuf,
    shared: Arc<Shared>,
    mount: Option<Mount>,
}

#[derive(Debug)]
struct Shared(Mutex<State>);

#[derive(Debug)]
struct State {
    random: Random,
    files: BTreeMap<u64, Content>,
    names: Names,
    calls: u64,
    failures: Vec<(u64, Failure)>,
    full_until: u64,
    is_off: bool,
    has_failed: bool,
    ignored: Option<String>,
    places: BTreeSet<&'static str>,
}

impl ForgetfulDisk {
    /// Creates an empty disk; `seed` decides what it forgets.
    ///
    /// # Panics
    ///
    /// If there is no room for temporary files.
    pub fn new(seed: u64) -> Self {
        let temp = tempfile::tempdir().expect("there is room for temporary files");
        let dir = fs::canonicalize(temp.path()).expect("it is there").join("disk");
        fs::create_dir(&dir).expect("there is room for temporary files");
        let shared = Arc::new(Shared(Mutex::new(State {
            random: Random::new(seed),
            files: BTreeMap::new(),
            names: Names::default(),
            calls: 0,
            failures: Vec::new(),
            full_until: 0,
            is_off: false,
            has_failed: false,
            ignored: None,
            places: BTreeSet::new(),
        })));
        let mount = Some(Mount::new(&dir, shared.clone()));
        Self { temp, dir, shared, mount }
    }

    /// Returns the directory. Its name is durable.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes the syncs with this name do nothing.
    pub fn ignore(&self, place: &str) {
        self.shared.lock().ignored = Some(place.to_owned());
    }

    /// Checks that the name of each sync that was called is in one of these lists. The tests leave out each sync of
    /// these lists once.
    ///
    /// # Errors
    ///
    /// If a name is in no list.
    pub fn expect_places(&self, lists: &[&[&str]]) -> Result<(), String> {
        let is_known = |place: &&str| lists.iter().any(|list| list.contains(place));
        match self.shared.lock().places.iter().find(|place| !is_known(place)) {
            Some(place) => {
                Err(format!("the sync \"{place}\" is in no list, so no test leaves it out"))
            }
            None => Ok(()),
        }
    }

    /// Plans a failure for the `call`-th call from now.
    pub fn fail_at(&self, call: u64, failure: Failure) {
        let mut state = self.shared.lock();
        let at = state.calls + call;
        state.failures.push((at, failure));
    }

    /// Returns the number of calls so far.
    pub fn calls(&self) -> u64 {
        self.shared.lock().calls
    }

    /// Whether a call has failed since the last [`restart`](Self::restart) or [`revive`](Self::revive).
    pub fn has_failed(&self) -> bool {
        self.shared.lock().has_failed
    }

    /// Turns the power off, unless it is off, and on again: the files get the content that the disk has of them. No
    /// file may be open.
    ///
    /// # Panics
    ///
    /// If the files cannot be written.
    pub fn restart(&self) {
        let mut state = self.shared.lock();
        let State { random, files, names, .. } = &mut *state;
        let left = names.survivors(random);
        // A file has one content under all its names.
        let contents: BTreeMap<u64, Vec<u8>> =
            files.iter().map(|(id, content)| (*id, content.survivor(random))).collect();
        names.show(&left, |id| contents.get(&id).cloned().unwrap_or_default());
        state.settle(&left);
        state.be_well();
    }

    /// Ends the process and begins another one: the system still has all that was written. Planned failures are
    /// cancelled.
    ///
    /// # Panics
    ///
    /// If the files cannot be written.
    pub fn revive(&self) {
        let mut state = self.shared.lock();
        let State { files, names, .. } = &mut *state;
        // The files include what the last call had begun.
        let seen = names.seen.clone();
        names.show(&seen, |id| files.get(&id).map(Content::seen).unwrap_or_default());
        state.be_well();
    }

    /// Damages a file, durably.
    ///
    /// # Panics
    ///
    /// If there is no such file.
    pub fn damage(&self, path: &Path, damage: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(path).expect("the file is there");
        damage(&mut bytes);
        fs::write(path, &bytes).expect("there is room for temporary files");
        let mut state = self.shared.lock();
        if let Some(Some(id)) = state.names.seen.get(path).copied() {
            state.files.insert(id, Content::durable(bytes));
        }
    }
}

impl Drop for ForgetfulDisk {
    fn drop(&mut self) {
        drop(self.mount.take());
        // The directory is not read again.
        _ = fs::remove_dir_all(self.temp.path());
    }
}

impl Shared {
    /// Locks the state. A poisoned lock is used as it is: the test that panicked fails by itself.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Makes the remaining files and names durable.
    fn settle(&mut self, left: &BTreeMap<PathBuf, Option<u64>>) {
        self.names = Names::default();
        self.files.clear();
        for (id, (path, node)) in (self.calls << 16..).zip(left) {
            let node = node.map(|_| id);
            self.names.found(path, node);
            if node.is_some() {
                let bytes = fs::read(path).expect("it was just written");
                self.files.insert(id, Content::durable(bytes));
            }
        }
    }

    fn be_well(&mut self) {
        self.failures.clear();
        (self.full_until, self.is_off, self.has_failed) = (0, false, false);
    }

    /// Counts a call, and returns the failure that it has.
    fn call(&mut self) -> Option<Failure> {
        if self.is_off {
            return Some(Failure::Power);
        }
        self.calls += 1;
        let now = self.calls;
        let failure = self.failures.iter().find(|(at, _)| *at == now).map(|(_, failure)| *failure);
        match failure {
            Some(Failure::Power) => self.is_off = true,
            Some(Failure::Full(calls)) => self.full_until = now + calls,
            _ => {}
        }
        let is_full = now < self.full_until;
        self.has_failed |= failure.is_some() || is_full;
        let failure = failure.filter(|failure| !matches!(failure, Failure::Full(_)));
        failure.or_else(|| is_full.then_some(Failure::Full(0)))
    }

    /// Whether a failing call takes effect in part.
    fn begins(&mut self, was_off: bool) -> bool {
        !was_off && self.random.one_in(2)
    }
}

fn error(failure: Failure) -> io::Error {
    match failure {
        Failure::Power => io::Error::other("the power is lost"),
        Failure::Io => io::Error::from_raw_os_error(5),
        Failure::Full(_) => io::Error::from_raw_os_error(28),
    }
}

impl SimulatedDisk for Shared {
    fn open(&self, path: &Path, access: Access) -> io::Result<u64> {
        let mut state = self.lock();
        let was_off = state.is_off;
        match state.call() {
            // An existing file can be opened on a full disk.
            Some(Failure::Full(_)) if path.exists() => {}
            Some(failure) => {
                if failure == Failure::Power
                    && access == Access::Create
                    && !path.exists()
                    && state.begins(was_off)
                {
                    let id = state.calls << 16;
                    state.files.insert(id, Content::default());
                    state.names.put(path, Some(id));
                }
                return Err(error(failure));
            }
            None => {}
        }
        let id = match state.names.seen.get(path) {
            Some(Some(id)) => *id,
            _ => {
                let id = state.calls << 16;
                match fs::read(path) {
                    // The file was created in another way, and is durable.
                    Ok(bytes) => {
                        state.files.insert(id, Content::durable(bytes));
                        state.names.found(path, Some(id));
                    }
                    Err(_) if matches!(access, Access::Read | Access::Edit) => {}
                    Err(_) => {
                        state.files.insert(id, Content::default());
                        state.names.put(path, Some(id));
                    }
                }
                id
            }
        };
        if access == Access::Create
            && let Some(content) = state.files.get_mut(&id)
        {
            content.set_length(0);
        }
        Ok(id)
    }

    fn write(&self, file: u64, at: u64, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.lock();
        let was_off = state.is_off;
        let failure = state.call();
        let taken = match failure {
            None => bytes.len(),
            Some(Failure::Io) => return Err(error(Failure::Io)),
            Some(_) if was_off => 0,
            Some(_) => state.random.below(bytes.len() + 1),
        };
        if let Some(content) = state.files.get_mut(&file) {
            content.write(at, &bytes[..taken]);
        }
        match failure {
            // The rest of the bytes is refused.
            Some(failure) if taken == 0 || failure == Failure::Power => Err(error(failure)),
            _ => Ok(taken),
        }
    }

    fn act(&self, action: Action<'_>) -> io::Result<()> {
        let mut state = self.lock();
        let was_off = state.is_off;
        let failure = state.call();
        let is_ignored = match action {
            Action::Sync(_, place) | Action::SyncDir(_, place) => {
                state.places.insert(place);
                state.ignored.as_deref() == Some(place)
            }
            _ => false,
        };
        match (failure, action) {
            (None, _) => {}
            // A full disk can be read, and names can be removed.
            (Some(Failure::Full(_)), Action::Read(_) | Action::Remove(_)) => {}
            (Some(Failure::Full(_)), Action::SyncDir(..) | Action::Rename(..)) => {}
            (Some(failure), Action::Sync(file, _)) => {
                if failure != Failure::Power
                    && let Some(content) = state.files.get_mut(&file)
                {
                    content.fail_sync();
                }
                return Err(error(failure));
            }
            (Some(failure), _) => {
                if failure != Failure::Power || !state.begins(was_off) {
                    return Err(error(failure));
                }
                state.note(action, is_ignored);
                return Err(error(failure));
            }
        }
        state.note(action, is_ignored);
        Ok(())
    }
}

impl State {
    fn note(&mut self, action: Action<'_>, is_ignored: bool) {
        match action {
            Action::Read(_) => {}
            Action::SetLength(file, length) => {
                if let Some(content) = self.files.get_mut(&file) {
                    content.set_length(length);
                }
            }
            Action::Sync(file, _) => {
                if let Some(content) = self.files.get_mut(&file).filter(|_| !is_ignored) {
                    content.sync();
                }
            }
            Action::SyncDir(dir, _) => {
                if !is_ignored {
                    self.names.sync(dir);
                }
            }
            Action::Rename(from, to) => self.names.rename(from, to),
            Action::Remove(path) => self.names.remove(path),
            Action::CreateDir(path) => self.names.put(path, None),
        }
    }
}

/// An engine in memory that keeps its journal on a disk that forgets unsynced writes. Its own rows are durable as
/// soon as they are written.
#[derive(Debug)]
pub struct OnDisk {
    engine: Arc<dyn Engine>,
    dir: PathBuf,
    shared: Arc<Shared>,
}

impl OnDisk {
    /// Creates an engine that keeps the journal of `engine` in `dir`, which is on `disk`.
    pub fn new(engine: Arc<dyn Engine>, disk: &ForgetfulDisk, dir: &Path) -> Self {
        Self { engine, dir: dir.to_owned(), shared: Arc::clone(&disk.shared) }
    }
}

crate::wrapped!(OnDisk);

impl Wrapped for OnDisk {
    fn inner(&self) -> &dyn Engine {
        &*self.engine
    }

    fn on_write(&self, changes: &dyn Changes) -> Result<(), KvError> {
        let (failure, begins) = {
            let mut state = self.shared.lock();
            let was_off = state.is_off;
            let failure = state.call();
            (failure, failure == Some(Failure::Power) && state.begins(was_off))
        };
        match failure {
            None => self.engine.write(changes),
            Some(failure) => {
                if begins {
                    self.engine.write(changes)?;
                }
                Err(KvError::io("write to", &self.dir, error(failure)))
            }
        }
    }

    fn journal(&self) -> Option<PathBuf> {
        Some(self.dir.clone())
    }
}
