//! The seed of a test.

use polytrie_kv_testing::{SEED, env_number};
use std::fmt;

/// The seed that a test draws from.
///
/// It is printed when the test panics, with the variable that repeats the run.
pub struct Seed {
    value: u64,
}

impl Seed {
    /// Name of the environment variable that sets the seed.
    pub const VARIABLE: &str = SEED;

    /// Returns the seed from the environment, else `default`.
    ///
    /// # Panics
    ///
    /// If the variable is set to anything but a number.
    pub fn or(default: u64) -> Self {
        Self { value: env_number(Self::VARIABLE).unwrap_or(default) }
    }

    /// Returns the number.
    pub const fn value(&self) -> u64 {
        self.value
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", Self::VARIABLE, self.value)
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            #[expect(clippy::print_stderr, reason = "the reader of the panic needs it next")]
            {
                eprintln!("to repeat this run: {self:?}");
            }
        }
    }
}
