//! Tests that the methods exist on which tools rely.

use crate::{
    support::{ALICE, BOB, Devnet, args},
    transactions::word,
};
use serde_json::{Value, json};

/// The error code of an unknown method.
const MISSING: i64 = -32601;

#[test]
fn nothing_that_tools_ask_for_is_missing() {
    let node = Devnet::start("mpt", args![]);
    let names = "
        eth_accounts eth_baseFee eth_blobBaseFee eth_blockNumber eth_call eth_chainId eth_coinbase eth_config
        eth_capabilities eth_createAccessList eth_estimateGas eth_feeHistory eth_fillTransaction eth_gasPrice
        eth_getBalance eth_getBlockAccessList eth_getBlockByHash eth_getBlockByNumber eth_getBlockReceipts
        eth_getBlockTransactionCountByHash eth_getBlockTransactionCountByNumber eth_getCode eth_getFilterChanges
        eth_getFilterLogs eth_getLogs eth_getProof eth_getStorageAt eth_getStorageValues
        eth_getTransactionByBlockHashAndIndex eth_getTransactionByBlockNumberAndIndex eth_getTransactionByHash
        eth_getTransactionCount eth_getTransactionReceipt eth_getUncleByBlockHashAndIndex
        eth_getUncleByBlockNumberAndIndex eth_getUncleCountByBlockHash eth_getUncleCountByBlockNumber
        eth_maxPriorityFeePerGas eth_newBlockFilter eth_newFilter eth_newPendingTransactionFilter
        eth_resend eth_sendRawTransaction eth_sendTransaction eth_sign eth_signTransaction eth_signTypedData_v4
        eth_simulateV1 eth_syncing eth_uninstallFilter personal_sign
        net_version net_listening net_peerCount web3_clientVersion web3_sha3
        txpool_status txpool_content txpool_contentFrom txpool_inspect
        debug_getRawHeader debug_getRawBlock debug_getRawTransaction debug_getRawReceipts debug_getBadBlocks
        debug_traceTransaction debug_traceBlock debug_traceBlockByNumber debug_traceBlockByHash debug_traceCall
        debug_executionWitness debug_clearTxpool debug_getRawBlockAccessList trace_transaction trace_get
        trace_block trace_filter trace_replayTransaction trace_replayBlockTransactions trace_call
        evm_snapshot evm_revert evm_mine evm_increaseTime evm_setNextBlockTimestamp evm_setTime evm_setAutomine
        evm_setIntervalMining evm_setBlockGasLimit evm_setAccountNonce
        anvil_setBalance anvil_addBalance anvil_setCode anvil_setNonce anvil_setStorageAt anvil_impersonateAccount
        anvil_stopImpersonatingAccount anvil_autoImpersonateAccount anvil_mine anvil_dumpState anvil_loadState
        anvil_reset anvil_setNextBlockBaseFeePerGas anvil_dropTransaction anvil_dropAllTransactions
        anvil_removePoolTransactions anvil_setCoinbase anvil_setLoggingEnabled anvil_setMinGasPrice anvil_nodeInfo
        anvil_metadata anvil_setBlockTimestampInterval anvil_removeBlockTimestampInterval anvil_rollback
        anvil_getAutomine anvil_getIntervalMining anvil_increaseTime anvil_setTime
        anvil_snapshot anvil_revert anvil_reorg eth_getAccount eth_getAccountInfo eth_sendTransactionSync
        eth_sendUnsignedTransaction eth_requestAccounts eth_networkId
        eth_getRawTransactionByBlockHashAndIndex eth_getRawTransactionByBlockNumberAndIndex
        evm_mine_detailed anvil_mine_detailed hardhat_dropAllTransactions
        hardhat_setBalance hardhat_setCode hardhat_setNonce hardhat_setStorageAt hardhat_impersonateAccount
        hardhat_stopImpersonatingAccount hardhat_mine hardhat_dumpState hardhat_loadState hardhat_reset
        hardhat_setNextBlockBaseFeePerGas hardhat_dropTransaction hardhat_setCoinbase hardhat_setPrevRandao
        hardhat_setLoggingEnabled hardhat_setMinGasPrice hardhat_metadata hardhat_getAutomine
        ots_getApiLevel ots_hasCode ots_getBlockDetails ots_getBlockDetailsByHash ots_getBlockTransactions
        ots_getInternalOperations ots_traceTransaction ots_getTransactionError ots_searchTransactionsBefore
        ots_searchTransactionsAfter ots_getTransactionBySenderAndNonce ots_getContractCreator
        erigon_getHeaderByNumber rpc_modules testing_buildBlockV1
        testing_commitBlockV1
        polytrie_getStateLayer polytrie_getProof polytrie_verifyProof polytrie_metrics";
    let missing: Vec<_> = names
        .split_whitespace()
        // Without parameters a known method is done or refused with another code.
        .filter(|name| node.answer(name, json!([]))["error"]["code"] == MISSING)
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn tracers_of_geth_are_there() {
    let node = Devnet::start("mpt", args![]);
    let hash = node.send(ALICE, BOB, 1);
    let call = json!({ "from": ALICE, "to": BOB, "value": "0x1" });
    for tracer in ["callTracer", "prestateTracer", "4byteTracer", "noopTracer", "flatCallTracer"] {
        let options = json!({ "tracer": tracer });
        let trace = node.call("debug_traceTransaction", json!([hash, options]));
        assert!(trace.is_object() || trace.is_array(), "{tracer}: {trace}");
        node.call("debug_traceCall", json!([call, "latest", options]));
        let block = node.call("debug_traceBlockByNumber", json!(["0x1", options]));
        assert_eq!(block[0]["result"], trace, "{tracer}");
    }
    let steps = node.call("debug_traceTransaction", json!([hash]));
    assert_eq!((&steps["failed"], &steps["gas"]), (&json!(false), &json!(21_000)));
    let diff = json!({ "tracer": "prestateTracer", "tracerConfig": { "diffMode": true } });
    let diff = node.call("debug_traceTransaction", json!([hash, diff]));
    assert_ne!(diff["post"], Value::Null);
    let rlp = node.call("debug_getRawBlock", json!(["0x1"]));
    let traces = node.call("debug_traceBlock", json!([rlp, { "tracer": "callTracer" }]));
    assert_eq!(traces[0]["txHash"], hash);
}

#[test]
fn settings_of_tracers_that_say_nothing_are_none() {
    let node = Devnet::start("mpt", args![]);
    let hash = node.send(ALICE, BOB, 1);
    let mux = |settings: Value| {
        let tracers = json!({
            "4byteTracer": settings, "noopTracer": settings,
            "callTracer": settings, "prestateTracer": settings, "flatCallTracer": settings,
        });
        let options = json!({ "tracer": "muxTracer", "tracerConfig": tracers });
        node.call("debug_traceTransaction", json!([hash, options]))
    };
    let answer = mux(json!({}));
    assert_eq!(answer["noopTracer"], json!({}));
    assert_eq!(answer["callTracer"]["gasUsed"], "0x5208");
    assert_eq!(mux(Value::Null), answer);
}

#[test]
fn what_the_schema_requires_must_be_there() {
    let node = Devnet::start("mpt", args![]);
    let block = node.call("eth_getBlockByNumber", json!(["0x0", false]));
    for (method, params) in [
        ("eth_getBlockByNumber", json!(["latest"])),
        ("eth_getBlockByHash", json!([block["hash"]])),
        ("eth_getProof", json!([ALICE])),
    ] {
        let (code, message) = node.error(method, params);
        assert_eq!(code, -32602, "{method}: {message}");
        assert!(message.starts_with("missing value for required argument"), "{message}");
    }
    let (code, message) = node.error("eth_feeHistory", json!(["0x", "latest", []]));
    assert_eq!(code, -32602, "{message}");
}

#[test]
fn a_proof_without_a_block_is_of_the_head() {
    for layer in polytrie::layers::LAYERS.iter().filter(|layer| layer.canonical) {
        let node = Devnet::start(layer.name, args![]);
        node.send(ALICE, BOB, 1);
        let proof = node.call("eth_getProof", json!([ALICE, []]));
        let of_head = node.call("eth_getProof", json!([ALICE, [], "latest"]));
        assert_eq!(proof, of_head, "{}", layer.name);
        assert_eq!(proof["nonce"], "0x1", "{}", layer.name);
    }
}

/// The constructor reverts at the time of the head, so the estimate must use the time of the next block.
#[test]
fn gas_is_estimated_for_the_next_block() {
    let node = Devnet::start("mpt", args![]);
    node.call("evm_mine", json!([]));
    let head = node.call("eth_getBlockByNumber", json!(["latest", false]));
    let time = head["timestamp"].as_str().unwrap().trim_start_matches("0x");
    // PUSH8 time, TIMESTAMP, GT, JUMPI over a revert.
    let code = format!("0x67{time:0>16}42116011575f5ffd5b00");
    let call = json!({ "from": ALICE, "data": code });
    let (code, _) = node.error("eth_estimateGas", json!([call, "latest"]));
    assert_eq!(code, 3);
    node.call("eth_estimateGas", json!([call]));
}

/// The answers of tracers equal those of geth: the preimages, a missing `result`, and log indices
/// counted from the start of the block.
#[test]
fn tracers_answer_as_those_of_geth() {
    let node = Devnet::start("mpt", args!["--no-mining"]);
    let trace = |call: &Value, tracer: &str, config: Value| {
        let options = json!({ "tracer": tracer, "tracerConfig": config });
        node.call("debug_traceCall", json!([call, "latest", options]))
    };
    let hashes = trace(&json!({ "data": "0x5f5f205000" }), "keccak256PreimageTracer", Value::Null);
    let empty = "0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470";
    assert_eq!(hashes, json!({ empty: "0x" }));
    let call = json!({ "data": "0x0c" });
    assert_eq!(
        trace(&call, "callTracer", json!({}))["error"],
        "invalid opcode: opcode 0xc not defined"
    );
    // RJUMP of EOF is in no fork.
    let eof = trace(&json!({ "data": "0xe0" }), "callTracer", json!({}));
    assert_eq!(eof["error"], "invalid opcode: RJUMP");
    let flat = trace(&json!({ "data": "0x01" }), "flatCallTracer", json!({}));
    assert_eq!(flat[0]["error"], "stack underflow (0 <=> 2)");
    assert_eq!(flat[0].get("result"), None);
    let flat = trace(&call, "flatCallTracer", json!({ "convertParityErrors": true }));
    assert_eq!(flat[0]["error"], "Bad instruction");

    // The constructor writes two empty logs.
    let send = json!([{ "from": ALICE, "data": "0x5f5fa05f5fa000", "gas": "0x30d40" }]);
    let hashes = [(); 2].map(|()| node.call("eth_sendTransaction", send.clone()));
    node.call("evm_mine", json!([]));
    let options = json!({ "tracer": "callTracer", "tracerConfig": { "withLog": true } });
    let trace = node.call("debug_traceTransaction", json!([hashes[1], options]));
    assert_eq!(
        (&trace["logs"][0]["index"], &trace["logs"][1]["index"]),
        (&json!("0x2"), &json!("0x3"))
    );
}

/// `erc7562Tracer` and `keccak256PreimageTracer` record a step even if there is not enough gas for it.
#[test]
fn a_step_counts_though_it_cannot_be_paid() {
    let node = Devnet::start("mpt", args![]);
    let trace = |data: &str, gas: u64, tracer: &str| {
        let call = json!({ "from": ALICE, "data": data, "gas": format!("{gas:#x}") });
        node.call("debug_traceCall", json!([call, "latest", { "tracer": tracer }]))
    };
    // The code is PUSH2 0xffff, EXTCODESIZE.
    let cold = trace("0x61ffff3b", 53_000 + 4 * 16 + 2 + 3 + 2_599, "erc7562Tracer");
    let account = "0x000000000000000000000000000000000000ffff";
    assert_eq!(cold["error"], "out of gas", "{cold}");
    assert_eq!(cold["contractSize"], json!({ account: { "contractSize": 0, "opcode": 59 } }));
    // The code is PUSH1 7, SLOAD.
    let slot = trace("0x600754", 53_000 + 3 * 16 + 2 + 3 + 99, "erc7562Tracer");
    assert_eq!(slot["accessedSlots"]["reads"], json!({ word(7): [word(0)] }), "{slot}");
    // The code is PUSH1 3, PUSH0, KECCAK256. The memory is empty and there is no gas to grow it.
    let hash = trace("0x60035f20", 53_000 + 4 * 16 + 2 + 5 + 30, "keccak256PreimageTracer");
    assert_eq!(hash.as_object().unwrap().values().collect::<Vec<_>>(), ["0x000000"], "{hash}");
    // An input larger than geth copies is left out, and does not exceed the limit of the answer.
    let huge = format!("0x7f{}5f20", "ff".repeat(32));
    for tracer in ["erc7562Tracer", "keccak256PreimageTracer"] {
        let answer = trace(&huge, 100_000, tracer);
        assert_eq!(answer.get("keccak"), None, "{answer}");
    }
    // The empty initcode runs no instruction: PUSH0 x 3, CREATE.
    let create = trace("0x5f5f5ff0", 100_000, "erc7562Tracer");
    assert_eq!(create["calls"][0]["usedOpcodes"], json!({}), "{create}");
}

#[test]
fn a_timeout_of_a_trace_is_a_duration() {
    let node = Devnet::start("mpt", args![]);
    let hash = node.send(ALICE, BOB, 1);
    let params = |timeout: &str| json!([hash, { "timeout": timeout }]);
    let (code, message) = node.error("debug_traceTransaction", params("x"));
    assert!(code == -32602 && message.starts_with("timeout is \"x\", expected"), "{message}");
    node.call("debug_traceTransaction", params("1m30s"));
}

#[test]
fn what_anvil_calls_by_other_names() {
    let node = Devnet::start("mpt", args!["--no-mining"]);
    let same = |names: [&str; 2]| {
        let [a, b] = names.map(|name| node.call(name, json!([])));
        assert_eq!(a, b, "{names:?}");
    };
    same(["eth_accounts", "eth_requestAccounts"]);
    same(["net_version", "eth_networkId"]);
    assert_eq!(node.call("rpc_modules", json!([]))["trace"], "1.0");

    let hash = node.send(ALICE, BOB, 1);
    let mined = node.call("evm_mine_detailed", json!([{ "blocks": 2 }]));
    assert_eq!(mined.as_array().unwrap().len(), 2);
    assert_eq!(mined[0]["transactions"][0]["hash"], hash);
    assert_eq!(mined[1], node.call("eth_getBlockByNumber", json!(["0x2", true])));
    assert_eq!(node.call("anvil_mine_detailed", json!([]))[0]["number"], "0x3");

    let raw = node.call("eth_getRawTransactionByHash", json!([hash]));
    let block = &mined[0]["hash"];
    for (name, block) in [
        ("eth_getRawTransactionByBlockNumberAndIndex", &json!("0x1")),
        ("eth_getRawTransactionByBlockHashAndIndex", block),
    ] {
        assert_eq!(node.call(name, json!([block, "0x0"])), raw);
        assert_eq!(node.call(name, json!([block, "0x1"])), Value::Null);
    }
    for clear in ["hardhat_dropAllTransactions", "debug_clearTxpool"] {
        node.send(ALICE, BOB, 1);
        assert_eq!(node.call(clear, json!([])), Value::Null);
        assert_eq!(node.call("txpool_status", json!([]))["pending"], "0x0", "{clear}");
    }
}
