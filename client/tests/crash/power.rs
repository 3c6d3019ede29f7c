//! Tests of power losses during imports. The files of the client lie on a simulated disk that loses everything that was
//! not synced. The engine above them is in memory.
//!
//! Each run of an import ends at a randomly chosen call: the power is lost, the process is killed, a call fails, or the
//! disk is full. Then the store holds the state of an imported block, which is not before the last confirmed one. Each
//! durable block has its figures, access list and witness, and a further import leads to the same rows as an
//! undisturbed import.
//!
//! The variable `POLYTRIE_DISK_SEEDS` sets another number of seeds per layer, and `POLYTRIE_TEST_SEED` repeats one
//! seed.

use crate::sample::{sample, sample_blocks};
use alloy_primitives::B256;
use polytrie::blocks::RlpWriter;
use polytrie::{
    access_lists::{AccessListReader, AccessListWriter},
    chain::{Chain, ChainOptions, TABLES},
    import::{CsvLog, ImportOptions, TraceLog, import},
    layers::{LAYERS, LayerKind, LayerOptions},
    witness::{WitnessDir, WitnessFile},
};
use polytrie_chainspec::ChainSpec;
use polytrie_kv::{
    Durability, Engine, Entry, KeyRange, MemoryEngine, Store, StoreOptions, Table, create_dir,
};
use polytrie_kv_testing::{
    Failure, ForgetfulDisk, Lived, OnDisk, Random, STORE_SYNCS, disk_seeds, entries, first_caught,
};
use polytrie_state::TRAIL_TABLE;
use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::Arc,
};

/// The default number of seeds per layer.
const SEEDS: u64 = 4;
/// The number of blocks of the sample that are imported.
const BLOCKS: u64 = 24;

/// The blocks of the import and their chain.
struct Source {
    temp: tempfile::TempDir,
    spec: Arc<ChainSpec>,
    file: PathBuf,
    bytes: Vec<u8>,
}

impl Source {
    fn new() -> Self {
        let bytes = sample_blocks(BLOCKS as usize).concat();
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("blocks.rlp");
        fs::write(&file, &bytes).unwrap();
        let spec = ChainSpec::load(sample("genesis.json").to_str().unwrap()).unwrap();
        Self { temp, spec, file, bytes }
    }

    fn straight(&self, kind: &'static LayerKind) -> Straight {
        let store = Store::memory(&tables(kind)).unwrap();
        let layer = (kind.open)(store.clone().into(), &LayerOptions::for_tests()).unwrap();
        let options =
            ChainOptions { keep_writes: true, keep_access_lists: true, ..ChainOptions::default() };
        let mut chain = Chain::open(Arc::clone(&self.spec), store, layer, options).unwrap();
        let trace = self.temp.path().join(kind.name);
        let options = ImportOptions {
            trace: Some(TraceLog::create(&trace).unwrap()),
            ..ImportOptions::plain(vec![self.file.clone()])
        };
        let end = import(&mut chain, options);
        assert!(end.error.is_none(), "{:?}", end.error);
        let trace = fs::read_to_string(trace).unwrap();
        let hash = |number| chain.db().canonical(number).unwrap().unwrap().0;
        let hashes = (0..=BLOCKS).map(hash).collect();
        Straight { kind, hashes, rows: rows(kind, &chain), trace }
    }
}

struct Straight {
    kind: &'static LayerKind,
    hashes: Vec<B256>,
    rows: Vec<Vec<Entry>>,
    /// The trace of an undisturbed import.
    trace: String,
}

fn tables(kind: &LayerKind) -> Vec<Table> {
    [kind.tables, TABLES].concat()
}

/// Returns all rows that do not depend on when blocks became durable. The trail and the tables of `rain` are left out,
/// because the logs and checkpoints of `rain` depend on the flushes.
fn rows(kind: &LayerKind, chain: &Chain) -> Vec<Vec<Entry>> {
    let is_compared = |table: &&Table| **table != TRAIL_TABLE && kind.name != "rain";
    let rows = |table: &Table| entries(chain.db().store(), *table, KeyRange::ALL);
    tables(kind).iter().filter(is_compared).map(rows).collect()
}

struct Run<'a> {
    source: &'a Source,
    straight: &'a Straight,
    random: Random,
    disk: ForgetfulDisk,
    engine: Arc<dyn Engine>,
    /// Whether figures, access lists and witnesses are written.
    tells: bool,
    /// Whether a call has failed. After that an access list may be missing, because a lost list is not written again.
    /// It is only a hint.
    is_doubtful: bool,
    /// The number of the last durable block.
    durable: u64,
    lived: Lived,
}

