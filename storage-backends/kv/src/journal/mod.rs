//! The journal: batches appended to a file, so that a batch becomes durable without the engine.
//!
//! An engine that keeps sorted pages rewrites a page for every few keys that a batch touches at random. Appending
//! the batch costs its own bytes and one sync; the engine then takes many batches together, in the background,
//! and every page is rewritten once for all of them.
//!
//! ```text
//! file      journal.<number>: one for each generation that has durable batches
//!   header  magic, number of the file (8), salt (8), names of the tables in the order by which records refer to them,
//!           CRC-32C (4)
//!   records length (4), CRC-32C of the salt and of what follows (4), number (8), changes
//!   changes the batch, with tables in the order of the header ([`Batch::encode`])      integers big-endian
//! engine    JOURNAL_TABLE "applied" ──► number of the last file of which the engine has the batches (8), number of the record
//!           after them (8), checksum (4)
//! ```
//!
//! The engine writes a generation and that row in one atomic write, so no batch is ever applied twice, or to a newer
//! state. A batch that goes directly to the engine uses up the number of a file, which is never created, and writes
//! that row as well, so no batch is applied to an older state either. Files that the engine does not have are numbered
//! without gaps, and so are records over all files.
//!
//! A crash may leave half a record at the end of a file. It was not confirmed, and reading stops there. Anything else
//! is damage and is reported: a bad record before the end or before a whole one, and any record that [`Confirmed`]
//! names and that is not there.
//!
//! The salt is a random number of each file. Changes hold bytes that others choose, such as the code of a contract.
//! Without the salt these could be whole records, and what a crash leaves of such a change would look like damage.
//!
//! After a failed sync the system may forget the bytes that it had to write, still show them to readers, and report
//! success for the next sync. So records that are found and were not confirmed are written again before anything
//! builds on them.
//!
//! A process that only reads may do so while another one writes. The files and the engine's view belong together if
//! the engine had no more files afterwards than before.

mod file;

use crate::{
    AtPath, Batch, Engine, KvError, Result, Table, append_checksum,
    checksum::Checksum,
    codec::take_array,
    confirmed::{CONFIRMED_FILE, Confirmed, ConfirmedFile, Durable},
    disk::{Access, File, remove_file, sync_dir},
    recent::EngineView,
};
use file::Reader;
use std::{
    fs,
    io::Write as _,
    ops::Range,
    path::{Path, PathBuf},
};

/// The table where the store notes which files the engine has. An engine with a journal has it besides the tables
/// that it is opened with.
pub(crate) const JOURNAL_TABLE: Table = Table::new(255, "Journal", 8);

/// The one key of [`JOURNAL_TABLE`].
pub(crate) const APPLIED: &[u8] = b"applied";

/// Number of attempts of a process that only reads, if a writer has changed the files meanwhile.
const ATTEMPTS: usize = 8;

/// The part of the journal that the engine has.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Applied {
    /// Number of the last file, or one that a direct write to the engine used up later.
    pub(crate) file: u64,
    /// Number of the record after the last one.
    pub(crate) next: u64,
}

impl Applied {
    /// Encodes the row, with its checksum.
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut row = [self.file, self.next].map(u64::to_be_bytes).concat();
        append_checksum(APPLIED, &mut row);
        row
    }

    /// Reads the row from a view; `None` if nothing was ever flushed.
    fn read(view: &EngineView) -> Result<Option<Self>> {
        let mut row = Vec::new();
        if !view.view.get_into(JOURNAL_TABLE, APPLIED, &mut row)? {
            return Ok(None);
        }
        let mut rest = row.as_slice();
        let mut long = || take_array(&mut rest).map(u64::from_be_bytes);
        let found = long().zip(long()).map(|(file, next)| Self { file, next });
        let found = found.filter(|found| row == found.encode());
        found.map(Some).ok_or_else(|| {
            KvError::Corrupt("the row of what the engine has of the journal is damaged".into())
        })
    }
}

