//! The origins of web pages that may call the node.
//!
//! A browser lets any page send requests to `localhost`, and names the page's origin in the header `Origin`. For HTTP,
//! headers of the answer (CORS) decide whether the page may read it, and whether it may send JSON at all. For a
//! WebSocket only the server decides. So both are checked against one list here, and requests of pages that are not on
//! it are refused.

use super::ServeError;
use parking_lot::Mutex;
use std::{collections::BTreeSet, net::IpAddr};

/// Maximum number of refused origins in the log, each logged once.
const TOLD: usize = 16;

/// The origins of pages that may call the node, beside the pages of this machine.
#[derive(Debug)]
pub(super) struct Origins {
    /// The origins in lower case; `None` for any.
    named: Option<Vec<String>>,
    told: Mutex<BTreeSet<String>>,
}

impl Origins {
    /// Creates the list from these origins; `*` allows any.
    ///
    /// # Errors
    ///
    /// If one of them is not an origin.
    pub(super) fn new(origins: &[String]) -> Result<Self, ServeError> {
        let told = Mutex::default();
        if origins.iter().any(|origin| origin == "*") {
            return Ok(Self { named: None, told });
        }
        // Users of geth write `--http.corsdomain ""` for no origin.
        let named = origins.iter().filter(|origin| !origin.is_empty());
        let named = named.map(|origin| in_form(origin)).collect::<Result<_, _>>()?;
        Ok(Self { named: Some(named), told })
    }

    /// Whether pages of any origin may call the node.
    pub(super) const fn are_any(&self) -> bool {
        self.named.is_none()
    }

    /// Whether pages of this origin may call the node.
    pub(super) fn has(&self, origin: &str) -> bool {
        let Some(named) = &self.named else { return true };
        let origin = origin.to_ascii_lowercase();
        is_of_this_machine(&origin) || named.contains(&origin)
    }

    /// Whether a page of this origin may send a request with this `Host` header. The node's own page may too.
    pub(super) fn may_call(&self, origin: &str, host: &str) -> bool {
        let own = origin.split_once("://").map(|(_, host)| host);
        let may = own.is_some_and(|own| own.eq_ignore_ascii_case(host)) || self.has(origin);
        if !may {
            self.tell(origin);
        }
        may
    }

    fn tell(&self, origin: &str) {
        let origin: String = origin.chars().filter(|c| !c.is_control()).take(200).collect();
        let mut told = self.told.lock();
        if told.len() < TOLD && told.insert(origin.clone()) {
            tracing::warn!(
                "a page of the origin {origin} was refused; if it may use the accounts of this node, start it with --http.corsdomain {origin}"
            );
        }
    }
}

/// Returns an origin of the options in the form in which browsers send it.
fn in_form(origin: &str) -> Result<String, ServeError> {
    let text = origin.trim().trim_end_matches('/').to_ascii_lowercase();
    let host = text.split_once("://").map(|(scheme, host)| (scheme.is_empty(), host));
    let is_origin = host.is_some_and(|(no_scheme, host)| {
        !no_scheme && !host.is_empty() && !host.contains(['/', '*']) && host.is_ascii()
    });
    if is_origin || text == "null" { Ok(text) } else { Err(ServeError::Origin(origin.to_owned())) }
}

/// Whether an origin is this machine, on any port, as that of most dapps in development.
fn is_of_this_machine(origin: &str) -> bool {
    let Some(("http" | "https", host)) = origin.split_once("://") else { return false };
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').unwrap_or((rest, "")),
        None => host.find(':').map_or((host, ""), |at| host.split_at(at)),
    };
    let is_port =
        port.is_empty() || port.strip_prefix(':').is_some_and(|p| p.parse::<u16>().is_ok());
    let is_here = name == "localhost"
        || name.ends_with(".localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_port && is_here
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn origins(named: &[&str]) -> Origins {
        let named: Vec<_> = named.iter().map(|&origin| origin.to_owned()).collect();
        Origins::new(&named).unwrap()
    }

    #[test]
    fn pages_of_this_machine_may_call_from_any_port() {
        let none = origins(&[]);
        for origin in [
            "http://localhost",
            "http://localhost:3000",
            "https://LOCALHOST:5173",
            "http://127.0.0.1:8080",
            "http://127.8.9.1",
            "http://[::1]:3000",
            "http://app.localhost:3000",
        ] {
            assert!(none.may_call(origin, "localhost:8545"), "{origin}");
        }
        for origin in [
            "https://evil.example",
            "http://localhost.evil.example",
            "http://localhost:8545.evil.example",
            "http://localhost:3000/evil.example",
            "http://evil.example:3000#localhost",
            "http://10.0.0.1:3000",
            "http://[::2]:3000",
            "http://user@localhost.evil",
            "chrome-extension://abcdefghijklmnop",
            "moz-extension://localhost",
            "file://",
            "null",
            "localhost:3000",
            "",
        ] {
            assert!(!none.may_call(origin, "localhost:8545"), "{origin}");
        }
        // The node's own page is allowed under any name of the node.
        assert!(none.may_call("http://node.example:8545", "NODE.example:8545"));
        assert!(!none.may_call("http://node.example:8546", "node.example:8545"));
    }

    #[test]
    fn others_are_named() {
        let some = origins(&["https://Wallet.example/", "chrome-extension://abc", "null"]);
        for origin in
            ["https://wallet.example", "chrome-extension://abc", "null", "http://localhost:1"]
        {
            assert!(some.may_call(origin, "localhost"), "{origin}");
        }
        assert!(!some.may_call("http://wallet.example", "localhost"));
        assert!(!origins(&[""]).may_call("https://wallet.example", "localhost"));
        assert!(origins(&["https://wallet.example", "*"]).may_call("https://evil.example", ""));
        for wrong in
            ["wallet.example", "https://", "https://*.example", "https://a.example/path", "://a"]
        {
            let error = Origins::new(&[wrong.to_owned()]).unwrap_err().to_string();
            assert!(error.contains("is not an origin"), "{wrong}: {error}");
        }
    }
}
