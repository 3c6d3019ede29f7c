//! Tests of random damage to the files of a data directory, as bad disks, power failures and wrong copies cause it.
//! Bits are flipped, bytes are zeroed, and files are cut, deleted or replaced by older ones.
//!
//! A damage must be reported, or be harmless: the same head and the same rows. No confirmed block is lost without a
//! report, and no whole directory is called damaged. After a loss `polytrie db repair` finds an earlier block, from
//! which an import leads to the same head.
//!
//! In the pages of rows, `polytrie db check` must find any flipped bit that changes the content.
//!
//! The variable `POLYTRIE_TEST_DAMAGES` sets another number of damages per layer, and `POLYTRIE_TEST_SEED` repeats a
//! run.

use crate::{
    run::polytrie,
    sample::{sample, sample_blocks},
    say,
    variables::number,
};
use alloy_primitives::{B256, Bytes, keccak256};
use polytrie::{
    chain::{Candidate, Chain, TABLES, check_state},
    datadir::{DataDir, OpenError, OpenOptions},
    layers::{EngineOptions, LAYERS, LayerKind, LayerOptions},
};
use polytrie_kv::{Durability, KeyRange, KvError, StoreOptions};
use polytrie_kv_testing::{Random, entries};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The number of damages per layer.
const DAMAGES: usize = 40;
/// The number of imported blocks, the number of them that are in the engine, and the number that were imported when the
/// older copy was made.
const BLOCKS: usize = 60;
const FLUSHED: usize = 45;
const OLDER: usize = 30;
/// The size in bytes of a meta page of MDBX, of its used part, and of all three meta pages.
const META: usize = 4096;
const META_USED: usize = 244;
const METAS: usize = 3 * META;

fn open(dir: &Path, kind: &LayerKind, read_only: bool) -> Result<(Chain, DataDir), OpenError> {
    let options = OpenOptions {
        datadir: Some(dir.to_owned()),
        chain: (!read_only).then(|| sample("genesis.json").display().to_string()),
        state: Some(kind.name.to_owned()),
        layer: LayerOptions::for_tests(),
        engine: EngineOptions { read_only, ..EngineOptions::default() },
        // Each write is durable by itself, as in a devnet with a block time, so the last blocks are in the journal.
        store: StoreOptions {
            durability: Durability::EveryWrite,
            background: false,
            counters: false,
            ..StoreOptions::default()
        },
        ..OpenOptions::default()
    };
    DataDir::open(&options, true)?.into_chain()
}

fn insert(chain: &mut Chain, blocks: &[Bytes]) {
    for block in blocks {
        let candidate = Candidate::prepare(&Arc::clone(chain.spec()), block.clone()).unwrap();
        chain.insert(candidate).unwrap();
    }
}

/// Copies a directory while the process that uses it may still run.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// Returns the paths of the files of a data directory by their names within it.
fn files(dir: &Path) -> BTreeMap<String, PathBuf> {
    let list = |dir: &Path, prefix: &str| -> Vec<(String, PathBuf)> {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
        let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
        files.map(|e| (format!("{prefix}{}", e.file_name().display()), e.path())).collect()
    };
    list(dir, "").into_iter().chain(list(&dir.join("db"), "db/")).collect()
}

/// The content of a data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Content {
    head: u64,
    /// The hash of the head's hash and of all rows.
    digest: B256,
}

fn content(dir: &Path, kind: &LayerKind, read_only: bool) -> Result<Content, OpenError> {
    let (chain, _data) = open(dir, kind, read_only)?;
    let mut bytes = chain.head().hash().to_vec();
    for table in kind.tables.iter().chain(TABLES) {
        for (key, value) in entries(chain.db().store(), *table, KeyRange::ALL) {
            bytes.extend_from_slice(&key);
            bytes.extend_from_slice(&value);
        }
    }
    Ok(Content { head: chain.head().number(), digest: keccak256(bytes) })
}

/// A data directory of a layer as a killed process leaves it, and an older copy of it.
struct Directory {
    kind: &'static LayerKind,
    temp: tempfile::TempDir,
    expected: Content,
    blocks: Vec<Bytes>,
}

