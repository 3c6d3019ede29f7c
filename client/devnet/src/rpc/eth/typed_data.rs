//! Typed data (EIP-712) in requests, with limits on the input of the hashing library. That library recurses for every
//! level of brackets and for every type within a type, and writes out a type as often as it is referred to.

use crate::rpc::error::{RpcError, RpcResult};
use alloy_dyn_abi::TypedData;
use alloy_primitives::B256;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Maximum number of types in one request.
const MAX_TYPES: usize = 256;
/// Maximum number of fields of all types together.
const MAX_FIELDS: usize = 4096;
/// Maximum number of bytes of the name of a type, with its brackets.
const MAX_NAME: usize = 256;
/// Maximum number of dimensions of an array.
const MAX_BRACKETS: usize = 16;
/// Maximum depth of nested types, from the primary type down.
const MAX_DEPTH: usize = 32;
/// Maximum number of fields of a type with those of its nested types, each counted as often as it occurs.
const MAX_EXPANDED: usize = 16_384;
/// Maximum product of the number of values of the message and the bytes of the type definitions, which are hashed
/// with each value.
const MAX_WORK: usize = 256 << 20;

/// Returns the hash that is signed for typed data.
pub(super) fn signing_hash(data: Value) -> RpcResult<B256> {
    let invalid =
        |reason: String| RpcError::params(format!("the typed data is not valid: {reason}"));
    // Some clients send the data as JSON text.
    let data = match data {
        Value::String(text) => serde_json::from_str(&text).map_err(|e| invalid(e.to_string()))?,
        other => other,
    };
    check(&data).map_err(invalid)?;
    let data: TypedData = serde_json::from_value(data).map_err(|e| invalid(e.to_string()))?;
    data.eip712_signing_hash().map_err(|e| invalid(e.to_string()))
}

/// Checks typed data against all limits; the error is the reason.
fn check(data: &Value) -> Result<(), String> {
    let data = data.as_object().ok_or("expected an object")?;
    let none = Map::new();
    let types = data.get("types").and_then(Value::as_object).unwrap_or(&none);
    at_most(types.len(), MAX_TYPES, "types")?;
    let mut graph = HashMap::with_capacity(types.len());
    let (mut fields, mut bytes) = (0, 0);
    for (name, definition) in types {
        check_name(name)?;
        // The library refuses definitions of another form.
        let members = definition.as_array().map_or(&[][..], Vec::as_slice);
        fields += members.len();
        bytes += name.len();
        at_most(fields, MAX_FIELDS, "fields")?;
        let mut of_type = Vec::with_capacity(members.len());
        for member in members {
            let text = |key: &str| member.get(key).and_then(Value::as_str).unwrap_or_default();
            check_name(text("type"))?;
            bytes += text("type").len() + text("name").len() + 2;
            of_type.push(root(text("type")));
        }
        graph.insert(name.as_str(), of_type);
    }
    if let Some(primary) = data.get("primaryType").and_then(Value::as_str) {
        check_name(primary)?;
        expanded(root(primary), &graph, &mut HashMap::new(), 0)?;
    }
    let work = data.get("message").map_or(0, values).saturating_mul(bytes);
    at_most(work, MAX_WORK, "values of the message times bytes of its types")
}

fn at_most(found: usize, most: usize, what: &str) -> Result<(), String> {
    if found > most { Err(format!("more than {most} {what}")) } else { Ok(()) }
}

/// Checks the name of a type. EIP-712 has names and arrays, but no tuples.
fn check_name(name: &str) -> Result<(), String> {
    at_most(name.len(), MAX_NAME, "bytes in the name of a type")?;
    at_most(name.matches('[').count(), MAX_BRACKETS, "dimensions of an array")?;
    if name.contains(['(', ')']) {
        return Err(format!("{name:?} is not the name of a type"));
    }
    Ok(())
}

/// Returns the name of a type without its brackets.
fn root(name: &str) -> &str {
    name.split_once('[').map_or(name, |(root, _)| root)
}

