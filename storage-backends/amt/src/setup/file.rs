//! The files of a setup.
//!
//! ```text
//! verifying-key   header ‖ the verifying key ‖ checksum              1.2 kB
//! slots           header ‖ 6 · 2^height points ‖ checksum            24 MiB at height 16
//! quotients       header ‖ height · 2^height points ‖ checksum       64 MiB; only where proofs are wanted
//!
//! header          "polytrie amt 1\n\0" ‖ file (0, 1 or 2) ‖ height ‖ 14 zeros ‖ the setup's id        64 bytes
//! checksum        SHA-256 of all before it
//! ```
//!
//! A file is written under another name, synced and renamed, and then the name is synced. It never changes
//! afterwards.

use super::{Setup, SetupError, table::Table};
use crate::{
    SLOTS, VerifyingKey,
    point::{RAW_BYTES, encode_raw},
};
use alloy_primitives::B256;
use memmap2::Mmap;
use polytrie_kv::{
    AtPath, KvError, create_dir,
    disk::{Access, File, if_there, remove_file, rename, sync_dir},
};
use sha2::{Digest, Sha256};
use std::{
    fs,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

const MAGIC: &[u8; 16] = b"polytrie amt 1\n\0";
const HEADER: usize = 64;
const CHECKSUM: usize = 32;

/// The files of a setup, with their numbers in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Key = 0,
    Slots = 1,
    Quotients = 2,
}

impl Part {
    const fn name(self) -> &'static str {
        match self {
            Self::Key => "verifying-key",
            Self::Slots => "slots",
            Self::Quotients => "quotients",
        }
    }

    fn path(self, dir: &Path) -> PathBuf {
        dir.join(self.name())
    }

    fn header(self, key: &VerifyingKey) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..16].copy_from_slice(MAGIC);
        header[16] = self as u8;
        header[17] = key.height();
        header[32..].copy_from_slice(key.id().as_slice());
        header
    }
}

impl Setup {
    /// Writes the setup into a directory, which is created if necessary. Any other setup there is replaced.
    ///
    /// # Errors
    ///
    /// [`SetupError::Io`].
    pub fn write(&self, dir: &Path) -> Result<(), SetupError> {
        create_dir(dir).at("make", dir)?;
        // Without a key there is no setup. So it is written last, and that of an old setup is gone for good before
        // another of its files is: a loss of power may keep any of the removals that no sync has followed.
        let remove = |part: Part| if_there(remove_file(&part.path(dir))).at("make", dir);
        remove(Part::Key)?;
        sync_dir(dir, "setup: the old one is gone").at("make", dir)?;
        remove(Part::Slots)?;
        remove(Part::Quotients)?;
        if let Some(quotients) = &self.quotients {
            self.write_part(dir, Part::Quotients, &mut rows(quotients))?;
        }
        self.write_part(dir, Part::Slots, &mut rows(&self.slots))?;
        self.write_part(dir, Part::Key, &mut std::iter::once(self.key.encode()))
    }

    fn write_part<B: AsRef<[u8]>>(
        &self,
        dir: &Path,
        part: Part,
        content: &mut dyn Iterator<Item = B>,
    ) -> Result<(), SetupError> {
        let path = part.path(dir);
        let temporary = dir.join(format!("{}.tmp", part.name()));
        let write = || -> io::Result<()> {
            let mut file =
                BufWriter::with_capacity(1 << 20, File::open(&temporary, Access::Create)?);
            let mut hasher = Sha256::new();
            let header = part.header(&self.key);
            file.write_all(&header)?;
            hasher.update(header);
            for bytes in content {
                file.write_all(bytes.as_ref())?;
                hasher.update(bytes.as_ref());
            }
            file.write_all(&hasher.finalize())?;
            file.into_inner().map_err(io::IntoInnerError::into_error)?.sync("setup: content")?;
            rename(&temporary, &path)?;
            // Otherwise a power failure may lose the name of this file and keep that of the key, which is written
            // later.
            sync_dir(dir, "setup: name")
        };
        write().map_err(|source| {
            // On a full disk the temporary file took the last space. If it cannot be removed either, the first error
            // is more useful.
            let _ = remove_file(&temporary);
            KvError::io("write", &path, source).into()
        })
    }

