//! The name of the malformed field of a header. It is looked for only after decoding has failed.

use alloy_rlp::Header as RlpHeader;

/// Form of a header field.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// A string of exactly this number of bytes.
    Fixed(usize),
    /// An integer of at most this number of bytes, without leading zeros.
    Integer(usize),
    /// A string of any length.
    Bytes,
}

/// The header fields in their order (yellow paper §4.4.3, then EIP-1559, 4895, 4844, 4788, 7685, 7928,
/// 7843).
const FIELDS: [(&str, Shape); 23] = [
    ("parentHash", Shape::Fixed(32)),
    ("ommersHash", Shape::Fixed(32)),
    ("beneficiary", Shape::Fixed(20)),
    ("stateRoot", Shape::Fixed(32)),
    ("transactionsRoot", Shape::Fixed(32)),
    ("receiptsRoot", Shape::Fixed(32)),
    ("logsBloom", Shape::Fixed(256)),
    ("difficulty", Shape::Integer(32)),
    ("number", Shape::Integer(8)),
    ("gasLimit", Shape::Integer(8)),
    ("gasUsed", Shape::Integer(8)),
    ("timestamp", Shape::Integer(8)),
    ("extraData", Shape::Bytes),
    ("mixHash", Shape::Fixed(32)),
    ("nonce", Shape::Fixed(8)),
    ("baseFeePerGas", Shape::Integer(8)),
    ("withdrawalsRoot", Shape::Fixed(32)),
    ("blobGasUsed", Shape::Integer(8)),
    ("excessBlobGas", Shape::Integer(8)),
    ("parentBeaconBlockRoot", Shape::Fixed(32)),
    ("requestsHash", Shape::Fixed(32)),
    ("blockAccessListHash", Shape::Fixed(32)),
    ("slotNumber", Shape::Integer(8)),
];

/// Returns a sentence about the first malformed field of a header, given the payload of its list; `None`
/// if every field is well-formed.
pub(super) fn describe(mut payload: &[u8]) -> Option<String> {
    for (name, shape) in FIELDS {
        if payload.is_empty() {
            // Every header has the fields up to the nonce; later forks brought the others.
            let required = FIELDS.iter().take(15).any(|(required, _)| *required == name);
            return required.then(|| format!("the field {name} is missing"));
        }
        let item = match RlpHeader::decode(&mut payload) {
            Ok(item) => item,
            Err(error) => return Some(format!("the field {name} is malformed ({error})")),
        };
        // `decode` has checked that the payload is there.
        let (value, rest) = payload.split_at_checked(item.payload_length)?;
        payload = rest;
        if item.list {
            return Some(format!("the field {name} is a list, a string was expected"));
        }
        let found = value.len();
        match shape {
            Shape::Fixed(expected) if found != expected => {
                return Some(format!(
                    "the field {name} has {found} bytes, {expected} were expected"
                ));
            }
            Shape::Integer(limit) if found > limit => {
                return Some(format!(
                    "the field {name} has {found} bytes, at most {limit} were expected"
                ));
            }
            Shape::Integer(_) if value.first() == Some(&0) => {
                return Some(format!("the number in the field {name} starts with a zero byte"));
            }
            _ => {}
        }
    }
    (!payload.is_empty())
        .then(|| format!("{} bytes follow the last field, {}", payload.len(), FIELDS[22].0))
}
