//! Damage to the files of an MDBX environment: a missing confirmed commit is always reported, and whole files are
//! never called damaged.

#![expect(clippy::unwrap_used, reason = "tests")]

use polytrie_kv::{
    Batch, Durability, Entry, KeyRange, KvError, MdbxEngine, MdbxOptions, Store, StoreOptions,
    Table,
};
use polytrie_kv_testing::{Random, entries};
use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::TempDir;

const TABLE: Table = Table::new(0, "rows", 8);

fn open(dir: &Path, read_only: bool) -> Result<Store, KvError> {
    let engine = MdbxEngine::open(MdbxOptions { read_only, ..MdbxOptions::new(dir, &[TABLE]) })?;
    let durability = Durability::EveryWrite;
    let options = StoreOptions { durability, background: false, ..StoreOptions::default() };
    Store::open(Arc::new(engine), &[TABLE], options)
}

fn rows(store: &Store) -> Vec<Entry> {
    entries(store, TABLE, KeyRange::ALL)
}

fn row(number: u32, len: usize) -> Batch {
    let mut batch = Batch::new();
    batch.put(TABLE, &number.to_be_bytes(), &vec![number as u8; len]);
    batch
}

fn data(dir: &Path) -> PathBuf {
    dir.join("mdbx.dat")
}

/// Copies the files of a directory.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Makes a directory with four rows in the engine, one commit each. Returns it and its rows.
fn four_commits() -> (TempDir, Vec<Entry>) {
    let dir = TempDir::new().unwrap();
    let store = open(dir.path(), false).unwrap();
    for number in 0..4 {
        store.write(row(number, 100)).unwrap();
        store.checkpoint().unwrap();
    }
    let rows = rows(&store);
    drop(store);
    (dir, rows)
}

/// Opens a directory for reading and for writing, and checks that both find equal rows. Returns them.
fn found(dir: &Path, context: &str) -> Result<Vec<Entry>, KvError> {
    let read = open(dir, true).map(|store| rows(&store));
    let written = open(dir, false).map(|store| rows(&store));
    assert_eq!(read.is_ok(), written.is_ok(), "{context}: {read:?} {written:?}");
    if let (Ok(read), Ok(written)) = (&read, &written) {
        assert_eq!(read, written, "{context}");
    }
    read
}

/// Makes enough commits to reach each meta page.
fn go_on(dir: &Path, context: &str) {
    let before = found(dir, context).unwrap().len();
    let store = open(dir, false).unwrap();
    for number in 0..4 {
        store.write(row(100 + number, 100)).unwrap();
        store.checkpoint().unwrap();
        let again = found_in_a_copy(dir, context).len();
        assert_eq!(again, before + number as usize + 1, "{context}");
    }
    drop(store);
    assert_eq!(found(dir, context).unwrap().len(), before + 4, "{context}");
}

fn found_in_a_copy(dir: &Path, context: &str) -> Vec<Entry> {
    let other = TempDir::new().unwrap();
    copy(dir, other.path());
    found(other.path(), context).unwrap()
}

#[test]
fn a_damaged_meta_page_is_harmless_or_reported() {
    let seed = Random::seed();
    let mut random = Random::new(seed);
    let (whole, expected) = four_commits();
    let mut reported = 0;
    for page in 0..3 {
        // Beginning and end of the transaction's number, of the tree of tables, and any others.
        let others: Vec<_> = (0..12).map(|_| random.below(256)).collect();
        for byte in [28, 35, 116, 196, 203].into_iter().chain(others) {
            let dir = TempDir::new().unwrap();
            copy(whole.path(), dir.path());
            let mut bytes = fs::read(data(dir.path())).unwrap();
            bytes[page * 4096 + byte] ^= 1 << random.below(8);
            fs::write(data(dir.path()), bytes).unwrap();
            let context = format!("page {page}, byte {byte}, seed {seed}");
            match found(dir.path(), &context) {
                Ok(rows) => {
                    assert_eq!(rows, expected, "{context}");
                    go_on(dir.path(), &context);
                }
                Err(KvError::Lost { .. }) => reported += 1,
                Err(other) => panic!("{context}: {other}"),
            }
        }
    }
    // By chance all 17 bytes of the newest page matter: the five that were chosen, and the twelve others.
    assert!((5..=17).contains(&reported), "{reported}: those of the newest page that matter");
    // The page is zeroed, as by a bad sector.
    let newest = (0..3).find(|page| {
        let dir = TempDir::new().unwrap();
        copy(whole.path(), dir.path());
        let mut bytes = fs::read(data(dir.path())).unwrap();
        bytes[page * 4096 + 193..][..16].fill(0);
        fs::write(data(dir.path()), bytes).unwrap();
        match found(dir.path(), "zeros") {
            Ok(rows) => assert_eq!(rows, expected),
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("mdbx.dat ends with commit "), "{text}");
                return true;
            }
        }
        false
    });
    assert!(newest.is_some());
}

