//! Detection of a file's format by its first bytes.

use super::{e2store::VERSION_MAGIC, error::BlockFileErrorKind};

/// Number of bytes that are examined: more than any magic number has, and enough to skip blank lines before
/// text.
pub(super) const PEEK: usize = 512;

/// First bytes of a gzip stream.
pub(super) const GZIP: &[u8] = &[0x1f, 0x8b];

/// The byte order mark of UTF-8.
pub(super) const MARK: &[u8] = b"\xef\xbb\xbf";

/// Format of the blocks in a (decompressed) file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// RLP of blocks, one after the other without bytes between them.
    Rlp,
    /// One block in hex per line, with or without `0x`.
    Hex,
    /// era1: e2store records with headers, bodies, receipts and total difficulty, block by block.
    Era1,
    /// ere: also e2store records, but all headers first, then all bodies; some files have no receipts.
    Ere,
}

/// Content that the first bytes announce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Blocks(Format),
    /// An era1 or ere file; the first bytes do not say which.
    E2Store,
    Gzip,
}

/// Compression and archive formats that users give by mistake.
const COMPRESSED: [(&[u8], &str); 6] = [
    (&[0x28, 0xb5, 0x2f, 0xfd], "compressed with zstd"),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0x00], "compressed with xz"),
    (b"BZh", "compressed with bzip2"),
    (&[0x04, 0x22, 0x4d, 0x18], "compressed with lz4"),
    (b"PK\x03\x04", "a zip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
];

/// Detects the content of a file by its first bytes (up to [`PEEK`]).
pub(super) fn detect(start: &[u8]) -> Result<Content, BlockFileErrorKind> {
    let Some(&first) = start.first() else {
        return Err(BlockFileErrorKind::Empty);
    };
    if start.starts_with(GZIP) {
        return Ok(Content::Gzip);
    }
    if start.starts_with(&VERSION_MAGIC) {
        return Ok(Content::E2Store);
    }
    // The first of these bytes would pass for hex digits.
    if VERSION_MAGIC.starts_with(start) {
        return Err(BlockFileErrorKind::TooShort { length: start.len() as u64 });
    }
    if let Some((_, format)) = COMPRESSED.iter().find(|(magic, _)| start.starts_with(magic)) {
        return Err(BlockFileErrorKind::Compressed { format });
    }
    // The mark would read as an RLP list of 47 bytes, but it means text.
    let text = start.strip_prefix(MARK).unwrap_or(start);
    match text.trim_ascii_start().first() {
        Some(b'{' | b'[') => return Err(BlockFileErrorKind::Json),
        Some(digit) if digit.is_ascii_hexdigit() => return Ok(Content::Blocks(Format::Hex)),
        // All the bytes are blank, so text is assumed.
        None => return Ok(Content::Blocks(Format::Hex)),
        Some(_) => {}
    }
    match first {
        // The splitter returns the error about zeros or about a wrong list.
        0x00 | 0xc0..=0xff => Ok(Content::Blocks(Format::Rlp)),
        _ => {
            let start = &start[..start.len().min(16)];
            Err(BlockFileErrorKind::UnknownFormat { start: start.escape_ascii().to_string() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_from_content() {
        let blocks = |format| Some(Content::Blocks(format));
        for (start, expected) in [
            (&b"\xf9\x02\x1a\xf9"[..], blocks(Format::Rlp)),
            (b"f9021af9", blocks(Format::Hex)),
            (b"\r\n\n 0xf9021af9", blocks(Format::Hex)),
            (b"\n\n", blocks(Format::Hex)),
            (b"\x65\x32\0\0\0\0\0\0\x03\0", Some(Content::E2Store)),
            (b"\x1f\x8b\x08", Some(Content::Gzip)),
            (b"\0\0\0\0", blocks(Format::Rlp)),
        ] {
            assert_eq!(detect(start).ok(), expected, "{}", start.escape_ascii());
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (start, expected) in [
            (&b""[..], "empty"),
            (b"e", "ends after 1 of the 8 bytes"),
            (b"e2\0\0\0\0\0", "ends after 7 of the 8 bytes"),
            (b" {\"config\": {", "--chain"),
            (b"\xef\xbb\xbf{\"config\": {", "--chain"),
            (b"\x28\xb5\x2f\xfd....", "zstd"),
            (b"\xfd7zXZ\0....", "xz"),
            (b"#!/bin/sh\necho", "starts with \"#!/bin/sh\\necho\""),
            (b"\x83abc", "starts with \"\\x83abc\""),
        ] {
            let text = detect(start).err().map(|kind| kind.to_string()).unwrap_or_default();
            assert!(text.contains(expected), "{text}");
        }
    }
}
