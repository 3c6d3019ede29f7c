//! The journal: batches appended to a file, so that one becomes durable without the engine.
//!
//! An engine that keeps sorted pages rewrites a page for every few keys that a batch touches at random. Appending
//! the batch costs its own bytes and one sync; the engine then takes many batches together, in the background,
//! and every page is rewritten once for all of them.
//!
//! ```text
//! file      journal.<number>: one for each generation that has durable batches
//!   header  magic, names of the tables in the order by which records refer to them
//!   records length (4), CRC-32 of what follows (4), number (8), changes
//!   change  kind (1), table (1), key length (2), value length (4), key, value      integers big-endian
//! engine    JOURNAL_TABLE "applied" ──► number of the last file whose batches the engine has
//! ```
//!
//! The engine writes a generation and that number at once, so no batch is ever applied twice or to a state that
//! is newer. A crash may leave half a record at the end of a file: reading stops there. Files are numbered without gaps,
//! and so are records over all files, so what is lost in the middle is noticed.
//!
//! Whoever only reads may do so while another process writes. What it read belongs together if the engine had no more
//! files afterwards than before.

use crate::{Batch, Engine, KvError, Op, Table, disk::sync_dir, recent::EngineView};
use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
};

/// Where the store notes which files the engine has; an engine with a journal has this table besides those it is
/// opened with.
pub(crate) const JOURNAL_TABLE: Table = Table::new(255, "Journal", 8);

/// The one key of [`JOURNAL_TABLE`].
pub(crate) const APPLIED: &[u8] = b"applied";

/// How often whoever only reads tries again if the engine has taken files meanwhile.
const ATTEMPTS: usize = 8;

const MAGIC: &[u8] = b"polytrie journal 1\n";
/// Bytes of a record before its changes: length, checksum and number.
const RECORD_HEAD: usize = 16;
/// Bytes of a change before its key.
const CHANGE_HEAD: usize = 8;

/// The end of a journal, to which batches are appended.
#[derive(Debug)]
pub(crate) struct Journal {
    dir: PathBuf,
    tables: Vec<Table>,
    /// Number of the file in use, or of the next one.
    number: u64,
    file: Option<File>,
    /// Number of the next record.
    next: u64,
    buffer: Vec<u8>,
}

/// What a journal holds that a view of the engine does not have.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) view: EngineView,
    /// In their order.
    pub(crate) batches: Vec<Batch>,
    /// Where it goes on; not for whoever only reads.
    pub(crate) journal: Option<Journal>,
}

/// Reads the journal of an engine, if it has one.
pub(crate) fn recover(engine: &dyn Engine, tables: &[Table]) -> Result<Recovered, KvError> {
    let view = EngineView::of(engine)?;
    let Some(dir) = engine.journal_dir() else {
        return Ok(Recovered { view, batches: Vec::new(), journal: None });
    };
    if engine.is_read_only() {
        return read_beside_a_writer(engine, view, &dir, tables);
    }
    let applied = applied(&view)?;
    let (batches, journal) = Journal::open(&dir, tables, applied)?;
    remove_up_to(&dir, applied);
    Ok(Recovered { view, batches, journal: Some(journal) })
}

fn read_beside_a_writer(
    engine: &dyn Engine,
    mut view: EngineView,
    dir: &Path,
    tables: &[Table],
) -> Result<Recovered, KvError> {
    for _ in 0..ATTEMPTS {
        let before = applied(&view)?;
        let read = Journal::open(dir, tables, before);
        let latest = EngineView::of(engine)?;
        if applied(&latest)? == before {
            let (batches, _) = read?;
            return Ok(Recovered { view, batches, journal: None });
        }
        view = latest;
    }
    // The writer flushes faster than that. What the engine has is whole by itself.
    Ok(Recovered { view, batches: Vec::new(), journal: None })
}

