//! Stores with a journal: which writes are durable, and which of them a crash leaves.

#![expect(clippy::unwrap_used, reason = "tests")]

use polytrie_kv::{
    Batch, Changes, Durability, Engine, Entry, KeyRange, KvError, MemoryEngine, Read, Store,
    StoreOptions, Table, View, append_checksum,
};
use polytrie_kv_testing::{Random, Wrapped, entries};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

const A: Table = Table::new(0, "a", 8);
const B: Table = Table::new(1, "b", 8);

/// An engine with a journal.
#[derive(Debug)]
struct Journaled {
    inner: Arc<MemoryEngine>,
    dir: PathBuf,
}

polytrie_kv_testing::wrapped!(Journaled);

impl Wrapped for Journaled {
    fn inner(&self) -> &dyn Engine {
        &*self.inner
    }
    fn journal(&self) -> Option<PathBuf> {
        Some(self.dir.clone())
    }
}

/// Opens a store whose every write is durable when it returns.
fn open(engine: &Arc<MemoryEngine>, dir: &Path) -> Result<Store, KvError> {
    open_as(Durability::EveryWrite, engine, dir)
}

fn open_as(
    durability: Durability,
    engine: &Arc<MemoryEngine>,
    dir: &Path,
) -> Result<Store, KvError> {
    let engine = Journaled { inner: engine.clone(), dir: dir.to_owned() };
    Store::open(Arc::new(engine), &[A, B], StoreOptions { flush_every: 7, ..in_step(durability) })
}

fn in_step(durability: Durability) -> StoreOptions {
    StoreOptions { durability, background: false, ..StoreOptions::default() }
}

fn put(table: Table, key: &str, value: &str) -> Batch {
    let mut batch = Batch::new();
    batch.put(table, key.as_bytes(), value.as_bytes());
    batch
}

/// Returns the files of the journal.
fn files(dir: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let is_ours =
        |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("journal.");
    let mut files: Vec<PathBuf> = all.filter(is_ours).collect();
    files.sort();
    files
}

fn content(store: &Store) -> [Vec<Entry>; 2] {
    [A, B].map(|table| entries(store, table, KeyRange::ALL))
}

#[test]
fn durable_batches_outlive_the_store_without_the_engine() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    let store = open(&engine, dir.path()).unwrap();
    store.write(put(A, "x", "1")).unwrap();
    let mut second = put(B, "x", "2");
    second.delete_range(A, b"", None);
    second.delete(B, b"y");
    store.write(second).unwrap();
    drop(store);
    let bare = Store::open(engine.clone(), &[A, B], StoreOptions::default()).unwrap();
    assert_eq!(content(&bare), [vec![], vec![]], "the engine has nothing yet");
    drop(bare);
    let store = open(&engine, dir.path()).unwrap();
    assert_eq!(content(&store), [vec![], vec![(b"x".to_vec(), b"2".to_vec())]]);
    assert_eq!(store.pending().batches, 2);
    store.checkpoint().unwrap();
    assert_eq!(files(dir.path()), Vec::<PathBuf>::new(), "what the engine has is removed");
}

#[test]
fn what_the_engine_has_is_not_applied_again() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    let store = open(&engine, dir.path()).unwrap();
    store.write(put(A, "x", "1")).unwrap();
    let file = files(dir.path()).pop().unwrap();
    let bytes = fs::read(&file).unwrap();
    store.write(put(A, "x", "2")).unwrap();
    store.checkpoint().unwrap();
    drop(store);
    // The file is put back, as if the crash had come before its removal.
    fs::write(&file, bytes).unwrap();
    let store = open(&engine, dir.path()).unwrap();
    assert_eq!(store.get(A, b"x").unwrap(), Some(b"2".to_vec()));
    assert_eq!(files(dir.path()), Vec::<PathBuf>::new());
}

/// A directory after several confirmed writes.
struct Written {
    engine: Arc<MemoryEngine>,
    dir: tempfile::TempDir,
    /// The one file of the journal.
    file: PathBuf,
    /// The content of that file.
    bytes: Vec<u8>,
    /// The length of the file and the content of `confirmed` after each write.
    after: Vec<(usize, Vec<u8>)>,
}

