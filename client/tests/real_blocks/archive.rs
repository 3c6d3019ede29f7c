//! Reading the archives of real blocks.

use liblzma::read::XzDecoder;
use serde::de::DeserializeOwned;
use std::{env, fs::File, io::Read, path::PathBuf};

/// Hands each file of `blocks/<name>.tar.xz` to `visit`, by its name without `.json`. Says so if
/// the archive is not there.
#[expect(clippy::print_stderr, reason = "a skipped test must not look like a passed one")]
pub(crate) fn for_each(name: &str, mut visit: impl FnMut(&str, &[u8])) -> bool {
    let root = env::var_os("POLYTRIE_FIXTURES").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/fixtures")),
        PathBuf::from,
    );
    let path = root.join("blocks").join(format!("{name}.tar.xz"));
    let Ok(file) = File::open(&path) else {
        eprintln!("skipped: {} is not there (set POLYTRIE_FIXTURES)", path.display());
        return false;
    };
    let mut archive = tar::Archive::new(XzDecoder::new(file));
    for entry in archive.entries().expect("a fixture is whole") {
        let mut entry = entry.expect("a fixture is whole");
        let path = entry.path().expect("names in a fixture are valid").into_owned();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("a fixture is whole");
        visit(&path.file_stem().unwrap_or_default().to_string_lossy(), &bytes);
    }
    true
}

/// Reads JSON out of a fixture.
pub(crate) fn json<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> T {
    serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{name}: {error}"))
}
