//! Reading whole files that commands take.

use super::exit::Failure;
use crate::blocks::input_name;
use std::{
    fs,
    io::{self, Read},
    path::Path,
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
