//! Where the real data is that tests read, and what is in its archives.

use liblzma::read::XzDecoder;
use std::{
    env,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

/// The path of a fixture, if it is there. Says that the test is skipped if it is not.
///
/// Fixtures are in the folder that the environment variable `POLYTRIE_FIXTURES` names, else in `../shared/fixtures`
/// beside the workspace.
#[expect(clippy::print_stderr, reason = "a skipped test must not look like a passed one")]
pub fn fixture(path: &str) -> Option<PathBuf> {
    let root = env::var_os("POLYTRIE_FIXTURES").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures")),
        PathBuf::from,
    );
    let path = root.join(path);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is not there (set POLYTRIE_FIXTURES)", path.display());
    None
}

/// Hands every JSON file under `folder` in an archive (`suites/eest-prague.tar.xz`) to `visit`, with its path in the
/// archive, and returns how many there were. `None` if the archive is absent.
///
/// The archive is unpacked in memory, one file at a time.
///
/// # Panics
///
/// If it cannot be read.
pub fn for_each_json(
    archive: &str,
    folder: &str,
    mut visit: impl FnMut(&str, &[u8]),
) -> Option<usize> {
    let file = File::open(fixture(archive)?).expect("a fixture can be read");
    let mut archive = tar::Archive::new(XzDecoder::new(file));
    let (mut count, mut bytes) = (0, Vec::new());
    for entry in archive.entries().expect("a fixture is whole") {
        let mut entry = entry.expect("a fixture is whole");
        let path = entry.path().expect("names in a fixture are valid").into_owned();
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        if !is_json || !path.starts_with(Path::new(folder)) {
            continue;
        }
        bytes.clear();
        entry.read_to_end(&mut bytes).expect("a fixture is whole");
        visit(&path.to_string_lossy(), &bytes);
        count += 1;
    }
    Some(count)
}

/// As [`for_each_json`], of the archive `suites/<suite>.tar.xz`.
///
/// # Panics
///
/// If it cannot be read.
pub fn for_each_in_suite(
    suite: &str,
    folder: &str,
    visit: impl FnMut(&str, &[u8]),
) -> Option<usize> {
    for_each_json(&format!("suites/{suite}.tar.xz"), folder, visit)
}
