//! The suite that takes stores and small files through losses of power, killed processes, and failing disks.

use super::{Failure, ForgetfulDisk, OnDisk};
use crate::{Model, Random, SEED, engine::TABLES, env_number, model::batch};
use polytrie_kv::{
    Durability, Engine, KvError, MemoryEngine, Store, StoreOptions, caught, create_dir, write_whole,
};
use std::{
    fs,
    ops::{AddAssign, Range},
    path::PathBuf,
    sync::Arc,
};

/// The names of all syncs in the key-value seam that a store with a journal needs.
pub const STORE_SYNCS: [&str; 9] = [
    "confirmed: at opening",
    "directory: name",
    "journal: found files",
    "journal: head",
    "journal: name",
    "journal: record",
    "journal: repaired",
    "whole file: content",
    "whole file: name",
];

/// The counts of what a run went through.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Lived {
    /// Losses of power.
    pub power: u64,
    /// Processes that were killed.
    pub kills: u64,
    /// Calls that failed otherwise.
    pub failures: u64,
    /// Writes that were confirmed.
    pub writes: u64,
    /// Repairs after damage.
    pub repairs: u64,
}

impl AddAssign for Lived {
    fn add_assign(&mut self, other: Self) {
        self.power += other.power;
        self.kills += other.kills;
        self.failures += other.failures;
        self.writes += other.writes;
        self.repairs += other.repairs;
    }
}

/// Returns the seeds to run: as many as `POLYTRIE_DISK_SEEDS` says, else `default`; only that of `POLYTRIE_TEST_SEED`
/// if it is set.
///
/// # Panics
///
/// If a variable is set to something that is not a number.
pub fn disk_seeds(default: u64) -> Range<u64> {
    match env_number(SEED) {
        Some(seed) => seed..seed + 1,
        None => 0..env_number("POLYTRIE_DISK_SEEDS").unwrap_or(default),
    }
}

/// Returns the first of some seeds at which `run` fails if the syncs named `place` are left out.
pub fn first_caught(
    seeds: Range<u64>,
    place: &str,
    run: impl Fn(u64, Option<&str>) -> Result<Lived, String>,
) -> Option<(u64, String)> {
    seeds.into_iter().find_map(|seed| run(seed, Some(place)).err().map(|error| (seed, error)))
}

/// Writes to a store and to a small file beside it through several lives, each of which ends with a loss of power, a
/// killed process, or a failed call. Nothing confirmed may be missing, and every read must return written data.
/// `ignored` names a sync that does nothing.
///
/// # Errors
///
/// The first mismatch as text, with the seed. A panic counts.
pub fn power_loss(seed: u64, ignored: Option<&str>) -> Result<Lived, String> {
    let lived = caught(|| Run::new(seed, ignored).live());
    let lived = lived.unwrap_or_else(|said| Err(format!("a panic: {said}")));
    lived.map_err(|error| format!("seed {seed}: {error}"))
}

struct Run {
    random: Random,
    disk: ForgetfulDisk,
    engine: Arc<dyn Engine>,
    dir: PathBuf,
    /// The content of the store after each write, from the beginning.
    history: Vec<Model>,
    /// The index in `history` of the last durable content.
    durable: usize,
    /// The last durable version of the small file, and the last that a write began.
    version: (u64, u64),
    lived: Lived,
}

/// The result of a life: the error that ended it, if there was one.
type Ended = Result<(), KvError>;

impl Run {
    fn new(seed: u64, ignored: Option<&str>) -> Self {
        let mut random = Random::new(seed);
        let disk = ForgetfulDisk::new(random.next());
        if let Some(place) = ignored {
            disk.ignore(place);
        }
        Self {
            dir: disk.dir().join("data").join("db"),
            disk,
            random,
            engine: Arc::new(MemoryEngine::new()),
            history: vec![Model::default()],
            durable: 0,
            version: (0, 0),
            lived: Lived::default(),
        }
    }

    fn live(mut self) -> Result<Lived, String> {
        for _ in 0..3 + self.random.below(5) {
            self.plan();
            let ended = self.work()?;
            self.end(ended)?;
        }
        // Nothing fails in the last life.
        let store = self.open()?.map_err(|error| error.to_string())?;
        self.compare(&store)?;
        self.read_version()?;
        self.disk.expect_places(&[&STORE_SYNCS])?;
        Ok(self.lived)
    }

    fn plan(&mut self) {
        for _ in 0..1 + self.random.below(2) {
            let call = 1 + self.random.below(90) as u64;
            let failure = match self.random.below(8) {
                0..=4 => Failure::Power,
                5..=6 => Failure::Io,
                _ => Failure::Full(self.random.below(12) as u64),
            };
            self.disk.fail_at(call, failure);
        }
    }

    fn options(&mut self) -> StoreOptions {
        let durability = match self.random.one_in(4) {
            true => Durability::Deferred,
            false => Durability::EveryWrite,
        };
        StoreOptions {
            durability,
            flush_every: [1, 3, 8, 1_000][self.random.below(4)],
            overlay_bytes: [3_000, 1 << 20][self.random.below(2)],
            // A background thread would make the order of calls random.
            background: false,
            counters: false,
        }
    }

