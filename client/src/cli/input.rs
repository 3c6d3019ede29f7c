//! Reading whole files that commands take.

use super::exit::Failure;
use std::{
    fs,
    io::{self, Read},
    path::Path,
};

/// Name of a file in messages; `-` is "standard input".
pub(super) fn name(file: &Path) -> String {
    match file == Path::new("-") {
        true => "standard input".to_owned(),
        false => file.display().to_string(),
    }
}

/// Reads the content of a file; `-` is standard input.
pub(super) fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let read = || match file == Path::new("-") {
        true => {
            let mut text = Vec::new();
            io::stdin().read_to_end(&mut text).map(|_| text)
        }
        false => fs::read(file),
    };
    read().map_err(|e| Failure::Machine(format!("cannot read {}: {e}; check the path", name(file))))
}
