//! One file of a journal: its head, followed by its records.

use crate::{
    AtPath, Batch, KvError, Result, Table, append_checksum,
    checksum::Checksum,
    codec::take_array,
    confirmed::Durable,
    disk::{Access, File, remove_file},
    strip_checksum,
};
use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    io::{self, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    ops::Range,
    path::{Path, PathBuf},
};

/// The first bytes of a journal file of any format number.
const NAME: &[u8] = b"polytrie journal ";
const MAGIC: &[u8] = b"polytrie journal 5\n";
/// Bytes of the random number with which the checksum of each record begins.
const SALT: usize = 8;
/// Bytes of a record before the bytes that its checksum covers.
pub(super) const LENGTH_AND_CHECKSUM: usize = 8;
/// Bytes of a record before its changes: length, checksum and number.
pub(super) const RECORD_HEAD: usize = LENGTH_AND_CHECKSUM + 8;
/// Bytes that [`make_durable`] reads and writes again in one piece.
const REWRITTEN: u64 = 1 << 20;
/// A record that follows a damaged one within this many numbers counts as its successor. Bytes elsewhere in a file
/// that happen to look like a record may have any number. Bytes that somebody made to look like one have another salt.
const SUCCESSORS: u64 = 1 << 24;

/// Creates a file; returns it, and the checksum of its salt, which those of the records continue. Its head is durable
/// before any record follows. Otherwise a loss of power might keep an unconfirmed record and lose the head before it,
/// which would look like damage. A file that an earlier attempt left is removed first: where the sync of its name has
/// failed, another sync may report success and do nothing.
pub(super) fn create(path: &Path, number: u64, tables: &[Table]) -> io::Result<(File, Checksum)> {
    if path.exists() {
        remove_file(path)?;
    }
    let mut file = File::open(path, Access::Create)?;
    // This hasher has random keys, which no user of the node can learn.
    let salt = RandomState::new().build_hasher().finish().to_be_bytes();
    file.write_all(&head(number, &salt, tables))?;
    file.sync("journal: head")?;
    Ok((file, Checksum::of(&salt)))
}

/// Returns the head of a file.
fn head(number: u64, salt: &[u8; SALT], tables: &[Table]) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    head.extend_from_slice(&number.to_be_bytes());
    head.extend_from_slice(salt);
    head.push(tables.len() as u8);
    for table in tables {
        head.push(table.name.len() as u8);
        head.extend_from_slice(table.name.as_bytes());
    }
    append_checksum(&[], &mut head);
    head
}

/// Makes a file durable that was read. The bytes in `unconfirmed` are written again: after a failed sync the system
/// may have forgotten that they were to be written, and report success for the next sync.
pub(super) fn make_durable(path: &Path, unconfirmed: &Range<u64>) -> Result<()> {
    let rewrite = || -> io::Result<()> {
        let mut file = File::open(path, Access::Edit)?;
        let mut bytes = Vec::new();
        let mut at = unconfirmed.start;
        while at < unconfirmed.end {
            file.seek(SeekFrom::Start(at))?;
            bytes.clear();
            (&mut file).take(REWRITTEN.min(unconfirmed.end - at)).read_to_end(&mut bytes)?;
            file.seek(SeekFrom::Start(at))?;
            file.write_all(&bytes)?;
            if bytes.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            at += bytes.len() as u64;
        }
        file.sync("journal: found files")
    };
    rewrite().at("write to", path)
}

