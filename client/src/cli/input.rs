//! The files that commands read.

use super::exit::Failure;
use crate::{
    blocks::{files_at, input_name},
    prestate::block_files,
};
use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// Refuses standard input that is named twice: the second reader would find nothing.
pub(super) fn expect_stdin_once<'a>(
    files: impl IntoIterator<Item = &'a Path>,
) -> Result<(), Failure> {
    match files.into_iter().filter(|file| *file == Path::new("-")).count() {
        0 | 1 => Ok(()),
        _ => Err(Failure::Usage(
            "standard input (`-`) is named twice, and it can be read only once; name files".into(),
        )),
    }
}

/// Refuses block files that can be read only once, as standard input and pipes are.
pub(super) fn expect_no_stream(files: &[PathBuf]) -> Result<(), Failure> {
    let is_stream = |file: &&PathBuf| {
        let is_special = |meta: fs::Metadata| !meta.is_file() && !meta.is_dir();
        file.as_os_str() == "-" || fs::metadata(file).is_ok_and(is_special)
    };
    match files.iter().find(is_stream) {
        None => Ok(()),
        Some(file) => Err(Failure::Usage(format!(
            "blocks are read more than once here, which {} does not allow: write them to a file and name it",
            input_name(file)
        ))),
    }
}

/// Returns the files that are read: block files, those in directories of them, and those of --prestate. A directory that
/// cannot be listed is left out; the error is that of its reader.
pub(super) fn block_inputs(files: &[PathBuf], prestate: Option<&Path>) -> Vec<PathBuf> {
    let named = files.iter().flat_map(|file| files_at(file).unwrap_or_default());
    let partial = prestate.into_iter().flat_map(|dir| block_files(dir).unwrap_or_default());
    named.chain(partial).collect()
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
    read().map_err(|e| {
        Failure::Machine(format!("cannot read {}: {e}; check the path", input_name(file)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_input_is_read_once() {
        let check = |names: &[&str]| expect_stdin_once(names.iter().map(Path::new));
        assert!(check(&["a", "-", "a"]).is_ok());
        assert!(matches!(check(&["-", "a", "-"]), Err(Failure::Usage(_))));
    }
}
