//! The length of an RLP list from its first bytes.

use super::MAX_BLOCK_BYTES;

/// Greatest number of bytes of a list's prefix: one for the kind, eight for the length.
pub(super) const MAX_PREFIX: usize = 9;

/// Error in the prefix of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PrefixError {
    /// A first byte that starts a string.
    NotAList(u8),
    /// A length that is not in its shortest form.
    NonCanonical,
    /// A length of the payload that is beyond [`MAX_BLOCK_BYTES`].
    TooLarge(u64),
}

/// Length of a list, as far as its first bytes contain it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListLength {
    /// The length in bytes, with the prefix.
    Known(usize),
    /// The first bytes do not contain the length: this number of bytes from the start does.
    Needs(usize),
}

/// Returns the length of the list that starts with `bytes`.
pub(super) fn list_length(bytes: &[u8]) -> Result<ListLength, PrefixError> {
    use ListLength::{Known, Needs};

    let Some((&first, rest)) = bytes.split_first() else {
        return Ok(Needs(1));
    };
    match first {
        0x00..=0xbf => Err(PrefixError::NotAList(first)),
        0xc0..=0xf7 => Ok(Known(1 + usize::from(first - 0xc0))),
        0xf8..=0xff => {
            let width = usize::from(first - 0xf7);
            // The first length byte alone shows a leading zero.
            if rest.first() == Some(&0) {
                return Err(PrefixError::NonCanonical);
            }
            let Some(digits) = rest.get(..width) else {
                return Ok(Needs(1 + width));
            };
            let payload = digits.iter().fold(0u64, |value, &digit| value << 8 | u64::from(digit));
            if payload < 56 {
                return Err(PrefixError::NonCanonical);
            }
            match usize::try_from(payload) {
                Ok(length) if payload <= MAX_BLOCK_BYTES => Ok(Known(1 + width + length)),
                _ => Err(PrefixError::TooLarge(payload)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ListLength::*, *};

    #[test]
    fn lengths_follow_the_yellow_paper() {
        assert_eq!(list_length(&[]), Ok(Needs(1)));
        assert_eq!(list_length(&[0xc0]), Ok(Known(1)));
        assert_eq!(list_length(&[0xf7, 1, 2]), Ok(Known(56)));
        assert_eq!(list_length(&[0xf8]), Ok(Needs(2)));
        assert_eq!(list_length(&[0xf8, 56]), Ok(Known(58)));
        assert_eq!(list_length(&[0xf9, 1]), Ok(Needs(3)));
        assert_eq!(list_length(&[0xf9, 1, 0]), Ok(Known(259)));
        assert_eq!(list_length(&[0xfb, 0x04, 0, 0, 0]), Ok(Known(5 + (64 << 20))));
    }

    #[test]
    fn what_no_block_can_be_is_refused_at_once() {
        assert_eq!(list_length(&[0x83]), Err(PrefixError::NotAList(0x83)));
        assert_eq!(list_length(&[0x00]), Err(PrefixError::NotAList(0)));
        assert_eq!(list_length(&[0xf8, 55]), Err(PrefixError::NonCanonical));
        assert_eq!(list_length(&[0xf9, 0]), Err(PrefixError::NonCanonical));
        let bomb = [0xff, 0x10, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(list_length(&bomb), Err(PrefixError::TooLarge(1 << 60)));
        assert_eq!(list_length(&[0xff; 9]), Err(PrefixError::TooLarge(u64::MAX)));
        let above = [0xfb, 0x04, 0, 0, 1];
        assert_eq!(list_length(&above), Err(PrefixError::TooLarge((64 << 20) + 1)));
    }
}
