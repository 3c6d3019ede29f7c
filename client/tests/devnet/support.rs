//! Starts a node in a separate process and sends requests to it.

use crate::{run::binary, testsetup};
use alloy_primitives::{Address, U256, address};
use serde_json::{Value, json};
use std::{
    ffi::OsString,
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// The first accounts of the common test mnemonic.
pub(crate) const ALICE: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
pub(crate) const BOB: Address = address!("70997970C51812dc3A010C7d01b50e0d17dc79C8");

/// The longest time to wait for an answer, and for the end of a call. No request of the tests takes that long, even if
/// a thread of the node stands still for a while on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// The time after which a request that sends a transaction may have ended without a block: the node waits for the
/// block for five seconds.
const WAIT_FOR_A_BLOCK: Duration = Duration::from_secs(4);

/// A running node. It is killed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Devnet {
    child: Child,
    address: String,
}

/// Converts arguments of different types to `OsString`.
macro_rules! args {
    ($($arg:expr),* $(,)?) => {
        vec![$(std::ffi::OsString::from($arg)),*]
    };
}
pub(crate) use args;

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
        Self::run_with(more, File::create(log).unwrap().into(), Some(testsetup::dir()))
    }

    /// Starts a node in memory without a prepared setup. A setup that it prepares is kept in `cache`.
    pub(crate) fn unprepared(layer: &str, cache: &Path, log: &Path) -> Self {
        let args = args!["--state", layer];
        Self::run_in(args, File::create(log).unwrap().into(), None, Some(cache))
    }

    fn run(args: Vec<OsString>) -> Self {
        Self::run_with(args, Stdio::inherit(), Some(testsetup::dir()))
    }

    fn run_with(args: Vec<OsString>, log: Stdio, setup: Option<PathBuf>) -> Self {
        Self::run_in(args, log, setup, None)
    }

    fn run_in(
        mut args: Vec<OsString>,
        log: Stdio,
        setup: Option<PathBuf>,
        cache: Option<&Path>,
    ) -> Self {
        let mut command = Command::new(binary());
        match setup {
            Some(setup) => command.env("POLYTRIE_LVMT_SETUP", setup),
            None => command.env_remove("POLYTRIE_LVMT_SETUP"),
        };
        if let Some(cache) = cache {
            command.env("XDG_CACHE_HOME", cache);
        }
        if !args.iter().any(|arg| arg == "--rpc.evmtimeout") {
            // The usual limit is five seconds.
            args.extend(args!["--rpc.evmtimeout", PATIENCE.as_secs().to_string()]);
        }
        let mut child = command
            .arg("devnet")
            .args(["--http.port", "0"])
            .args(args)
            .env_remove("RUST_LOG")
            .stderr(log)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().expect("the node says where it listens").unwrap();
            if let Some(rest) = line.strip_prefix("listening on http://") {
                break rest.split(' ').next().unwrap().to_owned();
            }
        };
        Self { child, address }
    }

    /// Sends the bytes of an HTTP request, and returns the status and the body of the answer.
    pub(crate) fn http(&self, request: &str) -> (u16, String) {
        let mut stream = self.request(request);
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap_or("0").parse().unwrap_or(0);
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status, body.to_owned())
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
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        self.http(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    }

    pub(crate) fn post(&self, body: &str) -> (u16, String) {
        let length = body.len();
        self.http(&format!(
            "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ))
    }

    /// Sends a JSON-RPC request and does not wait for the answer.
    pub(crate) fn request_of(&self, method: &str, params: &Value) -> TcpStream {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let body = request.to_string();
        let length = body.len();
        self.request(&format!(
            "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ))
    }

    /// Returns the whole answer to a request. If the node makes a block for each transaction that arrives, the block of
    /// a transaction that was sent is there when this returns.
    pub(crate) fn answer(&self, method: &str, params: Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let started = Instant::now();
        let (status, body) = self.post(&request.to_string());
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
        let mut answer = self.answer(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    /// Returns the code and message of the error of a request, which must fail.
    #[track_caller]
    pub(crate) fn error(&self, method: &str, params: Value) -> (i64, String) {
        let answer = self.answer(method, params);
        let error = answer.get("error").unwrap_or_else(|| panic!("{method}: {answer}"));
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
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
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Asks the node to stop, waits for its end, and returns the exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        let until = Instant::now() + Duration::from_secs(120);
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the node does not stop");
    }

    /// Kills the process.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Devnet {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
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