/// The size of a type with all its nested types.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Number of fields, with those of nested types, each counted as often as it occurs.
    fields: usize,
    /// Depth of nested types.
    depth: usize,
}

/// Computes the size of a type `above` levels below the primary type. A type that contains itself is refused, since no
/// message could have it.
fn expanded<'a>(
    name: &'a str,
    graph: &HashMap<&'a str, Vec<&'a str>>,
    known: &mut HashMap<&'a str, Option<Size>>,
    above: usize,
) -> Result<Size, String> {
    let Some(fields) = graph.get(name) else { return Ok(Size { fields: 1, depth: 0 }) };
    match known.get(name) {
        None => {}
        Some(None) => return Err(format!("the type {name} contains itself")),
        Some(Some(size)) => return Ok(*size),
    }
    at_most(above + 1, MAX_DEPTH, "types within each other")?;
    known.insert(name, None);
    let mut size = Size { fields: 1, depth: 1 };
    for field in fields {
        let inner = expanded(field, graph, known, above + 1)?;
        size.fields += inner.fields;
        size.depth = size.depth.max(inner.depth + 1);
        at_most(size.fields, MAX_EXPANDED, "fields with those of the types within")?;
        at_most(size.depth, MAX_DEPTH, "types within each other")?;
    }
    known.insert(name, Some(size));
    Ok(size)
}

