//! The official test vectors of RLP, read with the decoder that blocks are read with.

use alloy_primitives::{U512, hex};
use alloy_rlp::{Decodable, Encodable, Header};
use polytrie_testing::for_each_in_suite;
use serde_json::Value;
use std::collections::BTreeMap;

/// An RLP item of any kind.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    String(Vec<u8>),
    List(Vec<Self>),
}

impl Item {
    /// Reads an item from the notation of the vectors: text, a number, a big number after `#`, or a
    /// list.
    fn from_json(value: &Value) -> Self {
        match value {
            Value::Array(items) => Self::List(items.iter().map(Self::from_json).collect()),
            Value::String(text) => match text.strip_prefix('#') {
                Some(number) => Self::from_number(number.parse().expect("a number")),
                None => Self::String(text.as_bytes().to_vec()),
            },
            Value::Number(number) => {
                Self::from_number(U512::from(number.as_u64().expect("a number")))
            }
            other => panic!("not an item: {other}"),
        }
    }

    fn from_number(number: U512) -> Self {
        Self::String(number.to_be_bytes_trimmed_vec())
    }

    pub(super) fn decode_exact(mut bytes: &[u8]) -> alloy_rlp::Result<Self> {
        let item = Self::decode(&mut bytes)?;
        if bytes.is_empty() { Ok(item) } else { Err(alloy_rlp::Error::UnexpectedLength) }
    }
}

impl Encodable for Item {
    fn encode(&self, out: &mut dyn alloy_rlp::BufMut) {
        match self {
            Self::String(bytes) => bytes.as_slice().encode(out),
            Self::List(items) => alloy_rlp::encode_list::<_, Self>(items, out),
        }
    }
}

impl Decodable for Item {
    fn decode(buf: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let header = Header::decode(buf)?;
        let (mut payload, rest) =
            buf.split_at_checked(header.payload_length).ok_or(alloy_rlp::Error::InputTooShort)?;
        *buf = rest;
        if !header.list {
            return Ok(Self::String(payload.to_vec()));
        }
        let mut items = Vec::new();
        while !payload.is_empty() {
            items.push(Self::decode(&mut payload)?);
        }
        Ok(Self::List(items))
    }
}

#[test]
fn rlp_vectors() {
    let mut checked = 0;
    let files = for_each_in_suite("ethereum-tests", "RLPTests", |path, bytes| {
        let tests: BTreeMap<String, BTreeMap<String, Value>> =
            serde_json::from_slice(bytes).expect("a vector file");
        for (name, test) in tests {
            let encoded = hex::decode(test["out"].as_str().expect("hex")).expect("hex");
            let decoded = Item::decode_exact(&encoded);
            checked += 1;
            match test["in"].as_str() {
                Some("INVALID") => assert!(decoded.is_err(), "{path} {name}: {decoded:?}"),
                Some("VALID") => {
                    assert_eq!(alloy_rlp::encode(decoded.expect(&name)), encoded, "{path} {name}")
                }
                _ => {
                    let item = Item::from_json(&test["in"]);
                    assert_eq!(alloy_rlp::encode(&item), encoded, "{path} {name}");
                    assert_eq!(decoded, Ok(item), "{path} {name}");
                }
            }
        }
    });
    if files.is_some() {
        assert_eq!((files, checked), (Some(3), 55));
    }
}
