//! Reading JSON as geth does, with errors that name the field.
//!
//! geth's files have numbers as decimals, as quoted decimals and as quoted hexadecimals, of up to 256 bits, and the
//! case of a field's letters does not matter. So values are kept as text until a caller asks for a type.

use std::{collections::HashSet, fmt};

use alloy_primitives::{Address, B256, Bytes, U256, hex};
use serde::{Deserializer, de};
use serde_json::value::RawValue;

use super::Flaw;

/// Path of a value, for example `alloc.0x00…01.balance`.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldPath<'p> {
    parent: Option<&'p Self>,
    key: &'p str,
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parent {
            Some(parent) if !parent.key.is_empty() => write!(f, "{parent}.{}", self.key),
            _ => f.write_str(self.key),
        }
    }
}

/// A value of a JSON document with a syntax that is known to be right.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value<'a, 'p> {
    text: &'a str,
    path: FieldPath<'p>,
}

impl<'a> Value<'a, 'static> {
    /// Returns the document itself as a value.
    pub(super) const fn root(text: &'a str) -> Self {
        Self { text, path: FieldPath { parent: None, key: "" } }
    }
}

impl<'a, 'p> Value<'a, 'p> {
    /// Calls `each` with every member of this object, in the order of the file.
    pub(super) fn for_each(
        &self,
        mut each: impl FnMut(&str, Value<'a, '_>) -> Result<(), Flaw>,
    ) -> Result<(), Flaw> {
        if !self.text.trim_start().starts_with('{') {
            return Err(self.flaw("a JSON object"));
        }
        let mut flaw = None;
        let visitor = Members {
            each: |key: &str, text: &'a str| {
                let path = FieldPath { parent: Some(&self.path), key };
                each(key, Value { text, path }).map_err(|err| flaw = Some(err)).is_ok()
            },
        };
        match serde_json::Deserializer::from_str(self.text).deserialize_map(visitor) {
            Ok(()) => Ok(()),
            Err(err) => {
                Err(flaw
                    .unwrap_or_else(|| Flaw::field(self.path.to_string(), err, "a JSON object")))
            }
        }
    }

    /// Returns the members of this object, to be looked up by name. A name that comes twice is an error.
    pub(super) fn object(&self) -> Result<Object<'a, 'p>, Flaw> {
        let mut members: Vec<(String, &'a str)> = Vec::new();
        let mut names = HashSet::new();
        self.for_each(|key, value| {
            if !names.insert(key.to_ascii_lowercase()) {
                return Err(Flaw::field(value.path.to_string(), "there twice", "one value"));
            }
            members.push((key.to_owned(), value.text));
            Ok(())
        })?;
        Ok(Object { members, path: self.path })
    }

    /// Parses a number of at most 256 bits: decimal, quoted decimal or quoted hexadecimal with `0x`.
    pub(super) fn number(&self) -> Result<U256, Flaw> {
        const EXPECTED: &str = "a number of at most 256 bits, decimal or as \"0x…\"";
        let digits =
            if self.text.starts_with('"') { self.string(EXPECTED)? } else { self.text.to_owned() };
        let (digits, radix) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"))
        {
            Some(digits) => (digits, 16),
            None => (digits.as_str(), 10),
        };
        // `from_str_radix` would take underscores and digits that JSON and Go do not know. An empty string is zero.
        if digits.chars().any(|digit| !digit.is_digit(radix)) {
            return Err(self.flaw(EXPECTED));
        }
        U256::from_str_radix(digits, u64::from(radix)).map_err(|_| self.flaw(EXPECTED))
    }

    /// Parses a number of at most 64 bits, written as in [`Self::number`].
    pub(super) fn u64(&self) -> Result<u64, Flaw> {
        const EXPECTED: &str = "a number of at most 64 bits, decimal or as \"0x…\"";
        let number = self.number().map_err(|_| self.flaw(EXPECTED))?;
        u64::try_from(number).map_err(|_| self.flaw(EXPECTED))
    }

    /// Parses bytes from hexadecimal digits; `0x` may be left out.
    pub(super) fn bytes(&self) -> Result<Bytes, Flaw> {
        const EXPECTED: &str = "bytes as \"0x…\" with an even number of hexadecimal digits";
        hex::decode(self.string(EXPECTED)?).map(Bytes::from).map_err(|_| self.flaw(EXPECTED))
    }

    /// Parses exactly 32 bytes.
    pub(super) fn hash(&self) -> Result<B256, Flaw> {
        const EXPECTED: &str = "32 bytes as \"0x…\"";
        self.string(EXPECTED)?.parse().map_err(|_| self.flaw(EXPECTED))
    }

    /// Parses exactly 20 bytes.
    pub(super) fn address(&self) -> Result<Address, Flaw> {
        const EXPECTED: &str = "an address, 20 bytes as \"0x…\"";
        self.string(EXPECTED)?.parse().map_err(|_| self.flaw(EXPECTED))
    }

    /// Parses up to 32 bytes, filled up with zeros on the left: a slot of a storage, or its value.
    pub(super) fn word(&self) -> Result<B256, Flaw> {
        word(&self.string(WORD)?).ok_or_else(|| self.flaw(WORD))
    }

    pub(super) fn bool(&self) -> Result<bool, Flaw> {
        self.text.parse().map_err(|_| self.flaw("true or false"))
    }

    fn string(&self, expected: &'static str) -> Result<String, Flaw> {
        serde_json::from_str(self.text).map_err(|_| self.flaw(expected))
    }

    /// Returns a key as it stands before its value, quoted.
    pub(super) fn key(key: &str) -> String {
        serde_json::Value::from(key).to_string()
    }

    /// Returns the value's text as it stands in the document.
    pub(super) const fn text(&self) -> &'a str {
        self.text
    }

    fn is_null(&self) -> bool {
        self.text == "null"
    }

    /// Returns the error that this value is not what was expected.
    pub(super) fn flaw(&self, expected: impl Into<String>) -> Flaw {
        let mut found: String = self.text.chars().take(60).collect();
        if found.len() < self.text.len() {
            found.push('…');
        }
        Flaw::field(self.path.to_string(), found, expected)
    }

    /// Returns the error that the key of this value is not what was expected.
    pub(super) fn key_flaw(&self, expected: &str) -> Flaw {
        Flaw::field(self.path.to_string(), "not one that is understood", expected)
    }
}

