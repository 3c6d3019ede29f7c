//! The filter of logs by block, address and topics.

use crate::rpc::args::Exact;
use alloy_eips::BlockNumberOrTag;
use alloy_primitives::{Address, B256, Log};
use alloy_rpc_types_eth::Filter;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

/// Maximum number of topics of a log.
const MAX_POSITIONS: usize = 4;

/// Maximum number of addresses, or of topics in one position (the same as geth's).
const MAX_ALTERNATIVES: usize = 1000;

/// A filter for logs that also knows its number of topic positions.
///
/// A position without a topic accepts any topic, but the log must have one: `[null]` does not match a log without
/// topics. The library's filter forgets such positions.
#[derive(Debug, Clone, Default)]
pub(in crate::rpc) struct LogFilter {
    /// Blocks, addresses, and topics by their position.
    pub(in crate::rpc) filter: Filter,
    /// Minimum number of topics of a log.
    positions: usize,
}

impl LogFilter {
    /// Returns the estimated number of bytes that the filter takes in memory.
    pub(in crate::rpc) fn bytes(&self) -> usize {
        // An entry of a set takes about twice the size of its value.
        let topics: usize = self.filter.topics.iter().map(|topics| topics.iter().count()).sum();
        let addresses = self.filter.address.iter().count();
        size_of::<Self>() + 2 * (topics * size_of::<B256>() + addresses * size_of::<Address>())
    }

    /// Whether a block is in the range, as far as that is given in numbers.
    pub(in crate::rpc) fn is_for(&self, number: u64) -> bool {
        self.filter.get_from_block().is_none_or(|from| from <= number)
            && self.filter.get_to_block().is_none_or(|to| number <= to)
    }

    /// Whether the address and the topics of a log match.
    pub(in crate::rpc) fn matches(&self, log: &Log) -> bool {
        log.topics().len() >= self.positions && self.filter.matches(log)
    }
}

impl<'de> Deserialize<'de> for LogFilter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let list = |value: Option<&Value>| value.and_then(Value::as_array).map_or(0, Vec::len);
        let topics = value.get("topics").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let positions = topics.len();
        if positions > MAX_POSITIONS {
            return Err(D::Error::custom(format!(
                "exceed max topics: {positions} positions, at most {MAX_POSITIONS}"
            )));
        }
        let alternatives = topics.iter().map(|topic| list(Some(topic))).max().unwrap_or(0);
        if list(value.get("address")).max(alternatives) > MAX_ALTERNATIVES {
            return Err(D::Error::custom(format!(
                "exceed max addresses or topics per search position: at most {MAX_ALTERNATIVES}"
            )));
        }
        for end in ["fromBlock", "toBlock"].iter().filter_map(|end| value.get(end)) {
            let end = Option::<Exact<BlockNumberOrTag>>::deserialize(end);
            if end.map_err(D::Error::custom)?.is_some_and(|end| end.0.is_pending()) {
                return Err(D::Error::custom("pending logs are not supported"));
            }
        }
        let filter = Filter::deserialize(value).map_err(D::Error::custom)?;
        Ok(Self { filter, positions })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_primitives::Bytes;
    use serde_json::json;

    #[test]
    fn a_filter_is_bounded_as_by_geth() {
        let read = |filter: Value| serde_json::from_value::<LogFilter>(filter);
        let addresses = |count: u64| -> Vec<_> {
            (0..count)
                .map(|i| Address::from_word(B256::from(alloy_primitives::U256::from(i))))
                .collect()
        };
        let topics = |count: u64| -> Vec<_> {
            (0..count).map(|i| B256::from(alloy_primitives::U256::from(i))).collect()
        };
        let full = json!({ "address": addresses(1_000), "topics": [topics(1_000), null, topics(1_000), topics(1_000)] });
        let bytes = read(full).unwrap().bytes();
        assert!((100_000..400_000).contains(&bytes), "{bytes}");
        for (filter, expected) in [
            (json!({ "address": addresses(1_001) }), "max addresses"),
            (
                json!({ "topics": [null, topics(1_001)] }),
                "max addresses or topics per search position",
            ),
            (json!({ "topics": [null, null, null, null, null] }), "max topics"),
            (json!({ "fromBlock": "pending" }), "pending logs are not supported"),
            (json!({ "fromBlock": "0x1", "toBlock": "pending" }), "pending logs are not supported"),
        ] {
            let error = read(filter).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    /// The same rule as in geth: `filterLogs` skips a log with fewer topics than the filter has positions.
    #[test]
    fn a_log_needs_a_topic_for_every_position() {
        let log = |count: u8| {
            let topics = (1..=count).map(B256::with_last_byte).collect();
            Log::new_unchecked(Address::ZERO, topics, Bytes::new())
        };
        let passing = |filter: Value| -> Vec<u8> {
            let filter: LogFilter = serde_json::from_value(filter).unwrap();
            (0..=4).filter(|count| filter.matches(&log(*count))).collect()
        };
        let first = B256::with_last_byte(1);
        assert_eq!(passing(json!({})), [0, 1, 2, 3, 4]);
        assert_eq!(passing(json!({ "topics": [] })), [0, 1, 2, 3, 4]);
        assert_eq!(passing(json!({ "topics": null })), [0, 1, 2, 3, 4]);
        assert_eq!(passing(json!({ "topics": [null] })), [1, 2, 3, 4]);
        assert_eq!(passing(json!({ "topics": [null, []] })), [2, 3, 4]);
        assert_eq!(passing(json!({ "topics": [first, null, null] })), [3, 4]);
        assert_eq!(passing(json!({ "topics": [[first, null], null, null, null] })), [4]);
        assert_eq!(passing(json!({ "topics": [null, first] })), Vec::<u8>::new());
    }
}
