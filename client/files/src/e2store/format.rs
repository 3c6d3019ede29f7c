//! The format of an e2store file: era1 or ere.

use super::record::{HEAD, Kind};
use crate::{detect::Format, error::BlockFileErrorKind};

/// Distinguishes era1 and ere by the first records. `head_at` returns the head at an offset, or `None` if the file has
/// none there.
///
/// An era1 file has header, body and receipts of a block before those of the next one. An ere file has all headers
/// first, then all bodies; if it has one block only, another record than the receipts of era1 follows the body. A file
/// that is neither counts as era1, whose reader returns the error.
pub(crate) fn format_of(
    mut head_at: impl FnMut(u64) -> Result<Option<[u8; HEAD]>, BlockFileErrorKind>,
) -> Result<Format, BlockFileErrorKind> {
    // The first record is after the version record.
    let mut at = HEAD as u64;
    let mut kinds = Vec::with_capacity(3);
    while kinds.len() < 3
        && let Some([t0, t1, l0, l1, l2, l3, ..]) = head_at(at)?
    {
        let kind = Kind::of(u16::from_le_bytes([t0, t1]));
        let length = u64::from(u32::from_le_bytes([l0, l1, l2, l3]));
        kinds.push(kind);
        // A record that cannot be one of the first is not skipped, because it may be long.
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
