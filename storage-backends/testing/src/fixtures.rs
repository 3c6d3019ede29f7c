//! The real data that tests read: finding it and reading its archives.

use liblzma::read::XzDecoder;
use polytrie_kv_testing::skipped;
use std::{
    env,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

/// Returns the path of a fixture.
///
/// Fixtures are in the folder that the environment variable `POLYTRIE_FIXTURES` names; if it is set, each of them
/// must exist. If it is not set, they are looked for in `../shared/fixtures` beside the workspace, and `None` means
/// that this fixture is absent; the test that needs it is reported as skipped.
///
/// # Panics
///
/// If `POLYTRIE_FIXTURES` is set and the fixture is absent.
#[track_caller]
pub fn fixture(path: &str) -> Option<PathBuf> {
    let named = env::var_os("POLYTRIE_FIXTURES").map(PathBuf::from);
    let demanded = named.is_some();
    let root = named.unwrap_or_else(|| {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures"))
    });
    let path = root.join(path);
    if path.exists() {
        return Some(path);
    }
    assert!(
        !demanded,
        "{} is not there, and POLYTRIE_FIXTURES says that fixtures are; unset it to skip what needs them",
        path.display()
    );
    skipped(format_args!("{} is not there (set POLYTRIE_FIXTURES)", path.display()));
    None
}

/// Passes every JSON file under `folder` in an archive (`suites/eest-prague.tar.xz`) to `visit`, with its path in the
/// archive, and returns the number of files. Returns `None` if the archive is absent, see [`fixture`].
///
/// The archive is unpacked in memory, one file at a time.
///
/// # Panics
///
/// If the archive cannot be read, or is absent although `POLYTRIE_FIXTURES` is set.
#[track_caller]
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

/// Same as [`for_each_json`], for the archive `suites/<suite>.tar.xz`.
///
/// # Panics
///
/// If the archive cannot be read, or is absent although `POLYTRIE_FIXTURES` is set.
#[track_caller]
pub fn for_each_in_suite(
    suite: &str,
    folder: &str,
    visit: impl FnMut(&str, &[u8]),
) -> Option<usize> {
    for_each_json(&format!("suites/{suite}.tar.xz"), folder, visit)
}