/// The end of a journal, to which batches are appended.
#[derive(Debug)]
pub(crate) struct Journal {
    dir: PathBuf,
    tables: Vec<Table>,
    /// Number of the file in use, or of the next one.
    number: u64,
    /// The file in use, and the checksum of its salt.
    file: Option<(File, Checksum)>,
    /// Bytes that were appended since the last rotation.
    bytes: u64,
    /// Number of the next record.
    next: u64,
    buffer: Vec<u8>,
}

/// The batches of a journal that a view of the engine does not include.
#[derive(Debug)]
pub(crate) struct Recovered<T> {
    pub(crate) view: EngineView,
    /// The value that `replay` put the batches into.
    pub(crate) batches: T,
    /// The journal at its end and the file of confirmations; `None` where the store is read-only.
    pub(crate) journal: Option<(Journal, ConfirmedFile)>,
}

/// The action on a damaged journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Opening fails.
    Refuse,
    /// The damaged record and all behind it are removed.
    GiveUp,
}

/// Reads the journal of an engine, if it has one. `replay` puts each batch, in order, into a value of the caller's
/// type.
pub(crate) fn recover<T: Default>(
    engine: &dyn Engine,
    tables: &[Table],
    damage: Damage,
    replay: impl Fn(&mut T, &Batch) -> Result<()>,
) -> Result<Recovered<T>> {
    let Some(dir) = engine.journal_dir() else {
        let view = EngineView::of(engine)?;
        return Ok(Recovered { view, batches: T::default(), journal: None });
    };
    if engine.is_read_only() {
        return read_beside_a_writer(engine, &dir, tables, replay);
    }
    let confirmed = Confirmed::read(&dir)?;
    let view = EngineView::of(engine)?;
    let applied = Applied::read(&view)?;
    if confirmed.is_none() && applied.is_some() {
        warn_unconfirmed(&dir);
    }
    let applied = applied.unwrap_or_default();
    let mut batches = T::default();
    let mut found = Found::default();
    let mut apply = |batch: &Batch| replay(&mut batches, batch);
    let read = found.read(&dir, tables, applied, confirmed.and_then(|c| c.record), &mut apply);
    match (read, damage) {
        (Err(KvError::Lost { .. }), Damage::GiveUp) => found.give_up(&dir)?,
        (read, _) => read?,
    }
    // The records that a crash left unsynced were read, and later writes build on them.
    for (number, range) in &found.files {
        file::make_durable(&path_of(&dir, *number), range)?;
    }
    remove_up_to(&dir, applied.file);
    let journal = Journal {
        dir: dir.clone(),
        tables: tables.to_vec(),
        number: found.number,
        file: None,
        bytes: found.bytes,
        next: found.next,
        buffer: Vec::new(),
    };
    let confirmed = Confirmed { record: found.last, commit: engine.last_commit()? };
    let confirmed = ConfirmedFile::open(&dir, confirmed)?;
    Ok(Recovered { view, batches, journal: Some((journal, confirmed)) })
}

fn warn_unconfirmed(dir: &Path) {
    tracing::warn!(
        "{} is missing or damaged: whether blocks that were confirmed are missing cannot be told this time",
        dir.join(CONFIRMED_FILE).display()
    );
}

fn read_beside_a_writer<T: Default>(
    engine: &dyn Engine,
    dir: &Path,
    tables: &[Table],
    replay: impl Fn(&mut T, &Batch) -> Result<()>,
) -> Result<Recovered<T>> {
    for _ in 0..ATTEMPTS {
        // Read before the view, so that the view has all that was confirmed.
        let confirmed = Confirmed::read(dir)?;
        let view = EngineView::of(engine)?;
        let applied = Applied::read(&view)?;
        let mut batches = T::default();
        let mut apply = |batch: &Batch| replay(&mut batches, batch);
        let record = confirmed.and_then(|confirmed| confirmed.record);
        let had = applied.unwrap_or_default();
        let read = Found::default().read(dir, tables, had, record, &mut apply);
        if Applied::read(&EngineView::of(engine)?)? == applied {
            read?;
            if confirmed.is_none() && applied.is_some() {
                warn_unconfirmed(dir);
            }
            return Ok(Recovered { view, batches, journal: None });
        }
    }
    // The writer flushes faster than this process reads. The engine's content is whole by itself.
    let view = EngineView::of(engine)?;
    Ok(Recovered { view, batches: T::default(), journal: None })
}