/// Counts the values in a value, with itself. The JSON parser has limited the depth of the recursion.
fn values(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(values).sum(),
        Value::Object(members) => members.values().map(values).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_primitives::b256;
    use serde_json::json;

    fn of_types(types: Value, message: Value) -> Value {
        json!({ "types": types, "primaryType": "T0", "domain": {}, "message": message })
    }

    fn reason(data: Value) -> String {
        signing_hash(data).unwrap_err().message().to_owned()
    }

    /// Returns types of which `T0` refers to `T1`, that to `T2` and so on, each `times` times.
    fn chain(length: usize, times: usize) -> Value {
        let field = |level: usize, index: usize| json!({ "name": format!("f{index}"), "type": format!("T{}", level + 1) });
        let mut types: Map<String, Value> = (0..length)
            .map(|level| (format!("T{level}"), (0..times).map(|i| field(level, i)).collect()))
            .collect();
        types.insert(format!("T{length}"), json!([{ "name": "x", "type": "uint256" }]));
        Value::Object(types)
    }

    /// The data and the hash are the example of EIP-712.
    #[test]
    fn the_hash_is_that_of_the_standard() {
        let person =
            json!([{ "name": "name", "type": "string" }, { "name": "wallet", "type": "address" }]);
        let data = json!({
            "types": {
                "EIP712Domain": [
                    { "name": "name", "type": "string" },
                    { "name": "version", "type": "string" },
                    { "name": "chainId", "type": "uint256" },
                    { "name": "verifyingContract", "type": "address" },
                ],
                "Person": person,
                "Mail": [
                    { "name": "from", "type": "Person" },
                    { "name": "to", "type": "Person" },
                    { "name": "contents", "type": "string" },
                ],
            },
            "primaryType": "Mail",
            "domain": {
                "name": "Ether Mail",
                "version": "1",
                "chainId": 1,
                "verifyingContract": "0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC",
            },
            "message": {
                "from": { "name": "Cow", "wallet": "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826" },
                "to": { "name": "Bob", "wallet": "0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB" },
                "contents": "Hello, Bob!",
            },
        });
        let hash = b256!("be609aee343fb3c4b28e1df9e632fca64fcfaede20f02e86244efddf30957bd2");
        assert_eq!(signing_hash(json!(data.to_string())).unwrap(), hash);
        assert_eq!(signing_hash(data).unwrap(), hash);
    }

    #[test]
    fn types_are_bounded_before_the_library_sees_them() {
        let one =
            |name: &str| of_types(json!({ "T0": [{ "name": "x", "type": name }] }), json!({}));
        // The deepest types come first, so that each of the others refers to one whose size is known.
        let mut backwards = chain(200, 1);
        backwards["T0"] = (1..200)
            .rev()
            .map(|level| json!({ "name": format!("f{level}"), "type": format!("T{level}") }))
            .collect();
        for (data, expected) in [
            (of_types(chain(3_000, 1), json!({})), "256 types"),
            (of_types(chain(200, 1), json!({})), "32 types within each other"),
            (of_types(chain(30, 2), json!({})), "16384 fields"),
            (of_types(backwards, json!({})), "32 types within each other"),
            (
                of_types(json!({ "T0": [{ "name": "x", "type": "T0[]" }] }), json!({})),
                "contains itself",
            ),
            (one(&format!("uint256{}", "[]".repeat(200_000))), "256 bytes"),
            (one(&format!("uint256{}", "[]".repeat(17))), "16 dimensions"),
            (one(&format!("{}uint256{}", "(".repeat(100), ")".repeat(100))), "not the name"),
            (json!("\"\""), "expected an object"),
            (json!([]), "expected an object"),
        ] {
            let reason = reason(data);
            assert!(reason.contains(expected), "{reason} is not about {expected}");
        }
        let mut data = one("uint256");
        data["primaryType"] = json!("(".repeat(100_000));
        assert!(reason(data).contains("256 bytes"));
        let many: Vec<_> =
            (0..5_000).map(|i| json!({ "name": format!("x{i}"), "type": "bool" })).collect();
        assert!(reason(of_types(json!({ "T0": many }), json!({}))).contains("4096 fields"));
    }

    #[test]
    fn what_is_hashed_is_bounded() {
        let fields: Vec<_> =
            (0..1_000).map(|i| json!({ "name": format!("x{i:0>200}"), "type": "bool" })).collect();
        let types = json!({ "T0": [{ "name": "all", "type": "T1[]" }], "T1": fields });
        let message = json!({ "all": vec![json!({}); 10_000] });
        assert!(reason(of_types(types, message)).contains("values of the message"));
    }

    proptest::proptest! {
        /// For any references between types the check ends, and a refusal has a reason.
        #[test]
        fn any_types_come_to_an_end(
            types in proptest::collection::vec(
                proptest::collection::vec((0..48_usize, 0..18_usize), 0..5),
                1..48,
            ),
            primary in 0..48_usize,
            is_text: bool,
        ) {
            let member = |(index, (to, brackets)): (usize, &(usize, usize))| {
                let name = format!("T{to}{}", "[]".repeat(*brackets));
                json!({ "name": format!("f{index}"), "type": name })
            };
            let types: Map<String, Value> = types
                .iter()
                .enumerate()
                .map(|(at, members)| {
                    (format!("T{at}"), members.iter().enumerate().map(member).collect())
                })
                .collect();
            let mut data = of_types(types.into(), json!({}));
            data["primaryType"] = json!(format!("T{primary}"));
            let data = if is_text { json!(data.to_string()) } else { data };
            if let Err(error) = signing_hash(data) {
                assert!(!error.message().is_empty());
            }
        }
    }

    /// The data reach the limits of depth and of dimensions, on a stack of the size that request threads have.
    #[test]
    fn all_that_is_allowed_fits_on_the_stack() {
        let nested =
            |depth: usize| (0..depth).fold(json!({ "x": 1 }), |inner, _| json!({ "f0": inner }));
        let brackets =
            json!({ "T0": [{ "name": "x", "type": format!("uint256{}", "[]".repeat(16)) }] });
        let arrays = (0..16).fold(json!(1), |inner, _| json!([inner]));
        let work = move || {
            signing_hash(of_types(chain(MAX_DEPTH - 1, 1), nested(MAX_DEPTH - 1))).unwrap();
            signing_hash(of_types(brackets, json!({ "x": arrays }))).unwrap();
        };
        let thread = std::thread::Builder::new().stack_size(crate::rpc::server::STACK);
        thread.spawn(work).unwrap().join().unwrap();
    }
}
