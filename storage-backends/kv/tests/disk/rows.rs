//! Damage to the pages of MDBX that hold rows: any flipped bit is found or harmless, and so are writes that the disk
//! has lost.
//!
//! `POLYTRIE_TEST_DAMAGES` sets the number of flips, `POLYTRIE_TEST_SEED` repeats a run.

#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(clippy::print_stderr, reason = "shown by the test harness with --nocapture")]

use polytrie_kv::{
    Batch, Engine, Entry, KeyRange, KvError, MdbxEngine, MdbxOptions, Read, Store, StoreOptions,
    Table,
};
use polytrie_kv_testing::{Random, entries};
use std::{
    env, fs,
    ops::{ControlFlow::Continue, Range},
    path::{Path, PathBuf},
    process::{Command, exit},
    sync::Arc,
};
use tempfile::TempDir;

const SMALL: Table = Table::new(0, "small", 32);
const LARGE: Table = Table::new(1, "large", 8);
const EMPTY: Table = Table::new(2, "empty", 8);
const TABLES: [Table; 3] = [SMALL, LARGE, EMPTY];

/// Flips of bits.
const FLIPS: usize = 300;
const PAGE: usize = 4096;
/// The meta pages, which say which commit is the newest; `damage.rs` tests those.
const METAS: usize = 3;
/// The flag of a page that has other pages below it.
const BRANCH: u8 = 1;

fn open(dir: &Path, read_only: bool, check: bool) -> Result<Arc<dyn Engine>, KvError> {
    let options = MdbxOptions { read_only, check, ..MdbxOptions::new(dir, &TABLES) };
    Ok(Arc::new(MdbxEngine::open(options)?))
}

fn rows(engine: Arc<dyn Engine>) -> Vec<Vec<Entry>> {
    let store = Store::open(engine, &TABLES, StoreOptions::default()).unwrap();
    TABLES.iter().map(|table| entries(&store, *table, KeyRange::ALL)).collect()
}

fn data(dir: &Path) -> PathBuf {
    dir.join("mdbx.dat")
}

fn write(engine: &dyn Engine, change: impl FnOnce(&mut Batch)) {
    let mut batch = Batch::new();
    change(&mut batch);
    engine.write(&batch.to_sorted()).unwrap();
}

/// Makes a directory with a few commits: rows of all lengths are added, changed and removed.
fn directory(random: &mut Random) -> TempDir {
    let dir = TempDir::new().unwrap();
    let engine = open(dir.path(), false, false).unwrap();
    let mut keys: Vec<Vec<u8>> = Vec::new();
    for _ in 0..4 {
        write(&*engine, |batch| {
            for _ in 0..900 {
                let key = match random.one_in(4) && !keys.is_empty() {
                    true => keys[random.below(keys.len())].clone(),
                    false => random.bytes(32),
                };
                let len = random.below(70);
                batch.put(SMALL, &key, &random.bytes(len));
                keys.push(key);
            }
            for _ in 0..100 {
                batch.delete(SMALL, &keys[random.below(keys.len())]);
            }
            // With any seed a quarter of the keys or more is left.
            batch.delete_range(SMALL, &[0x40 + random.below(0xc0) as u8], Some(&[0xff]));
            for _ in 0..6 {
                let (key, len) = (random.below(12) as u64, random.below(12_000));
                batch.put(LARGE, &key.to_be_bytes(), &random.bytes(len));
            }
        });
    }
    dir
}

/// Changes the bytes of the data file, runs `run`, and restores the file.
fn harmed<T>(dir: &Path, harm: impl FnOnce(&mut [u8]), run: impl FnOnce() -> T) -> T {
    let whole = fs::read(data(dir)).unwrap();
    let mut bytes = whole.clone();
    harm(&mut bytes);
    fs::write(data(dir), bytes).unwrap();
    let ended = run();
    fs::write(data(dir), whole).unwrap();
    ended
}

/// Returns every offset of these bytes, those in old pages included.
fn places(bytes: &[u8], wanted: &[u8]) -> Vec<usize> {
    let found = bytes.windows(wanted.len()).enumerate().filter(|(_, bytes)| *bytes == wanted);
    found.map(|(place, _)| place).collect()
}

/// The environment variable with the directory that the child process examines.
const LOOK_AT: &str = "POLYTRIE_TEST_LOOK_AT";
/// The environment variable that says how the child process opens it: `check`, `read` or `write`.
const LOOK_HOW: &str = "POLYTRIE_TEST_LOOK_HOW";
/// The exit code of the child process if it finds damage.
const FOUND: i32 = 3;

