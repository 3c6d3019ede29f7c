//! Target for the files of a journal: any bytes behind a valid head, records of any content with the right checksum,
//! or a valid journal with changes by the fuzzer's bytes.
//!
//! A journal is either refused or read. If a changed one is read, it has all confirmed writes, and its content is one
//! of the written states. The content goes into the engine and is the same when the store is opened again.

#![no_main]

use libfuzzer_sys::{
    arbitrary::{Result, Unstructured},
    fuzz_target,
};
use polytrie_fuzz::{
    files,
    kv::{Journaled, batch},
};
use polytrie_kv::{Durability, KvError, MemoryEngine, Store, StoreOptions, append_checksum};
use polytrie_kv_testing::{Model, TABLES};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Name of the first file of a journal.
const FIRST: &str = "journal.0000000000000001";

fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else { return };
    match kind % 4 {
        0 => raw(rest),
        1 => records(rest),
        _ => _ = changed(&mut Unstructured::new(rest)),
    }
});

fn open(
    engine: &Arc<MemoryEngine>,
    dir: &Path,
    flush_every: u64,
) -> std::result::Result<Store, KvError> {
    let engine = Arc::new(Journaled { engine: engine.clone(), dir: Some(dir.to_owned()) });
    let durability = Durability::EveryWrite;
    Store::open(
        engine,
        &TABLES,
        StoreOptions { durability, flush_every, background: false, ..StoreOptions::default() },
    )
}

/// Opens the journal in a directory and returns the content of the store; `None` if the journal is refused.
fn read(engine: &Arc<MemoryEngine>, dir: &Path) -> Option<Model> {
    let store = match open(engine, dir, 1_000) {
        Ok(store) => store,
        Err(error) => {
            assert!(
                matches!(error, KvError::Lost { .. } | KvError::Corrupt(_)),
                "memory does not fail: {error}"
            );
            return None;
        }
    };
    let found = Model::read(&store);
    store.checkpoint().expect("the engine takes what was read");
    assert_eq!(Model::read(&store), found);
    drop(store);
    let again = open(engine, dir, 1_000).expect("what is in the engine can be opened");
    assert_eq!(Model::read(&again), found);
    Some(found)
}

/// The salt of a journal's file, with which the checksum of each record begins.
const SALT: [u8; 8] = [7; 8];

/// The head of a journal's file, which contains its number.
fn head(number: u64) -> Vec<u8> {
    let mut head = b"polytrie journal 5\n".to_vec();
    head.extend(number.to_be_bytes());
    head.extend(SALT);
    head.push(TABLES.len() as u8);
    for table in TABLES {
        head.push(table.name.len() as u8);
        head.extend(table.name.as_bytes());
    }
    append_checksum(&[], &mut head);
    head
}

fn raw(bytes: &[u8]) {
    for file in [bytes.to_vec(), [head(1).as_slice(), bytes].concat()] {
        let dir = files::directory([(FIRST, file.as_slice())]);
        read(&Arc::default(), dir.path());
    }
}

/// Reads the bytes as a list of two bytes of length and a record's changes, and opens a journal of these records.
fn records(mut bytes: &[u8]) {
    let mut file = head(1);
    let mut number = 0u64;
    while let Some(([low, high], rest)) = bytes.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let content = [&number.to_be_bytes()[..], &rest[..length]].concat();
        file.extend((content.len() as u32).to_be_bytes());
        let mut checksum = Vec::new();
        append_checksum(&[&SALT[..], &content].concat(), &mut checksum);
        file.extend(checksum);
        file.extend(content);
        (bytes, number) = (&rest[length..], number + 1);
    }
    let dir = files::directory([(FIRST, file.as_slice())]);
    read(&Arc::default(), dir.path());
}

fn journals(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("it is there").flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.retain(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("journal."))
    });
    found.sort();
    found
}

fn changed(bytes: &mut Unstructured<'_>) -> Result<()> {
    let dir = files::directory([]);
    let engine = Arc::new(MemoryEngine::new());
    let store =
        open(&engine, dir.path(), bytes.int_in_range(2..=6)?).expect("memory does not fail");
    let mut history = vec![Model::default()];
    for _ in 0..bytes.int_in_range(1..=5)? {
        let batch = batch(bytes)?;
        let mut model = history.last().cloned().unwrap_or_default();
        model.apply(&batch);
        history.push(model);
        store.write(batch).expect("memory does not fail");
    }
    drop(store);
    let forgets = bytes.ratio(1, 4)?;
    if forgets {
        fs::remove_file(dir.path().join("confirmed")).expect("it is there");
    }
    for _ in 0..bytes.int_in_range(0..=3)? {
        let files = journals(dir.path());
        if files.is_empty() {
            break;
        }
        let file = bytes.choose(&files)?;
        let mut content = fs::read(file).expect("it is there");
        let at = bytes.choose_index(content.len().max(1))?;
        match bytes.int_in_range(0..=4)? {
            0 => content.truncate(at),
            1 => content.extend(content.clone().get(at..).unwrap_or_default()),
            2 => content.insert(at.min(content.len()), bytes.arbitrary()?),
            3 => {
                fs::remove_file(file).expect("it is there");
                continue;
            }
            _ => {
                if let Some(byte) = content.get_mut(at) {
                    *byte ^= 1 << bytes.int_in_range(0..=7)?;
                }
            }
        }
        fs::write(file, content).expect("there is room for temporary files");
    }
    if let Some(found) = read(&engine, dir.path()) {
        let newest = history.last();
        assert!(forgets || Some(&found) == newest, "nothing that was confirmed is missing");
        assert!(history.contains(&found), "what is read was written");
    }
    Ok(())
}
