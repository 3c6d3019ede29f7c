//! Inputs that users give by mistake, and the error that each of them causes.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{fs, io};

use alloy_primitives::hex;

use super::{
    super::{BlockFileError, BlockFileErrorKind, BlockReader},
    encode, fixture, gzip, made_up_chain, read,
};

/// Reads blocks up to the first error. Returns their number and the error.
fn until_error(bytes: impl AsRef<[u8]> + Send + 'static) -> (usize, BlockFileError) {
    let reader = match BlockReader::from_reader("blocks", io::Cursor::new(bytes)) {
        Ok(reader) => reader,
        Err(error) => return (0, error),
    };
    let mut blocks = 0;
    for block in reader {
        match block {
            Ok(_) => blocks += 1,
            Err(error) => return (blocks, error),
        }
    }
    panic!("no error after {blocks} blocks")
}

#[track_caller]
fn says(bytes: impl AsRef<[u8]> + Send + 'static, blocks: usize, expected: &str) {
    let (found, error) = until_error(bytes);
    let text = error.to_string();
    assert!(text.contains(expected), "{text}");
    assert!(text.starts_with("blocks: "), "{text}");
    assert!(!error.is_io(), "{text}");
    assert_eq!(found, blocks, "{text}");
}

#[test]
fn files_that_are_not_there_or_cannot_be_read_are_io_errors() {
    let directory = tempfile::tempdir().unwrap();
    let error = BlockReader::open(directory.path().join("missing.rlp")).unwrap_err();
    assert!(error.is_io());
    assert!(error.to_string().ends_with("missing.rlp: there is no such file; check the path"));

    let file = directory.path().join("file");
    fs::write(&file, "x").unwrap();
    let error = BlockReader::open(file.join("below")).unwrap_err();
    assert!(error.is_io(), "{error}");

    let error = BlockReader::open(directory.path()).unwrap_err();
    assert!(!error.is_io());
    assert!(error.to_string().contains("is a directory without .era1 or .ere files"), "{error}");
}

#[test]
fn a_disk_that_fails_is_not_a_bad_file() {
    struct Failing;
    impl io::Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("bad sector"))
        }
    }
    let start = io::Cursor::new(encode(&made_up_chain(3)).concat());
    let mut reader = BlockReader::from_reader("blocks", io::Read::chain(start, Failing)).unwrap();
    for _ in 0..2 {
        reader.next().unwrap().unwrap();
    }
    let error = reader.by_ref().find_map(Result::err).unwrap();
    assert!(error.is_io());
    assert!(error.to_string().contains("(bad sector)"), "{error}");
    assert!(reader.next().is_none(), "the iterator ends after an error");
}

#[test]
fn nothing_is_not_a_block_file() {
    says("", 0, "the file is empty");
    says("\n \n", 0, "the file is empty");
    says(gzip(b""), 0, "the file is empty");
}

#[test]
fn a_genesis_file_belongs_elsewhere() {
    says("{\"config\": {}}", 0, "pass it with --chain");
    if let Some(path) = fixture("genesis/mainnet.json") {
        let error = BlockReader::open(path).unwrap_err();
        assert!(matches!(*error.kind, BlockFileErrorKind::Json));
        assert!(!error.is_io());
    }
}

#[test]
fn other_files_are_named() {
    says(b"\xfd7zXZ\0\0\0\0\0", 0, "compressed with xz");
    says("hello world", 0, "starts with \"hello world\"");
    says(gzip(b"\x1f\x8b\x08\0\0\0\0\0"), 0, "gzip twice");
}

#[test]
fn zeros_and_bombs_are_refused_at_once() {
    struct Endless(u64);
    impl io::Read for Endless {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            out.fill(0);
            self.0 += out.len() as u64;
            assert!(self.0 < 8 << 20, "one look is enough");
            Ok(out.len())
        }
    }
    let mut reader = BlockReader::from_reader("blocks", Endless(0)).unwrap();
    let error = reader.next().unwrap().unwrap_err();
    assert!(error.to_string().contains("found zero bytes at the block at index 0"), "{error}");

    let bomb = [0xff, 0x10, 0, 0, 0, 0, 0, 0, 0];
    let start = io::Cursor::new([encode(&made_up_chain(2)).concat(), bomb.to_vec()].concat());
    let mut reader =
        BlockReader::from_reader("blocks", io::Read::chain(start, Endless(0))).unwrap();
    assert_eq!(reader.by_ref().take(2).filter(Result::is_ok).count(), 2);
    let error = reader.next().unwrap().unwrap_err();
    assert!(error.to_string().contains("claims to be 1152921504606846976 bytes long"), "{error}");

    // The same input in hexadecimal and in gzip.
    says(
        "ff1000000000000000".to_owned() + &"0".repeat(1 << 20),
        0,
        "claims to be 1152921504606846976",
    );
    says("00".repeat(1 << 20), 0, "found the byte 0x00");
    says(gzip(&vec![0; 10 << 20]), 0, "found zero bytes");
}

