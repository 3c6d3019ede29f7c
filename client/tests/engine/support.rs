//! Starts a node in a separate process and drives it as a consensus layer does.

use crate::{
    run::program,
    sample,
    server::{self, Server, http},
};
use alloy_consensus::{Block, SignableTransaction, TxEip1559, TxEnvelope, TypedTransaction};
use alloy_eips::{Encodable2718, eip7685::EMPTY_REQUESTS_HASH};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, b256, hex};
use alloy_rpc_types_engine::ExecutionPayload;
use alloy_signer::SignerSync;
use alloy_signer_local::PrivateKeySigner;
use polytrie::{blocks::BlockReader, consensus::decode::decode_block, rpc::JwtSecret};
use serde_json::{Value, json};
use std::{
    ffi::OsString,
    path::Path,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

pub(crate) use crate::server::{ALICE, args};

/// The private key of Alice, which is public.
const ALICE_KEY: B256 = b256!("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80");

/// A running node. It is killed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Node {
    server: Server,
    /// The address of the Engine API.
    pub(crate) engine: String,
    /// The address of the port that needs no token.
    pub(crate) open: String,
    pub(crate) secret: JwtSecret,
}

/// A payload as a consensus layer sends it.
#[derive(Debug, Clone)]
pub(crate) struct Payload {
    version: u8,
    pub(crate) params: Vec<Value>,
    pub(crate) hash: B256,
}

impl Payload {
    /// Makes the payload of a block without requests.
    pub(crate) fn of(block: &Block<TxEnvelope>) -> Self {
        let header = &block.header;
        let hash = header.hash_slow();
        let (payload, sidecar) = ExecutionPayload::from_block_unchecked(hash, block);
        let payload = match payload {
            ExecutionPayload::V1(payload) => json!(payload),
            ExecutionPayload::V2(payload) => json!(payload),
            ExecutionPayload::V3(payload) => json!(payload),
            ExecutionPayload::V4(payload) => json!(payload),
        };
        let mut params = vec![payload];
        if let Some(root) = header.parent_beacon_block_root {
            params.extend([json!(sidecar.versioned_hashes().unwrap()), json!(root)]);
        }
        if header.requests_hash.is_some() {
            params.push(json!([]));
        }
        let version = match (header.requests_hash, header.parent_beacon_block_root) {
            (Some(_), _) => 4,
            (None, Some(_)) => 3,
            (None, None) if header.withdrawals_root.is_some() => 2,
            (None, None) => 1,
        };
        Self { version, params, hash }
    }

    /// Makes the payloads of the blocks before the first one with requests. A block has only the hash of its
    /// requests.
    pub(crate) fn of_all(blocks: &[Block<TxEnvelope>]) -> Vec<Self> {
        let is_known = |block: &&Block<TxEnvelope>| {
            block.header.requests_hash.is_none_or(|hash| hash == EMPTY_REQUESTS_HASH)
        };
        blocks.iter().take_while(is_known).map(Self::of).collect()
    }

    pub(crate) fn method(&self) -> String {
        format!("engine_newPayloadV{}", self.version)
    }

    /// Makes a payload from one that the node has built. It must be without blobs and of Prague or later.
    pub(crate) fn made(envelope: &Value, root: B256) -> Self {
        let payload = envelope["executionPayload"].clone();
        let hash = payload["blockHash"].as_str().unwrap().parse().unwrap();
        let requests = envelope["executionRequests"].clone();
        Self { version: 4, params: vec![payload, json!([]), json!(root), requests], hash }
    }
}

impl Node {
    /// Starts a node on a new directory for this chain.
    pub(crate) fn new(dir: &Path, layer: &str, chain: &Path, more: Vec<OsString>) -> Self {
        let mut args = args!["--state", layer, "--chain", chain];
        args.extend(more);
        Self::open(dir, args)
    }

    /// Starts a node on a directory.
    pub(crate) fn open(dir: &Path, more: Vec<OsString>) -> Self {
        let mut args = args!["--datadir", dir];
        args.extend(more);
        Self::run("engine", &dir.join("jwt.hex"), args)
    }