/// Whether a file begins with a valid format number. Zeros that a loss of power has left are not one.
fn is_of_a_format(head: &[u8]) -> bool {
    let number = head.strip_prefix(NAME).and_then(|rest| rest.split(|byte| *byte == b'\n').next());
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

/// The number of a file, the checksum of its salt, and the names of its tables.
type Head = (u64, Checksum, Vec<Vec<u8>>);

/// A reader of the records of a file, of which at most one is in memory.
pub(super) struct Reader {
    path: PathBuf,
    file: BufReader<File>,
    /// Length of the file when it was opened.
    length: u64,
    /// Offset up to which the file was read.
    position: u64,
    /// The checksum of the salt, which those of the records continue.
    salt: Checksum,
    /// The tables of the header, in the order by which records refer to them.
    tables: Vec<Table>,
    buffer: Vec<u8>,
}

impl Reader {
    /// Opens the file of number `number`. Returns `None` if the file has no whole head and nothing behind it: a crash
    /// came while it was created.
    pub(super) fn open(path: &Path, number: u64, tables: &[Table]) -> Result<Option<Self>> {
        let file = File::open(path, Access::Read).at("read", path)?;
        let length = file.metadata().at("read", path)?.len();
        let (path, buffer) = (path.to_owned(), Vec::new());
        let file = BufReader::new(file);
        let (salt, own) = (Checksum::default(), head(number, &[0; SALT], tables));
        let mut reader = Self { path, file, length, position: 0, salt, tables: Vec::new(), buffer };
        let Some((found, salt, names)) = reader.head()? else {
            // A head is durable before anything follows it.
            return match length > own.len() as u64 {
                true => Err(reader.lost("its head is damaged, and more follows")),
                false => Ok(None),
            };
        };
        reader.salt = salt;
        if found != number {
            return Err(reader.lost(&format!("it is that of number {found}")));
        }
        let known = |name: &Vec<u8>| tables.iter().find(|t| t.name.as_bytes() == *name).copied();
        let tables = names.iter().map(known).collect::<Option<Vec<Table>>>();
        reader.tables =
            tables.ok_or_else(|| reader.lost("it is of tables that this store does not have"))?;
        Ok(Some(reader))
    }

    /// Length of the file when it was opened.
    pub(super) const fn length(&self) -> u64 {
        self.length
    }

    /// Offset at which the next record begins.
    pub(super) const fn position(&self) -> u64 {
        self.position
    }

    /// Reads the next record, which must have the number `expected`; `None` at the end, or where a crash has cut the record
    /// off.
    pub(super) fn next(&mut self, expected: u64) -> Result<Option<(Durable, Batch)>> {
        let start = self.position;
        let Some(checksum) = self.read_record()? else {
            self.position = start;
            return match self.later_record(start + 1, expected + 1)? {
                Some(later) => Err(self.lost(&format!(
                    "record {expected} is damaged, and record {later} behind it is whole"
                ))),
                None => Ok(None),
            };
        };
        let mut changes = self.buffer.as_slice();
        let number = take_array(&mut changes).map(u64::from_be_bytes);
        if number != Some(expected) {
            let found = number.unwrap_or_default();
            return Err(self.lost(&format!("record {found} stands where {expected} belongs")));
        }
        let batch = Batch::decode(changes, &self.tables)
            .ok_or_else(|| self.lost(&format!("record {expected} does not decode")))?;
        Ok(Some((Durable { number: expected, checksum }, batch)))
    }

    fn lost(&self, what: &str) -> KvError {
        let path = self.path.parent().unwrap_or(&self.path).to_owned();
        KvError::Lost { path, what: format!("{}: {what}", self.path.display()) }
    }

    /// Reads the head; `None` if it is incomplete.
    fn head(&mut self) -> Result<Option<Head>> {
        if self.bytes((MAGIC.len() + 8 + SALT + 1) as u64)?.is_none() {
            return Ok(None);
        }
        let mut head = self.buffer.clone();
        if !head.starts_with(MAGIC) && is_of_a_format(&head) {
            return Err(self.lost("it is of another format"));
        }
        let mut rest = self.buffer.as_slice();
        let Some((number, salt, count)) = (|| {
            rest = rest.strip_prefix(MAGIC)?;
            let number = u64::from_be_bytes(take_array(&mut rest)?);
            Some((number, take_array::<SALT>(&mut rest)?, take_array::<1>(&mut rest)?[0]))
        })() else {
            return Ok(None);
        };
        let mut names = Vec::new();
        for _ in 0..count {
            let Some(len) = self.bytes(1)?.map(|bytes| bytes[0]) else { return Ok(None) };
            let Some(name) = self.bytes(u64::from(len))? else { return Ok(None) };
            head.push(len);
            head.extend_from_slice(name);
            names.push(name.to_vec());
        }
        let Some(checksum) = self.bytes(4)? else { return Ok(None) };
        head.extend_from_slice(checksum);
        Ok(strip_checksum(&[], &head).map(|_| (number, Checksum::of(&salt), names)))
    }

    /// Reads the bytes that the next record's checksum covers into the buffer; returns the checksum if it matches.
    fn read_record(&mut self) -> Result<Option<u32>> {
        let Some(mut head) = self.bytes(LENGTH_AND_CHECKSUM as u64)? else { return Ok(None) };
        let [length, checksum] = [(); 2].map(|()| take_array(&mut head).map(u32::from_be_bytes));
        let (Some(length @ 8..), Some(checksum)) = (length, checksum) else { return Ok(None) };
        let salt = self.salt;
        let content = self.bytes(length.into())?;
        Ok(content.filter(|content| salt.and(content).number() == checksum).map(|_| checksum))
    }

    /// Reads the next `count` bytes of the file; `None` if fewer are left.
    fn bytes(&mut self, count: u64) -> Result<Option<&[u8]>> {
        if self.position.saturating_add(count) > self.length {
            return Ok(None);
        }
        self.buffer.clear();
        let read = (&mut self.file).take(count).read_to_end(&mut self.buffer);
        let read = read.at("read", &self.path)?;
        self.position += count;
        // The file may have been cut off since it was opened.
        Ok((read as u64 == count).then_some(&self.buffer))
    }

    /// Finds a whole record from offset `start` on whose number is `first` or that of a successor, and returns its
    /// number. Bytes appended after the file was opened do not count: another process may have written them behind a
    /// record that was not whole yet.
    fn later_record(&mut self, start: u64, first: u64) -> Result<Option<u64>> {
        let mut bytes = Vec::new();
        let rest = self.length.saturating_sub(start);
        self.file.seek(SeekFrom::Start(start)).at("read", &self.path)?;
        (&mut self.file).take(rest).read_to_end(&mut bytes).at("read", &self.path)?;
        let found = (0..bytes.len().saturating_sub(RECORD_HEAD - 1)).find_map(|at| {
            let mut rest = &bytes[at..];
            let length = u32::from_be_bytes(take_array(&mut rest)?) as usize;
            let checksum = u32::from_be_bytes(take_array(&mut rest)?);
            let number = u64::from_be_bytes(*rest.first_chunk()?);
            let is_next = (first..first.saturating_add(SUCCESSORS)).contains(&number);
            let content = rest.get(..length).filter(|_| is_next && length >= 8)?;
            (self.salt.and(content).number() == checksum).then_some(number)
        });
        Ok(found)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::journal::{Journal, path_of};

    const TABLE: Table = Table::new(1, "t", 8);

    /// Records that a writer appends meanwhile are left to the next reader, and are no sign of damage.
    #[test]
    fn a_file_is_read_as_far_as_it_went_when_it_was_opened() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal {
            dir: dir.path().to_owned(),
            tables: vec![TABLE],
            number: 1,
            file: None,
            bytes: 0,
            next: 1,
            buffer: Vec::new(),
        };
        let mut batch = Batch::new();
        batch.put(TABLE, b"key", b"value");
        journal.append(&batch).unwrap();
        let path = path_of(dir.path(), 1);
        let mut reader = Reader::open(&path, 1, &[TABLE]).unwrap().unwrap();
        journal.append(&batch).unwrap();
        journal.append(&batch).unwrap();
        assert!(reader.next(1).unwrap().is_some());
        assert!(reader.next(2).unwrap().is_none());
    }
}
