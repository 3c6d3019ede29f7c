//! Requests that are almost valid: a valid one for each kind of parameter, with random values put into it.

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use serde_json::{Map, Number, Value, json};

/// Valid parameters of methods. A text that begins with `$` stands for something of the chain.
const GOOD: &[(&str, &str)] = &[
    (
        "eth_call",
        r#"[{"from":"$alice","to":"$contract","data":"$word","gas":"0x30000"},"latest",{"$contract":{"balance":"0x1","nonce":"0x2","code":"0x345f55","stateDiff":{"$word":"$word"}},"0x0000000000000000000000000000000000000004":{"movePrecompileToAddress":"$bob"}},{"number":"0x20","time":"0x80000000","gasLimit":"0x989680","baseFeePerGas":"0x1","feeRecipient":"$bob","prevRandao":"$word","blobBaseFee":"0x1","blockHash":{"0x1":"$word"}}]"#,
    ),
    (
        "eth_estimateGas",
        r#"[{"from":"$alice","to":"$contract","input":"$word","value":"0x0","maxFeePerGas":"0x77359400","maxPriorityFeePerGas":"0x1"},"pending",{"$alice":{"balance":"0xffffffffffffffff"}}]"#,
    ),
    (
        "eth_createAccessList",
        r#"[{"from":"$alice","to":"$contract","data":"$word","accessList":[{"address":"$contract","storageKeys":["$word"]}]},"latest",{"$contract":{"state":{"$word":"$word"}}}]"#,
    ),
    (
        "eth_fillTransaction",
        r#"[{"from":"$alice","to":"$bob","value":"0x1","blobVersionedHashes":["$word"],"maxFeePerBlobGas":"0x1"}]"#,
    ),
    (
        "eth_sendTransaction",
        r#"[{"from":"$alice","to":"$contract","data":"$word","nonce":"0x5","gas":"0x30000","gasPrice":"0x77359400"}]"#,
    ),
    (
        "eth_sendTransaction",
        r#"[{"from":"$alice","data":"0x345f5560806000f3","maxFeePerGas":"0x77359400"}]"#,
    ),
    (
        "eth_sendTransaction",
        r#"[{"from":"$alice","to":"$bob","authorizationList":[{"chainId":"0x539","address":"$contract","nonce":"0x0","yParity":"0x0","r":"$word","s":"$word"}]}]"#,
    ),
    (
        "eth_signTransaction",
        r#"[{"from":"$alice","to":"$bob","gas":"0x5208","gasPrice":"0x77359400","nonce":"0x9","type":"0x1","accessList":[]}]"#,
    ),
    ("eth_sendRawTransaction", r#"["$raw"]"#),
    ("eth_sign", r#"["$alice","0xdeadbeef"]"#),
    ("personal_sign", r#"["0xdeadbeef","$alice"]"#),
    (
        "eth_signTypedData_v4",
        r#"["$alice",{"types":{"EIP712Domain":[{"name":"name","type":"string"},{"name":"chainId","type":"uint256"}],"Mail":[{"name":"to","type":"Person[]"},{"name":"n","type":"uint256[2][]"},{"name":"b","type":"bytes32"}],"Person":[{"name":"wallet","type":"address"},{"name":"bio","type":"string"}]},"primaryType":"Mail","domain":{"name":"x","chainId":1337},"message":{"to":[{"wallet":"$bob","bio":"y"}],"n":[[1,"0x2"]],"b":"$word"}}]"#,
    ),
    ("eth_getBalance", r#"["$alice",{"blockHash":"$block","requireCanonical":true}]"#),
    ("eth_getStorageAt", r#"["$contract","0x0","safe"]"#),
    ("eth_getStorageValues", r#"[{"$contract":["0x0","$word"]},"latest"]"#),
    ("eth_getProof", r#"["$contract",["0x0","$word"],"0x3"]"#),
    ("eth_getAccountInfo", r#"["$alice",{"blockNumber":"0x2"}]"#),
    ("eth_getBlockByNumber", r#"["earliest",true]"#),
    ("eth_getBlockByHash", r#"["$block",false]"#),
    ("eth_getBlockReceipts", r#"["pending"]"#),
    ("eth_getTransactionByHash", r#"["$tx"]"#),
    ("eth_getTransactionByBlockHashAndIndex", r#"["$block","0x0"]"#),
    ("eth_getRawTransactionByBlockNumberAndIndex", r#"["0x3","0x0"]"#),
    ("eth_getUncleByBlockNumberAndIndex", r#"["0x3","0x0"]"#),
    ("eth_feeHistory", r#"["0x4","latest",[0,12.5,50,100]]"#),
    (
        "eth_getLogs",
        r#"[{"fromBlock":"0x0","toBlock":"latest","address":["$contract"],"topics":[["$word",null],null]}]"#,
    ),
    ("eth_getLogs", r#"[{"blockHash":"$block","address":"$contract","topics":[]}]"#),
    ("eth_newFilter", r#"[{"fromBlock":"0x1","address":"$contract","topics":["$word"]}]"#),
    ("eth_getFilterChanges", r#"["0x1"]"#),
    ("eth_getFilterLogs", r#"["0x1"]"#),
    ("eth_subscribe", r#"["logs",{"address":"$contract","topics":[]}]"#),
    ("eth_subscribe", r#"["transactionReceipts",{"transactionHashes":["$tx"]}]"#),
    (
        "eth_simulateV1",
        r#"[{"blockStateCalls":[{"blockOverrides":{"number":"0x9","time":"0x90000000","gasLimit":"0x989680","feeRecipient":"$bob","baseFeePerGas":"0x1","withdrawals":[{"index":"0x0","validatorIndex":"0x1","address":"$bob","amount":"0x1"}]},"stateOverrides":{"$contract":{"code":"0x5f54345f5560206000f3"}},"calls":[{"from":"$alice","to":"$contract","input":"$word"},{"to":"$bob","value":"0x1"}]},{"calls":[{"from":"$bob","data":"0x345f55"}]}],"validation":false,"traceTransfers":true,"returnFullTransactions":true},"latest"]"#,
    ),
    (
        "testing_buildBlockV1",
        r#"["$block",{"timestamp":"0x90000000","prevRandao":"$word","suggestedFeeRecipient":"$bob","withdrawals":[],"parentBeaconBlockRoot":"$word"},["$raw"],"0x00"]"#,
    ),
    (
        "debug_traceCall",
        r#"[{"from":"$alice","to":"$contract","data":"$word"},"latest",{"tracer":"callTracer","tracerConfig":{"onlyTopCall":false,"withLog":true},"timeout":"1s","stateOverrides":{"$contract":{"balance":"0x1"}},"blockOverrides":{"number":"0x9"}}]"#,
    ),
    (
        "debug_traceCall",
        r#"[{"from":"$alice","data":"$word"},"latest",{"tracer":"prestateTracer","tracerConfig":{"diffMode":true,"disableCode":true,"disableStorage":false,"includeEmpty":true},"txIndex":"0x0"}]"#,
    ),
    (
        "debug_traceCall",
        r#"[{"to":"$contract","data":"$word"},"latest",{"tracer":"muxTracer","tracerConfig":{"callTracer":{},"flatCallTracer":{"convertParityErrors":true,"includePrecompiles":true},"4byteTracer":{},"erc7562Tracer":{"stackTopItemsSize":3,"ignoredOpcodes":{"0x50":{}},"withLog":true}}}]"#,
    ),
    (
        "debug_traceTransaction",
        r#"["$tx",{"enableMemory":true,"enableReturnData":true,"disableStorage":false,"limit":100,"reexec":128}]"#,
    ),
    ("debug_traceTransaction", r#"["$tx",{"tracer":"keccak256PreimageTracer"}]"#),
    ("debug_traceBlockByNumber", r#"["0x3",{"tracer":"noopTracer"}]"#),
    ("debug_traceBlock", r#"["0x00",{"tracer":"callTracer"}]"#),
    ("debug_getRawBlock", r#"["0x2"]"#),
    ("debug_executionWitness", r#"["0x3"]"#),
    (
        "trace_call",
        r#"[{"from":"$alice","to":"$contract","data":"$word"},["trace","vmTrace","stateDiff"],"latest"]"#,
    ),
    ("trace_callMany", r#"[[[{"to":"$contract","data":"$word"},["trace"]]],"latest"]"#),
    (
        "trace_filter",
        r#"[{"fromBlock":"0x0","toBlock":"0x3","fromAddress":["$alice"],"toAddress":["$contract"],"after":0,"count":9,"mode":"union"}]"#,
    ),
    ("trace_get", r#"["$tx",["0x0"]]"#),
    ("trace_replayBlockTransactions", r#"["0x3",["trace","stateDiff"]]"#),
    ("ots_searchTransactionsBefore", r#"["$alice",0,5]"#),
    ("ots_getTransactionBySenderAndNonce", r#"["$alice",1]"#),
    ("ots_traceTransaction", r#"["$tx"]"#),
    ("ots_getBlockTransactions", r#"[3,0,5]"#),
    ("txpool_contentFrom", r#"["$alice"]"#),
    ("polytrie_getProof", r#"["$contract",["0x0"],"latest"]"#),
    (
        "polytrie_verifyProof",
        r#"[{"address":"$contract","account":{"nonce":"0x1","balance":"0x0","codeHash":"$word"},"storage":[{"slot":"0x0","value":"0x5"}],"commitment":{"layer":"mpt","digest":"$word"},"proof":["0x00"]},"$word"]"#,
    ),
    ("anvil_setBalance", r#"["$alice","0xde0b6b3a7640000"]"#),
    ("anvil_setStorageAt", r#"["$contract","0x0","$word"]"#),
    ("anvil_setCode", r#"["$bob","0x5f545f5260205ff3"]"#),
    ("anvil_setNonce", r#"["$bob","0x7"]"#),
    ("anvil_loadState", r#"["0x1f8b08000000000000ff"]"#),
    ("anvil_mine", r#"["0x2","0x3"]"#),
    ("evm_mine", r#"[{"timestamp":2147483649,"blocks":2}]"#),
    ("evm_increaseTime", r#"[3600]"#),
    ("evm_setNextBlockTimestamp", r#"["0x90000000"]"#),
    ("evm_revert", r#"["0x1"]"#),
    ("anvil_reorg", r#"[2,[]]"#),
    ("anvil_rollback", r#"["0x1"]"#),
    ("evm_setIntervalMining", r#"[500]"#),
    ("anvil_setBlockTimestampInterval", r#"[7]"#),
    ("hardhat_setPrevRandao", r#"["$word"]"#),
    ("anvil_impersonateAccount", r#"["$contract"]"#),
    ("hardhat_reset", r#"[{"forking":null}]"#),
];

/// Names of fields, and words that parameters may be.
const WORDS: &[&str] = &[
    "from",
    "to",
    "data",
    "input",
    "gas",
    "value",
    "nonce",
    "type",
    "chainId",
    "accessList",
    "address",
    "topics",
    "blockHash",
    "blockNumber",
    "fromBlock",
    "toBlock",
    "tracer",
    "tracerConfig",
    "withLog",
    "diffMode",
    "timeout",
    "state",
    "stateDiff",
    "code",
    "balance",
    "movePrecompileToAddress",
    "blockStateCalls",
    "calls",
    "validation",
    "number",
    "time",
    "gasLimit",
    "baseFeePerGas",
    "types",
    "primaryType",
    "domain",
    "message",
    "name",
    "latest",
    "earliest",
    "pending",
    "safe",
    "finalized",
    "callTracer",
    "prestateTracer",
    "flatCallTracer",
    "muxTracer",
    "4byteTracer",
    "noopTracer",
    "erc7562Tracer",
    "trace",
    "vmTrace",
    "stateDiff",
    "union",
    "logs",
    "newHeads",
    "transactionReceipts",
    "transactionHashes",
    "uint256[]",
    "tuple",
    "string",
    "bytes",
    "$alice",
    "$bob",
    "$contract",
    "$word",
    "$block",
    "$tx",
    "$raw",
    "",
    "0x",
    "0x0",
    "0x00",
    "0x1",
    "0xffffffffffffffff",
    "0x10000000000000000",
    "-1",
    "1",
    "0xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
];

/// Makes a request, in which the bytes decide everything.
///
/// # Errors
///
/// If there are too few bytes.
pub fn request(bytes: &mut Unstructured<'_>, methods: &[&'static str]) -> Result<(String, Value)> {
    if bytes.ratio(1, 8)? {
        let method = *bytes.choose(methods)?;
        let count = bytes.int_in_range(0..=4)?;
        let params = (0..count).map(|_| value(bytes, 0)).collect::<Result<_>>()?;
        return Ok((method.to_owned(), Value::Array(params)));
    }
    let (method, params) = *bytes.choose(GOOD)?;
    let mut params = serde_json::from_str(params).expect("the good parameters are JSON");
    for _ in 0..bytes.int_in_range(0..=3)? {
        let place = place(bytes, &mut params)?;
        change(bytes, place)?;
    }
    Ok((method.to_owned(), params))
}

/// Chooses a value inside another one.
fn place<'a>(bytes: &mut Unstructured<'_>, mut at: &'a mut Value) -> Result<&'a mut Value> {
    loop {
        let below = match at {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            _ => 0,
        };
        if below == 0 || bytes.ratio(1, 6)? {
            return Ok(at);
        }
        let index = bytes.int_in_range(0..=below - 1)?;
        at = match at {
            Value::Array(items) => &mut items[index],
            Value::Object(fields) => {
                fields.iter_mut().nth(index).map(|(_, value)| value).expect("there are so many")
            }
            other => return Ok(other),
        };
    }
}

fn change(bytes: &mut Unstructured<'_>, at: &mut Value) -> Result<()> {
    match at {
        Value::Array(items) if bytes.ratio(2, 3)? => {
            let more = match items.last() {
                Some(last) if bytes.ratio(1, 2)? => last.clone(),
                _ => value(bytes, 2)?,
            };
            let times = bytes.int_in_range(0..=8)?;
            items.extend(vec![more; times]);
            if times == 0 {
                items.pop();
            }
        }
        Value::Object(fields) if bytes.ratio(2, 3)? => {
            let name = match fields.keys().next() {
                Some(name) if bytes.ratio(1, 2)? => name.clone(),
                _ => (*bytes.choose(WORDS)?).to_owned(),
            };
            if bytes.ratio(1, 4)? {
                fields.remove(&name);
            } else {
                fields.insert(name, value(bytes, 2)?);
            }
        }
        Value::String(text) if text.len() > 2 && bytes.ratio(1, 2)? => {
            let end = bytes.int_in_range(0..=text.len())?;
            let tail = if text.is_char_boundary(end) { text.split_off(end) } else { String::new() };
            if bytes.ratio(1, 2)? {
                text.push_str(&tail);
                text.push_str(&tail);
            }
        }
        _ => *at = value(bytes, 1)?,
    }
    Ok(())
}

/// Makes a JSON value, at most four levels deep.
fn value(bytes: &mut Unstructured<'_>, depth: usize) -> Result<Value> {
    let kinds = if depth < 4 { 8 } else { 6 };
    Ok(match bytes.int_in_range(0..=kinds)? {
        0 => Value::Null,
        1 => Value::Bool(bytes.ratio(1, 2)?),
        2 => Value::String(format!(
            "{:#x}",
            bytes.arbitrary::<u64>()? >> bytes.int_in_range(0..=63)?
        )),
        3 => {
            let data = bytes.arbitrary::<&[u8]>()?;
            let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
            Value::String(format!("0x{hex}"))
        }
        4 => number(bytes)?,
        5 | 6 => Value::String((*bytes.choose(WORDS)?).to_owned()),
        7 => {
            let count = bytes.int_in_range(0..=4)?;
            Value::Array((0..count).map(|_| value(bytes, depth + 1)).collect::<Result<_>>()?)
        }
        _ => {
            let mut fields = Map::new();
            for _ in 0..bytes.int_in_range(0..=4)? {
                fields.insert((*bytes.choose(WORDS)?).to_owned(), value(bytes, depth + 1)?);
            }
            Value::Object(fields)
        }
    })
}

fn number(bytes: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match bytes.int_in_range(0..=3)? {
        0 => json!(bytes.arbitrary::<u8>()?),
        1 => json!(bytes.arbitrary::<u64>()?),
        2 => json!(bytes.arbitrary::<i64>()?),
        _ => Number::from_f64(bytes.arbitrary()?).map_or(Value::Null, Value::Number),
    })
}
