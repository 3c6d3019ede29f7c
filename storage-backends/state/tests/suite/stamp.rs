//! Tests of the stamp of a data directory.
#![expect(clippy::unwrap_used, reason = "tests")]

use alloy_primitives::B256;
use polytrie_kv::KvError;
use polytrie_state::{STAMP_FILE, Stamp, StampError};
use std::fs;

fn stamp() -> Stamp {
    Stamp {
        format: Stamp::FORMAT,
        state: "mpt".into(),
        kv: "mdbx".into(),
        parameters: [("interval".to_owned(), "8".to_owned())].into(),
        chain: "mainnet".into(),
        chain_id: 1,
        genesis_hash: B256::repeat_byte(7),
        rules: Some(B256::repeat_byte(8)),
        created_by: "polytrie 0.1.0".into(),
    }
}

#[test]
fn it_is_read_as_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(Stamp::read(dir.path()).unwrap(), None);
    stamp().write(dir.path()).unwrap();
    assert_eq!(Stamp::read(dir.path()).unwrap(), Some(stamp()));

    let other = Stamp { state: "raw".into(), ..stamp() };
    other.write(dir.path()).unwrap();
    assert_eq!(Stamp::read(dir.path()).unwrap(), Some(other));
    let files: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(files, [STAMP_FILE], "no temporary file is left");
}

#[test]
fn nothing_asked_is_fine_and_something_else_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let stamp = stamp();
    stamp.expect(dir.path(), "state layer", &stamp.state, None).unwrap();
    stamp.expect(dir.path(), "state layer", &stamp.state, Some("mpt")).unwrap();
    let error = stamp.expect(dir.path(), "state layer", &stamp.state, Some("lmpt")).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, StampError::Mismatch { .. }));
    assert!(text.contains("state layer `mpt`, you asked for `lmpt`"), "{text}");
}

#[test]
fn another_format_is_told_apart_from_damage() {
    let dir = tempfile::tempdir().unwrap();
    // A later version may have fields of another shape.
    let later = format!(
        r#"{{"format": {}, "state": ["mpt"], "created_by": "polytrie 9.0.0"}}"#,
        Stamp::FORMAT + 1
    );
    fs::write(dir.path().join(STAMP_FILE), later).unwrap();
    match Stamp::read(dir.path()).unwrap_err() {
        StampError::Format { found, expected, created_by, .. } => {
            assert_eq!((found, expected), (Stamp::FORMAT + 1, Stamp::FORMAT));
            assert_eq!(created_by, "polytrie 9.0.0");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_flipped_bit_is_found_or_harmless() {
    let dir = tempfile::tempdir().unwrap();
    stamp().write(dir.path()).unwrap();
    let file = dir.path().join(STAMP_FILE);
    let whole = fs::read(&file).unwrap();
    for bit in 0..8 * whole.len() {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(&file, &damaged).unwrap();
        if let Ok(read) = Stamp::read(dir.path()) {
            assert_eq!(read, Some(stamp()), "{}", String::from_utf8_lossy(&damaged));
        }
    }
}

#[test]
fn what_is_no_stamp_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    stamp().write(dir.path()).unwrap();
    let whole = fs::read(dir.path().join(STAMP_FILE)).unwrap();
    let cut = &whole[..whole.len() / 2];
    for bytes in [&b""[..], b"{}", b"[]", b"null", b"\xff\xfe", br#"{"format": "1"}"#, cut] {
        fs::write(dir.path().join(STAMP_FILE), bytes).unwrap();
        let error = Stamp::read(dir.path()).unwrap_err();
        assert!(matches!(error, StampError::Unreadable { .. }), "{error}");
    }
}

#[test]
fn a_directory_that_is_not_there_is_an_error_of_the_machine() {
    let dir = tempfile::tempdir().unwrap();
    let gone = dir.path().join("gone");
    assert_eq!(Stamp::read(&gone).unwrap(), None);
    let error = stamp().write(&gone).unwrap_err();
    assert!(matches!(error, StampError::Io(KvError::Io { action: "write", .. })), "{error}");
    fs::create_dir(dir.path().join(STAMP_FILE)).unwrap();
    let error = Stamp::read(dir.path()).unwrap_err();
    assert!(matches!(error, StampError::Io(KvError::Io { action: "read", .. })), "{error}");
}
