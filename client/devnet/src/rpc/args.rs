//! Parsing of the parameters of a request.

use super::error::{RpcError, RpcResult};
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::{B256, U256};
use jsonrpsee::types::Params;
use serde::{Deserialize, Deserializer, de::DeserializeOwned, de::Error as _};
use serde_json::{Map, Value};
use std::vec;

/// The names of blocks.
const TAGS: [&str; 5] = ["earliest", "finalized", "safe", "latest", "pending"];

/// Number of characters of a hash with its 0x.
const HASH: usize = 2 + 2 * 32;

/// The parameters of a request, in order.
#[derive(Debug)]
pub(super) struct Args {
    values: vec::IntoIter<Value>,
    /// Number of parameters that were taken.
    taken: usize,
}

impl Args {
    /// Parses the parameters of a request, which must be an array or absent.
    pub(super) fn new(params: &Params<'_>) -> RpcResult<Self> {
        let values: Vec<Value> = match params.as_str().map(str::trim) {
            None | Some("" | "null") => Vec::new(),
            Some(text) if text.starts_with('[') => serde_json::from_str(text)
                .map_err(|error| RpcError::params(format!("invalid parameters: {error}")))?,
            Some(_) => {
                return Err(RpcError::params("parameters must be an array, in their order"));
            }
        };
        Ok(Self { values: values.into_iter(), taken: 0 })
    }

    /// Parses the parameters of a request, which may also be an object with these names. `names` gives their order.
    pub(super) fn in_order_or_named(params: &Params<'_>, names: &[&str]) -> RpcResult<Self> {
        let named = params.as_str().filter(|text| text.trim_start().starts_with('{'));
        let Some(text) = named else { return Self::new(params) };
        let mut named: Map<String, Value> = serde_json::from_str(text)
            .map_err(|error| RpcError::params(format!("invalid parameters: {error}")))?;
        let values = names.iter().map(|name| named.remove(*name).unwrap_or(Value::Null));
        Ok(Self { values: values.collect::<Vec<_>>().into_iter(), taken: 0 })
    }

    /// Returns the next parameter without taking it.
    pub(super) fn peek(&self) -> Option<&Value> {
        self.values.as_slice().first()
    }

    /// Takes all remaining parameters.
    pub(super) fn rest(&mut self) -> Vec<Value> {
        self.values.by_ref().collect()
    }

    /// Takes the next parameter, which must be present and not null.
    pub(super) fn next<T: DeserializeOwned>(&mut self) -> RpcResult<T> {
        let index = self.taken;
        self.optional()?
            .ok_or_else(|| RpcError::params(format!("missing value for required argument {index}")))
    }

    /// Takes the next parameter; `None` if it is absent or null.
    pub(super) fn optional<T: DeserializeOwned>(&mut self) -> RpcResult<Option<T>> {
        let index = self.taken;
        self.taken += 1;
        match self.values.next() {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value)
                .map(Some)
                .map_err(|error| RpcError::params(format!("invalid argument {index}: {error}"))),
        }
    }

    /// Takes the next parameter, which must be a block number or tag.
    pub(super) fn tag(&mut self) -> RpcResult<BlockNumberOrTag> {
        self.next::<Exact<_>>().map(|tag| tag.0)
    }

    /// Takes the next parameter, which must be a block number, tag, hash, or an object with one of them.
    pub(super) fn block(&mut self) -> RpcResult<BlockId> {
        self.next::<Exact<_>>().map(|block| block.0)
    }

    /// Takes the next parameter, a block in any form; `None` if it is absent or null.
    pub(super) fn optional_block(&mut self) -> RpcResult<Option<BlockId>> {
        Ok(self.optional::<Exact<_>>()?.map(|block| block.0))
    }

    /// Takes the next parameter, which must be a hash with 0x.
    pub(super) fn hash(&mut self) -> RpcResult<B256> {
        self.next::<Prefixed>().map(|hash| hash.0)
    }
}

/// A hash that is parsed with its 0x only.
#[derive(Debug)]
struct Prefixed(B256);

impl<'de> Deserialize<'de> for Prefixed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if !text.starts_with("0x") {
            return Err(D::Error::custom("hex string without 0x prefix"));
        }
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

/// The strict form of a block's name as the specification defines it: a number without leading zeros, a tag in lower
/// case, or a hash.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exact<T>(pub(super) T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Exact<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        check_name(&value).map_err(D::Error::custom)?;
        T::deserialize(value).map(Self).map_err(D::Error::custom)
    }
}

/// Refuses the names of blocks that only a lenient parser accepts.
fn check_name(value: &Value) -> Result<(), String> {
    match value {
        Value::Object(fields) => fields.get("blockNumber").map_or(Ok(()), check_name),
        Value::String(text) if TAGS.contains(&text.as_str()) || text.len() == HASH => Ok(()),
        Value::String(text) => match text.strip_prefix("0x") {
            None => Err(format!(
                "found {text:?}, expected a number in hex with 0x, or one of {}",
                TAGS.join(", ")
            )),
            Some("") => Err("hex string \"0x\"".to_owned()),
            Some(digits) if digits.len() > 1 && digits.starts_with('0') => {
                Err(format!("hex number with leading zero digits: {text}"))
            }
            Some(_) => Ok(()),
        },
        _ => Ok(()),
    }
}

/// A number in any form that users of development nodes write: a JSON number, hex with 0x, or decimal text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number(pub(super) U256);

