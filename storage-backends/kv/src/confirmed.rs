//! The number of the last durable record and commit, in a small file beside those of the engine.
//!
//! Neither an engine nor a journal can detect by itself that its end is missing. MDBX falls back to an older state
//! when the page that names the newest is damaged, and the last record of a journal looks the same whether a crash or
//! a bad disk cut it off. So this file is written each time a record or a commit has become durable, and every
//! opening compares.
//!
//! ```text
//! confirmed   two slots of 512 bytes, written in turn, so that one is whole at any moment
//!   slot      magic (8), sequence (8), record + 1 (8), its CRC-32C (4), commit (8), its CRC-32C (4), CRC-32C of all that (4)
//! ```
//!
//! The file is written after the record or commit was synced, and is not synced itself. A power failure may leave an
//! older version of it, never one that names more than there is. Without the file nothing is lost but the comparison.

use crate::{
    AtPath, Result, append_checksum,
    codec::take_array,
    disk::{Access, File, if_there},
    strip_checksum, write_whole,
};
use std::{
    fs,
    io::{Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

/// Name of the file within the engine's directory.
pub(crate) const CONFIRMED_FILE: &str = "confirmed";

const MAGIC: &[u8; 8] = b"ptconf 2";
/// A slot has a sector for itself, so that writing one cannot tear the other.
const SLOT: usize = 512;
/// Bytes of a slot that hold data; the rest is padding.
const USED: usize = 44;

/// A record or a commit that is durable: its number, and a checksum of the bytes that hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Durable {
    /// The number, which grows with each record or commit.
    pub number: u64,
    /// The CRC-32C of the bytes that hold it.
    pub checksum: u32,
}

/// Whether the file of confirmations exists for the engine in `dir`. Then at least the engine's own files are
/// durable.
pub fn is_confirmed(dir: &Path) -> bool {
    dir.join(CONFIRMED_FILE).exists()
}

/// The last confirmed record and the last confirmed commit.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Confirmed {
    /// The last record of the journal; `None` if the engine had all records.
    pub(crate) record: Option<Durable>,
    /// The engine's last commit; `None` if the engine does not report commits.
    pub(crate) commit: Option<Durable>,
}

impl Confirmed {
    /// Reads the file in `dir`; `None` if there is no file, or neither slot of it is valid.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>> {
        Ok(newest(dir)?.map(|(_, confirmed)| confirmed))
    }

    fn encode(&self, sequence: u64) -> [u8; SLOT] {
        let number = |durable: Option<Durable>| durable.map_or(0, |durable| durable.number + 1);
        let checksum = |durable: Option<Durable>| durable.map_or(0, |durable| durable.checksum);
        let mut bytes = Vec::with_capacity(SLOT);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&sequence.to_be_bytes());
        for durable in [self.record, self.commit] {
            bytes.extend_from_slice(&number(durable).to_be_bytes());
            bytes.extend_from_slice(&checksum(durable).to_be_bytes());
        }
        append_checksum(&[], &mut bytes);
        let mut slot = [0; SLOT];
        slot[..bytes.len()].copy_from_slice(&bytes);
        slot
    }

    fn decode(slot: &[u8]) -> Option<(u64, Self)> {
        let mut rest = strip_checksum(&[], slot.get(..USED)?)?.strip_prefix(MAGIC)?;
        let sequence = take_array(&mut rest)?;
        let mut durable = || {
            let number = u64::from_be_bytes(take_array(&mut rest)?);
            let checksum = u32::from_be_bytes(take_array(&mut rest)?);
            Some(number.checked_sub(1).map(|number| Durable { number, checksum }))
        };
        let (record, commit) = (durable()?, durable()?);
        Some((u64::from_be_bytes(sequence), Self { record, commit }))
    }
}

/// Returns what the newest valid slot of the file in `dir` holds, with its sequence number.
fn newest(dir: &Path) -> Result<Option<(u64, Confirmed)>> {
    let path = dir.join(CONFIRMED_FILE);
    let bytes = if_there(fs::read(&path)).at("read", &path)?;
    let slots = bytes.iter().flat_map(|bytes| bytes.chunks(SLOT)).take(2);
    Ok(slots.filter_map(Confirmed::decode).max_by_key(|(sequence, _)| *sequence))
}