/// Number of the last file that the engine has.
fn applied(view: &EngineView) -> Result<u64, KvError> {
    let mut row = Vec::new();
    view.view.get_into(JOURNAL_TABLE, APPLIED, &mut row)?;
    Ok(row.first_chunk().map_or(0, |number| u64::from_be_bytes(*number)))
}

impl Journal {
    /// Opens the journal in `dir`, of which the engine has the files up to number `applied`; returns what is in the others.
    fn open(dir: &Path, tables: &[Table], applied: u64) -> Result<(Vec<Batch>, Self), KvError> {
        let mut batches = Vec::new();
        let mut next = None;
        let mut number = applied + 1;
        let files = numbers(dir)?.into_iter().filter(|number| *number > applied);
        for (expected, found) in (applied + 1..).zip(files) {
            let path = path_of(dir, expected);
            if found != expected {
                return Err(KvError::Corrupt(format!("{} is missing", path.display())));
            }
            number = if read_file(&path, tables, &mut next, &mut batches)? {
                expected + 1
            } else {
                // If nothing was ever confirmed of it, it is begun again, or followed by a file that goes on with what was
                // known before it.
                next.get_or_insert(0);
                expected
            };
        }
        let journal = Self {
            dir: dir.to_owned(),
            tables: tables.to_vec(),
            number,
            file: None,
            next: next.unwrap_or(0),
            buffer: Vec::new(),
        };
        Ok((batches, journal))
    }

    /// Appends a batch; it is on disk when this returns.
    pub(crate) fn append(&mut self, batch: &Batch) -> Result<(), KvError> {
        let path = path_of(&self.dir, self.number);
        self.encode(batch);
        let mut file = match self.file.take() {
            Some(file) => file,
            None => {
                let file =
                    create(&path, &self.tables).map_err(|e| KvError::io("create", &path, e))?;
                sync_dir(&self.dir).map_err(|e| KvError::io("write to", &self.dir, e))?;
                file
            }
        };
        file.write_all(&self.buffer)
            .and_then(|()| file.sync_data())
            .map_err(|e| KvError::io("write to", &path, e))?;
        // After an error the file stays closed: what came of the record is not known, and nothing may follow it.
        self.file = Some(file);
        self.next += 1;
        Ok(())
    }

    fn encode(&mut self, batch: &Batch) {
        let out = &mut self.buffer;
        out.clear();
        out.reserve(RECORD_HEAD + batch.byte_len() + CHANGE_HEAD * batch.len());
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&self.next.to_be_bytes());
        for (table, op) in batch.ops() {
            let (kind, key, value) = match op {
                Op::Put { key, value } => (0, key, value),
                Op::Delete { key } => (1, key, &[][..]),
                Op::DeleteRange { from, to: Some(to) } => (2, from, to),
                Op::DeleteRange { from, to: None } => (3, from, &[][..]),
            };
            // The store has checked that the table is one of its own, and that the key is short.
            let table =
                self.tables.iter().position(|other| other.id == table.id).unwrap_or(usize::MAX);
            out.extend_from_slice(&[kind, table as u8]);
            out.extend_from_slice(&(key.len() as u16).to_be_bytes());
            out.extend_from_slice(&(value.len() as u32).to_be_bytes());
            out.extend_from_slice(key);
            out.extend_from_slice(value);
        }
        let length = (out.len() - 8) as u32;
        let checksum = crc32fast::hash(&out[8..]);
        out[..4].copy_from_slice(&length.to_be_bytes());
        out[4..8].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Ends the file in use. What is appended later goes to another one. Returns the number that the engine notes
    /// when it has everything so far.
    pub(crate) fn rotate(&mut self) -> u64 {
        // One that was not begun does not end: a number without a file would be taken for a file that was lost.
        if self.file.take().is_some() {
            self.number += 1;
        }
        self.number - 1
    }
}

/// Removes files that the engine has. One that cannot be removed is skipped by its number and removed another time.
pub(crate) fn remove_up_to(dir: &Path, applied: u64) {
    for number in numbers(dir).unwrap_or_default() {
        if number <= applied
            && let Err(error) = fs::remove_file(path_of(dir, number))
        {
            tracing::debug!(%error, number, "an old file of the journal could not be removed");
        }
    }
}

