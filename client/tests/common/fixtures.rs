//! The real data that tests read; see `client/src/testdata.rs` for where it is.

use flate2::read::MultiGzDecoder;
use std::{
    env, fs,
    io::Read,
    path::{Path, PathBuf},
};

/// The path of a fixture, if it is there. Says that the test is skipped if it is not.
#[expect(clippy::print_stderr, reason = "a skipped test must not look like a passed one")]
pub(crate) fn fixture(path: &str) -> Option<PathBuf> {
    let root = env::var_os("POLYTRIE_FIXTURES").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/fixtures")),
        PathBuf::from,
    );
    let path = root.join(path);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is not there (set POLYTRIE_FIXTURES)", path.display());
    None
}

/// The content of a file, unpacked if its name ends in `.gz`.
pub(crate) fn read(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).expect("the file can be read");
    if path.extension().is_none_or(|extension| extension != "gz") {
        return bytes;
    }
    let mut unpacked = Vec::new();
    MultiGzDecoder::new(&bytes[..]).read_to_end(&mut unpacked).expect("the file is whole");
    unpacked
}
