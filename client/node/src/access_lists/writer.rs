//! Writes access lists to a file.

use super::{AccessListFileError, Contents, HEADING};
use alloy_primitives::{B256, map::B256Set};
use polytrie_chain::BlockAccessList;
use polytrie_kv::{
    append_checksum,
    disk::{Access, File, parent, sync_dir},
};
use std::{
    io::{self, BufWriter, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

/// Writer that appends lists to a file.
#[derive(Debug)]
pub struct AccessListWriter {
    path: PathBuf,
    file: BufWriter<File>,
    /// Hashes of the blocks with lists in the file.
    known: B256Set,
    written: u64,
}

impl AccessListWriter {
    /// Opens a file, and creates it if it is not there. New lists are appended after the complete ones.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written, or holds something else.
    pub fn open(path: &Path) -> Result<Self, AccessListFileError> {
        let failed = |source| AccessListFileError::Io { file: path.to_owned(), source };
        let mut file = File::open(path, Access::Append).map_err(failed)?;
        // The file may be new, so its directory is synced.
        sync_dir(parent(path), "access lists: name").map_err(failed)?;
        let contents = Contents::find(&mut file, true).map_err(failed)?;
        let Contents { places, end } =
            contents.ok_or_else(|| AccessListFileError::OtherContent { file: path.to_owned() })?;
        let begin = |mut file: File| -> io::Result<BufWriter<File>> {
            // A list that a crash cut off is removed.
            file.set_len(end)?;
            // The heading must be durable before any list, because without it the file is not recognised. It is written
            // even if it is there, because a sync that failed may have left it in the page cache only.
            file.rewind()?;
            file.write_all(HEADING)?;
            file.seek(SeekFrom::Start(end.max(HEADING.len() as u64)))?;
            file.sync("access lists: content")?;
            Ok(BufWriter::new(file))
        };
        let file = begin(file).map_err(failed)?;
        let known = places.into_keys().collect();
        Ok(Self { path: path.to_owned(), file, known, written: 0 })
    }

    /// Appends the list of a block, unless it is there.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written.
    pub fn write(&mut self, block: &BlockAccessList) -> Result<(), AccessListFileError> {
        if !self.known.insert(block.hash) {
            return Ok(());
        }
        let mut rlp = alloy_rlp::encode(&block.list);
        append_checksum(&block.hash[..], &mut rlp);
        let written = frame(block.hash, &rlp).and_then(|frame| {
            self.file.write_all(&frame)?;
            self.file.write_all(&rlp)
        });
        self.written += 1;
        self.result(written)
    }

    /// Returns the number of appended lists.
    pub const fn written(&self) -> u64 {
        self.written
    }

    /// Makes all lists durable.
    ///
    /// # Errors
    ///
    /// Fails if they cannot be written.
    pub fn make_durable(&mut self) -> Result<(), AccessListFileError> {
        let flushed =
            self.file.flush().and_then(|()| self.file.get_ref().sync("access lists: content"));
        self.result(flushed)
    }

    fn result(&self, result: io::Result<()>) -> Result<(), AccessListFileError> {
        result.map_err(|source| AccessListFileError::Io { file: self.path.clone(), source })
    }
}

/// Returns the bytes before a list: hash and length.
fn frame(hash: B256, rlp: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(rlp.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
    Ok([&hash[..], &length.to_be_bytes()].concat())
}