/// The open file of the one process that writes.
#[derive(Debug)]
pub(crate) struct ConfirmedFile {
    path: PathBuf,
    file: File,
    sequence: u64,
    confirmed: Confirmed,
}

impl ConfirmedFile {
    /// Opens the file in `dir`, or creates it, and writes `confirmed` to it, all of which must be durable.
    pub(crate) fn open(dir: &Path, confirmed: Confirmed) -> Result<Self> {
        let path = dir.join(CONFIRMED_FILE);
        let sequence = newest(dir)?.map(|(sequence, _)| sequence);
        if sequence.is_none() {
            let slots = [confirmed.encode(1), confirmed.encode(0)].concat();
            write_whole(&path, &slots).at("write", &path)?;
        }
        let file = File::open(&path, Access::Edit).at("open", &path)?;
        let mut opened = Self { path, file, sequence: sequence.unwrap_or(1), confirmed };
        opened.write()?;
        // Numbers that were given up may be used again for other records.
        opened.file.sync("confirmed: at opening").at("sync", &opened.path)?;
        Ok(opened)
    }

    /// Notes that a record of the journal has become durable.
    pub(crate) fn record(&mut self, record: Durable) -> Result<()> {
        self.confirmed.record = Some(record);
        self.write()
    }

    /// Notes that a commit of the engine has become durable.
    pub(crate) fn commit(&mut self, commit: Option<Durable>) -> Result<()> {
        self.confirmed.commit = commit;
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        self.sequence += 1;
        let slot = self.confirmed.encode(self.sequence);
        let place = SeekFrom::Start(self.sequence % 2 * SLOT as u64);
        let written = self.file.seek(place).and_then(|_| self.file.write_all(&slot));
        written.at("write to", &self.path)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn durable(number: u64) -> Option<Durable> {
        Some(Durable { number, checksum: number as u32 ^ 7 })
    }

    #[test]
    fn says_what_was_confirmed_last() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Confirmed::read(dir.path()).unwrap(), None);
        let mut file = ConfirmedFile::open(dir.path(), Confirmed::default()).unwrap();
        assert_eq!(Confirmed::read(dir.path()).unwrap(), Some(Confirmed::default()));
        for number in 0..5 {
            file.record(durable(number).unwrap()).unwrap();
            file.commit(durable(number * 2)).unwrap();
            let expected = Confirmed { record: durable(number), commit: durable(number * 2) };
            assert_eq!(Confirmed::read(dir.path()).unwrap(), Some(expected));
        }
        let again = Confirmed { record: None, commit: durable(9) };
        ConfirmedFile::open(dir.path(), again).unwrap();
        assert_eq!(Confirmed::read(dir.path()).unwrap(), Some(again));
    }

    #[test]
    fn a_damaged_slot_leaves_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = ConfirmedFile::open(dir.path(), Confirmed::default()).unwrap();
        for number in 0..4 {
            file.record(durable(number).unwrap()).unwrap();
        }
        let path = dir.path().join(CONFIRMED_FILE);
        let whole = fs::read(&path).unwrap();
        assert_eq!(whole.len(), 2 * SLOT);
        let read = || Confirmed::read(dir.path()).unwrap().map(|confirmed| confirmed.record);
        for position in (0..USED).chain(SLOT..SLOT + USED) {
            let mut bytes = whole.clone();
            bytes[position] ^= 4;
            fs::write(&path, bytes).unwrap();
            let found = read().unwrap().unwrap().number;
            assert!(found == 2 || found == 3, "{position}: {found}");
        }
        for cut in 0..SLOT {
            fs::write(&path, &whole[..cut]).unwrap();
            assert!(read().is_none_or(|record| record == durable(2) || record == durable(3)));
        }
        fs::write(&path, [0; 2 * SLOT]).unwrap();
        assert_eq!(read(), None);
        // The file is created again.
        ConfirmedFile::open(dir.path(), Confirmed::default()).unwrap();
        assert_eq!(read(), Some(None));
    }
}
