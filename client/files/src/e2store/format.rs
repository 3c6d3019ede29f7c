//! Which of the formats an e2store file has.

use super::record::{HEAD, Kind};
use crate::{detect::Format, error::BlockFileErrorKind};

/// Distinguishes era1 and ere by the records that come first; `head_at` gives the head at an offset, `None` where the file has
/// none.
///
/// An era1 file has header, body and receipts of a block before those of the next one. An ere file has all headers first,
/// then all bodies; if it holds one block only, something else than the receipts of era1 follows its body. What is neither
/// passes for era1, and the reader of that says what is wrong.
pub(crate) fn format_of(
    mut head_at: impl FnMut(u64) -> Result<Option<[u8; HEAD]>, BlockFileErrorKind>,
) -> Result<Format, BlockFileErrorKind> {
    // Behind the version record.
    let mut at = HEAD as u64;
    let mut kinds = Vec::with_capacity(3);
    while kinds.len() < 3
        && let Some([t0, t1, l0, l1, l2, l3, ..]) = head_at(at)?
    {
        let kind = Kind::of(u16::from_le_bytes([t0, t1]));
        let length = u64::from(u32::from_le_bytes([l0, l1, l2, l3]));
        kinds.push(kind);
        // What cannot be one of the first records is not read to get behind it.
        if !matches!(kind, Kind::Header | Kind::Body) || length > kind.lengths().1 {
            break;
        }
        at += HEAD as u64 + length;
    }
    Ok(match kinds[..] {
        [Kind::Header, Kind::Header, ..] => Format::Ere,
        [Kind::Header, Kind::Body, Kind::Receipts | Kind::Header] => Format::Era1,
        [Kind::Header, Kind::Body, _] => Format::Ere,
        _ => Format::Era1,
    })
}
