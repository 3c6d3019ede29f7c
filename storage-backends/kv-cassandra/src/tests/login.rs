//! Nodes that ask for credentials, with TLS and without it: a few frames of the protocol on this machine, no cluster.

use super::certificates::{Authority, Identity};
use crate::{Access, Cluster, Login};
use parking_lot::Mutex;
use rustls::{ServerConfig, ServerConnection, StreamOwned, crypto::aws_lc_rs};
use std::{
    fs,
    io::{self, Read, Write},
    net::TcpListener,
    path::PathBuf,
    sync::Arc,
    thread,
    time::Duration,
};
use tempfile::TempDir;

// Requests and answers, as the protocol numbers them.
const ERROR: u8 = 0;
const STARTUP: u8 = 1;
const AUTHENTICATE: u8 = 3;
const OPTIONS: u8 = 5;
const SUPPORTED: u8 = 6;
const AUTH_RESPONSE: u8 = 15;
/// The version of the protocol, and the bit that marks an answer.
const VERSION: u8 = 4;
const ANSWER: u8 = 0x80;
/// The code of the error of a login.
const BAD_CREDENTIALS: u32 = 0x100;

/// The answer of Cassandra to a wrong password.
const WRONG: &str = "Provided username importer and/or password are incorrect";
/// The answer of a node that too few others answer.
const NOT_NOW: &str = "Unable to perform authentication: Operation timed out";
/// A test that waits for this long has failed.
const LONG: Duration = Duration::from_secs(600);

/// A node that refuses each login.
struct Node {
    address: String,
    /// The tokens that were sent to it.
    logins: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Node {
    /// Starts a node that answers a login with `said`. If it has an identity, it takes connections with TLS only.
    fn start(said: &'static str, identity: Option<Identity>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let logins = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let (seen, tls) = (Arc::clone(&logins), identity.map(proving));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (seen, tls) = (Arc::clone(&seen), tls.clone());
                thread::spawn(move || match tls {
                    None => converse(stream, said, &seen),
                    Some(tls) => {
                        let connection = ServerConnection::new(tls).unwrap();
                        converse(StreamOwned::new(connection, stream), said, &seen)
                    }
                });
            }
        });
        Self { address, logins }
    }

    /// Returns the error of a client that connects.
    fn refuse(&self, access: &Access, patience: Duration) -> String {
        let nodes = [self.address.clone()];
        Cluster::connect(&nodes, "keyspace", access, patience, true).unwrap_err().to_string()
    }
}

/// Makes the settings of a node with this certificate and key.
fn proving((certificate, key): Identity) -> Arc<ServerConfig> {
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key);
    Arc::new(config.unwrap())
}

/// Answers requests until the client ends the connection.
fn converse(
    mut stream: impl Read + Write,
    said: &str,
    logins: &Mutex<Vec<Vec<u8>>>,
) -> io::Result<()> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let [version, _, high, low, request, length @ ..] = head;
        if version != VERSION {
            stream.write_all(&[ANSWER | VERSION, 0, 0, 0, ERROR, 0, 0, 0, 6, 0, 0, 0, 10, 0, 0])?;
            // If the rest were left unread, the system would take the answer back.
            return io::copy(&mut stream, &mut io::sink()).map(drop);
        }
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut body)?;
        let (kind, answer) = match request {
            OPTIONS => (SUPPORTED, vec![0, 0]),
            STARTUP => (AUTHENTICATE, text("org.apache.cassandra.auth.PasswordAuthenticator")),
            AUTH_RESPONSE => {
                logins.lock().push(body);
                (ERROR, [&BAD_CREDENTIALS.to_be_bytes()[..], &text(said)].concat())
            }
            other => panic!("a client that is not logged in sent the request {other}"),
        };
        let head = [ANSWER | VERSION, 0, high, low, kind];
        let length = (answer.len() as u32).to_be_bytes();
        stream.write_all(&[&head[..], &length, &answer].concat())?;
        stream.flush()?;
    }
}

