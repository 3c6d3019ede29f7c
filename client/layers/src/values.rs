//! Values of options: numbers with bounds, and numbers of bytes.

use clap::builder::{RangedU64ValueParser, TypedValueParser};

/// Greatest number of threads that an option may have.
pub const MOST_THREADS: u64 = 1024;

/// Returns a parser of a number with an upper bound. A greater number would take the machine's
/// memory or threads, and gain nothing.
#[cfg(feature = "replica")]
pub fn at_most(most: u64) -> impl TypedValueParser<Value = usize> {
    RangedU64ValueParser::<usize>::new().range(..=most)
}

/// Returns a parser of a number of at least 1 with an upper bound.
pub fn some_at_most(most: u64) -> impl TypedValueParser<Value = usize> {
    RangedU64ValueParser::<usize>::new().range(1..=most)
}

/// Parses a number of bytes as [`parse_bytes`] does, but refuses 0.
///
/// # Errors
///
/// Fails with a sentence if the text is no number of bytes, or 0.
pub fn parse_some_bytes(text: &str) -> Result<usize, String> {
    match parse_bytes(text)? {
        0 => Err("nothing fits into 0 bytes; choose more".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Parses a number of bytes: digits, then k, M or G (powers of 1024) if wanted.
///
/// # Errors
///
/// Fails with a sentence if the text is anything else.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let wrong = || format!("`{text}` is not a number of bytes; write for example 512M or 2G");
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err(wrong()),
    };
    let number: usize = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn bytes_are_written_as_people_write_them() {
        assert_eq!(parse_bytes("0"), Ok(0));
        assert_eq!(parse_bytes("512"), Ok(512));
        assert_eq!(parse_bytes("64k"), Ok(64 << 10));
        assert_eq!(parse_bytes("512M"), Ok(512 << 20));
        assert_eq!(parse_bytes("2GiB"), Ok(2 << 30));
        for wrong in ["", "M", "12x", "-1", "1.5G", "99999999999G", "5ib", "5ibib", "5mibib"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