    /// Opens the store as a new process does; the inner error is one that was to be expected.
    fn open(&mut self) -> Result<Result<Store, KvError>, String> {
        let options = self.options();
        Ok(match self.open_as(&options, false) {
            Err(error) if !self.disk.has_failed() => {
                return Err(format!("what was not damaged does not open: {error}"));
            }
            Ok(store) => {
                self.find(&store, self.durable)?;
                Ok(store)
            }
            opened => opened,
        })
    }

    fn open_as(&self, options: &StoreOptions, repair: bool) -> Result<Store, KvError> {
        // Engines with files create their directory like this.
        create_dir(&self.dir).map_err(|error| KvError::io("create", &self.dir, error))?;
        let engine = Arc::new(OnDisk::new(Arc::clone(&self.engine), &self.disk, &self.dir));
        let open = if repair { Store::repair } else { Store::open };
        open(engine, &TABLES, options.clone())
    }

    /// Checks that the store holds the content of some write from `from` on, and notes that this content is durable
    /// now.
    fn find(&mut self, store: &Store, from: usize) -> Result<(), String> {
        let found = Model::read(store);
        let place = self.history[from..].iter().rposition(|model| *model == found);
        let place = place.ok_or_else(|| {
            let earlier = self.history.iter().rposition(|model| *model == found);
            format!("what was confirmed at write {from} is missing; found is write {earlier:?}")
        })?;
        self.durable = from + place;
        self.history.truncate(self.durable + 1);
        Ok(())
    }

    fn compare(&self, store: &Store) -> Result<(), String> {
        match self.history.last() == Some(&Model::read(store)) {
            true => Ok(()),
            false => Err("another content is read than was written".to_owned()),
        }
    }

    /// Runs a process until it ends.
    fn work(&mut self) -> Result<Ended, String> {
        let store = match self.open()? {
            Ok(store) => store,
            Err(error) => return Ok(Err(error)),
        };
        if !self.disk.has_failed() {
            self.read_version()?;
        }
        for _ in 0..self.random.below(40) {
            let done = self.step(&store);
            if done.is_err() {
                return Ok(done);
            }
        }
        self.compare(&store)?;
        Ok(Ok(()))
    }

    fn step(&mut self, store: &Store) -> Ended {
        match self.random.below(20) {
            0 => store.flush()?,
            1 => store.checkpoint()?,
            2 => {
                let version = self.version.1 + 1;
                self.version.1 = version;
                write_whole(&self.dir.join("version"), &bytes_of(version))
                    .map_err(|error| KvError::io("write", &self.dir, error))?;
                self.version.0 = version;
                return Ok(());
            }
            _ => {
                let batch = batch(&mut self.random);
                let mut model = self.history.last().cloned().unwrap_or_default();
                model.apply(&batch);
                self.history.push(model);
                store.write(batch)?;
                let progress = store.progress();
                if progress.durable < progress.written {
                    return Ok(());
                }
                self.lived.writes += 1;
            }
        }
        self.durable = self.history.len() - 1;
        Ok(())
    }

    /// Checks that the small file is one of those that were written whole, and no older than the last confirmed one.
    fn read_version(&self) -> Result<(), String> {
        let (durable, last) = self.version;
        match fs::read(self.dir.join("version")) {
            Err(_) if durable == 0 => Ok(()),
            Err(error) => Err(format!("the small file was confirmed and is gone: {error}")),
            Ok(found) => match (durable..=last).any(|v| v > 0 && bytes_of(v) == found) {
                true => Ok(()),
                false => Err(format!("the small file is none of those from {durable} to {last}")),
            },
        }
    }

    /// Ends a life: by a planned failure, or at random.
    fn end(&mut self, ended: Ended) -> Result<(), String> {
        match ended {
            Err(error) if !self.disk.has_failed() => {
                return Err(format!("nothing was to fail: {error}"));
            }
            Err(error) if error.to_string().contains("os error") => self.lived.failures += 1,
            _ => {}
        }
        if self.random.one_in(3) {
            self.disk.revive();
            self.lived.kills += 1;
            return Ok(());
        }
        self.disk.restart();
        self.lived.power += 1;
        if self.random.one_in(6) { self.damage() } else { Ok(()) }
    }

    /// Damages a file of the journal. If the store notices, it is repaired, and the run goes on from there; after a
    /// loss of power at that point it must not need another repair.
    fn damage(&mut self) -> Result<(), String> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.retain(|path| path.to_string_lossy().contains("journal."));
        files.sort();
        if files.is_empty() {
            return Ok(());
        }
        let file = &files[self.random.below(files.len())];
        let (at, cuts) = (self.random.below(4_096), self.random.one_in(3));
        self.disk.damage(file, |bytes| {
            let at = at % bytes.len().max(1);
            match cuts {
                true => bytes.truncate(at),
                false => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 4),
            }
        });
        let options = self.options();
        let opened = match self.open_as(&options, false) {
            Err(KvError::Lost { .. }) => {
                self.lived.repairs += 1;
                self.open_as(&options, true)
            }
            opened => opened,
        };
        let store = opened.map_err(|error| format!("what is damaged is not repaired: {error}"))?;
        self.find(&store, 0)?;
        if self.random.one_in(2) {
            drop(store);
            self.disk.restart();
            self.lived.power += 1;
            let store = self.open()?.map_err(|error| error.to_string())?;
            self.compare(&store)?;
        }
        Ok(())
    }
}

/// Returns the content of a version of the small file: it is longer than one sector.
fn bytes_of(version: u64) -> Vec<u8> {
    Random::new(version).bytes(700 + version as usize % 900)
}
