//! A small setup of `lvmt` for tests: trees of height 6, and a tau that is no secret.

use polytrie_amt::{PowersOfTau, Setup, VerifyingKey};
use std::{env, fs, path::PathBuf, process, sync::LazyLock};

const HEIGHT: u8 = 6;

/// Returns the setup's directory. The setup is made once, and left for the next run.
pub fn dir() -> PathBuf {
    static DIR: LazyLock<PathBuf> = LazyLock::new(|| {
        let dir = env::temp_dir().join("polytrie-test-setup-1");
        if VerifyingKey::open(&dir).is_err() {
            let powers = PowersOfTau::insecure_dev(HEIGHT, "tests").expect("the height is good");
            let mine = env::temp_dir().join(format!("polytrie-test-setup-1.{}", process::id()));
            Setup::derive(&powers, true, &mut |_| {}).write(&mine).expect("it can be written");
            if fs::rename(&mine, &dir).is_err() {
                // Another process made the setup first.
                let _ = fs::remove_dir_all(&mine);
            }
        }
        dir
    });
    DIR.clone()
}
