//! Pushes signed transfers over HTTP at a node and says how fast they get into blocks, as one line of JSON.
//!
//! ```text
//! devnet_load URL [TXS] [CONNECTIONS]
//! ```
//!
//! Works with any node of chain id 1337 that signs for an account with ether (polytrie, anvil, geth --dev), so that they
//! can be compared; `scripts/load-devnet` does. The senders are funded from that account first. Everything that is sent
//! is signed and serialised before the clock starts. In the end every sender has the nonce it should have, and the
//! blocks hold as many transactions as were sent: none lost, none doubled. Beside the load `eth_call` is asked on a
//! connection of its own, and how long the answers take is part of the result.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a tool that prints figures")]

use alloy_consensus::TxEip1559;
use alloy_eips::Encodable2718;
use alloy_primitives::{Bytes, TxKind, U256};
use polytrie::bench::Wallet;
use serde_json::{Value, json};
use std::{
    env,
    error::Error,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

const SENDERS: usize = 1_000;
const BATCH: usize = 100;
const CHAIN_ID: u64 = 1337;

/// Wei for each sender.
const FUNDS: u64 = 5_000_000_000_000_000_000;

/// A contract that returns the word in its slot 0: PUSH0 SLOAD PUSH0 MSTORE 32 PUSH0 RETURN, behind what copies it.
const CONTRACT: &str = "0x60088060095f395ff35f545f5260205ff3";

/// The longest that transactions may take to get into blocks.
const PATIENCE: Duration = Duration::from_secs(600);

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let [url, rest @ ..] = args.as_slice() else {
        return Err("usage: devnet_load URL [TXS] [CONNECTIONS]".into());
    };
    let number = |at: usize, usual| rest.get(at).map_or(Ok(usual), |text| text.parse());
    let (txs, connections): (usize, usize) = (number(0, 50_000)?, number(1, 16)?);
    let address = url.trim_start_matches("http://");
    let wallet = Wallet::new(1, SENDERS);
    let each = txs.div_ceil(SENDERS);

    let mut node = Connection::open(address)?;
    let contract = prepare(&mut node, &wallet)?;
    // They differ where a node was killed in the middle of a load before.
    let firsts =
        (0..SENDERS).map(|sender| node.nonce(&wallet, sender)).collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    let batches = sign(&wallet, each, &firsts, connections);
    eprintln!("{} transactions signed in {:.1} s", each * SENDERS, start.elapsed().as_secs_f64());

    let before = node.number("eth_blockNumber", &json!([]))?;
    let done = AtomicBool::new(false);
    let (pushed, seconds, refused, calls) = thread::scope(|scope| -> Result<_, Failure> {
        let calls = scope.spawn(|| ask(address, &contract, &done));
        let wanted: Vec<_> = firsts.iter().map(|first| first + each as u64).collect();
        let pushed = push(address, &batches, &mut node, &wallet, &wanted);
        done.store(true, Ordering::Relaxed);
        let calls = calls.join().map_err(|_| "the asking thread panicked")??;
        let (pushed, seconds, refused) = pushed?;
        Ok((pushed, seconds, refused, calls))
    })?;
    let head = node.number("eth_blockNumber", &json!([]))?;
    let mut found = 0;
    for block in before + 1..=head {
        let params = json!([format!("{block:#x}")]);
        found += node.number("eth_getBlockTransactionCountByNumber", &params)? as usize;
    }
    let sent = each * SENDERS;
    if found != sent {
        return Err(format!("the blocks hold {found} transactions, sent were {sent}").into());
    }
    let at = |part: f64| calls[((calls.len() as f64 * part) as usize).min(calls.len() - 1)];
    let result = json!({
        "txs": sent,
        "seconds": seconds,
        "tps": sent as f64 / seconds,
        "pushed_seconds": pushed,
        "refused": refused,
        "blocks": head - before,
        "eth_call": {
            "count": calls.len(),
            "p50_ms": at(0.5) * 1e3,
            "p99_ms": at(0.99) * 1e3,
            "max_ms": at(1.0) * 1e3,
        },
    });
    println!("{result}");
    Ok(())
}

/// Funds the senders where they have nothing, and deploys the contract that is asked during the load.
fn prepare(node: &mut Connection, wallet: &Wallet) -> Result<Value, Failure> {
    let accounts = node.call("eth_accounts", &json!([]))?;
    let rich = accounts.get(0).ok_or("the node signs for nobody")?.clone();
    let price = json!("0x2540be400");
    let deploy = json!([{ "from": rich, "data": CONTRACT, "gas": "0x30d40", "gasPrice": price }]);
    let hash = node.call("eth_sendTransaction", &deploy)?;
    let receipt = node.receipt(&hash)?;
    let poor: Vec<usize> = (0..SENDERS)
        .map(|sender| {
            let balance =
                node.call("eth_getBalance", &json!([wallet.address(sender), "latest"]))?;
            Ok((sender, balance == "0x0"))
        })
        .filter_map(|found: Result<_, Failure>| match found {
            Ok((sender, true)) => Some(Ok(sender)),
            Ok((_, false)) => None,
            Err(error) => Some(Err(error)),
        })
        .collect::<Result<_, _>>()?;
    // A node that is asked fast may give two of them the same nonce.
    let mut nonce = node.number("eth_getTransactionCount", &json!([rich, "latest"]))?;
    for part in poor.chunks(BATCH) {
        let mut last = Value::Null;
        for sender in part {
            let transfer = json!([{
                "from": rich, "to": wallet.address(*sender), "value": format!("{FUNDS:#x}"),
                "gas": "0x5208", "gasPrice": price, "nonce": format!("{nonce:#x}"),
            }]);
            last = node.call("eth_sendTransaction", &transfer)?;
            nonce += 1;
        }
        node.receipt(&last)?;
    }
    Ok(receipt["contractAddress"].clone())
}

