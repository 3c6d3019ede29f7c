//! Files that are damaged, cut, missing or older than what was confirmed, and their repair.

use super::{A, B, Journaled, content, files, in_step, is_lost, open, put, read_only};
use polytrie_kv::{Batch, Durability, KvError, MemoryEngine, Store, append_checksum};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

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

/// The sender of a transaction can put whole records into a value. A crash that cuts off the record of such a value is
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
