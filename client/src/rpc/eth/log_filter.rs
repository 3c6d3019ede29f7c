//! Which logs a client wants.

use alloy_primitives::Log;
use alloy_rpc_types_eth::Filter;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

/// A filter for logs that knows how many topics it is about.
///
/// A position without a topic takes any topic, but there must be one: `[null]` passes by a log without topics. The
/// library's filter forgets such positions.
#[derive(Debug, Clone, Default)]
pub(in crate::rpc) struct LogFilter {
    /// Blocks, addresses, and topics by their position.
    pub(in crate::rpc) filter: Filter,
    /// Topics that a log must have at least.
    positions: usize,
}

impl LogFilter {
    /// Whether a log has its address and topics.
    pub(in crate::rpc) fn matches(&self, log: &Log) -> bool {
        log.topics().len() >= self.positions && self.filter.matches(log)
    }
}

impl<'de> Deserialize<'de> for LogFilter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let positions = value.get("topics").and_then(Value::as_array).map_or(0, Vec::len);
        let filter = Filter::deserialize(value).map_err(D::Error::custom)?;
        Ok(Self { filter, positions })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_primitives::{Address, B256, Bytes};
    use serde_json::json;

    /// geth: `filterLogs` leaves out a log with fewer topics than the filter has positions.
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