impl Written {
    fn new(writes: usize) -> Self {
        let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
        let store = open(&engine, dir.path()).unwrap();
        let mut after = Vec::new();
        for i in 0..writes {
            store.write(put(A, &format!("{i}"), "value")).unwrap();
            let file = files(dir.path()).pop().unwrap();
            let confirmed = fs::read(dir.path().join("confirmed")).unwrap();
            after.push((fs::read(file).unwrap().len(), confirmed));
        }
        let file = files(dir.path()).pop().unwrap();
        let bytes = fs::read(&file).unwrap();
        Self { engine, dir, file, bytes, after }
    }

    /// Counts the writes that are found if the journal holds `bytes` and the first `confirmed` writes are confirmed.
    fn found(&self, bytes: &[u8], confirmed: usize) -> Result<usize, KvError> {
        fs::write(&self.file, bytes).unwrap();
        let path = self.dir.path().join("confirmed");
        match confirmed.checked_sub(1) {
            Some(last) => fs::write(path, &self.after[last].1).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
        let read_only = read_only(&self.engine, self.dir.path());
        let found = open(&self.engine, self.dir.path());
        assert_eq!(read_only.is_ok(), found.is_ok(), "whoever only reads sees the same");
        found.map(|store| {
            assert_eq!(content(&store), content(&read_only.unwrap()));
            content(&store)[0].len()
        })
    }
}

fn read_only(engine: &Arc<MemoryEngine>, dir: &Path) -> Result<Store, KvError> {
    let inner = Journaled { inner: engine.clone(), dir: dir.to_owned() };
    Store::open(Arc::new(ReadOnly(inner)), &[A, B], StoreOptions::default())
}

#[derive(Debug)]
struct ReadOnly(Journaled);

polytrie_kv_testing::wrapped!(ReadOnly);

impl Wrapped for ReadOnly {
    fn inner(&self) -> &dyn Engine {
        &self.0
    }
    fn takes_nothing(&self) -> bool {
        true
    }
    fn journal(&self) -> Option<PathBuf> {
        self.0.journal()
    }
}

fn is_lost<T>(found: &Result<T, KvError>) -> bool {
    matches!(found, Err(KvError::Lost { .. }))
}

/// Records that a crash has cut off were never confirmed. A file that is cut further has lost something.
#[test]
fn only_what_was_not_confirmed_may_be_cut_off() {
    let written = Written::new(4);
    for cut in 0..=written.bytes.len() {
        let whole = written.after.iter().filter(|(end, _)| *end <= cut).count();
        for confirmed in 0..=4 {
            let found = written.found(&written.bytes[..cut], confirmed);
            let context = format!("cut at {cut} with {confirmed} confirmed: {found:?}");
            match whole < confirmed {
                true => assert!(is_lost(&found), "{context}"),
                false => assert_eq!(found.unwrap(), whole, "{context}"),
            }
        }
    }
}

/// Whoever has a say in the values may put whole records into them. A crash that cuts off the record of such a value is
/// no damage.
#[test]
fn bytes_of_a_value_are_no_record() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    let store = open(&engine, dir.path()).unwrap();
    store.write(put(A, "x", "1")).unwrap();
    let file = files(dir.path()).pop().unwrap();
    let (first, path) = (fs::read(&file).unwrap().len(), dir.path().join("confirmed"));
    let confirmed = fs::read(&path).unwrap();
    let records = (0..16_u64).flat_map(|number| {
        let mut checksum = Vec::new();
        append_checksum(&number.to_be_bytes(), &mut checksum);
        [&8_u32.to_be_bytes()[..], &checksum, &number.to_be_bytes()].concat()
    });
    let mut batch = Batch::new();
    batch.put(A, b"y", &records.collect::<Vec<u8>>());
    store.write(batch).unwrap();
    drop(store);
    let bytes = fs::read(&file).unwrap();
    for cut in first..bytes.len() {
        fs::write(&file, &bytes[..cut]).unwrap();
        fs::write(&path, &confirmed).unwrap();
        let store = open(&engine, dir.path()).unwrap();
        assert_eq!(content(&store)[0].len(), 1, "cut at {cut}");
    }
}

#[test]
fn a_flipped_bit_is_damage() {
    let written = Written::new(4);
    for position in 0..written.bytes.len() {
        let mut bytes = written.bytes.clone();
        bytes[position] ^= 1 << (position % 8);
        let found = written.found(&bytes, 4);
        assert!(is_lost(&found), "at {position}: {found:?}");
        let text = found.unwrap_err().to_string();
        assert!(text.contains("journal.") && text.contains("polytrie db repair"), "{text}");
        // A flip before another record is found by that record. In the last record it looks as if a crash had cut it
        // off.
        let found = written.found(&bytes, 0);
        match position < written.after[2].0 {
            true => assert!(is_lost(&found), "at {position}: {found:?}"),
            false => assert_eq!(found.unwrap(), 3, "at {position}"),
        }
    }
}