    /// Opens the setup in a directory: every file is checked against its checksum and then mapped, not read into
    /// memory.
    ///
    /// # Errors
    ///
    /// If there is no setup, or a file is missing, damaged or of another setup.
    pub fn open(dir: &Path, proofs: bool) -> Result<Self, SetupError> {
        let key = VerifyingKey::open(dir)?;
        let missing = || damaged(dir, "the file `slots` is missing");
        let slots = map(dir, Part::Slots, &key)?.ok_or_else(missing)?;
        let quotients = if proofs {
            let missing = || SetupError::NoProofs { dir: dir.to_owned() };
            Some(map(dir, Part::Quotients, &key)?.ok_or_else(missing)?)
        } else {
            None
        };
        Ok(Self { key, slots, quotients })
    }
}

impl VerifyingKey {
    /// Reads the verifying key of the setup in a directory.
    ///
    /// # Errors
    ///
    /// If there is no key, or it is damaged.
    pub fn open(dir: &Path) -> Result<Self, SetupError> {
        let path = Part::Key.path(dir);
        let Some(file) = read(&path)? else {
            return Err(SetupError::Missing { dir: dir.to_owned() });
        };
        let key = Self::decode(&file[HEADER..file.len() - CHECKSUM])
            .ok_or_else(|| damaged(&path, "it holds no verifying key"))?;
        if file[..HEADER] != Part::Key.header(&key) {
            return Err(damaged(&path, "its header is that of another file"));
        }
        Ok(key)
    }
}

fn rows(table: &Table) -> impl Iterator<Item = [u8; RAW_BYTES]> {
    (0..table.len()).map(|at| encode_raw(&table.get(at)))
}

/// Maps a table from its file; `None` if the file does not exist.
fn map(dir: &Path, part: Part, key: &VerifyingKey) -> Result<Option<Table>, SetupError> {
    let path = part.path(dir);
    let Some(file) = read(&path)? else { return Ok(None) };
    if file[..HEADER] != part.header(key) {
        let found = B256::from_slice(&file[32..HEADER]);
        if found == key.id() {
            return Err(damaged(&path, "it is another file"));
        }
        return Err(SetupError::Mixed { path, found, expected: key.id() });
    }
    let range = HEADER..file.len() - CHECKSUM;
    let table = Table::Mapped(file, range);
    let rows = if part == Part::Slots { SLOTS } else { usize::from(key.height()) };
    let (found, expected) = (table.len(), rows << key.height());
    if found != expected {
        return Err(damaged(&path, format!("it holds {found} points, expected {expected}")));
    }
    Ok(Some(table))
}

/// Maps a file after checking its checksum; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<Mmap>, SetupError> {
    let Some(file) = if_there(fs::File::open(path)).at("read", path)? else { return Ok(None) };
    if file.metadata().at("read", path)?.len() < (HEADER + CHECKSUM) as u64 {
        return Err(damaged(path, "it is too short"));
    }
    // SAFETY: the file is only ever replaced by renaming another one over it, never written to or shortened in place,
    // so the mapped bytes do not change.
    let map = unsafe { Mmap::map(&file) }.at("read", path)?;
    let (content, checksum) = map.split_at(map.len() - CHECKSUM);
    if content[..16] != *MAGIC {
        return Err(damaged(path, "it does not begin as a file of a setup does"));
    }
    if Sha256::digest(content)[..] != *checksum {
        return Err(damaged(path, "its checksum is wrong"));
    }
    Ok(Some(map))
}

fn damaged(path: &Path, reason: impl Into<String>) -> SetupError {
    SetupError::Damaged { path: path.to_owned(), reason: reason.into() }
}
