//! Variables of the environment that set a number for a test.

use std::{env, str::FromStr};

/// Returns the number that a variable sets, if it is there.
pub(crate) fn number<T: FromStr>(variable: &str) -> Option<T> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}