#[test]
fn what_says_what_was_confirmed_may_be_damaged_or_old() {
    let written = Written::new(4);
    let newest = written.after[3].1.clone();
    for position in 0..newest.len() {
        let mut damaged = newest.clone();
        damaged[position] ^= 16;
        fs::write(written.dir.path().join("confirmed"), damaged).unwrap();
        let store = open(&written.engine, written.dir.path()).unwrap();
        assert_eq!(content(&store)[0].len(), 4, "{position}");
    }
    for confirmed in 0..4 {
        assert_eq!(written.found(&written.bytes, confirmed).unwrap(), 4);
    }
}

#[test]
fn a_missing_file_is_damage() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    for i in 0..3 {
        let store = open(&engine, dir.path()).unwrap();
        store.write(put(A, &format!("{i}"), "value")).unwrap();
    }
    let all = files(dir.path());
    assert_eq!(all.len(), 3, "every opening begins a file");
    for lost in &all {
        let bytes = fs::read(lost).unwrap();
        fs::remove_file(lost).unwrap();
        assert!(is_lost(&open(&engine, dir.path())), "removed");
        assert!(is_lost(&read_only(&engine, dir.path())), "removed");
        fs::write(lost, &bytes[..5]).unwrap();
        assert!(is_lost(&open(&engine, dir.path())), "cut");
        // Another file takes the place of the lost one.
        let other = all.iter().find(|other| *other != lost).unwrap();
        fs::copy(other, lost).unwrap();
        assert!(is_lost(&open(&engine, dir.path())), "another");
        fs::write(lost, bytes).unwrap();
    }
    assert_eq!(content(&open(&engine, dir.path()).unwrap())[0].len(), 3);
    let kept: Vec<_> = all.iter().map(|file| fs::read(file).unwrap()).collect();
    all.iter().for_each(|file| fs::remove_file(file).unwrap());
    assert!(is_lost(&open(&engine, dir.path())), "all of them");
    // The failed attempts have made nothing worse.
    all.iter().zip(kept).for_each(|(file, bytes)| fs::write(file, bytes).unwrap());
    assert_eq!(content(&open(&engine, dir.path()).unwrap())[0].len(), 3);
}

/// An older copy of a file is damage; an older copy of all is a restore.
#[test]
fn a_file_may_not_go_back_alone() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    let store = open(&engine, dir.path()).unwrap();
    for i in 0..2 {
        store.write(put(A, &format!("{i}"), "value")).unwrap();
    }
    let (file, confirmed) = (files(dir.path()).pop().unwrap(), dir.path().join("confirmed"));
    let (old_file, old_confirmed) = (fs::read(&file).unwrap(), fs::read(&confirmed).unwrap());
    store.write(put(A, "2", "value")).unwrap();
    drop(store);
    fs::write(&file, old_file).unwrap();
    assert!(is_lost(&open(&engine, dir.path())));
    fs::write(&confirmed, old_confirmed).unwrap();
    assert_eq!(content(&open(&engine, dir.path()).unwrap())[0].len(), 2);
}

#[test]
fn repairing_goes_back_to_the_last_whole_record_and_on_from_there() {
    // A damage to the three files, and the number of writes that are left then.
    type Harm = fn(&[PathBuf]);
    let harms: [(Harm, usize); 4] = [
        (|_| {}, 6),
        (|files| fs::remove_file(&files[1]).unwrap(), 2),
        (|files| flip(&files[0], 120), 1),
        (|files| fs::write(&files[2], "poly").unwrap(), 4),
    ];
    for (number, (harm, left)) in harms.into_iter().enumerate() {
        let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
        for i in 0..3 {
            let store = open(&engine, dir.path()).unwrap();
            for j in 0..2 {
                store.write(put(A, &format!("{i}{j}"), &"v".repeat(40))).unwrap();
            }
        }
        harm(&files(dir.path()));
        assert_eq!(is_lost(&open(&engine, dir.path())), left < 6, "{number}");
        let journaled = Journaled { inner: engine.clone(), dir: dir.path().to_owned() };
        let options = in_step(Durability::EveryWrite);
        let store = Store::repair(Arc::new(journaled), &[A, B], options).unwrap();
        assert_eq!(content(&store)[0].len(), left, "{number}");
        store.write(put(B, "on", "it goes")).unwrap();
        drop(store);
        let store = open(&engine, dir.path()).unwrap();
        assert_eq!(content(&store).map(|rows| rows.len()), [left, 1], "{number}");
        store.checkpoint().unwrap();
        assert_eq!(files(dir.path()), Vec::<PathBuf>::new());
    }
}

