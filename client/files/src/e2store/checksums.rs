//! `checksums.txt`: the SHA-256 of every file of a directory.
//!
//! Clients write one hash per line, in the order of the files' names. Publishers of files write a hash and a name per
//! line, as `sha256sum` does. Both forms are read; the first is written, because clients ask for it when they import.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs::File,
    io::{self, Read, Seek, Write},
    path::Path,
    sync::Arc,
};

use alloy_primitives::B256;
use polytrie_kv::disk::if_there;
use sha2::{Digest, Sha256};

use super::directory::names_of;
use crate::{
    error::{BlockFileError, BlockFileErrorKind},
    output::{ExportError, OutputFile},
    reader::{display_name, open_error},
};

/// Name of the list's file.
const FILE_NAME: &str = "checksums.txt";
/// Size of a read while a file is hashed, in bytes.
const BUFFER: usize = 1 << 20;

/// A line of a list.
#[derive(Debug, PartialEq, Eq)]
struct Listed {
    hash: B256,
    /// Name of the file with this hash, if the line has one.
    name: Option<String>,
}

/// Compares a file with `checksums.txt` beside it, if there is one, and rewinds the file.
///
/// A list with names may leave out this file. A list without names must have the hash in one of its lines: the
/// directory may hold only some of the listed files.
pub(crate) fn verify_checksum(
    path: &Path,
    file: &Arc<str>,
    content: &mut File,
) -> Result<(), BlockFileError> {
    let list = path.with_file_name(FILE_NAME);
    let Some(lines) = read(&list)? else { return Ok(()) };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let named: Vec<_> = lines.iter().filter(|line| line.name.as_deref() == Some(&*name)).collect();
    let relevant = match named.is_empty() {
        true => lines.iter().filter(|line| line.name.is_none()).collect(),
        false => named,
    };
    if relevant.is_empty() {
        return Ok(());
    }
    // The blocks are read after this, in a second pass: an import executes the first ones long before the last byte is
    // known, and none of a wrong file may get there.
    let found = content.rewind().and_then(|()| hash(&mut *content));
    let found = found.and_then(|found| content.rewind().map(|()| found));
    let found = found.map_err(|error| {
        BlockFileError::new(file, BlockFileErrorKind::Read { offset: 0, error })
    })?;
    if relevant.iter().any(|line| line.hash == found) {
        return Ok(());
    }
    let kind = match &relevant[..] {
        [Listed { hash: expected, name: Some(_) }] => {
            BlockFileErrorKind::Checksum { found, expected: *expected }
        }
        _ => BlockFileErrorKind::NotListed { found },
    };
    Err(BlockFileError::new(file, kind))
}

/// Returns the lines of a list; `None` if there is no list.
fn read(list: &Path) -> Result<Option<Vec<Listed>>, BlockFileError> {
    let file = display_name(list);
    let text = if_there(std::fs::read(list)).map_err(|error| open_error(&file, error))?;
    let Some(text) = text else { return Ok(None) };
    match parse(&String::from_utf8_lossy(&text)) {
        Ok(lines) => Ok(Some(lines)),
        Err(line) => Err(BlockFileError::new(&file, BlockFileErrorKind::ChecksumLine { line })),
    }
}

/// Parses the lines of a list, which may have comments and a byte order mark; the error is the number of the first
/// malformed line.
fn parse(text: &str) -> Result<Vec<Listed>, u64> {
    let mut lines = Vec::new();
    for (number, line) in (1u64..).zip(text.lines()) {
        let line = line.trim_start_matches('\u{feff}').trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (hash, name) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let digits = hash.strip_prefix("0x").unwrap_or(hash);
        let hash = match digits.len() {
            64 => digits.parse().map_err(|_| number)?,
            _ => return Err(number),
        };
        // A star marks a file that was read as binary; a path is valid only where the list was made.
        let path = name.trim_start().trim_start_matches('*');
        let name = path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
        lines.push(Listed { hash, name: (!path.is_empty()).then_some(name) });
    }
    Ok(lines)
}

