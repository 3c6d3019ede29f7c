//! Scans that hold no lock while the caller looks at an entry.
//!
//! A visitor may read the store again (the code of each account it meets), and may take its time. Engines
//! whose cursors need a lock therefore copy a few entries out under the lock, let go of it, and visit the
//! copies. The first chunk is small, because many scans want only the first entry.

use crate::{KeyRange, Result, Visit};

const FIRST: usize = 4;
const LARGEST: usize = 1_024;
const BYTES: usize = 256 << 10;

/// Entries copied out of an engine.
#[derive(Debug)]
pub(crate) struct Chunk {
    bytes: Vec<u8>,
    /// The end of the key and the end of the value of each entry, as offsets into `bytes`.
    ends: Vec<(usize, usize)>,
    limit: usize,
}

impl Chunk {
    /// Appends an entry. Returns whether there is room for another one.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
        !self.is_full()
    }

    fn is_full(&self) -> bool {
        self.ends.len() >= self.limit || self.bytes.len() >= BYTES
    }

    fn entries(&self) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> {
        self.ends.iter().enumerate().map(|(i, &(key_end, end))| {
            let start = i.checked_sub(1).map_or(0, |before| self.ends[before].1);
            (&self.bytes[start..key_end], &self.bytes[key_end..end])
        })
    }
}

/// Visits a range chunk by chunk.
///
/// `fill` pushes the first entries of the range that it gets, in the order of that range, until the range ends or
/// [`Chunk::push`] returns `false`.
pub(crate) fn scan_in_chunks(
    range: KeyRange<'_>,
    visit: &mut Visit<'_>,
    mut fill: impl FnMut(KeyRange<'_>, &mut Chunk) -> Result<()>,
) -> Result<()> {
    let mut chunk = Chunk { bytes: Vec::new(), ends: Vec::new(), limit: FIRST };
    // The last key of the last chunk; the next chunk begins behind it.
    let mut resume: Option<Vec<u8>> = None;
    loop {
        let rest = match &resume {
            None => range,
            Some(key) if range.reverse => KeyRange { to: Some(key), ..range },
            Some(key) => KeyRange { from: key, ..range },
        };
        if rest.is_empty() {
            return Ok(());
        }
        fill(rest, &mut chunk)?;
        for (key, value) in chunk.entries() {
            if visit(key, value)?.is_break() {
                return Ok(());
            }
        }
        if !chunk.is_full() {
            return Ok(());
        }
        let Some((last, _)) = chunk.entries().next_back() else { return Ok(()) };
        let key = resume.get_or_insert_default();
        key.clear();
        key.extend_from_slice(last);
        if !range.reverse {
            // The first key after `last` in byte order.
            key.push(0);
        }
        chunk.bytes.clear();
        chunk.ends.clear();
        chunk.limit = (chunk.limit * 4).min(LARGEST);
    }
}
