//! The values of a dump: numbers, hashes and bytes in text, read without a copy.

use super::DumpSlot;
use alloy_primitives::{Address, B256, Bytes, U256, hex};
use alloy_rlp::Decodable;
use serde::de::{self, DeserializeSeed, Deserializer, Visitor};
use std::fmt;

/// Reader of a text, or of a number as if it were text; `null` gives `None`.
pub(super) struct Text<T> {
    pub(super) parse: fn(&str) -> Option<T>,
    pub(super) expected: &'static str,
}

pub(super) const NUMBER: Text<U256> =
    Text { parse: number, expected: "a number of at most 256 bits, decimal or 0x and hex digits" };
pub(super) const SMALL: Text<u64> = Text {
    parse: |text| number(text)?.try_into().ok(),
    expected: "a number of at most 64 bits, decimal or 0x and hex digits",
};
pub(super) const HASH: Text<B256> =
    Text { parse: |text| digits(text).parse().ok(), expected: "32 bytes as hex digits" };
pub(super) const ADDRESS: Text<Address> = Text {
    parse: |text| digits(text).parse().ok(),
    expected: "an address, 20 bytes as hex digits",
};
pub(super) const BYTES: Text<Bytes> = Text {
    parse: |text| hex::decode(digits(text)).ok().map(Bytes::from),
    expected: "bytes as hex digits",
};
/// Reader of a slot, or of its hash.
pub(super) const WORD: Text<B256> = Text {
    parse: |text| word(text).map(B256::from),
    expected: "a slot, at most 32 bytes as hex digits",
};
/// Reader of the value of a slot; the caller sets the key later.
pub(super) const VALUE: Text<DumpSlot> =
    Text { parse: value, expected: "the value of a slot as hex digits" };

impl<T> Clone for Text<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Text<T> {}

impl<'de, T> DeserializeSeed<'de> for Text<T> {
    type Value = Option<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<T> Visitor<'_> for Text<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        (self.parse)(text).map(Some).ok_or_else(|| {
            E::custom(format_args!("found \"{}\", expected {}", shortened(text), self.expected))
        })
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// Returns the beginning of a text, at most 70 characters, for an error message.
pub(super) fn shortened(text: &str) -> String {
    const MOST: usize = 70;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn digits(text: &str) -> &str {
    text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text)
}

fn number(text: &str) -> Option<U256> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    // `from_str_radix` would accept underscores.
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    is_number.then(|| U256::from_str_radix(digits, u64::from(radix)).ok()).flatten()
}

/// Parses at most 32 bytes in hex.
fn word(text: &str) -> Option<U256> {
    let digits = digits(text);
    let is_word = digits.len() <= 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_word.then(|| U256::from_str_radix(digits, 16).ok()).flatten()
}

fn value(text: &str) -> Option<DumpSlot> {
    let number = word(text);
    // geth writes RLP without `0x`.
    let rlp = hex::decode(text).ok().filter(|_| digits(text) == text).and_then(|bytes| {
        let mut rest = &bytes[..];
        U256::decode(&mut rest).ok().filter(|_| rest.is_empty())
    });
    (number.is_some() || rlp.is_some()).then_some(DumpSlot { key: B256::ZERO, number, rlp })
}

/// Returns the hash in the name that `geth dump` gives an account whose address is not known:
/// `pre(0x…)`.
pub(super) fn hash_in_name(name: &str) -> Option<B256> {
    let hash = name.strip_prefix("pre(")?.strip_suffix(')')?;
    digits(hash).parse().ok()
}

/// Returns the address in the name of an account.
pub(super) fn address_in_name(name: &str) -> Option<Address> {
    digits(name).parse().ok()
}