impl<'a> Run<'a> {
    fn new(source: &'a Source, straight: &'a Straight, seed: u64, ignored: Option<&str>) -> Self {
        let mut random = Random::new(seed);
        let disk = ForgetfulDisk::new(random.next());
        if let Some(place) = ignored {
            disk.ignore(place);
        }
        let tells = random.one_in(2);
        let (engine, lived) = (Arc::new(MemoryEngine::new()), Lived::default());
        Self {
            source,
            straight,
            random,
            disk,
            engine,
            tells,
            is_doubtful: false,
            durable: 0,
            lived,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.disk.dir().join("data").join(name)
    }

    fn live(mut self) -> Result<Lived, String> {
        for _ in 0..2 + self.random.below(3) {
            for _ in 0..1 + self.random.below(2) {
                let failure = match self.random.below(8) {
                    0..=4 => Failure::Power,
                    5..=6 => Failure::Io,
                    _ => Failure::Full(self.random.below(12) as u64),
                };
                let call = 1 + self.random.below(120) as u64;
                self.disk.fail_at(call, failure);
            }
            let to = self.random.below(BLOCKS as usize + 1) as u64;
            let ended = self.import(to.max(self.durable));
            if let Err(error) = ended {
                if !self.disk.has_failed() {
                    return Err(format!("nothing was to fail: {error}"));
                }
                self.is_doubtful |= error.contains("os error");
                self.lived.failures += 1;
            }
            if self.random.one_in(4) {
                self.disk.revive();
                self.lived.kills += 1;
            } else {
                self.disk.restart();
                self.lived.power += 1;
                self.look(false)?;
            }
        }
        self.import(BLOCKS)?;
        self.export()?;
        self.disk.restart();
        self.look(true)?;
        self.disk.expect_places(&[&PLACES, &STORE_SYNCS])?;
        Ok(self.lived)
    }

    fn open(&mut self) -> Result<Chain, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let dir = self.path("db");
        create_dir(&dir).map_err(|e| text(&e))?;
        let engine = Arc::new(OnDisk::new(Arc::clone(&self.engine), &self.disk, &dir));
        let durability = match (self.tells, self.random.one_in(3)) {
            (true, _) => Durability::ByHand,
            (false, true) => Durability::Deferred,
            (false, false) => Durability::EveryWrite,
        };
        let options = StoreOptions {
            durability,
            flush_every: [1, 3, 1_000][self.random.below(3)],
            // A background thread would change the order of the calls from run to run.
            background: false,
            counters: false,
            ..StoreOptions::default()
        };
        let kind = self.straight.kind;
        let store = Store::open(engine, &tables(kind), options).map_err(|e| text(&e))?;
        let layer = (kind.open)(store.clone().into(), &LayerOptions::for_tests());
        let options = ChainOptions {
            keep_access_lists: self.tells,
            keep_writes: self.tells,
            witness_levels: (self.tells && kind.name == "rain").then_some(0),
            ..ChainOptions::default()
        };
        let layer = layer.map_err(|e| text(&e))?;
        Chain::open(Arc::clone(&self.source.spec), store, layer, options).map_err(|e| text(&e))
    }

    /// Imports up to the block `to`.
    fn import(&mut self, to: u64) -> Result<(), String> {
        let mut chain = self.open()?;
        self.expect_known(&chain)?;
        let mut options = ImportOptions::plain(vec![self.source.file.clone()]);
        options.to = Some(to);
        if self.tells {
            let text = |error: &dyn std::fmt::Display| error.to_string();
            // Each file has a directory of its own, so that the sync of one directory does not make another file's name
            // durable.
            let [lists, figures, traces] =
                ["lists", "figures", "traces"].map(|name| self.path(name));
            for dir in [&lists, &figures, &traces] {
                create_dir(dir).map_err(|e| text(&e))?;
            }
            let lists = AccessListWriter::open(&lists.join("access-lists"));
            options.access_lists = Some(lists.map_err(|e| text(&e))?);
            options.csv = Some(CsvLog::create(&figures.join("csv")).map_err(|e| text(&e))?);
            options.trace = Some(TraceLog::create(&traces.join("trace")).map_err(|e| text(&e))?);
            if self.straight.kind.name == "rain" {
                let witnesses = WitnessDir::create(&self.path("witnesses"));
                options.witnesses = Some(witnesses.map_err(|e| text(&e))?);
            }
        }
        let end = import(&mut chain, options);
        let progress = chain.db().store().progress();
        if progress.durable == progress.written {
            self.durable = chain.head().number();
            self.lived.writes += 1;
        }
        end.error.map_or(Ok(()), |error| Err(error.to_string()))
    }