fn hash(mut content: impl Read) -> io::Result<B256> {
    let mut sha = Sha256::new();
    let mut buffer = vec![0; BUFFER];
    loop {
        match content.read(&mut buffer) {
            Ok(0) => return Ok(B256::new(sha.finalize().into())),
            Ok(count) => sha.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Hashes of a directory's files while an export adds files.
#[derive(Debug, Default)]
pub(crate) struct Checksums {
    known: BTreeMap<String, B256>,
}

impl Checksums {
    /// Returns the hashes in the directory's list. A list that does not match the files there is ignored.
    pub(crate) fn of(directory: &Path, network: &str) -> io::Result<Self> {
        let lines = match std::fs::read_to_string(directory.join(FILE_NAME)) {
            Ok(text) => parse(&text).unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        let names = names_of(directory, network)?;
        let known = match lines.iter().all(|line| line.name.is_none()) {
            true if lines.len() == names.len() => {
                names.into_iter().zip(&lines).map(|((name, _), line)| (name, line.hash)).collect()
            }
            true => BTreeMap::new(),
            false => lines.into_iter().filter_map(|line| Some((line.name?, line.hash))).collect(),
        };
        Ok(Self { known })
    }

    /// Adds a written file.
    pub(crate) fn add(&mut self, path: &Path, hash: B256) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.known.insert(name, hash);
    }

    /// Writes the list of all files in the directory. The hash of a file that is not known is computed once.
    pub(crate) fn write(&mut self, directory: &Path, network: &str) -> Result<(), ExportError> {
        let path = directory.join(FILE_NAME);
        let mut out = OutputFile::create(&path)?;
        let io = |path: &Path, error| ExportError::io(&display_name(path), error);
        let names = names_of(directory, network).map_err(|e| io(directory, e))?;
        for (name, _) in names {
            let file = directory.join(&name);
            let hash = match self.known.entry(name) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(unknown) => {
                    let hash = File::open(&file).and_then(hash).map_err(|e| io(&file, e))?;
                    *unknown.insert(hash)
                }
            };
            writeln!(out, "{hash}").map_err(|e| io(&path, e))?;
        }
        out.finish()
    }
}

/// A writer that computes the SHA-256 of the bytes that pass through it.
#[derive(Debug)]
pub(crate) struct Hashed<W> {
    inner: W,
    sha: Sha256,
}

impl<W> Hashed<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, sha: Sha256::new() }
    }

    /// Returns the inner writer and the hash.
    pub(crate) fn into_parts(self) -> (W, B256) {
        (self.inner, B256::new(self.sha.finalize().into()))
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(data)?;
        self.sha.update(&data[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_both_kinds_are_read() {
        let (one, two) = (B256::repeat_byte(0xab), B256::repeat_byte(2));
        let digits = &one.to_string()[2..];
        let text = format!("{one}\n\n{digits}  a.era1\r\n0x{digits} *some/dir/b c.ere\n{two}");
        let name = |name: &str| Some(name.to_owned());
        let expected = [(one, None), (one, name("a.era1")), (one, name("b c.ere")), (two, None)]
            .map(|(hash, name)| Listed { hash, name });
        assert_eq!(parse(&text), Ok(expected.into()));
        assert_eq!(parse("").map(|lines| lines.len()), Ok(0));
        for wrong in ["hello", "0x12", &format!("{digits}0 a.era1"), &"g".repeat(64)] {
            assert_eq!(parse(&format!("{one}\n{wrong}\n")), Err(2), "{wrong}");
        }
    }

    /// Another program or system made the list.
    #[test]
    fn marks_comments_and_paths_of_other_systems_are_read() {
        let hash = B256::repeat_byte(0xab);
        let digits = &hash.to_string()[2..];
        for path in ["C:\\some dir\\b c.ere", "/some dir/b c.ere", ".\\b c.ere"] {
            let text = format!("\u{feff}# made by hand\r\n{digits} *{path}\r\n");
            let expected = Listed { hash, name: Some("b c.ere".to_owned()) };
            assert_eq!(parse(&text), Ok(vec![expected]), "{path}");
        }
    }
}