fn flip(file: &Path, position: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[position] ^= 1;
    fs::write(file, bytes).unwrap();
}

/// Writes that overwrite each other take no more memory, but all of them are in the journal.
#[test]
fn a_journal_is_bounded_by_its_bytes() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    let options = || StoreOptions {
        overlay_bytes: 100_000,
        flush_every: 1_000_000,
        ..in_step(Durability::EveryWrite)
    };
    let journaled = || Arc::new(Journaled { inner: engine.clone(), dir: dir.path().to_owned() });
    let size =
        || files(dir.path()).iter().map(|file| fs::metadata(file).unwrap().len()).sum::<u64>();
    let mut largest = 0;
    for i in 0..200_u8 {
        // The process is killed now and then: recovered records count, too.
        let store = Store::open(journaled(), &[A, B], options()).unwrap();
        for _ in 0..i % 5 {
            store.write(put(A, "x", &"0".repeat(10_000 + usize::from(i)))).unwrap();
            largest = largest.max(size());
        }
    }
    assert!((50_000..120_000).contains(&largest), "{largest}");
    // A batch of that size goes to the engine directly and is not written twice.
    let store = Store::open(journaled(), &[A, B], options()).unwrap();
    store.write(put(B, "large", &"1".repeat(150_000))).unwrap();
    assert_eq!(size(), 0);
    let bare = Store::open(engine.clone(), &[A, B], StoreOptions::default()).unwrap();
    assert_eq!(bare.get(B, b"large").unwrap().unwrap().len(), 150_000);
}

/// A journal at its limit waits for the running flush, so that at most two such files are on disk.
#[test]
fn a_full_journal_waits_for_the_flush_before() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    let closed = Arc::new(AtomicBool::new(true));
    let inner = Journaled { inner: engine, dir: dir.path().to_owned() };
    let gated = Gated { inner, closed: closed.clone() };
    let options =
        StoreOptions { overlay_bytes: 50_000, background: true, ..in_step(Durability::EveryWrite) };
    let store = Store::open(Arc::new(gated), &[A, B], options).unwrap();
    let write = || store.write(put(A, "x", &"0".repeat(10_000))).unwrap();
    // Five are flushed, five more fill the next file; the one after them has to wait.
    (0..10).for_each(|_| write());
    let size =
        || files(dir.path()).iter().map(|file| fs::metadata(file).unwrap().len()).sum::<u64>();
    std::thread::scope(|scope| {
        let writer = scope.spawn(write);
        let pause = || std::thread::sleep(std::time::Duration::from_millis(20));
        while store.counters().stalls == 0 && !writer.is_finished() {
            pause();
        }
        pause();
        assert!(!writer.is_finished());
        assert!((100_000..110_000).contains(&size()), "{}", size());
        closed.store(false, Relaxed);
    });
    assert_eq!(store.counters().stalls, 1);
    store.checkpoint().unwrap();
    assert_eq!((size(), store.counters().flushes), (0, 3));
}

/// A deferred write is not in the journal. The records of an earlier process stay there until the engine has them.
#[test]
fn a_deferred_write_is_durable_with_the_flush_and_not_before() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    open(&engine, dir.path()).unwrap().write(put(A, "x", "journaled")).unwrap();
    let deferred = || open_as(Durability::Deferred, &engine, dir.path()).unwrap();
    let rows = |store: &Store| content(store)[0].len();
    let store = deferred();
    assert_eq!((rows(&store), files(dir.path()).len()), (1, 1));
    store.write(put(A, "y", "deferred")).unwrap();
    assert_eq!((rows(&store), store.counters().journal_batches), (2, 0));
    drop(store);
    let store = deferred();
    assert_eq!(rows(&store), 1);
    store.flush().unwrap();
    assert_eq!(store.counters().flushes, 0, "the journal has it");
    store.write(put(A, "y", "deferred")).unwrap();
    store.flush().unwrap();
    assert_eq!(files(dir.path()), Vec::<PathBuf>::new());
    drop(store);
    assert_eq!(rows(&deferred()), 2);
}