const WORD: &str = "at most 32 bytes as \"0x…\"";

/// Parses up to 32 bytes from hexadecimal digits, of which there may be an odd number; `0x` may be left out.
pub(super) fn word(text: &str) -> Option<B256> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    if digits.len() > 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    U256::from_str_radix(digits, 16).ok().map(B256::from)
}

/// Members of an object. The case of a name's letters does not matter; a member that is `null` counts as missing.
#[derive(Debug)]
pub(super) struct Object<'a, 'p> {
    members: Vec<(String, &'a str)>,
    path: FieldPath<'p>,
}

impl<'a> Object<'a, '_> {
    pub(super) fn get<'o>(&'o self, name: &str) -> Option<Value<'a, 'o>> {
        self.members()
            .find(|(key, value)| key.eq_ignore_ascii_case(name) && !value.is_null())
            .map(|(_, value)| value)
    }

    pub(super) fn require<'o>(
        &'o self,
        name: &str,
        expected: &'static str,
    ) -> Result<Value<'a, 'o>, Flaw> {
        self.get(name).ok_or_else(|| {
            let key = FieldPath { parent: Some(&self.path), key: name };
            Flaw::Missing { field: key.to_string(), expected }
        })
    }

    /// Returns all members, with their names as they are written.
    pub(super) fn members<'o>(&'o self) -> impl Iterator<Item = (&'o str, Value<'a, 'o>)> {
        self.members.iter().map(|(key, text)| {
            (key.as_str(), Value { text, path: FieldPath { parent: Some(&self.path), key } })
        })
    }
}

/// Visitor of an object's members that stops when `each` returns false.
struct Members<F> {
    each: F,
}

impl<'a, F: FnMut(&str, &'a str) -> bool> de::Visitor<'a> for Members<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: de::MapAccess<'a>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let value: &'a RawValue = map.next_value()?;
            if !(self.each)(&key, value.get()) {
                return Err(de::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}