/// Sends everything and waits until it is in blocks. Returns the seconds until it was sent, and until it was there,
/// and how many the node refused.
fn push(
    address: &str,
    batches: &[Vec<String>],
    node: &mut Connection,
    wallet: &Wallet,
    wanted: &[u64],
) -> Result<(f64, f64, usize), Failure> {
    let start = Instant::now();
    let refused = thread::scope(|scope| -> Result<usize, Failure> {
        let pushers: Vec<_> = batches
            .iter()
            .map(|batches| {
                scope.spawn(move || -> Result<usize, Failure> {
                    let mut node = Connection::open(address)?;
                    let mut refused = 0;
                    for batch in batches {
                        let answer = node.post(batch)?;
                        refused += count(&answer, b"\"error\"");
                    }
                    Ok(refused)
                })
            })
            .collect();
        let mut refused = 0;
        for pusher in pushers {
            refused += pusher.join().map_err(|_| "a connection panicked")??;
        }
        Ok(refused)
    })?;
    let pushed = start.elapsed().as_secs_f64();
    for (sender, &wanted) in wanted.iter().enumerate() {
        loop {
            let nonce = node.nonce(wallet, sender)?;
            if nonce == wanted {
                break;
            }
            if nonce > wanted || start.elapsed() > PATIENCE {
                return Err(format!(
                    "sender {sender} has the nonce {nonce}, expected {wanted} ({refused} were refused)"
                )
                .into());
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
    Ok((pushed, start.elapsed().as_secs_f64(), refused))
}

/// Calls the contract again and again; returns the seconds that answers took, sorted.
fn ask(address: &str, contract: &Value, done: &AtomicBool) -> Result<Vec<f64>, Failure> {
    let mut node = Connection::open(address)?;
    let mut times = Vec::new();
    while !done.load(Ordering::Relaxed) || times.is_empty() {
        let start = Instant::now();
        node.call("eth_call", &json!([{ "to": contract }, "latest"]))?;
        times.push(start.elapsed().as_secs_f64());
        thread::sleep(Duration::from_millis(2));
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// Batches of raw transactions, as requests, for each connection. Every sender belongs to one connection, so that its
/// transactions arrive in order, and the senders of a connection take turns.
fn sign(wallet: &Wallet, each: usize, firsts: &[u64], connections: usize) -> Vec<Vec<String>> {
    let transfer = |sender: usize, nonce| {
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
        Bytes::from(wallet.sign(sender, tx.into()).encoded_2718())
    };
    let request = |(id, tx): (usize, &Bytes)| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"eth_sendRawTransaction\",\"params\":[\"{tx}\"]}}"
        )
    };
    let of_connection = |connection: usize| {
        let turns = (0..each as u64).flat_map(|turn| {
            (connection..SENDERS)
                .step_by(connections)
                .map(move |sender| (sender, firsts[sender] + turn))
        });
        let txs: Vec<_> = turns.map(|(sender, nonce)| transfer(sender, nonce)).collect();
        let batches = txs.chunks(BATCH).map(|batch| {
            let requests: Vec<_> = batch.iter().enumerate().map(request).collect();
            format!("[{}]", requests.join(","))
        });
        batches.collect()
    };
    (0..connections).map(of_connection).collect()
}

fn count(text: &[u8], part: &[u8]) -> usize {
    text.windows(part.len()).filter(|window| *window == part).count()
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

    fn post(&mut self, body: &str) -> Result<Vec<u8>, Failure> {
        let (host, length) = (&self.address, body.len());
        let request = format!(
            "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        let (mut length, mut chunked) = (0, false);
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap_or_default();
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse()?;
            }
            chunked |= name.eq_ignore_ascii_case("transfer-encoding");
        }
        let mut answer = Vec::new();
        if !chunked {
            answer.resize(length, 0);
            self.stream.read_exact(&mut answer)?;
            return Ok(answer);
        }
        loop {
            let size = usize::from_str_radix(self.line()?.trim(), 16)?;
            let at = answer.len();
            answer.resize(at + size, 0);
            self.stream.read_exact(&mut answer[at..])?;
            self.line()?;
            if size == 0 {
                return Ok(answer);
            }
        }
    }

    /// The next line of a header, without its end.
    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err("the node closed the connection".into());
        }
        Ok(line.trim_end().to_owned())
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<Value, Failure> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut answer: Value = serde_json::from_slice(&self.post(&request.to_string())?)?;
        if answer.get("error").is_some() {
            return Err(format!("{method}: {answer}").into());
        }
        Ok(answer["result"].take())
    }

    fn number(&mut self, method: &str, params: &Value) -> Result<u64, Failure> {
        let answer = self.call(method, params)?;
        let text = answer.as_str().ok_or_else(|| format!("{method}: {answer}"))?;
        Ok(u64::from_str_radix(text.trim_start_matches("0x"), 16)?)
    }

    fn nonce(&mut self, wallet: &Wallet, sender: usize) -> Result<u64, Failure> {
        self.number("eth_getTransactionCount", &json!([wallet.address(sender), "latest"]))
    }

    /// The receipt of a transaction, when it is there.
    fn receipt(&mut self, hash: &Value) -> Result<Value, Failure> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            // A node may not know the transaction as long as it looks for it.
            let receipt =
                self.call("eth_getTransactionReceipt", &json!([hash])).unwrap_or_default();
            if !receipt.is_null() {
                return Ok(receipt);
            }
            thread::sleep(Duration::from_millis(5));
        }
        Err(format!("transaction {hash} is not mined").into())
    }
}