/// The files that were found and that the engine does not have.
#[derive(Debug, Default)]
struct Found {
    /// Numbers of the files that were read, and the range of unconfirmed bytes in each.
    files: Vec<(u64, Range<u64>)>,
    /// Bytes of their records.
    bytes: u64,
    /// Number of the next file.
    number: u64,
    /// Number of the next record.
    next: u64,
    /// The last record that was read.
    last: Option<Durable>,
}

impl Found {
    /// Reads all files that the engine does not have.
    fn read(
        &mut self,
        dir: &Path,
        tables: &[Table],
        applied: Applied,
        confirmed: Option<Durable>,
        apply: &mut dyn FnMut(&Batch) -> Result<()>,
    ) -> Result<()> {
        self.number = applied.file + 1;
        self.next = applied.next;
        let lost = |what: String| KvError::Lost { path: dir.to_owned(), what };
        let missing = |next: u64, path: &Path, what: &str| {
            confirmed.filter(|confirmed| confirmed.number >= next).map(|confirmed| {
                let (number, path) = (confirmed.number, path.display());
                lost(format!("{path} {what}, and record {number} of the journal was confirmed"))
            })
        };
        let files = numbers(dir)?.into_iter().filter(|number| *number > applied.file);
        for (expected, number) in (applied.file + 1..).zip(files) {
            let path = path_of(dir, expected);
            if number != expected {
                return Err(lost(format!("{} is missing", path.display())));
            }
            let Some(mut reader) = Reader::open(&path, expected, tables)? else {
                // A crash came while the file was created. It will be created again.
                self.number = expected;
                if let Some(lost) = missing(self.next, &path, "has a damaged head") {
                    return Err(lost);
                }
                continue;
            };
            self.files.push((expected, 0..reader.position()));
            self.number = expected + 1;
            self.bytes += reader.length();
            let before = self.next;
            while let Some((record, batch)) = reader.next(self.next)? {
                let is_another =
                    |confirmed: &Durable| confirmed.number == record.number && *confirmed != record;
                if confirmed.as_ref().is_some_and(is_another) {
                    let (number, path) = (record.number, path.display());
                    return Err(lost(format!(
                        "record {number} in {path} is not the one that was confirmed: the file is an older copy"
                    )));
                }
                apply(&batch)?;
                self.next = record.number + 1;
                self.last = Some(record);
                let end = reader.position();
                let is_confirmed = confirmed.is_some_and(|c| c.number >= record.number);
                if let Some((_, range)) = self.files.last_mut() {
                    // Syncs of one file do not go on after the first that fails.
                    *range = if is_confirmed { end } else { range.start }..end;
                }
            }
            if self.next == before {
                // The file holds nothing but a head, or half a record. It will be created again.
                self.files.pop();
                self.number = expected;
            }
        }
        let last = self.files.last().map_or(self.number, |(number, _)| *number);
        let last = path_of(dir, last);
        let what = match self.files.is_empty() && !last.exists() {
            true => "is missing".to_owned(),
            false => format!("ends before record {}", self.next),
        };
        missing(self.next, &last, &what).map_or(Ok(()), Err)
    }

    /// Removes everything behind the last whole record.
    fn give_up(&mut self, dir: &Path) -> Result<()> {
        let kept = self.files.last().map_or(self.number - 1, |(number, _)| *number);
        for number in numbers(dir)?.into_iter().filter(|number| *number > kept) {
            let path = path_of(dir, number);
            remove_file(&path).at("remove", &path)?;
        }
        if let Some((number, range)) = self.files.last() {
            let path = path_of(dir, *number);
            let file = File::open(&path, Access::Edit);
            file.and_then(|file| file.set_len(range.end)).at("cut", &path)?;
        }
        self.number = kept + 1;
        // Otherwise the removed records may be there again after a loss of power.
        sync_dir(dir, "journal: repaired").at("write to", dir)
    }
}