fn path_of(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("journal.{number:016x}"))
}

/// Numbers of the files in a directory, ascending.
fn numbers(dir: &Path) -> Result<Vec<u64>, KvError> {
    let failed = |e| KvError::io("read", dir, e);
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("journal."));
        numbers.extend(number.and_then(|digits| u64::from_str_radix(digits, 16).ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn create(path: &Path, tables: &[Table]) -> std::io::Result<File> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    let mut head = MAGIC.to_vec();
    head.push(tables.len() as u8);
    for table in tables {
        head.push(table.name.len() as u8);
        head.extend_from_slice(table.name.as_bytes());
    }
    file.write_all(&head)?;
    Ok(file)
}

/// Reads the batches of a file, as far as it is whole; whether it has a head. `next` is the number of the next record, once
/// one is known.
fn read_file(
    path: &Path,
    tables: &[Table],
    next: &mut Option<u64>,
    batches: &mut Vec<Batch>,
) -> Result<bool, KvError> {
    let damaged = |what: &str| KvError::Corrupt(format!("{}: {what}", path.display()));
    let bytes = fs::read(path).map_err(|e| KvError::io("read", path, e))?;
    let mut rest = bytes.as_slice();
    let Some(names) = read_head(&mut rest) else {
        // A crash while the file was begun; no record was ever confirmed.
        return Ok(false);
    };
    let tables = names
        .iter()
        .map(|name| tables.iter().find(|table| table.name.as_bytes() == *name).copied())
        .collect::<Option<Vec<Table>>>()
        .ok_or_else(|| damaged("a record of a table that this store does not have"))?;
    while let Some((number, mut changes)) = read_record(&mut rest) {
        if next.is_some_and(|next| next != number) {
            return Err(damaged(&format!("record {number} where {} belongs", next.unwrap_or(0))));
        }
        *next = Some(number + 1);
        let mut batch = Batch::with_capacity(changes.len() / 64, changes.len());
        while !changes.is_empty() {
            read_change(&mut changes, &tables, &mut batch)
                .ok_or_else(|| damaged("a record with a valid checksum that does not decode"))?;
        }
        batches.push(batch);
    }
    Ok(true)
}

fn read_head<'a>(rest: &mut &'a [u8]) -> Option<Vec<&'a [u8]>> {
    *rest = rest.strip_prefix(MAGIC)?;
    let count = take(rest, 1)?[0];
    (0..count)
        .map(|_| {
            let len = take(rest, 1)?[0];
            take(rest, usize::from(len))
        })
        .collect()
}

/// Number and changes of the next record; `None` at the end, or where a crash has cut it off.
fn read_record<'a>(rest: &mut &'a [u8]) -> Option<(u64, &'a [u8])> {
    let length = u32::from_be_bytes(take_array(rest)?);
    let checksum = u32::from_be_bytes(take_array(rest)?);
    let mut content = take(rest, length as usize)?;
    if crc32fast::hash(content) != checksum {
        return None;
    }
    let number = u64::from_be_bytes(take_array(&mut content)?);
    Some((number, content))
}

fn read_change(rest: &mut &[u8], tables: &[Table], batch: &mut Batch) -> Option<()> {
    let [kind, table] = take_array(rest)?;
    let key_len = u16::from_be_bytes(take_array(rest)?);
    let value_len = u32::from_be_bytes(take_array(rest)?);
    let key = take(rest, usize::from(key_len))?;
    let value = take(rest, value_len as usize)?;
    let table = *tables.get(usize::from(table))?;
    match kind {
        0 => batch.put(table, key, value),
        1 => batch.delete(table, key),
        2 => batch.delete_range(table, key, Some(value)),
        3 => batch.delete_range(table, key, None),
        _ => return None,
    }
    Some(())
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(taken)
}

fn take_array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    take(rest, N)?.try_into().ok()
}
