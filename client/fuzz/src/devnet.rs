//! A devnet in memory. Each run begins with the same chain.

use alloy_primitives::U256;
use polytrie::{
    datadir::{DataDir, OpenOptions},
    devnet::{
        DEFAULT_MNEMONIC, DevAccounts, MiningMode, Node, NodeOptions, PoolLimits, dev_genesis,
    },
    rpc::{LocalRpc, RpcLimits, read_state, write_state},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// Code of a contract that stores and logs its calldata, or reverts with a reason if the calldata is all ones.
const CODE: &str = "0x608180600b6000396000f33615601d5760003580191560295780600055600052600160206000a1005b60005460005260206000f35b7f08c379a000000000000000000000000000000000000000000000000000000000600052602060045260026024527f6e6f00000000000000000000000000000000000000000000000000000000000060445260646000fd";

/// Runs after which the node is replaced by a new one: filters and impersonated accounts outlive `evm_revert`.
const RUNS: u32 = 5_000;

/// Most blocks that a request of the fuzzer may ask for.
const MOST_BLOCKS: u64 = 64;

/// A node, and the snapshot to which each run returns.
#[derive(Debug)]
pub struct Devnet {
    node: Arc<Node>,
    rpc: LocalRpc,
    methods: Vec<&'static str>,
    /// Values for the texts that begin with `$`.
    names: Vec<(&'static str, Value)>,
    snapshot: Value,
    head: Value,
    runs: u32,
}

impl Devnet {
    /// Makes a node with a chain of three blocks.
    pub fn new() -> Self {
        let accounts = DevAccounts::new(DEFAULT_MNEMONIC, 3).expect("the words are right");
        let balance = U256::from(10).pow(U256::from(22));
        let genesis = dev_genesis(1337, accounts.addresses(), balance);
        let (alice, bob) = (accounts.addresses()[0], accounts.addresses()[1]);
        let options = OpenOptions {
            state: Some("mpt".into()),
            kv: Some("memory".into()),
            ..OpenOptions::default()
        };
        let dir = DataDir::create_with(&options, &genesis).expect("memory does not fail");
        let (chain, dir) = dir.into_chain().expect("memory does not fail");
        let options = NodeOptions {
            accounts,
            mining: MiningMode::Manual,
            read_only: false,
            pool: PoolLimits::default(),
            gas_limit: None,
            beneficiary: alice,
            is_driven: false,
        };
        let node = Node::new(chain, dir, options).expect("memory does not fail");
        let limits = RpcLimits {
            gas_cap: 2_000_000,
            call_time: Some(Duration::from_secs(2)),
            ..RpcLimits::default()
        };
        let rpc = LocalRpc::new(Arc::clone(&node), limits).expect("there are threads");
        let methods = rpc.method_names().filter(|name| !waits(name)).collect();
        let (names, snapshot, head) = (Vec::new(), Value::Null, Value::Null);
        let mut devnet = Self { node, rpc, methods, names, snapshot, head, runs: 0 };
        let word = format!("{:#066x}", 7);
        let deploy = json!([{ "from": alice, "data": CODE }]);
        let deployed = devnet.result("eth_sendTransaction", &deploy);
        devnet.result("evm_mine", &json!([]));
        let receipt = devnet.result("eth_getTransactionReceipt", &json!([deployed]));
        let contract = receipt["contractAddress"].clone();
        let call = json!([{ "from": alice, "to": contract, "data": word }]);
        let tx = devnet.result("eth_sendTransaction", &call);
        devnet.result("evm_mine", &json!([]));
        devnet
            .result("eth_sendTransaction", &json!([{ "from": bob, "to": alice, "value": "0x1" }]));
        devnet.result("evm_mine", &json!([]));
        let gas = json!([{ "from": bob, "to": alice, "gas": "0x5208", "gasPrice": "0x77359400", "nonce": "0x1" }]);
        let raw = devnet.result("eth_signTransaction", &gas);
        let raw = raw.get("raw").cloned().unwrap_or(raw);
        let block = devnet.result("eth_getBlockByNumber", &json!(["0x2", false]))["hash"].clone();
        devnet.result("eth_newFilter", &json!([{ "address": contract }]));
        devnet.names = vec![
            ("$alice", json!(alice)),
            ("$bob", json!(bob)),
            ("$contract", contract),
            ("$word", json!(word)),
            ("$block", block),
            ("$tx", tx),
            ("$raw", raw),
        ];
        devnet.snapshot = devnet.result("evm_snapshot", &json!([]));
        devnet.head = devnet.result("eth_getBlockByNumber", &json!(["latest", true]));
        devnet
    }

    /// Methods that answer without another event.
    pub fn methods(&self) -> &[&'static str] {
        &self.methods
    }

    /// Calls a method, with values of the chain in place of the names. The answer must be a result, or an error that
    /// does not say that the node failed.
    pub fn ask(&self, method: &str, params: &Value) {
        let mut params = params.clone();
        self.put(&mut params);
        if waits(method) || asks_for_many_blocks(method, &params) {
            return;
        }
        let answer = self.answer(method, &params);
        let error = &answer["error"];
        assert!(error.is_null() != answer.get("result").is_none(), "{method} {params}: {answer}");
        assert!(error["code"] != -32603, "{method} {params}: {answer}");
    }

    /// Returns to the snapshot, and checks that the chain is as it was there.
    pub fn go_back(&mut self) {
        let reverted = self.answer("evm_revert", &json!([self.snapshot]));
        self.runs += 1;
        // A run may have removed the snapshot.
        if reverted["result"] != true || self.runs == RUNS {
            *self = Self::new();
            return;
        }
        self.snapshot = self.result("evm_snapshot", &json!([]));
        let head = self.result("eth_getBlockByNumber", &json!(["latest", true]));
        assert_eq!(head, self.head);
    }

    /// State of the node, in the form of anvil's files.
    pub fn state(&self) -> Value {
        let mut text = Vec::new();
        write_state(&self.node, &mut text).expect("every account is known by its address");
        serde_json::from_slice(&text).expect("a state is JSON")
    }

    /// Loads a state file; returns whether it was valid. An error must not say that the node failed.
    pub fn load(&self, file: &[u8]) -> bool {
        let loaded = read_state(&self.node, file);
        if let Err(error) = &loaded {
            assert!(!error.message().is_empty());
            assert!(error.code() != -32603, "{error:?}");
        }
        loaded.is_ok()
    }

    /// Answers a request in JSON; `None` if it gets no answer.
    pub fn answer_text(&self, request: &str) -> Option<String> {
        self.rpc.answer(request)
    }

    fn answer(&self, method: &str, params: &Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let answer = self.rpc.answer(&request.to_string()).expect("this is a request");
        serde_json::from_str(&answer).expect("an answer is JSON")
    }

    fn result(&self, method: &str, params: &Value) -> Value {
        let mut answer = self.answer(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    fn put(&self, value: &mut Value) {
        let known = |text: &str| {
            self.names.iter().find(|(name, _)| *name == text).map(|(_, value)| value.clone())
        };
        match value {
            Value::String(text) => {
                if let Some(known) = known(text) {
                    *value = known;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.put(item)),
            Value::Object(fields) => {
                let taken = std::mem::take(fields);
                for (name, mut value) in taken {
                    self.put(&mut value);
                    let name = match known(&name) {
                        Some(Value::String(text)) => text,
                        _ => name,
                    };
                    fields.insert(name, value);
                }
            }
            _ => {}
        }
    }
}

impl Default for Devnet {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a method waits for a block, which never comes here.
fn waits(method: &str) -> bool {
    method.ends_with("Sync")
}

/// Whether the request takes long because it asks for many blocks.
fn asks_for_many_blocks(method: &str, params: &Value) -> bool {
    let is_many = |value: &Value| match value {
        Value::Number(number) => number.as_u64().is_some_and(|number| number > MOST_BLOCKS),
        Value::String(text) => text.len() > 4,
        _ => false,
    };
    method.contains("mine")
        && params.as_array().is_some_and(|params| {
            params.iter().any(|param| match param {
                Value::Object(fields) => fields.get("blocks").is_some_and(is_many),
                param => method != "evm_mine" && is_many(param),
            })
        })
}
