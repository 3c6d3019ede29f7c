//! A small setup of `lvmt` for tests: trees of height 6, and a tau that is no secret.

#[cfg(feature = "lvmt")]
use polytrie_amt::{PowersOfTau, Setup};
use std::{env, path::PathBuf, sync::LazyLock};
#[cfg(feature = "lvmt")]
use std::{fs, process};

/// Returns the setup's directory. The setup is made once, and left for the next run; a build without `lvmt` needs none.
pub fn dir() -> PathBuf {
    static DIR: LazyLock<PathBuf> = LazyLock::new(|| {
        let dir = env::temp_dir().join("polytrie-test-setup-1");
        #[cfg(feature = "lvmt")]
        let dir = made(dir);
        dir
    });
    DIR.clone()
}

/// Returns a directory with the setup: this one, if it can be used.
#[cfg(feature = "lvmt")]
fn made(dir: PathBuf) -> PathBuf {
    const HEIGHT: u8 = 6;
    let is_usable = |dir: &PathBuf| Setup::open(dir, true).is_ok();
    if is_usable(&dir) {
        return dir;
    }
    let powers = PowersOfTau::insecure_dev(HEIGHT, "tests").expect("the height is good");
    let mine = env::temp_dir().join(format!("polytrie-test-setup-1.{}", process::id()));
    Setup::derive(&powers, true, &mut |_| {}).write(&mine).expect("it can be written");
    if fs::rename(&mine, &dir).is_err() {
        // Another process made the setup first. One that is of another user, or lost a file, stays of no use.
        if !is_usable(&dir) {
            return mine;
        }
        let _ = fs::remove_dir_all(&mine);
    }
    dir
}
