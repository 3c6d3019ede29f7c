//! A node in a separate process, and JSON-RPC with it over HTTP.

use alloy_primitives::{Address, address};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    ffi::OsString,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// An account with ether on the chain `dev`, the first one of the common test mnemonic.
pub(crate) const ALICE: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");

/// The longest time to wait for an answer, and for the end of a call. No request of the tests takes that long, even if
/// a thread of the node stands still for a while on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// Converts arguments of different types to `OsString`.
macro_rules! args {
    ($($arg:expr),* $(,)?) => {
        vec![$(std::ffi::OsString::from($arg)),*]
    };
}
pub(crate) use args;

/// The process of a node. It is killed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Server(Child);

impl Server {
    /// Starts a node. Returns the addresses of its servers: each is in the next line of the output that begins with the
    /// words in `listens`.
    pub(crate) fn start<const N: usize>(
        mut command: Command,
        args: Vec<OsString>,
        listens: [&str; N],
    ) -> (Self, [String; N]) {
        if !args.iter().any(|arg| arg == "--rpc.evmtimeout") {
            // The usual limit is five seconds.
            command.args(args!["--rpc.evmtimeout", PATIENCE.as_secs().to_string()]);
        }
        command.args(args).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program can be started");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let addresses = listens.map(|before| {
            let address = lines.by_ref().find_map(|line| {
                Some(line.unwrap().strip_prefix(before)?.split(' ').next().unwrap().to_owned())
            });
            address.expect("the node says where it listens")
        });
        (Self(child), addresses)
    }

    /// Returns the ID of the process.
    pub(crate) fn id(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Asks the node to stop, waits for its end, and returns the exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        kill_process(self.id(), Signal::INT).unwrap();
        let until = Instant::now() + Duration::from_secs(120);
        while Instant::now() < until {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("the node does not stop");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the text of a JSON-RPC request.
pub(crate) fn request(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}

/// Returns the HTTP request that posts a body of JSON, with these header lines.
pub(crate) fn post_with(headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// Sends the bytes of an HTTP request, and returns the connection.
pub(crate) fn send(address: &str, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Sends the bytes of an HTTP request, and returns the status and the body of the answer.
pub(crate) fn http(address: &str, request: &str) -> (u16, String) {
    let mut answer = Vec::new();
    send(address, request).read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap_or("0").parse().unwrap_or(0);
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, body.to_owned())
}

/// Returns the result in the answer to a request, which must be no error.
#[track_caller]
pub(crate) fn result(method: &str, mut answer: Value) -> Value {
    assert!(answer.get("error").is_none(), "{method}: {answer}");
    answer["result"].take()
}

/// Returns the code and message of the error in the answer to a request.
#[track_caller]
pub(crate) fn error(method: &str, answer: &Value) -> (i64, String) {
    let error = answer.get("error").unwrap_or_else(|| panic!("{method}: {answer}"));
    (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
}