#[test]
fn a_file_that_was_only_begun_is_begun_again() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    for i in 0..3 {
        let store = open(&engine, dir.path()).unwrap();
        store.write(put(A, &format!("{i}"), "value")).unwrap();
        drop(store);
        let all = files(dir.path());
        assert_eq!(all.len(), i + 1);
        let number = all.len() + 1;
        fs::write(dir.path().join(format!("journal.{number:016x}")), "poly").unwrap();
    }
    assert_eq!(content(&open(&engine, dir.path()).unwrap())[0].len(), 3);
}

/// A file of an older or newer build may hold records that were confirmed elsewhere.
#[test]
fn a_file_of_another_format_is_not_begun_again() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    drop(open(&engine, dir.path()).unwrap());
    let file = dir.path().join("journal.0000000000000001");
    for number in ["3", "12"] {
        let content = format!("polytrie journal {number}\nand what follows in this format");
        fs::write(&file, &content).unwrap();
        let error = open(&engine, dir.path()).map(drop).unwrap_err();
        assert!(is_lost(&Err::<(), _>(error.clone())), "{error}");
        assert!(error.to_string().contains("it is of another format"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), content, "it is still there");
    }
}

/// An engine with a journal whose writes wait while `closed` is set.
#[derive(Debug)]
struct Gated {
    inner: Journaled,
    closed: Arc<AtomicBool>,
}

polytrie_kv_testing::wrapped!(Gated);

impl Wrapped for Gated {
    fn inner(&self) -> &dyn Engine {
        &self.inner
    }
    fn on_write(&self, changes: &dyn Changes) -> Result<(), KvError> {
        while self.closed.load(Relaxed) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.inner.write(changes)
    }
    fn journal(&self) -> Option<PathBuf> {
        self.inner.journal()
    }
}

/// A recovered generation may be full at once. It is then being flushed while the journal goes on, and a crash before
/// the flush ends must not find a file missing.
#[test]
fn a_crash_while_what_was_recovered_is_flushed_loses_nothing() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    for file in 0..2 {
        let store = open(&engine, dir.path()).unwrap();
        for i in 0..3 {
            store.write(put(A, &format!("{file}{i}"), "value")).unwrap();
        }
    }
    let closed = Arc::new(AtomicBool::new(true));
    let inner = Journaled { inner: engine.clone(), dir: dir.path().to_owned() };
    let gated = Gated { inner, closed: closed.clone() };
    let options =
        StoreOptions { flush_every: 6, background: true, ..in_step(Durability::EveryWrite) };
    let store = Store::open(Arc::new(gated), &[A, B], options).unwrap();
    store.write(put(A, "last", "value")).unwrap();
    let crashed = tempfile::tempdir().unwrap();
    for file in files(dir.path()) {
        fs::copy(&file, crashed.path().join(file.file_name().unwrap())).unwrap();
    }
    let found = open(&engine, crashed.path()).map(|store| content(&store));
    closed.store(false, Relaxed);
    assert_eq!(found.unwrap(), content(&store));
    assert_eq!(content(&store)[0].len(), 7);
}

/// A reader beside another store, whose writer acts each time after a view of the engine was taken.
#[derive(Debug)]
struct Beside {
    inner: Journaled,
    writer: Store,
    /// Whether the writer writes to the engine directly.
    directly: bool,
    /// Number of times that the writer will still act.
    left: AtomicU64,
}

polytrie_kv_testing::wrapped!(Beside);

impl Wrapped for Beside {
    fn inner(&self) -> &dyn Engine {
        &self.inner
    }
    fn on_view(&self) -> Result<Box<dyn View>, KvError> {
        let view = self.inner.view()?;
        if self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
            let moves = put(B, "moves", "on");
            if self.directly {
                self.writer.engine_write(&moves)?;
            } else {
                self.writer.write(moves)?;
                self.writer.checkpoint()?;
            }
            self.writer.write(put(A, "x", "later"))?;
        }
        Ok(view)
    }
    fn takes_nothing(&self) -> bool {
        true
    }
    fn journal(&self) -> Option<PathBuf> {
        self.inner.journal()
    }
}

