//! Pushes signed transfers over HTTP at a node and says how fast they get into blocks.
//!
//! ```text
//! devnet_load genesis FILE                   writes the genesis whose accounts send
//! devnet_load push URL [TXS] [CONNECTIONS]   sends to a node that runs on it (chain id 1337)
//! ```
//!
//! The same genesis and the same transactions work on geth and anvil, so that they can be compared. Every transfer goes
//! to an account of its own sender's, every sender's nonces must end where they should: none lost, none doubled.

#![expect(clippy::print_stdout, reason = "it is a tool that prints figures")]

use alloy_consensus::TxEip1559;
use alloy_eips::Encodable2718;
use alloy_primitives::{Bytes, TxKind, U256};
use polytrie::{bench::Wallet, devnet::dev_genesis};
use serde_json::{Value, json};
use std::{
    env,
    error::Error,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

const SENDERS: usize = 1_000;
const BATCH: usize = 100;
const CHAIN_ID: u64 = 1337;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["genesis", file] => {
            let ether = U256::from(10).pow(U256::from(18));
            let balance = U256::from(1_000_000) * ether;
            Ok(fs::write(file, dev_genesis(CHAIN_ID, wallet().addresses(), balance))?)
        }
        ["push", url, rest @ ..] => {
            let number = |at: usize, usual| rest.get(at).map_or(Ok(usual), |text| text.parse());
            push(url.trim_start_matches("http://"), number(0, 50_000)?, number(1, 16)?)
        }
        _ => Err("usage: devnet_load genesis FILE | push URL [TXS] [CONNECTIONS]".into()),
    }
}

fn wallet() -> Wallet {
    Wallet::new(1, SENDERS)
}

fn push(address: &str, txs: usize, connections: usize) -> Result<(), Failure> {
    let each = txs.div_ceil(SENDERS);
    let mut node = Connection::open(address)?;
    let first = node.number("eth_getTransactionCount", &json!([wallet().address(0), "latest"]))?;
    let start = Instant::now();
    let batches = sign(each, first);
    println!("{} transactions signed in {:.1} s", each * SENDERS, start.elapsed().as_secs_f64());

    let start = Instant::now();
    let pushers: Vec<_> = (0..connections)
        .map(|index| {
            let mine: Vec<_> = batches.iter().skip(index).step_by(connections).cloned().collect();
            let address = address.to_owned();
            thread::spawn(move || -> Result<usize, Failure> {
                let mut node = Connection::open(&address)?;
                let mut refused = 0;
                for batch in mine {
                    refused += node.batch(&batch)?;
                }
                Ok(refused)
            })
        })
        .collect();
    let mut refused = 0;
    for pusher in pushers {
        refused += pusher.join().map_err(|_| "a connection panicked")??;
    }
    let pushed = start.elapsed();
    let wanted = first + each as u64;
    let mut slowest = Duration::ZERO;
    for sender in 0..SENDERS {
        let params = json!([wallet_address(sender), "latest"]);
        loop {
            let asked = Instant::now();
            let nonce = node.number("eth_getTransactionCount", &params)?;
            slowest = slowest.max(asked.elapsed());
            if nonce == wanted {
                break;
            }
            if nonce > wanted || start.elapsed() > Duration::from_secs(600) {
                return Err(
                    format!("sender {sender} has the nonce {nonce}, expected {wanted}").into()
                );
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let head = node.number("eth_blockNumber", &json!([]))?;
    println!(
        "{} transactions in blocks after {seconds:.2} s ({:.0}/s; pushed after {:.2} s, {refused} refused); head {head}",
        each * SENDERS,
        (each * SENDERS) as f64 / seconds,
        pushed.as_secs_f64()
    );
    Ok(())
}

fn wallet_address(sender: usize) -> alloy_primitives::Address {
    use std::sync::OnceLock;
    static WALLET: OnceLock<Wallet> = OnceLock::new();
    WALLET.get_or_init(wallet).address(sender)
}

/// Batches of raw transactions. A sender's are in order, and one batch holds those of few senders.
fn sign(each: usize, first: u64) -> Vec<Vec<Bytes>> {
    let wallet = wallet();
    let mut all = Vec::with_capacity(each * SENDERS);
    for sender in 0..SENDERS {
        for nonce in first..first + each as u64 {
            let tx = TxEip1559 {
                chain_id: CHAIN_ID,
                nonce,
                gas_limit: 21_000,
                max_fee_per_gas: 1_000_000_000_000,
                max_priority_fee_per_gas: 1_000_000_000,
                to: TxKind::Call(wallet.address((sender + 1) % SENDERS)),
                value: U256::from(1),
                ..Default::default()
            };
            all.push(Bytes::from(wallet.sign(sender, tx.into()).encoded_2718()));
        }
    }
    all.chunks(BATCH).map(<[Bytes]>::to_vec).collect()
}

struct Connection {
    address: String,
    stream: BufReader<TcpStream>,
}

impl Connection {
    fn open(address: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { address: address.to_owned(), stream: BufReader::new(stream) })
    }

    fn post(&mut self, body: &str) -> Result<Value, Failure> {
        let (host, length) = (&self.address, body.len());
        let request = format!(
            "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        let mut length = 0;
        let mut line = String::new();
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            if line == "\r\n" {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse()?;
            }
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer)?;
        Ok(serde_json::from_slice(&answer)?)
    }

    fn number(&mut self, method: &str, params: &Value) -> Result<u64, Failure> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let answer = self.post(&request.to_string())?;
        let text = answer["result"].as_str().ok_or_else(|| answer.to_string())?;
        Ok(u64::from_str_radix(text.trim_start_matches("0x"), 16)?)
    }

    /// Sends a batch; returns how many of it were refused.
    fn batch(&mut self, raw: &[Bytes]) -> Result<usize, Failure> {
        let requests: Vec<_> = raw
            .iter()
            .enumerate()
            .map(|(id, tx)| json!({ "jsonrpc": "2.0", "id": id, "method": "eth_sendRawTransaction", "params": [tx] }))
            .collect();
        let answer = self.post(&Value::Array(requests).to_string())?;
        let answers = answer.as_array().ok_or_else(|| answer.to_string())?;
        Ok(answers.iter().filter(|answer| answer.get("error").is_some()).count())
    }
}