impl Journal {
    /// Whether a batch is small enough to be a record.
    pub(crate) fn takes(batch: &Batch) -> bool {
        u32::try_from(Self::record_bytes(batch)).is_ok()
    }

    fn record_bytes(batch: &Batch) -> usize {
        file::RECORD_HEAD + batch.encoded_len()
    }

    /// Bytes of records that were appended since the last rotation.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends a batch as a record; it is durable when this returns.
    pub(crate) fn append(&mut self, batch: &Batch) -> Result<Durable> {
        let path = path_of(&self.dir, self.number);
        self.encode(batch)?;
        let (mut file, salt) = match self.file.take() {
            Some(file) => file,
            None => {
                let file = file::create(&path, self.number, &self.tables).at("create", &path)?;
                sync_dir(&self.dir, "journal: name").at("write to", &self.dir)?;
                file
            }
        };
        let checksum = salt.and(&self.buffer[file::LENGTH_AND_CHECKSUM..]).number();
        self.buffer[4..8].copy_from_slice(&checksum.to_be_bytes());
        let written = file.write_all(&self.buffer).and_then(|()| file.sync("journal: record"));
        written.at("write to", &path)?;
        // After an error the file stays closed: whether the record was written is not known, and nothing may follow
        // it.
        self.file = Some((file, salt));
        self.bytes += self.buffer.len() as u64;
        let record = Durable { number: self.next, checksum };
        self.next += 1;
        Ok(record)
    }

    /// Puts the record of a batch into the buffer. Its checksum is left out.
    fn encode(&mut self, batch: &Batch) -> Result<()> {
        let bytes = Self::record_bytes(batch);
        let length = u32::try_from(bytes - file::LENGTH_AND_CHECKSUM).map_err(|_| {
            let reason = format!("a record of {bytes} bytes, expected less than 4 GiB");
            KvError::Engine { engine: "journal", action: "appending", reason }
        })?;
        let out = &mut self.buffer;
        out.clear();
        out.reserve(bytes);
        out.extend_from_slice(&[0; file::LENGTH_AND_CHECKSUM]);
        out.extend_from_slice(&self.next.to_be_bytes());
        // The store has checked that tables are its own, and that keys are short.
        batch.encode(&self.tables, out);
        out[..4].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    /// Ends the current file; later records go to another one. Returns the row that the engine stores when it has
    /// everything so far.
    pub(crate) fn rotate(&mut self) -> Applied {
        // The number stays if no file was created: a number without a file would be taken for a lost file.
        if self.file.take().is_some() {
            self.number += 1;
        }
        self.bytes = 0;
        Applied { file: self.number - 1, next: self.next }
    }

    /// Uses up the number of the next file for a batch that goes directly to the engine, which must have everything
    /// so far. Returns the row that the engine stores together with that batch.
    pub(crate) fn pass_over(&mut self) -> Applied {
        self.rotate();
        self.number += 1;
        self.rotate()
    }
}

/// Removes the files that the engine has. A file that cannot be removed stays; its number keeps it from being read,
/// and a later call removes it.
pub(crate) fn remove_up_to(dir: &Path, applied: u64) {
    for number in numbers(dir).unwrap_or_default() {
        if number <= applied
            && let Err(error) = remove_file(&path_of(dir, number))
        {
            tracing::debug!(%error, number, "an old file of the journal could not be removed");
        }
    }
}

fn path_of(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("journal.{number:016x}"))
}

/// Numbers of the files in a directory, ascending.
fn numbers(dir: &Path) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir).at("read", dir)? {
        let name = entry.at("read", dir)?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("journal."));
        numbers.extend(number.and_then(|digits| u64::from_str_radix(digits, 16).ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}