    /// Starts a node with this command, which keeps its secret in the file `secret`.
    pub(crate) fn run(command: &str, secret: &Path, args: Vec<OsString>) -> Self {
        let mut program = program();
        program.args([command, "--authrpc.port", "0", "--http.port", "0"]);
        let listens = ["engine listening on http://", "listening on http://"];
        let (server, [engine, open]) = Server::start(program, args, listens);
        let secret = JwtSecret::read_or_make(secret).unwrap();
        Self { server, engine, open, secret }
    }

    /// Returns the value of the header `Authorization` with a token of this age in seconds.
    pub(crate) fn token(&self, age: i64) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        format!("Bearer {}", self.secret.token(now.checked_add_signed(-age).unwrap()))
    }

    /// Returns the whole answer of the Engine API to a request.
    pub(crate) fn answer(&self, method: &str, params: Value) -> Value {
        let (status, body) = post(&self.engine, Some(&self.token(0)), method, params);
        assert_eq!(status, 200, "{method}: {body}");
        serde_json::from_str(&body).unwrap_or_else(|e| panic!("{method}: {e}: {body}"))
    }

    /// Returns the result of a request, which must succeed.
    #[track_caller]
    pub(crate) fn call(&self, method: &str, params: Value) -> Value {
        server::result(method, self.answer(method, params))
    }

    /// Returns the code and message of the error of a request, which must fail.
    #[track_caller]
    pub(crate) fn error(&self, method: &str, params: Value) -> (i64, String) {
        server::error(method, &self.answer(method, params))
    }

    /// Returns the result of a request to the port that needs no token.
    #[track_caller]
    pub(crate) fn public(&self, method: &str, params: Value) -> Value {
        let (status, body) = post(&self.open, None, method, params);
        assert_eq!(status, 200, "{method}: {body}");
        server::result(method, serde_json::from_str(&body).unwrap())
    }

    /// Sends a payload and returns its status.
    pub(crate) fn payload(&self, payload: &Payload) -> Value {
        self.call(&payload.method(), json!(payload.params))
    }

    /// Sends a payload, which must be valid.
    #[track_caller]
    pub(crate) fn valid(&self, payload: &Payload) {
        let status = self.payload(payload);
        let expected = json!({
            "status": "VALID", "latestValidHash": payload.hash, "validationError": null
        });
        assert_eq!(status, expected, "{}", payload.hash);
    }

    /// Chooses a block as the head, and `settled` as the safe and final block. Returns the answer.
    pub(crate) fn choose_as(&self, head: B256, settled: B256, attributes: &Value) -> Value {
        let (method, params) = choice(head, settled, attributes);
        self.call(&method, params)
    }

    /// Chooses a block as the head, which must be possible.
    #[track_caller]
    pub(crate) fn choose(&self, head: B256) {
        let answer = self.choose_as(head, B256::ZERO, &Value::Null);
        assert_eq!(answer["payloadStatus"]["status"], "VALID", "{answer}");
        assert_eq!(answer["payloadStatus"]["latestValidHash"], json!(head), "{answer}");
        assert_eq!(self.head(), head);
    }

    /// Makes the node build a payload on top of `head`, which must be of Osaka or later, and returns it.
    pub(crate) fn build(&self, head: B256, attributes: &Value) -> Payload {
        let answer = self.choose_as(head, B256::ZERO, attributes);
        let envelope = self.call("engine_getPayloadV5", json!([answer["payloadId"]]));
        let root = attributes["parentBeaconBlockRoot"].as_str().unwrap().parse().unwrap();
        Payload::made(&envelope, root)
    }

    /// Returns the hash of the head.
    pub(crate) fn head(&self) -> B256 {
        let block = self.public("eth_getBlockByNumber", json!(["latest", false]));
        block["hash"].as_str().unwrap().parse().unwrap()
    }

    /// Asks the node to stop, waits for its end, and returns the exit code.
    pub(crate) fn stop(self) -> Option<i32> {
        self.server.stop()
    }

    /// Sends a request and kills the process after `delay`, without waiting for the answer.
    pub(crate) fn kill_during(self, (method, params): (String, Value), delay: Duration) {
        let request = request_of(Some(&self.token(0)), &method, &params);
        let _stream = server::send(&self.engine, &request);
        thread::sleep(delay);
        self.kill();
    }

    /// Kills the process.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

