//! Calls that are refused before they run, and how others end.

use crate::{
    support::{ALICE, BOB, Devnet, args},
    transactions::{deploy, word},
};
use serde_json::{Value, json};

/// As geth does.
#[test]
fn a_call_is_for_this_chain_and_pays_the_base_fee() {
    let node = Devnet::start("mpt", args![]);
    let call = |field: &str, value: &str| json!([{ "from": ALICE, "to": BOB, field: value }]);
    for method in ["eth_call", "eth_estimateGas", "eth_createAccessList"] {
        let (code, message) = node.error(method, call("chainId", "0x1"));
        assert_eq!(code, -32000);
        assert_eq!(message, "chainId does not match node's (have=1, want=1337)");
        node.call(method, call("chainId", "0x539"));
        for field in ["gasPrice", "maxFeePerGas"] {
            let (_, message) = node.error(method, call(field, "0x7"));
            assert!(message.contains("max fee per gas less than block base fee"), "{message}");
            node.call(method, call(field, "0x0"));
            node.call(method, call(field, "0xba43b7400"));
        }
    }
}

#[test]
fn an_access_list_leaves_the_reason_of_a_revert_to_eth_call() {
    let node = Devnet::start("mpt", args![]);
    let contract = deploy(&node);
    let bad = json!([{ "from": ALICE, "to": contract, "data": format!("0x{}", "ff".repeat(32)) }]);
    assert_eq!(node.error("eth_call", bad.clone()).1, "execution reverted: no");
    assert_eq!(node.call("eth_createAccessList", bad)["error"], "execution reverted");
    let good = json!([{ "from": ALICE, "to": contract, "data": word(1) }]);
    assert_eq!(node.call("eth_createAccessList", good)["error"], Value::Null);
}