/// The test that [`is_found`] starts as a child process.
#[test]
fn look() {
    let Some(dir) = env::var_os(LOOK_AT) else { return };
    let how = env::var(LOOK_HOW).unwrap();
    let is_check = how == "check";
    let read = |engine| {
        if is_check {
            // What the check has passed is read without an error.
            rows(engine);
            return Ok(());
        }
        let store = Store::open(engine, &TABLES, StoreOptions::default())?;
        let read = |table: &Table| store.scan(*table, KeyRange::ALL, &mut |_, _| Ok(Continue(())));
        TABLES.iter().try_for_each(read)
    };
    match open(dir.as_ref(), how != "write", is_check).and_then(read) {
        Ok(()) => {}
        Err(KvError::Corrupt(text)) => {
            assert!(text.contains("mdbx"), "{text}");
            exit(FOUND);
        }
        Err(other) => panic!("{other:?}"),
    }
}

/// Whether a process that examines a directory finds damage. It is a separate process, because MDBX's assertions in a
/// debug build abort it at damage that would otherwise be reported as an error.
fn is_found(dir: &Path, how: &str, context: &str) -> bool {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "rows::look", "--nocapture"]).env(LOOK_AT, dir).env(LOOK_HOW, how);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => false,
        Some(FOUND) => true,
        None if cfg!(debug_assertions) && said.contains("Assertion") => true,
        _ => panic!("{context}: {}, {said}", output.status),
    }
}

#[test]
fn a_flip_is_found_or_harmless() {
    let flips = env::var("POLYTRIE_TEST_DAMAGES")
        .map_or(FLIPS, |count| count.parse().expect("POLYTRIE_TEST_DAMAGES is a number"));
    let seed = Random::seed();
    let mut random = Random::new(seed);
    let dir = directory(&mut random);
    let expected = rows(open(dir.path(), true, true).unwrap());
    assert!(expected[0].len() > 100 && expected[1].len() > 3, "seed {seed}");
    let bytes = fs::read(data(dir.path())).unwrap();
    let is_used = |page: &usize| bytes[page * PAGE..][..PAGE].iter().any(|byte| *byte != 0);
    let used: Vec<usize> = (METAS..bytes.len() / PAGE).filter(is_used).collect();
    let branches: Vec<usize> =
        used.iter().copied().filter(|page| bytes[page * PAGE + 10] == BRANCH).collect();
    assert!(!branches.is_empty());
    let (mut found, mut harmless) = (0, 0);
    for number in 0..flips {
        let pages = if random.one_in(3) { &branches } else { &used };
        // The page's header and its table of offsets come first.
        let within = [PAGE, 128][random.below(2)];
        let at = pages[random.below(pages.len())] * PAGE + random.below(within);
        let bit = random.below(8);
        let context = format!("flip {number}, seed {seed}: bit {bit} of byte {at}");
        let harm = |bytes: &mut [u8]| bytes[at] ^= 1 << bit;
        let is_found = harmed(dir.path(), harm, || {
            let is_found = is_found(dir.path(), "check", &context);
            let is_same = || rows(open(dir.path(), true, true).unwrap()) == expected;
            assert!(is_found || is_same(), "{context}: other rows, called clean");
            is_found
        });
        if is_found {
            found += 1;
        } else {
            harmless += 1;
        }
    }
    eprintln!("of {flips} flips {found} were found and {harmless} harmless, seed {seed}");
    // By chance the last commit keeps few rows, and most pages are those of earlier ones, which are not read.
    assert!(found > flips / 20 && harmless > 0, "{found} of {flips}, seed {seed}");
    assert!(rows(open(dir.path(), true, true).unwrap()) == expected, "all is put back");
}

fn expect_damaged<T: std::fmt::Debug>(result: Result<T, KvError>, words: &str) {
    let error = result.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, KvError::Corrupt(_)) && text.contains(words), "{text}");
    assert!(text.contains("restore a copy of the whole data directory"), "{text}");
}

/// A page begins with the number of the commit that wrote it. The newest commit knows the number of its first page, so an
/// other one there is damage, whatever the directory is opened for.
#[test]
fn a_first_page_of_another_commit_is_damage_to_every_opening() {
    let dir = TempDir::new().unwrap();
    let engine = open(dir.path(), false, false).unwrap();
    write(&*engine, |batch| batch.put(SMALL, b"key", b"value"));
    drop(engine);
    for how in ["check", "read", "write"] {
        let harm = |bytes: &mut [u8]| {
            bytes.chunks_mut(PAGE).skip(METAS).for_each(|page| page[0] ^= 1);
        };
        assert!(harmed(dir.path(), harm, || is_found(dir.path(), how, how)), "{how}");
        assert!(!is_found(dir.path(), how, how), "{how}: all is put back");
    }
}