impl Number {
    /// Returns the number, or an error if it is beyond 64 bits.
    pub(super) fn as_u64(self) -> RpcResult<u64> {
        self.0.try_into().map_err(|_| RpcError::params(format!("{} is beyond 64 bits", self.0)))
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => {
                let (digits, base) =
                    text.strip_prefix("0x").map_or((text.as_str(), 10), |hex| (hex, 16));
                if digits.is_empty() {
                    return Err(D::Error::custom(format!(
                        "{text:?} is no number: it has no digits"
                    )));
                }
                U256::from_str_radix(digits, base).map(Self).map_err(D::Error::custom)
            }
            Value::Number(number) => {
                number.as_u64().map(|number| Self(U256::from(number))).ok_or_else(|| {
                    D::Error::custom("expected a number that is whole and not negative")
                })
            }
            _ => Err(D::Error::custom("expected a number")),
        }
    }
}

/// A storage slot: hex with 0x, at most 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Slot(pub(super) U256);

impl Slot {
    /// Parses a slot.
    pub(super) fn parse(text: &str) -> RpcResult<Self> {
        let hex = text
            .strip_prefix("0x")
            .ok_or_else(|| RpcError::params(format!("storage key {text:?} has no 0x prefix")))?;
        if hex.len() > 64 {
            return Err(RpcError::params(format!(
                "storage key too long (want at most 32 bytes): {text:?}"
            )));
        }
        if hex.is_empty() {
            return Ok(Self(U256::ZERO));
        }
        U256::from_str_radix(hex, 16)
            .map(Self)
            .map_err(|_| RpcError::params(format!("storage key {text:?} is not valid hex")))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_primitives::Address;

    fn args(text: &'static str) -> Args {
        Args::new(&Params::new(Some(text))).unwrap()
    }

    #[test]
    fn parameters_in_their_order() {
        let mut found = args(r#"["0x00000000000000000000000000000000000000aa", null, 7, "0x10"]"#);
        assert_eq!(found.next::<Address>().unwrap(), Address::with_last_byte(0xaa));
        assert_eq!(found.optional::<bool>().unwrap(), None);
        assert_eq!(found.next::<Number>().unwrap(), Number(U256::from(7)));
        assert_eq!(found.next::<Number>().unwrap().as_u64().unwrap(), 16);
        assert_eq!(found.optional::<bool>().unwrap(), None);
        let missing = found.next::<bool>().unwrap_err();
        assert_eq!(missing.message(), "missing value for required argument 5");
        for none in [r#"[""]"#, r#"["0x"]"#] {
            assert!(args(none).next::<Number>().is_err(), "{none}");
        }
        let wrong = args(r#"["yes"]"#).next::<bool>().unwrap_err();
        assert!(wrong.message().starts_with("invalid argument 0: "), "{}", wrong.message());
    }

    #[test]
    fn parameters_by_their_names() {
        for text in [r#"[7, null]"#, r#" {"other": true, "more": null, "depth": 7}"#, r#"[7]"#] {
            let params = Params::new(Some(text));
            let mut found = Args::in_order_or_named(&params, &["depth", "more"]).unwrap();
            assert_eq!(found.next::<Number>().unwrap(), Number(U256::from(7)), "{text}");
            assert_eq!(found.optional::<bool>().unwrap(), None, "{text}");
        }
    }

    #[test]
    fn hashes_need_their_prefix() {
        let bare = r#"["1000000000000000000000000000000000000000000000000000000000000001"]"#;
        assert!(args(bare).hash().is_err());
        let hash = r#"["0x1000000000000000000000000000000000000000000000000000000000000001"]"#;
        assert!(args(hash).hash().is_ok());
    }

    #[test]
    fn blocks_are_named_as_the_specification_writes_it() {
        let hash = format!("0x{}", "11".repeat(32));
        for good in ["0x0", "0x1", "0x10", "0xABC", "latest", "pending", &hash] {
            let text = format!(r#"["{good}", {{"blockNumber":"{good}"}}]"#);
            let mut found = Args::new(&Params::new(Some(&text))).unwrap();
            assert!(found.block().is_ok(), "{good}");
            assert_eq!(found.optional_block().is_ok(), good != hash, "{good}");
        }
        for bad in ["0x01", "0x0001", "0x00", "0x", "", "1", "Latest", "latest ", "0xzz"] {
            let text = format!(r#"["{bad}", "{bad}", {{"blockNumber":"{bad}"}}]"#);
            let mut found = Args::new(&Params::new(Some(&text))).unwrap();
            assert!(found.tag().is_err(), "{bad}");
            assert!(found.block().is_err(), "{bad}");
            assert!(found.optional_block().is_err(), "{bad}");
        }
        assert!(args("[null]").optional_block().unwrap().is_none());
        assert!(args("[null]").block().is_err());
    }

    #[test]
    fn slots_are_at_most_32_bytes() {
        assert_eq!(Slot::parse("0x0").unwrap(), Slot(U256::ZERO));
        assert_eq!(Slot::parse("0x1f").unwrap(), Slot(U256::from(31)));
        assert!(Slot::parse("1f").is_err());
        assert!(Slot::parse("0xzz").is_err());
        let long = format!("0x{}", "0".repeat(65));
        assert!(Slot::parse(&long).unwrap_err().message().contains("too long"));
    }
}