/// The state that is read is one that the writer had, however often it flushes or writes to the engine meanwhile; and
/// the writer's files stay.
#[test]
fn reading_beside_a_writer_mixes_no_states() {
    for (directly, flushes) in (0..24).map(|n| (n >= 12, n % 12)) {
        let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
        let writer = open(&engine, dir.path()).unwrap();
        writer.write(put(A, "x", "first")).unwrap();
        writer.write(put(B, "y", "second")).unwrap();
        if directly {
            // Nothing is left for the flush that comes before a direct write.
            writer.checkpoint().unwrap();
        }
        let inner = Journaled { inner: engine.clone(), dir: dir.path().to_owned() };
        let left = AtomicU64::new(flushes);
        let beside = Beside { inner, writer: writer.clone(), directly, left };
        let store = Store::open(Arc::new(beside), &[A, B], StoreOptions::default()).unwrap();
        let row = |table, key: &[u8]| store.get(table, key).unwrap();
        let context = format!("{flushes}, directly: {directly}");
        assert_eq!(row(B, b"y"), Some(b"second".to_vec()), "{context}");
        let (moved, x) = (row(B, b"moves").is_some(), row(A, b"x").unwrap());
        assert!(x == b"first" || (moved && x == b"later"), "{context}");
        assert_eq!(moved, flushes > 0, "{context}");
        drop(store);
        drop(writer);
        let again = open(&engine, dir.path()).unwrap();
        assert_eq!(again.get(B, b"y").unwrap(), Some(b"second".to_vec()), "{context}");
    }
}

/// Records after a direct write to the engine build on it. An engine that has lost it is no base for them.
#[test]
fn records_are_not_applied_to_an_engine_without_the_direct_write_before_them() {
    let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    let store = open(&engine, dir.path()).unwrap();
    store.write(put(A, "x", "first")).unwrap();
    store.engine_write(&put(A, "y", "directly")).unwrap();
    store.write(put(A, "x", "second")).unwrap();
    drop(store);
    let rows = content(&open(&engine, dir.path()).unwrap());
    let expected = [("x", "second"), ("y", "directly")]
        .map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()));
    assert_eq!(rows, [expected.to_vec(), vec![]]);
    // The engine of a copy is one that has only the flush.
    let (old, copy) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
    let store = open(&old, copy.path()).unwrap();
    store.write(put(A, "x", "first")).unwrap();
    store.checkpoint().unwrap();
    drop(store);
    for file in files(dir.path()) {
        fs::copy(&file, copy.path().join(file.file_name().unwrap())).unwrap();
    }
    assert!(is_lost(&read_only(&old, copy.path())));
    assert!(is_lost(&open(&old, copy.path())));
}

#[test]
fn any_history_with_crashes_ends_at_a_write_not_before_the_last_durable_one() {
    let seed = Random::seed();
    let mut random = Random::new(seed);
    for _ in 0..40 {
        let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
        let durabilities = [Durability::EveryWrite, Durability::Deferred];
        let mut durability = durabilities[random.below(2)];
        let mut store = open_as(durability, &engine, dir.path()).unwrap();
        // The content after each write since the last durable one, starting with that one.
        let mut history = vec![content(&store)];
        for _ in 0..60 {
            let mut batch = Batch::new();
            for _ in 0..random.below(6) {
                let table = [A, B][random.below(2)];
                let key = [random.below(9) as u8];
                match random.below(6) {
                    0 => batch.delete(table, &key),
                    1 => batch.delete_range(table, &key, Some(&[key[0] + 3])),
                    _ => {
                        let len = random.below(40);
                        batch.put(table, &key, &random.bytes(len));
                    }
                }
            }
            match random.below(12) {
                0..8 => {
                    store.write(batch).unwrap();
                    if durability == Durability::EveryWrite {
                        history.clear();
                    }
                    history.push(content(&store));
                }
                8 | 9 => {
                    let flush = [Store::flush, Store::checkpoint][random.below(2)];
                    flush(&store).unwrap();
                    history = vec![content(&store)];
                }
                10 => {
                    store.engine_write(&batch).unwrap();
                    history = vec![content(&store)];
                }
                _ => {
                    drop(store);
                    durability = durabilities[random.below(2)];
                    store = open_as(durability, &engine, dir.path()).unwrap();
                    let found = content(&store);
                    let at = history.iter().rposition(|known| *known == found);
                    assert!(at.is_some(), "the seed is {seed}");
                    history = vec![found];
                }
            }
        }
    }
}