/// Even without a search for damage, a reader of the row gets an error, and all other rows are as before.
#[test]
fn a_damaged_value_is_never_read() {
    let dir = TempDir::new().unwrap();
    let engine = open(dir.path(), false, false).unwrap();
    write(&*engine, |batch| {
        batch.put(SMALL, b"before", b"0");
        batch.put(SMALL, b"key", b"a balance of 5");
        batch.put(SMALL, b"later", b"1");
        batch.put(LARGE, b"key", &[b'y'; 9_000]);
    });
    drop(engine);
    let value = places(&fs::read(data(dir.path())).unwrap(), b"a balance of 5")[0];
    let large = places(&fs::read(data(dir.path())).unwrap(), &[b'y'; 9_000])[0];
    // The length of a value is the first that a node has, eight bytes before its key.
    let length = value - b"key".len() - 8;
    let damages: [(Range<usize>, Table); 4] = [
        (value + 13..value + 14, SMALL),
        // One length is a little too large, and the other so large that there is no memory to read.
        (length..length + 1, SMALL),
        (length + 3..length + 4, SMALL),
        (large + 8_000..large + 8_001, LARGE),
    ];
    for (range, table) in damages {
        let context = format!("{range:?}");
        let harm = |bytes: &mut [u8]| bytes[range.clone()].iter_mut().for_each(|b| *b ^= 0x40);
        harmed(dir.path(), harm, || {
            let engine = open(dir.path(), false, false).unwrap();
            let words = format!("a row of the table {} in ", table.name);
            let view = engine.view().unwrap();
            expect_damaged(view.get_into(table, b"key", &mut Vec::new()), &words);
            expect_damaged(view.get_into(table, b"key", &mut Vec::new()), "(key 0x6b6579)");
            expect_damaged(view.get_many(table, &[&b"before"[..], b"key"]), &words);
            expect_damaged(
                view.scan(table, KeyRange::ALL, &mut |_, _| {
                    Ok(std::ops::ControlFlow::Continue(()))
                }),
                &words,
            );
            let mut other = Vec::new();
            assert!(view.get_into(SMALL, b"before", &mut other).unwrap(), "{context}");
            assert_eq!(other, b"0", "{context}");
            // The number to subtract from the tally is not known.
            for change in
                [Batch::put as fn(&mut Batch, Table, &[u8], &[u8]), |batch, table, key, _| {
                    batch.delete(table, key);
                }]
            {
                let mut batch = Batch::new();
                change(&mut batch, table, b"key", b"another");
                expect_damaged(engine.write(&batch), &words);
            }
            drop((view, engine));
            expect_damaged(open(dir.path(), true, true), "mdbx");
        });
    }
    open(dir.path(), true, true).unwrap();
}

/// The lost write leaves the page as it was before, with each row of it whole.
#[test]
fn a_write_that_the_disk_has_lost_is_found() {
    let dir = TempDir::new().unwrap();
    let engine = open(dir.path(), false, false).unwrap();
    let put = |value: &'static [u8]| write(&*engine, |batch| batch.put(SMALL, b"key", value));
    put(b"the value before");
    // The view keeps MDBX from using the old page again.
    let view = engine.view().unwrap();
    put(b"the value after.");
    drop((view, engine));
    let bytes = fs::read(data(dir.path())).unwrap();
    let page = |value: &[u8]| places(&bytes, value)[0] / PAGE;
    let (old, new) = (page(b"the value before"), page(b"the value after."));
    let lose = |bytes: &mut [u8]| {
        let number = bytes[new * PAGE + 16..][..4].to_vec();
        bytes.copy_within(old * PAGE..(old + 1) * PAGE, new * PAGE);
        bytes[new * PAGE + 16..][..4].copy_from_slice(&number);
    };
    harmed(dir.path(), lose, || {
        // A reader without a check cannot notice this.
        let found = rows(open(dir.path(), true, false).unwrap());
        assert_eq!(found[0], [(b"key".to_vec(), b"the value before".to_vec())]);
        expect_damaged(open(dir.path(), true, true), "the table small");
    });
}

/// A table that is not found would be created again, and be empty.
#[test]
fn a_table_that_is_hidden_is_missed_at_once() {
    let dir = TempDir::new().unwrap();
    let engine = open(dir.path(), false, false).unwrap();
    write(&*engine, |batch| batch.put(LARGE, b"key", b"value"));
    drop(engine);
    for (read_only, check) in [(true, false), (false, false), (true, true)] {
        // The row in the table of tallies keeps its name.
        let rename = |bytes: &mut [u8]| {
            let counts = places(bytes, &[&b"large"[..], &1_u64.to_be_bytes()].concat());
            let names = places(bytes, b"large").into_iter().filter(|place| !counts.contains(place));
            names.collect::<Vec<_>>().into_iter().for_each(|place| bytes[place + 4] = b'x');
        };
        harmed(dir.path(), rename, || {
            expect_damaged(open(dir.path(), read_only, check), "");
        });
    }
    open(dir.path(), true, true).unwrap();
}
