//! Tests of `import --prefetchers` and `polytrie prefetch`. A prefetcher reads in another process what the import
//! will need; it may save time and must change no result.

use crate::{
    run::{polytrie, program},
    support::{CONDENSE, Data, RPC_COMPAT, assert_fails},
};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, ChildStdin, Stdio},
    thread::{self, JoinHandle},
    time::Duration,
};

/// An import that gets its blocks through a pipe.
struct Import {
    child: Child,
    blocks: ChildStdin,
    stderr: BufReader<std::process::ChildStderr>,
    /// Address that prefetchers connect to.
    address: String,
}

impl Import {
    /// Starts an import into a data directory that exists.
    fn begin(datadir: &Path) -> Self {
        let mut child = program()
            .args(["import", "-", "--prefetchers", "127.0.0.1:0", "--flush-every", "20"])
            .args(["--rain.retain", "0", "--json", "-", "--datadir"])
            .arg(datadir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let blocks = child.stdin.take().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut import = Self { child, blocks, stderr, address: String::new() };
        let line = import.wait_for("prefetchers connect to ");
        import.address = line.rsplit(' ').next().unwrap().to_owned();
        import
    }

    /// Reads standard error until a line contains `words`, and returns that line.
    fn wait_for(&mut self, words: &str) -> String {
        let mut all = String::new();
        loop {
            let before = all.len();
            assert!(self.stderr.read_line(&mut all).unwrap() > 0, "`{words}` was not said: {all}");
            if all[before..].contains(words) {
                return all[before..].trim_end().to_owned();
            }
        }
    }

    /// Starts a prefetcher and waits until it has connected.
    fn prefetcher(&mut self, datadir: &Path) -> Child {
        let child = program()
            .args(["prefetch", "--threads", "2", "--json", "-", "--connect", &self.address])
            .arg("--datadir")
            .arg(datadir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        self.wait_for("has connected");
        child
    }

    /// Sends the last blocks, waits for the end of the import and returns its JSON report.
    fn end(self, blocks: &[u8]) -> Value {
        let Self { mut child, blocks: mut pipe, mut stderr, .. } = self;
        // Standard error must be read: the import blocks when its pipe is full.
        let said: JoinHandle<String> = thread::spawn(move || {
            let mut said = String::new();
            stderr.read_to_string(&mut said).unwrap();
            said
        });
        pipe.write_all(blocks).unwrap();
        drop(pipe);
        let mut report = String::new();
        child.stdout.take().unwrap().read_to_string(&mut report).unwrap();
        let status = child.wait().unwrap();
        let said = said.join().unwrap();
        assert_eq!(status.code(), Some(0), "{said}");
        serde_json::from_str(&report).unwrap()
    }
}

/// Waits for the end of a prefetcher and returns its JSON report.
fn ended(child: Child) -> Value {
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn prefetchers_change_nothing() {
    const TO: u64 = 900;
    let Some(chain) = CONDENSE.open() else { return };
    let plain = chain.imported("rain", TO);
    let data = Data::new();
    let path = data.path();
    polytrie!["init", "--datadir", path, "--chain", chain.chain, "--state", "rain"].ok();
    let mut blocks: Vec<_> = chain.blocks();
    // The blocks begin with the genesis block.
    blocks.truncate(TO as usize + 1);
    let halves = blocks.split_at(blocks.len() / 2);
    let [first, second] = [halves.0, halves.1].map(crate::support::stream);

    let mut import = Import::begin(&path);
    let (stays, mut killed) = (import.prefetcher(&path), import.prefetcher(&path));
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 64], &[0, 0, 0, 1, 6]] {
        let mut stranger = TcpStream::connect(&import.address).unwrap();
        // The import may close the connection before all bytes are sent.
        let _ = stranger.write_all(garbage);
    }
    // A client that connects and sends nothing.
    let silent = TcpStream::connect(&import.address).unwrap();
    import.blocks.write_all(&first).unwrap();
    killed.kill().unwrap();
    killed.wait().unwrap();
    let comes = import.prefetcher(&path);
    let report = import.end(&second);
    drop(silent);

    let prefetchers = &report["prefetchers"];
    assert_eq!(prefetchers["connected"], 3, "{prefetchers}");
    let count = |name: &str| prefetchers[name].as_u64().unwrap();
    assert!(count("announced") > 0 && count("bags") + count("late") > 0, "{prefetchers}");
    assert_eq!(count("refused"), 0, "{prefetchers}");
    assert!(count("used") <= count("nodes"), "{prefetchers}");
    let done: u64 =
        [stays, comes].map(|child| ended(child)["blocks"].as_u64().unwrap()).iter().sum();
    assert!(done <= count("announced"), "{done} {prefetchers}");

    assert_eq!(data.head(), plain.head());
    data.check();
    assert!(data.dump() == plain.dump(), "another state");
}

/// If the node is killed, the prefetcher ends with an error that says so.
#[test]
fn a_node_that_is_killed_leaves_prefetchers_with_a_sentence() {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = Data::new();
    polytrie!["init", "--datadir", data.path(), "--chain", chain.chain, "--state", "rain"].ok();
    let mut import = Import::begin(&data.path());
    let prefetcher = import.prefetcher(&data.path());
    import.child.kill().unwrap();
    import.child.wait().unwrap();
    let output = prefetcher.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    let message = stderr.lines().last().unwrap();
    assert!(message.contains("the connection to the node at 127.0.0.1:"), "{stderr}");
    assert!(message.contains("broke"), "{stderr}");
}

#[cfg(feature = "mpt")]
#[test]
fn only_rain_has_a_use_for_them() {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = Data::new();
    let words = ["`mpt`", "has no use for prefetchers", "use `rain`"];
    let import = |more: &[&str]| {
        let mut args = vec!["import", chain.file.to_str().unwrap()];
        args.extend(["--chain", chain.chain.to_str().unwrap(), "--prefetchers", "127.0.0.1:0"]);
        args.extend(more);
        let path = data.path();
        args.extend(["--datadir", path.to_str().unwrap()]);
        let args: Vec<_> = args.iter().map(std::ffi::OsStr::new).collect();
        crate::run::run(&args, &[])
    };
    assert_fails(&import(&["--state", "mpt"]), 2, &words);
    assert!(!data.path().exists(), "a directory was made for nothing");
    assert_fails(&import(&["--state", "rain", "--kv", "memory"]), 2, &["--kv memory"]);
    polytrie!["init", "--datadir", data.path(), "--chain", chain.chain, "--state", "mpt"].ok();
    assert_fails(&import(&[]), 2, &words);
    let node = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = node.local_addr().unwrap().to_string();
    let run = polytrie!["prefetch", "--connect", address, "--datadir", data.path()];
    assert_fails(&run, 2, &words);
}

#[test]
fn what_a_prefetcher_finds_is_told() {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = Data::new();
    let nowhere = polytrie!["prefetch", "--connect", "127.0.0.1:1", "--datadir", data.path()];
    assert_fails(&nowhere, 2, &["there is no data of polytrie in"]);
    polytrie!["init", "--datadir", data.path(), "--chain", chain.chain, "--state", "rain"].ok();
    let prefetch =
        |address: &str| polytrie!["prefetch", "--connect", address, "--datadir", data.path()];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // A server that is no node.
    let other = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut hello = [0; 4];
        stream.read_exact(&mut hello).unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let run = prefetch(&address);
    assert_fails(&run, 3, &["the connection to the node at", &address, "broke"]);
    other.join().unwrap();
    // The port of the server may be that of another test by now, and no program listens on this one.
    let closed = "127.0.0.1:1";
    assert_fails(&prefetch(closed), 3, &["cannot connect to", closed, "--connect"]);

    // A node with another chain.
    let another = Data::new();
    polytrie!["init", "--datadir", another.path(), "--chain", "dev", "--state", "rain"].ok();
    let mut import = Import::begin(&another.path());
    let run = prefetch(&import.address);
    assert_fails(&run, 2, &["do not fit together", "genesis", "--datadir"]);
    import.child.kill().unwrap();
    import.child.wait().unwrap();
}