impl Directory {
    fn new(kind: &'static LayerKind) -> Self {
        let (temp, blocks) = (tempfile::tempdir().unwrap(), sample_blocks(BLOCKS));
        let work = temp.path().join("work");
        let (mut chain, data) = open(&work, kind, false).unwrap();
        for range in [0..OLDER, OLDER..FLUSHED] {
            insert(&mut chain, &blocks[range.clone()]);
            if range.start == 0 {
                // In the older copy the blocks are in the journal.
                copy(&work, &temp.path().join("older"));
            }
            chain.flush().unwrap();
        }
        drop((chain, data));
        for range in [FLUSHED..FLUSHED + 7, FLUSHED + 7..BLOCKS] {
            let (mut chain, _data) = open(&work, kind, false).unwrap();
            insert(&mut chain, &blocks[range]);
        }
        copy(&work, &temp.path().join("whole"));
        let expected = content(&work, kind, true).unwrap();
        assert_eq!(expected.head, BLOCKS as u64);
        let journals = files(&work).keys().filter(|name| name.contains("journal.")).count();
        let store = kind.suit_store(StoreOptions::default(), &LayerOptions::for_tests());
        let expected_journals = if store.flush_every == 1 { 0 } else { 2 };
        assert_eq!(
            journals, expected_journals,
            "each process that keeps blocks back begins a file"
        );
        Self { kind, temp, expected, blocks }
    }

    /// Makes a new copy of the undamaged directory.
    fn fresh(&self) -> PathBuf {
        let dir = self.temp.path().join("work");
        fs::remove_dir_all(&dir).unwrap();
        copy(&self.temp.path().join("whole"), &dir);
        dir
    }

    /// Applies `harm` to a new copy. Returns its path, and its content when opened for reading and when opened for
    /// writing.
    fn after(&self, harm: impl FnOnce(&Path)) -> (PathBuf, [Result<Content, OpenError>; 2]) {
        let dir = self.fresh();
        harm(&dir);
        let found = [true, false].map(|read_only| content(&dir, self.kind, read_only));
        (dir, found)
    }
}

