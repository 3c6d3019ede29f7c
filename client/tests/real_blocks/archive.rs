//! Reading the archives of real blocks.

use liblzma::read::XzDecoder;
use polytrie_testing::fixture;
use serde::de::DeserializeOwned;
use std::{fs::File, io::Read};

/// Hands each file of `blocks/<name>.tar.xz` to `visit`, by its name without `.json`. Says so if
/// the archive is not there.
pub(crate) fn for_each(name: &str, mut visit: impl FnMut(&str, &[u8])) -> bool {
    let Some(path) = fixture(&format!("blocks/{name}.tar.xz")) else { return false };
    let file = File::open(path).expect("a fixture can be read");
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
