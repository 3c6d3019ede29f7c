//! Tests of deeply nested requests. A reader that calls itself for each level must not use up its
//! stack.

use crate::support::{ALICE, BOB, Devnet, args};
use serde_json::{Value, json};

/// The number of levels in a request. Each level costs a recursive reader a call.
const LEVELS: usize = 200_000;

fn typed(types: Value) -> Value {
    json!({ "types": types, "primaryType": "T0", "domain": {}, "message": {} })
}

#[test]
fn typed_data_do_not_end_the_node() {
    let chain: serde_json::Map<String, Value> = (0..3_000)
        .map(|level| {
            let next = format!("T{}", level + 1);
            (format!("T{level}"), json!([{ "name": "x", "type": next }]))
        })
        .collect();
    let brackets = format!("uint256{}", "[]".repeat(LEVELS));
    let node = Devnet::start("raw", args![]);
    for data in [typed(chain.into()), typed(json!({ "T0": [{ "name": "x", "type": brackets }] }))] {
        // Text is read by other code than an object.
        for data in [json!(data.to_string()), data] {
            let (code, message) = node.error("eth_signTypedData_v4", json!([ALICE, data]));
            assert!(code == -32602 && message.contains("more than"), "{code} {message}");
            // The node does not have the key of this account, so it computes no hash.
            let nobody = "0x00000000000000000000000000000000000000aa";
            let (_, message) = node.error("eth_signTypedData_v4", json!([nobody, data]));
            assert!(message.contains("unknown account"), "{message}");
        }
    }
    assert_eq!(node.call("eth_chainId", json!([])), "0x539");
}

/// Returns a request as text, because no JSON value can be nested that deep.
fn request(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
}

#[test]
fn no_parameter_is_too_deep() {
    let node = Devnet::start("raw", args![]);
    let lists = format!("{}1{}", "[".repeat(LEVELS), "]".repeat(LEVELS));
    let objects = format!("{}1{}", r#"{"muxTracer":"#.repeat(LEVELS), "}".repeat(LEVELS));
    let call = format!(r#"{{"to":"{BOB}"}}"#);
    for deep in [&lists, &objects] {
        for (method, params) in [
            ("eth_call", format!(r#"[{deep},"latest"]"#)),
            ("eth_call", format!(r#"[{call},"latest",{deep}]"#)),
            ("eth_call", format!(r#"[{call},"latest",{{"{ALICE}":{{"state":{deep}}}}}]"#)),
            ("eth_call", format!(r#"[{call},"latest",{{}},{deep}]"#)),
            ("eth_simulateV1", format!(r#"[{deep},"latest"]"#)),
            ("eth_simulateV1", format!(r#"[{{"blockStateCalls":[{deep}]}},"latest"]"#)),
            ("eth_getLogs", format!(r#"[{{"topics":{deep}}}]"#)),
            ("eth_newFilter", format!(r#"[{{"address":{deep}}}]"#)),
            (
                "debug_traceCall",
                format!(r#"[{call},"latest",{{"tracer":"muxTracer","tracerConfig":{deep}}}]"#),
            ),
            ("trace_call", format!(r#"[{call},{deep},"latest"]"#)),
            ("eth_signTypedData_v4", format!(r#"["{ALICE}",{deep}]"#)),
            ("evm_mine", format!("[{deep}]")),
            ("polytrie_verifyProof", format!(r#"[{deep},"0x00"]"#)),
        ] {
            let (status, body) = node.post(&request(method, &params));
            assert!((200..500).contains(&status) && body.contains("error"), "{method}: {body}");
        }
    }
    // The deepest configuration that is accepted.
    let mux = (0..100).fold(json!({}), |inner, _| json!({ "muxTracer": inner }));
    let options = json!({ "tracer": "muxTracer", "tracerConfig": mux });
    node.error("debug_traceCall", json!([{ "to": BOB }, "latest", options]));
    assert_eq!(node.call("eth_chainId", json!([])), "0x539");
}

/// Returns nested RLP lists of about `bytes` bytes.
fn nested_rlp(bytes: usize) -> Vec<u8> {
    let mut rlp = vec![0xc0];
    let mut heads = Vec::new();
    let mut length = rlp.len();
    while length < bytes {
        let digits: Vec<u8> = length.to_be_bytes().into_iter().skip_while(|b| *b == 0).collect();
        let head = match length {
            0..=55 => vec![0xc0 + u8::try_from(length).unwrap()],
            _ => [&[0xf7 + u8::try_from(digits.len()).unwrap()], digits.as_slice()].concat(),
        };
        length += head.len();
        heads.push(head);
    }
    heads.reverse();
    let mut all = heads.concat();
    all.append(&mut rlp);
    all
}

#[test]
fn no_list_of_rlp_is_too_deep() {
    let node = Devnet::start("raw", args![]);
    let rlp = nested_rlp(LEVELS);
    for kind in [&[][..], &[1], &[2], &[3], &[4]] {
        let raw = format!("0x{}", alloy_primitives::hex::encode([kind, &rlp].concat()));
        for method in ["eth_sendRawTransaction", "debug_traceBlock"] {
            assert_eq!(node.error(method, json!([raw])).0, -32602, "{method}");
        }
    }
    assert_eq!(node.call("eth_chainId", json!([])), "0x539");
}

/// The nesting of a trace equals the depth of the calls.
#[test]
fn the_deepest_calls_are_traced() {
    let node =
        Devnet::start("raw", args!["--rpc.gascap", "1000000000000000", "--gas-limit", "60000000"]);
    // The contract calls itself with all gas: PUSH0 five times, ADDRESS, GAS, CALL.
    let code = "0x5f5f5f5f5f305af100";
    node.call("anvil_setCode", json!([BOB, code]));
    let call = json!({ "from": ALICE, "to": BOB, "gas": "0x38d7ea4c68000" });
    for tracer in ["callTracer", "flatCallTracer"] {
        let trace = node.post(&request(
            "debug_traceCall",
            &json!([call, "latest", { "tracer": tracer }]).to_string(),
        ));
        assert!(
            trace.1.contains("result")
                && trace.1.matches("CALL").count() + trace.1.matches("\"call\"").count() > 1_000,
            "{tracer}"
        );
    }
    node.post(&request("trace_call", &json!([call, ["trace"], "latest"]).to_string()));
    assert_eq!(node.call("eth_chainId", json!([])), "0x539");
}