#[test]
fn a_cut_block_is_counted_out() {
    let blocks = encode(&made_up_chain(3));
    let file = blocks.concat();
    let (last, present) = (blocks[2].len(), blocks[2].len() - 7);
    let expected = format!(
        "ends inside the block at index 2 in the file (offset {}): {present} of its {last} bytes are \
         there, 7 are missing",
        blocks[0].len() + blocks[1].len()
    );
    says(file[..file.len() - 7].to_vec(), 2, &expected);
    // A cut within the length prefix.
    let cut = file.len() - last + 1;
    says(file[..cut].to_vec(), 2, "1 of the 3 bytes that state it are there");

    let gz = gzip(&file);
    let (_, error) = until_error(gz[..gz.len() / 2].to_vec());
    assert!(error.to_string().contains("gzip data is damaged or cut off"), "{error}");
    let mut damaged = gz.clone();
    let crc = gz.len() - 8;
    damaged[crc] ^= 1;
    let (_, error) = until_error(damaged);
    assert!(error.to_string().contains("gzip data is damaged"), "{error}");
}

#[test]
fn what_stands_between_blocks_is_found() {
    let blocks = encode(&made_up_chain(3));
    let first = blocks[0].clone();
    let with = |junk: &[u8]| [&first[..], junk, &blocks[1]].concat();
    says(
        with(b"\n"),
        1,
        &format!(
            "found the byte 0x0a at the block at index 1 in the file (offset {})",
            first.len()
        ),
    );
    says(with(&[0; 100]), 1, "found zero bytes");
    says(with(&[0xf8, 0x10]), 1, "not in its shortest form");
    says(with(&[0xf9, 0x00, 0xff]), 1, "not in its shortest form");
}

#[test]
fn hex_mistakes_have_line_and_column() {
    let lines: Vec<_> = encode(&made_up_chain(3)).iter().map(hex::encode).collect();
    let digits = lines[1].len();
    let change = |line: String| format!("{}\n\n0x{line}\n{}\n", lines[0], lines[2]);

    let mut bad = lines[1].clone();
    bad.replace_range(100..101, "g");
    says(change(bad), 1, "found 'g' in line 3, column 103, a hex digit was expected");
    let mut bad = lines[1].clone();
    bad.replace_range(3..4, "?");
    says(change(bad), 1, "found '?' in line 3, column 6, a hex digit was expected");
    for cut in [1, 2, 77] {
        let left = digits - cut;
        let expected = format!("line 3 has {left} hex digits, {digits} were expected");
        says(change(lines[1][..left].to_owned()), 1, &expected);
    }
    says(change(lines[1][..4].to_owned()), 1, "line 3 has 4 hex digits, 6 were expected");
    says(change(lines[1].clone() + "00"), 1, "line 3 goes on after the");
    says(change(lines[1].clone() + "!"), 1, "found '!' in line 3");
    says(lines[2][..digits - 1].to_owned(), 0, "line 1 has");
    says("0x", 0, "line 1 has 0 hex digits");
    says("error: no such block", 0, "found 'r' in line 1, column 2");
}

#[test]
fn a_block_that_does_not_decode_is_placed() {
    let mut blocks = encode(&made_up_chain(3));
    // Change a byte of the first transaction of block 1, its `v`, which lies far after the header.
    let at = blocks[1]
        .windows(2)
        .position(|pair| pair == [0x25, 0x07])
        .unwrap_or_else(|| blocks[1].windows(2).position(|pair| pair == [0x26, 0x07]).unwrap());
    blocks[1][at] = 0x05;
    let raw = read(blocks.concat()).unwrap();
    let error = raw[1].decode().unwrap_err();
    let expected = format!(
        "test: block 1 (index 1 in the file, offset {}) cannot be decoded: transaction 0 is malformed",
        blocks[0].len()
    );
    assert!(error.to_string().starts_with(&expected), "{error}");
    assert!(!error.is_io());
    raw[2].decode().unwrap();
}