/// Returns a string as the protocol has it.
fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
}

/// Returns credentials whose password is in a file of this directory.
fn login(dir: &TempDir) -> Option<Login> {
    let password_file = dir.path().join("password");
    fs::write(&password_file, "sesame\n").unwrap();
    Some(Login { user: "importer".to_owned(), password_file })
}

/// Makes an authority.
fn authority() -> Authority {
    Authority::new("authority of the tests")
}

/// Writes the certificate of an authority to a file of this name in the directory. Returns its path.
fn trusted(dir: &TempDir, name: &str, authority: &Authority) -> Option<PathBuf> {
    let file = dir.path().join(name);
    fs::write(&file, authority.pem()).unwrap();
    Some(file)
}

#[test]
fn a_wrong_password_is_sent_once() {
    let (dir, node) = (TempDir::new().unwrap(), Node::start(WRONG, None));
    let error = node.refuse(&Access { login: login(&dir), tls_ca: None }, LONG);
    for words in ["refuse the role `importer`", WRONG, "/password", "--kv.password-file"] {
        assert!(error.contains(words), "{error}");
    }
    assert!(!error.contains("sesame"), "{error}");
    assert_eq!(*node.logins.lock(), [b"\0\0\0\x10\0importer\0sesame".to_vec()]);
}

#[test]
fn who_has_no_password_learns_how_to_give_one() {
    let node = Node::start(WRONG, None);
    let error = node.refuse(&Access::default(), LONG);
    assert!(error.contains("--kv.user") && error.contains("--kv.password-file"), "{error}");
    assert!(node.logins.lock().is_empty());
}

#[test]
fn a_password_that_nodes_cannot_look_up_may_be_right() {
    let (dir, node) = (TempDir::new().unwrap(), Node::start(NOT_NOW, None));
    let error = node.refuse(&Access { login: login(&dir), tls_ca: None }, Duration::ZERO);
    assert!(error.contains("too few nodes") && error.contains(NOT_NOW), "{error}");
}

#[test]
fn a_node_proves_by_its_address_who_it_is() {
    let (dir, authority) = (TempDir::new().unwrap(), authority());
    let other = Authority::new("other of the tests");
    let tls_ca = |name: &str| match name {
        "other.pem" => trusted(&dir, name, &other),
        _ => trusted(&dir, name, &authority),
    };
    let access = |name: &str| Access { login: login(&dir), tls_ca: tls_ca(name) };
    let node = Node::start(WRONG, Some(authority.node("127.0.0.1")));
    let error = node.refuse(&access("authority.pem"), LONG);
    assert!(error.contains("refuse the role `importer`"), "{error}");
    assert_eq!(node.logins.lock().len(), 1);

    // The password is sent to no node that proves nothing.
    let named = Node::start(WRONG, Some(authority.node("localhost")));
    for (node, name) in [(&node, "other.pem"), (&named, "authority.pem")] {
        node.logins.lock().clear();
        let error = node.refuse(&access(name), LONG);
        for words in ["certificate of a node is not accepted", name, "IP address", "--kv.tls-ca"] {
            assert!(error.contains(words), "{error}");
        }
        assert!(node.logins.lock().is_empty());
    }
}

#[test]
fn both_sides_have_tls_or_neither() {
    let (dir, authority) = (TempDir::new().unwrap(), authority());
    let plain = Node::start(WRONG, None);
    let tls_ca = trusted(&dir, "authority.pem", &authority);
    let access = Access { login: login(&dir), tls_ca };
    let error = plain.refuse(&access, LONG);
    assert!(error.contains("without TLS") && error.contains("--kv.nodes"), "{error}");
    assert!(plain.logins.lock().is_empty());

    let secret = Node::start(WRONG, Some(authority.node("127.0.0.1")));
    let error = secret.refuse(&Access { login: login(&dir), tls_ca: None }, Duration::ZERO);
    assert!(error.contains("too few nodes") && error.contains("--kv.tls-ca"), "{error}");
    assert!(secret.logins.lock().is_empty());
}