#[test]
fn a_tail_that_was_not_in_use_may_be_lost() {
    let (whole, expected) = four_commits();
    let length = fs::metadata(data(whole.path())).unwrap().len();
    let mut opened = 0;
    let mut smallest = length;
    for lost in (0..length).step_by(3 * 4096).chain([100, 5_000, 8_192]) {
        let dir = TempDir::new().unwrap();
        copy(whole.path(), dir.path());
        let file = OpenOptions::new().write(true).open(data(dir.path())).unwrap();
        file.set_len(length - lost).unwrap();
        match found(dir.path(), &format!("{lost} bytes")) {
            Ok(rows) => {
                assert_eq!(rows, expected);
                opened += 1;
                smallest = smallest.min(length - lost);
            }
            Err(KvError::Corrupt(text) | KvError::Lost { what: text, .. }) => {
                assert!(text.contains("mdbx.dat"), "{text}");
                assert!(length - lost < smallest, "{lost} bytes are too many, and more are not");
            }
            Err(other) => panic!("{lost}: {other}"),
        }
    }
    assert!(opened > 3, "{opened}");
    assert!(smallest < length, "{smallest}");
}

#[test]
fn the_data_file_may_not_go_back_alone() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("db");
    let store = open(&path, false).unwrap();
    store.write(row(0, 100)).unwrap();
    store.checkpoint().unwrap();
    drop(store);
    let old = dir.path().join("old");
    fs::create_dir(&old).unwrap();
    copy(&path, &old);
    let store = open(&path, false).unwrap();
    store.write(row(1, 100)).unwrap();
    store.checkpoint().unwrap();
    store.write(row(2, 100)).unwrap();
    drop(store);
    let new = dir.path().join("new");
    fs::create_dir(&new).unwrap();
    copy(&path, &new);
    fs::copy(data(&old), data(&path)).unwrap();
    assert!(matches!(found(&path, "older"), Err(KvError::Lost { .. })));
    fs::remove_file(data(&path)).unwrap();
    let error = open(&path, false).map(drop).unwrap_err();
    assert!(matches!(error, KvError::Corrupt(_)), "{error}");
    assert!(!data(&path).exists(), "nothing was made in its place");
    // A copy of all files counts as a restore, even an older one.
    for (copied, expected) in [(&new, 3), (&old, 1), (&new, 3)] {
        fs::remove_dir_all(&path).unwrap();
        fs::create_dir(&path).unwrap();
        copy(copied, &path);
        assert_eq!(found(&path, "restored").unwrap().len(), expected);
    }
}

#[test]
fn repairing_goes_back_to_the_commit_before() {
    let (whole, expected) = four_commits();
    // Any byte of the newest page that matters, and the whole of it.
    for harm in [28, 56, 116, 203, 4096] {
        let dir = TempDir::new().unwrap();
        copy(whole.path(), dir.path());
        let bytes = fs::read(data(dir.path())).unwrap();
        let harmed = (0..3).any(|page| {
            let mut bytes = bytes.clone();
            match harm {
                4096 => bytes[page * 4096..][..4096].fill(0),
                byte => bytes[page * 4096 + byte] ^= 1,
            }
            fs::write(data(dir.path()), bytes).unwrap();
            open(dir.path(), true).is_err()
        });
        assert!(harmed, "{harm}");
        let options = MdbxOptions { repair: true, ..MdbxOptions::new(dir.path(), &[TABLE]) };
        let engine = Arc::new(MdbxEngine::open(options).unwrap());
        let store = Store::repair(engine, &[TABLE], StoreOptions::default()).unwrap();
        assert_eq!(rows(&store), expected[..3], "{harm}");
        drop(store);
        go_on(dir.path(), &format!("{harm} and repaired"));
    }
}

/// The file of confirmations is written in the order in which commits become durable, so a power failure leaves an
/// older version of it.
#[test]
fn what_says_what_was_confirmed_may_be_older() {
    let dir = TempDir::new().unwrap();
    let confirmed = dir.path().join("confirmed");
    let store = open(dir.path(), false).unwrap();
    let mut copies = vec![fs::read(&confirmed).unwrap()];
    for number in 0..12 {
        match number % 4 {
            0 | 1 => store.write(row(number, 100)).unwrap(),
            2 => store.engine_write(&row(number, 100)).unwrap(),
            _ => {
                store.write(row(number, 100)).unwrap();
                store.checkpoint().unwrap();
            }
        }
        copies.push(fs::read(&confirmed).unwrap());
    }
    drop(store);
    for (number, copy) in copies.iter().enumerate() {
        fs::write(&confirmed, copy).unwrap();
        assert_eq!(found(dir.path(), &format!("copy {number}")).unwrap().len(), 12);
    }
    fs::remove_file(&confirmed).unwrap();
    assert_eq!(found(dir.path(), "none").unwrap().len(), 12);
}
