//! Starts a node in a separate process and sends requests to it.

use crate::{
    run::program,
    server::{self, Server},
};
use alloy_primitives::{Address, U256, address};
use serde_json::{Value, json};
use std::{
    ffi::OsString,
    fs::File,
    io::{BufRead, BufReader, Read},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

pub(crate) use crate::server::{ALICE, args};

/// The second account of the common test mnemonic.
pub(crate) const BOB: Address = address!("70997970C51812dc3A010C7d01b50e0d17dc79C8");

/// The time after which a request that sends a transaction may have ended without a block: the node waits for the
/// block for five seconds.
const WAIT_FOR_A_BLOCK: Duration = Duration::from_secs(4);

/// A running node. It is killed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Devnet {
    server: Server,
    address: String,
}

impl Devnet {
    /// Starts a node in memory with this state layer.
    pub(crate) fn start(layer: &str, more: Vec<OsString>) -> Self {
        let mut args = args!["--state", layer];
        args.extend(more);
        Self::run(args)
    }

    /// Starts a node on a data directory.
    pub(crate) fn open(dir: &Path, more: Vec<OsString>) -> Self {
        let mut args = args!["--datadir", dir];
        args.extend(more);
        Self::run(args)
    }

    /// Starts a node in memory that logs into a file.
    pub(crate) fn logged(log: &Path, more: Vec<OsString>) -> Self {
        Self::run_with(more, File::create(log).unwrap().into())
    }

    /// Starts a node in memory without a prepared setup. A setup that it prepares is kept in `cache`.
    pub(crate) fn unprepared(layer: &str, cache: &Path, log: &Path) -> Self {
        let mut command = program();
        command.env_remove("POLYTRIE_LVMT_SETUP").env("XDG_CACHE_HOME", cache);
        command.stderr(File::create(log).unwrap());
        Self::run_as(command, args!["--state", layer])
    }

    fn run(args: Vec<OsString>) -> Self {
        Self::run_with(args, Stdio::inherit())
    }

    fn run_with(args: Vec<OsString>, log: Stdio) -> Self {
        let mut command = program();
        command.stderr(log);
        Self::run_as(command, args)
    }

    fn run_as(mut command: Command, args: Vec<OsString>) -> Self {
        command.args(["devnet", "--http.port", "0"]);
        let (server, [address]) = Server::start(command, args, ["listening on http://"]);
        Self { server, address }
    }

    /// Sends the bytes of an HTTP request, and returns the status and the body of the answer.
    pub(crate) fn http(&self, request: &str) -> (u16, String) {
        server::http(&self.address, request)
    }

    /// Returns the status of the answer to a request after which the connection stays open.
    pub(crate) fn status(&self, request: &str) -> u16 {
        let mut line = String::new();
        BufReader::new(self.request(request)).read_line(&mut line).unwrap();
        line.split(' ').nth(1).unwrap_or("0").parse().unwrap_or(0)
    }

    /// Returns the value of a header of the answer.
    pub(crate) fn header(&self, request: &str, name: &str) -> Option<String> {
        let mut answer = Vec::new();
        self.request(request).read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let (head, _) = answer.split_once("\r\n\r\n")?;
        head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then(|| value.to_owned())
        })
    }

    /// Sends the bytes of an HTTP request and returns the connection.
    pub(crate) fn request(&self, request: &str) -> TcpStream {
        server::send(&self.address, request)
    }

    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        self.http(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    }

    pub(crate) fn post(&self, body: &str) -> (u16, String) {
        self.http(&server::post_with("", body))
    }

    /// Sends a JSON-RPC request and does not wait for the answer.
    pub(crate) fn request_of(&self, method: &str, params: &Value) -> TcpStream {
        self.request(&server::post_with("", &server::request(method, params)))
    }

    /// Returns the whole answer to a request. If the node makes a block for each transaction that arrives, the block of
    /// a transaction that was sent is there when this returns.
    pub(crate) fn answer(&self, method: &str, params: Value) -> Value {
        let started = Instant::now();
        let (status, body) = self.post(&server::request(method, &params));
        assert_eq!(status, 200, "{method}: {body}");
        if method.starts_with("eth_send") && started.elapsed() >= WAIT_FOR_A_BLOCK {
            self.wait_for_blocks();
        }
        serde_json::from_str(&body).unwrap_or_else(|e| panic!("{method}: {e}: {body}"))
    }

    /// Waits until no transaction waits for a block, if the node makes one for each.
    fn wait_for_blocks(&self) {
        if self.call("anvil_getAutomine", json!([])) == true {
            wait_until("a transaction waits for its block", || {
                self.call("txpool_status", json!([]))["pending"] == "0x0"
            });
        }
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

    pub(crate) fn number(&self, method: &str, params: Value) -> U256 {
        quantity(&self.call(method, params))
    }

    pub(crate) fn balance(&self, address: Address) -> U256 {
        self.number("eth_getBalance", json!([address, "latest"]))
    }

    pub(crate) fn head(&self) -> u64 {
        self.number("eth_blockNumber", json!([])).to()
    }

    /// Sends `value` wei from an account of the node and returns the hash of the transaction.
    pub(crate) fn send(&self, from: Address, to: Address, value: u64) -> Value {
        let value = U256::from(value);
        self.call("eth_sendTransaction", json!([{ "from": from, "to": to, "value": value }]))
    }

    /// Returns the largest memory use of the process so far, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Asks the node to stop, waits for its end, and returns the exit code.
    pub(crate) fn stop(self) -> Option<i32> {
        self.server.stop()
    }

    /// Kills the process.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

/// Waits until `holds` returns true, for at most two minutes. The panic after that has the message `what`.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Reads a number from an answer.
#[track_caller]
pub(crate) fn quantity(value: &Value) -> U256 {
    let text = value.as_str().unwrap_or_else(|| panic!("{value} is no number"));
    U256::from_str_radix(text.strip_prefix("0x").unwrap(), 16).unwrap()
}

/// Returns the names of all layers of the build.
pub(crate) fn layers() -> impl Iterator<Item = &'static str> {
    polytrie::layers::LAYERS.iter().map(|layer| layer.name)
}
