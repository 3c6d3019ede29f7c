//! Reads the real data of the tests. [`fixture`] says where it lies.

use flate2::read::MultiGzDecoder;
use std::{fs, io::Read, path::Path};

pub(crate) use polytrie_testing::fixture;

/// Reads a file, decompressed if its name ends in `.gz`.
pub(crate) fn read(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).expect("the file can be read");
    if path.extension().is_none_or(|extension| extension != "gz") {
        return bytes;
    }
    let mut unpacked = Vec::new();
    MultiGzDecoder::new(&bytes[..]).read_to_end(&mut unpacked).expect("the file is whole");
    unpacked
}
