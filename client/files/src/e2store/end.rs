//! The blocks of an archive, by its index and its last header alone.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
    sync::Arc,
};

use alloy_consensus::{Header, Sealed};
use polytrie_consensus::decode::decode_lone_header;

use super::{
    format::format_of,
    record::{HEAD, Kind, RecordHead, VERSION_MAGIC},
    snappy::Unframer,
};
use crate::{
    detect::Format,
    reader::{display_name, head_at, length_of},
};

/// The blocks of an era1 or ere file, as its index and its last header state them.
#[derive(Debug, Clone)]
pub struct ArchiveEnd {
    /// Name of the file, for messages.
    pub file: Arc<str>,
    /// Length of the file, in bytes.
    pub bytes: u64,
    /// Number of the first block.
    pub first: u64,
    /// Header of the last block.
    pub last: Sealed<Header>,
}

impl ArchiveEnd {
    /// Reads index and last header. Returns `None` for anything but a whole file with one archive: an error is found when
    /// the blocks are read.
    pub fn read(path: &Path) -> Option<Self> {
        // What is read of a pipe here would be lost.
        let bytes = length_of(path)?;
        let (first, last) = first_and_last(&mut File::open(path).ok()?, bytes)?;
        Some(Self { file: display_name(path), bytes, first, last })
    }
}

fn first_and_last(file: &mut File, bytes: u64) -> Option<(u64, Sealed<Header>)> {
    let mut word = |offset: u64| head_at(file, offset).ok().flatten();
    if word(0)? != VERSION_MAGIC {
        return None;
    }
    let count = u64::from_le_bytes(word(bytes.checked_sub(8)?)?);
    // Beside the places an index has its first block, in ere the number of records per block, and the number of blocks.
    let (kind, records, others) = match format_of(|offset| Ok(word(offset))).ok()? {
        Format::Era1 => (Kind::BlockIndex, 1, 2),
        Format::Ere => {
            let records = u64::from_le_bytes(word(bytes.checked_sub(16)?)?);
            (Kind::DynamicBlockIndex, records, 3)
        }
        Format::Rlp | Format::Hex => return None,
    };
    let length = count.checked_mul(records)?.checked_add(others)?.checked_mul(8)?;
    let at = bytes.checked_sub(length)?.checked_sub(HEAD as u64)?;
    let index = RecordHead::parse(word(at)?, at, &[kind], None).ok()?;
    if u64::from(index.length) != length {
        return None;
    }
    let first = u64::from_le_bytes(word(index.data())?);
    let mut header_of = |block: u64| {
        let relative = word(index.data() + 8 * (1 + records * block))?;
        at.checked_add_signed(i64::from_le_bytes(relative))
    };
    let last = count.checked_sub(1)?;
    let (start, offset) = (header_of(0)?, header_of(last)?);
    // Another archive may stand before this one in the file.
    if start != HEAD as u64 {
        return None;
    }
    let head = RecordHead::parse(word(offset)?, offset, &[Kind::Header], None).ok()?;
    if head.end() > at {
        return None;
    }
    let mut data = vec![0; head.length as usize];
    file.seek(SeekFrom::Start(head.data())).ok()?;
    file.read_exact(&mut data).ok()?;
    let mut rlp = Vec::new();
    Unframer::default().unframe(data.into(), &mut rlp).ok()?;
    let header = decode_lone_header(&rlp).ok()?;
    (first.checked_add(last) == Some(header.number)).then_some((first, header))
}
