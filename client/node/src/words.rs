//! Numbers in messages.

use std::fmt::Display;

/// Returns a number with its noun, of which there may be one: `1 block`, `2 blocks`, `0 entries`.
pub fn counted<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if number == N::from(1_u8) => format!("{number} {noun}"),
        Some(stem) => format!("{number} {stem}ies"),
        None => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_has_a_noun_of_its_own() {
        assert_eq!(counted(0_u64, "block"), "0 blocks");
        assert_eq!(counted(1_u64, "block"), "1 block");
        assert_eq!(counted(2_usize, "block"), "2 blocks");
        assert_eq!(counted(1_u16, "entry"), "1 entry");
        assert_eq!(counted(11_u16, "entry"), "11 entries");
    }
}
