//! A small setup of `lvmt` for tests: trees of height 6, and a tau that is no secret.

#[cfg(feature = "lvmt")]
use polytrie_amt::{PowersOfTau, Setup, VerifyingKey};
use std::{env, path::PathBuf, sync::LazyLock};
#[cfg(feature = "lvmt")]
use std::{fs, path::Path, process};

/// Returns the setup's directory. The setup is made once, and left for the next run; a build without `lvmt` needs none.
pub fn dir() -> PathBuf {
    static DIR: LazyLock<PathBuf> = LazyLock::new(|| {
        let dir = env::temp_dir().join("polytrie-test-setup-1");
        #[cfg(feature = "lvmt")]
        make(&dir);
        dir
    });
    DIR.clone()
}

#[cfg(feature = "lvmt")]
fn make(dir: &Path) {
    const HEIGHT: u8 = 6;
    if VerifyingKey::open(dir).is_ok() {
        return;
    }
    let powers = PowersOfTau::insecure_dev(HEIGHT, "tests").expect("the height is good");
    let mine = env::temp_dir().join(format!("polytrie-test-setup-1.{}", process::id()));
    Setup::derive(&powers, true, &mut |_| {}).write(&mine).expect("it can be written");
    if fs::rename(&mine, dir).is_err() {
        // Another process made the setup first.
        let _ = fs::remove_dir_all(&mine);
    }
}