    fn expect_known(&self, chain: &Chain) -> Result<(), String> {
        let (head, hash) = (chain.head().number(), chain.head().hash());
        if head < self.durable {
            return Err(format!(
                "block {} was confirmed, and block {head} is the head",
                self.durable
            ));
        }
        match self.straight.hashes.get(head as usize) == Some(&hash) {
            true => Ok(()),
            false => Err(format!("block {head} is {hash}, which was not imported")),
        }
    }

    /// Checks what a process finds after a power loss. With `is_end` the rows must be those of an undisturbed import.
    fn look(&mut self, is_end: bool) -> Result<(), String> {
        let chain = self.open()?;
        self.expect_known(&chain)?;
        let head = chain.head().number();
        self.durable = head;
        if is_end {
            if rows(self.straight.kind, &chain) != self.straight.rows {
                return Err(
                    "other rows than those of an import that nothing happened to".to_owned()
                );
            }
            let exported = fs::read(self.path("exported.rlp")).map_err(|e| e.to_string())?;
            if exported != self.source.bytes {
                return Err("an export was confirmed, and is not whole".to_owned());
            }
        }
        if !self.tells {
            return Ok(());
        }
        let trace = fs::read_to_string(self.path("traces").join("trace")).unwrap_or_default();
        let is_durable = |line: &&str| {
            let number = line.split(',').nth(1).and_then(|number| number.parse::<u64>().ok());
            number.is_some_and(|number| number <= head)
        };
        let mut lines = trace.lines().skip(1);
        if let Some(line) =
            self.straight.trace.lines().filter(is_durable).find(|line| lines.next() != Some(line))
        {
            return Err(format!("block {head} is durable, and the trace lacks {line}"));
        }
        let csv = fs::read_to_string(self.path("figures").join("csv")).unwrap_or_default();
        let mut lists = AccessListReader::open(&self.path("lists").join("access-lists")).ok();
        for number in 1..=head {
            if !csv.lines().any(|line| line.starts_with(&format!("{number},"))) {
                return Err(format!("block {number} is durable and has no line"));
            }
            let hash = self.straight.hashes[number as usize];
            let list = lists.as_mut().and_then(|lists| lists.get(&hash).ok().flatten());
            if list.is_none() && !self.is_doubtful {
                return Err(format!("block {number} is durable and has no access list"));
            }
            if self.straight.kind.name == "rain" {
                let path = self.path("witnesses").join(format!("{number}.json"));
                let witness = fs::read(path).map_err(|e| format!("witness of {number}: {e}"))?;
                serde_json::from_slice::<WitnessFile>(&witness)
                    .map_err(|e| format!("the witness of block {number} is not whole: {e}"))?;
            }
        }
        Ok(())
    }

    fn export(&self) -> Result<(), String> {
        let text = |error: polytrie::blocks::ExportError| error.to_string();
        let mut out = RlpWriter::create(self.path("exported.rlp")).map_err(text)?;
        out.push(&self.source.bytes).map_err(text)?;
        out.finish().map(drop).map_err(text)
    }
}

fn run(
    source: &Source,
    straight: &Straight,
    seed: u64,
    ignored: Option<&str>,
) -> Result<Lived, String> {
    let run = || Run::new(source, straight, seed, ignored).live();
    let lived = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(format!("a panic: {}", text.or(panic.downcast_ref().copied()).unwrap_or("?")))
    });
    lived.map_err(|error| format!("{}, seed {seed}: {error}", straight.kind.name))
}

#[test]
#[expect(clippy::print_stderr, reason = "shown by the test harness with --nocapture")]
fn an_import_goes_on_after_a_loss_of_power() {
    let source = Source::new();
    for kind in LAYERS {
        let straight = source.straight(kind);
        let mut lived = Lived::default();
        for seed in disk_seeds(SEEDS) {
            lived += run(&source, &straight, seed, None).unwrap_or_else(|error| panic!("{error}"));
        }
        eprintln!("{}: {lived:?}", kind.name);
    }
}

/// The names of the places at which an import and an export sync files.
const PLACES: [&str; 10] = [
    "access lists: content",
    "access lists: name",
    "csv: content",
    "csv: name",
    "output: content",
    "output: name",
    "trace: content",
    "trace: name",
    "witness: content",
    "witness: name",
];

#[test]
#[expect(clippy::print_stderr, reason = "shown by the test harness with --nocapture")]
fn each_sync_is_needed() {
    let source = Source::new();
    let rain = LAYERS.iter().find(|kind| kind.name == "rain").unwrap();
    let straight = source.straight(rain);
    for place in PLACES {
        let caught =
            first_caught(0..1_000, place, |seed, ignored| run(&source, &straight, seed, ignored));
        let (_, error) = caught.unwrap_or_else(|| panic!("without {place} nothing is lost"));
        eprintln!("without {place}: {error}");
    }
}
