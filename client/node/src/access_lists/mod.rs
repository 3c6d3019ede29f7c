//! Access lists of blocks (EIP-7928) in a file beside the chain: `import --bal-build` writes them, `import --bal` reads
//! them. No other client has such a file, and no export contains it.
//!
//! ```text
//! polytrie access lists 3\n      what the file is
//! hash (32 bytes)                of the block
//! length (4 bytes, big-endian)   of the list with its checksum
//! RLP of the list                as its hash in a header of Amsterdam is of
//! checksum (4 bytes)             CRC-32C of hash and RLP
//! hash, length, RLP, checksum …  of the next block, in any order
//! ```
//!
//! A list that a crash cut off or a loss of power damaged is written again, and so are the lists after it: a writer
//! reads the file first. A list from this file is a hint: a wrong list costs time, and never changes the result of a
//! block.

mod error;
mod mode;
mod reader;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
mod writer;

pub use error::AccessListFileError;
pub use mode::AccessListMode;
pub use reader::AccessListReader;
pub use writer::AccessListWriter;

use alloy_primitives::{B256, map::B256Map};
use polytrie_kv::{
    disk::{File, may_begin_with},
    strip_checksum,
};
use std::io::{self, BufReader, Read, Seek, SeekFrom};

/// Name of the file in a data directory.
pub const ACCESS_LISTS_FILE: &str = "access-lists";

/// First line of the file, with the version of its format.
pub const HEADING: &[u8] = b"polytrie access lists 3\n";

/// Place of a list in the file.
#[derive(Debug, Clone, Copy)]
struct Place {
    offset: u64,
    length: u32,
}

/// Lists in a file.
#[derive(Debug)]
struct Contents {
    places: B256Map<Place>,
    /// Offset of the end of the last complete list, or of the heading; 0 if the heading is incomplete.
    end: u64,
}

impl Contents {
    /// Finds the lists in a file, up to the first incomplete one. Returns `None` if the file holds something else. The
    /// lists themselves are read only if `compared` is set, to compare them with their checksums.
    fn find(file: &mut File, compared: bool) -> io::Result<Option<Self>> {
        let size = file.seek(SeekFrom::End(0))?;
        file.rewind()?;
        let mut file = BufReader::new(file);
        let mut heading = Vec::new();
        (&mut file).take(HEADING.len() as u64 + 1).read_to_end(&mut heading)?;
        if !may_begin_with(&heading, HEADING) {
            return Ok(None);
        }
        let mut found = Self { places: B256Map::default(), end: 0 };
        if !heading.starts_with(HEADING) {
            return Ok(Some(found));
        }
        found.end = file.seek(SeekFrom::Start(HEADING.len() as u64))?;
        let (mut hash, mut length, mut content) = (B256::ZERO, [0; 4], Vec::new());
        while size.saturating_sub(found.end) >= FRAME {
            file.read_exact(&mut hash.0)?;
            file.read_exact(&mut length)?;
            let place = Place { offset: found.end + FRAME, length: u32::from_be_bytes(length) };
            let end = place.offset + u64::from(place.length);
            if end > size {
                break;
            }
            if compared {
                content.clear();
                (&mut file).take(u64::from(place.length)).read_to_end(&mut content)?;
                if strip_checksum(&hash[..], &content).is_none() {
                    break;
                }
            } else {
                file.seek_relative(i64::from(place.length))?;
            }
            found.places.insert(hash, place);
            found.end = end;
        }
        Ok(Some(found))
    }
}

/// Number of bytes before a list: hash and length.
const FRAME: u64 = 36;