/// The description of a damage, and whether it must be harmless.
struct Damage {
    words: String,
    harmless: bool,
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Damages a random file of a directory.
fn damage(random: &mut Random, dir: &Path, older: &Path) -> Damage {
    let files = files(dir);
    let names: Vec<&String> = files.keys().collect();
    // Choose the most important files most often.
    let name = match random.below(3) {
        0 => names[random.below(names.len())].clone(),
        1 => "db/mdbx.dat".to_owned(),
        _ => {
            let journals: Vec<_> = names.iter().filter(|n| n.contains("journal.")).collect();
            match journals.len() {
                0 => "db/mdbx.dat".to_owned(),
                count => journals[random.below(count)].to_string(),
            }
        }
    };
    let path = &files[&name];
    let length = usize::try_from(fs::metadata(path).unwrap().len()).unwrap();
    // The loss of these files is harmless, because they only save time or only record what to compare.
    let is_aside = ["db/confirmed", "db/mdbx.lck", "LOCK"].contains(&name.as_str());
    let is_data = name == "db/mdbx.dat";
    // The rules of a chain are covered by other tests.
    let is_rules = name == "chain.json";
    let (words, harmless) = match random.below(5) {
        0 | 1 if is_data => {
            let (page, width) = (random.below(3), [META_USED, META][random.below(2)]);
            let at = random.below(width);
            match random.below(3) {
                0 => {
                    let end = METAS.min(page * META + at + 16);
                    change(path, |bytes| bytes[page * META + at..end].fill(0));
                    (format!("zeros from {at} on in meta page {page}"), false)
                }
                _ => {
                    let bit = random.below(8);
                    change(path, |bytes| bytes[page * META + at] ^= 1 << bit);
                    (format!("bit {bit} of byte {at} in meta page {page}"), at >= META_USED)
                }
            }
        }
        0 | 1 if length > 0 && !is_rules => {
            let (at, bit) = (random.below(length), random.below(8));
            change(path, |bytes| bytes[at] ^= 1 << bit);
            (format!("bit {bit} of byte {at} flipped"), is_aside)
        }
        2 => {
            let left = match is_data && random.below(2) == 0 {
                true => length - random.below(5) * 4096,
                false => random.below(length + 1),
            };
            change(path, |bytes| bytes.truncate(left));
            (format!("cut from {length} to {left}"), is_aside || left == length)
        }
        3 if older.join(&name).exists() => {
            fs::copy(older.join(&name), path).unwrap();
            let same = ["chain.json", "polytrie.json"].contains(&name.as_str());
            ("swapped for an older copy".to_owned(), is_aside || same)
        }
        _ => {
            fs::remove_file(path).unwrap();
            ("deleted".to_owned(), is_aside || is_rules)
        }
    };
    Damage { words: format!("{name}: {words}"), harmless }
}

fn damages() -> usize {
    number("POLYTRIE_TEST_DAMAGES").unwrap_or(DAMAGES)
}

#[test]
fn damage_is_reported_or_harmless() {
    let count = damages();
    let seed = Random::seed();
    let mut random = Random::new(seed);
    for kind in LAYERS {
        let directory = Directory::new(kind);
        let (mut harmless, mut reported, mut repaired) = (0, 0, 0);
        for number in 0..count {
            let mut done = None;
            let (dir, found) = directory.after(|dir| {
                done = Some(damage(&mut random, dir, &directory.temp.path().join("older")));
            });
            let Damage { words, harmless: must } = done.unwrap();
            let context = format!("{}, damage {number}, seed {seed}: {words}", kind.name);
            match &found {
                [Ok(read), Ok(written)] => {
                    let expected = &directory.expected;
                    assert!(read == expected && written == expected, "{context}: {found:?}");
                    harmless += 1;
                }
                [Err(read), Err(_)] => {
                    assert!(!must, "{context}: {read}");
                    reported += 1;
                }
                _ => panic!("{context}: reading and writing do not agree: {found:?}"),
            }
            if matches!(found, [_, Err(OpenError::Store(KvError::Lost { .. }))]) {
                repaired += usize::from(repair(&directory, &dir, &context));
            }
        }
        say(&format!(
            "{}: of {count} damages {harmless} were harmless and {reported} reported, {repaired} of them repaired",
            kind.name
        ));
    }
}

/// Repairs a directory and imports the missing blocks. Returns `false` if too much is lost for a repair.
fn repair(directory: &Directory, dir: &Path, context: &str) -> bool {
    let options = OpenOptions { datadir: Some(dir.to_owned()), ..OpenOptions::default() };
    let lost = match DataDir::repair(&options) {
        Ok(lost) => lost,
        // Too much is lost.
        Err(OpenError::Store(KvError::Lost { .. } | KvError::Corrupt(_))) => return false,
        Err(error) => panic!("{context}: {error}"),
    };
    assert_eq!(lost.len(), 1, "{context}");
    assert!(DataDir::repair(&options).unwrap().is_empty(), "{context}");
    let (mut chain, data) = open(dir, directory.kind, false).unwrap();
    let report = chain.db().check(chain.spec(), &mut |_| {}).unwrap();
    assert_eq!(report.problems, Vec::<String>::new(), "{context}");
    assert_eq!(
        check_state(chain.db(), &**chain.layer()).unwrap(),
        Vec::<String>::new(),
        "{context}"
    );
    let head = usize::try_from(chain.head().number()).unwrap();
    assert!(head < BLOCKS, "{context}");
    insert(&mut chain, &directory.blocks[head..]);
    drop((chain, data));
    let found = content(dir, directory.kind, true).unwrap();
    assert_eq!(found.head, directory.expected.head, "{context}");
    true
}

/// A flipped bit in a page of rows is found or harmless. The three meta pages, which say which commit is the newest,
/// are left out.
#[test]
fn a_flip_in_a_page_of_rows_is_found_or_harmless() {
    let count = damages();
    let seed = Random::seed();
    let mut random = Random::new(seed);
    for kind in LAYERS {
        let directory = Directory::new(kind);
        let file = directory.temp.path().join("whole/db/mdbx.dat");
        let bytes = fs::read(&file).unwrap();
        let is_used = |page: &usize| bytes[page * META..][..META].iter().any(|byte| *byte != 0);
        let pages: Vec<usize> = (3..bytes.len() / META).filter(is_used).collect();
        polytrie!["db", "check", "--datadir", directory.fresh()].ok();
        let (mut found, mut harmless) = (0, 0);
        for number in 0..count {
            let at = pages[random.below(pages.len())] * META + random.below(META);
            let bit = random.below(8);
            let context = format!(
                "{}, flip {number}, seed {seed}: bit {bit} of byte {at} of db/mdbx.dat",
                kind.name
            );
            let dir = directory.fresh();
            change(&dir.join("db/mdbx.dat"), |bytes| bytes[at] ^= 1 << bit);
            match is_found(&directory, &dir, &context) {
                true => found += 1,
                false => harmless += 1,
            }
        }
        say(&format!("{}: of {count} flips {found} were found and {harmless} harmless", kind.name));
    }
}

/// Whether `polytrie db check` finds the damage to a directory; if not, the content must be as expected.
fn is_found(directory: &Directory, dir: &Path, context: &str) -> bool {
    let run = polytrie!["db", "check", "--datadir", dir];
    if run.code == Some(0) {
        let found = content(dir, directory.kind, true);
        let is_same = found.as_ref().is_ok_and(|found| *found == directory.expected);
        assert!(is_same, "{context}: called clean, and is {found:?}");
        return false;
    }
    // In a debug build an assertion of MDBX may find the damage first.
    let is_assertion =
        cfg!(debug_assertions) && run.code.is_none() && run.stderr.contains("Assertion");
    let is_named = run.code == Some(3) && run.message().contains("the store is damaged: ");
    assert!(is_assertion || is_named, "{context}: {run:?}");
    true
}

/// A flipped bit in what MDBX keeps about a table is found and called damage, or harmless.
///
/// The name of a table is the key of a row whose value begins with the flags of the table. The rows of this table are not
/// counted, so its flags are first read when its rows are.
#[test]
fn a_flip_in_the_flags_of_a_table_is_found_or_harmless() {
    let kind = LAYERS.iter().find(|kind| kind.name == "replica").unwrap();
    let directory = Directory::new(kind);
    let name = b"ReplicaJournal";
    let bytes = fs::read(directory.temp.path().join("whole/db/mdbx.dat")).unwrap();
    let places: Vec<usize> =
        (METAS..bytes.len() - name.len()).filter(|at| bytes[*at..].starts_with(name)).collect();
    assert!(!places.is_empty());
    polytrie!["db", "check", "--datadir", directory.fresh()].ok();
    let is_flag_found = |bit: &usize| {
        let dir = directory.fresh();
        change(&dir.join("db/mdbx.dat"), |bytes| {
            places.iter().for_each(|at| bytes[at + name.len() + bit / 8] ^= 1 << (bit % 8));
        });
        is_found(&directory, &dir, &format!("flag {bit}"))
    };
    // Most of them are no flags of a table, or contradict what its pages are.
    assert!((0..16).filter(is_flag_found).count() >= 8);
}

/// A flipped bit in a balance of `raw` is found by the checksums of the store, because the layer has no hashes.
#[test]
fn a_flip_in_a_balance_is_found() {
    let kind = LAYERS.iter().find(|kind| kind.name == "raw").unwrap();
    let directory = Directory::new(kind);
    let dir = directory.fresh();
    let accounts = *kind.tables.iter().find(|table| table.name == "RawAccounts").unwrap();
    let row = {
        let (chain, _data) = open(&dir, kind, false).unwrap();
        chain.flush().unwrap();
        chain.db().store().checkpoint().unwrap();
        entries(chain.db().store(), accounts, KeyRange::ALL).swap_remove(0)
    };
    polytrie!["db", "check", "--datadir", dir].ok();
    let row = [row.0, row.1].concat();
    change(&dir.join("db/mdbx.dat"), |bytes| {
        let places: Vec<usize> =
            (0..bytes.len() - row.len()).filter(|at| bytes[*at..].starts_with(&row)).collect();
        assert!(!places.is_empty());
        // The row ends with the balance.
        places.into_iter().for_each(|place| bytes[place + row.len() - 1] ^= 1);
    });
    for command in ["check", "dump"] {
        let run = polytrie!["db", command, "--datadir", dir];
        assert_eq!(run.code, Some(3), "{run:?}");
        let words = ["the store is damaged: ", " a row of the table RawAccounts in ", "mdbx.dat"];
        assert!(words.iter().all(|words| run.message().contains(words)), "{run:?}");
    }
}

/// A copy of the whole directory, also an older one, can be used in its place.
#[test]
fn a_copy_of_all_is_a_restore() {
    for kind in LAYERS {
        let directory = Directory::new(kind);
        let older = directory.temp.path().join("older");
        let (_, found) = directory.after(|dir| {
            fs::remove_dir_all(dir).unwrap();
            copy(&older, dir);
        });
        let [Ok(read), Ok(written)] = found else { panic!("{}: {found:?}", kind.name) };
        assert_eq!((read, read.head), (written, OLDER as u64), "{}", kind.name);
        let (_, found) = directory.after(|_| {});
        assert!(found.iter().all(|found| found.as_ref().is_ok_and(|c| *c == directory.expected)));
    }
}