/// Returns the method and the parameters of the call that chooses a head.
pub(crate) fn choice(head: B256, settled: B256, attributes: &Value) -> (String, Value) {
    let version = match attributes {
        Value::Null => 1,
        _ => 3,
    };
    let choice = json!({
        "headBlockHash": head, "safeBlockHash": settled, "finalizedBlockHash": settled
    });
    (format!("engine_forkchoiceUpdatedV{version}"), json!([choice, attributes]))
}

/// Returns attributes of a payload from Cancun on. Different values of `salt` give different payloads.
pub(crate) fn attributes(timestamp: u64, salt: u8) -> Value {
    json!({
        "timestamp": format!("{timestamp:#x}"),
        "prevRandao": B256::repeat_byte(salt),
        "suggestedFeeRecipient": Address::repeat_byte(salt),
        "withdrawals": [],
        "parentBeaconBlockRoot": B256::repeat_byte(0xbe),
    })
}

/// Sends a JSON-RPC request and returns the status and the body of the answer.
pub(crate) fn post(
    address: &str,
    authorization: Option<&str>,
    method: &str,
    params: Value,
) -> (u16, String) {
    http(address, &request_of(authorization, method, &params))
}

/// Returns the HTTP request for a JSON-RPC request.
fn request_of(authorization: Option<&str>, method: &str, params: &Value) -> String {
    let header = authorization.map(|value| format!("Authorization: {value}\r\n"));
    server::post_with(&header.unwrap_or_default(), &server::request(method, params))
}

/// Returns the first `count` blocks of the sample. They are of proof of stake, from Paris to Osaka.
pub(crate) fn sample_blocks(count: usize) -> Vec<Block<TxEnvelope>> {
    sample::sample_blocks(count).iter().map(|block| decode_block(block).unwrap()).collect()
}

/// Returns the first `count` blocks of an RLP file. Genesis is left out.
pub(crate) fn blocks_of(file: &Path, count: usize) -> Vec<Block<TxEnvelope>> {
    let blocks = BlockReader::open(file).unwrap();
    let blocks = blocks.map(|block| decode_block(&block.unwrap().rlp).unwrap());
    blocks.filter(|block| block.header.number > 0).take(count).collect()
}

/// Returns the hash and the EIP-2718 bytes of a payment by Alice on the chain `dev`.
pub(crate) fn payment(nonce: u64, to: Address, value: u64) -> (B256, Bytes) {
    let tx = TxEip1559 {
        chain_id: 1337,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: 100_000_000_000,
        max_priority_fee_per_gas: 1_000_000_000,
        to: TxKind::Call(to),
        value: U256::from(value),
        ..TxEip1559::default()
    };
    let signed = signed(tx.into());
    (*signed.tx_hash(), signed.encoded_2718().into())
}

/// A transaction as Alice sends it.
pub(crate) fn signed(tx: TypedTransaction) -> TxEnvelope {
    let signer = PrivateKeySigner::from_bytes(&ALICE_KEY).unwrap();
    let signature = signer.sign_hash_sync(&tx.signature_hash()).unwrap();
    tx.into_envelope(signature)
}

/// Returns all layers of the build.
pub(crate) fn layers() -> impl Iterator<Item = &'static polytrie::layers::LayerKind> {
    polytrie::layers::LAYERS.iter()
}

/// Reads a number from an answer.
pub(crate) fn quantity(value: &Value) -> u64 {
    let text = value.as_str().unwrap_or_else(|| panic!("{value} is no number"));
    u64::from_str_radix(text.strip_prefix("0x").unwrap(), 16).unwrap()
}

/// Reads bytes from an answer.
pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    hex::decode(value.as_str().unwrap()).unwrap()
}
