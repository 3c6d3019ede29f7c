//! The connection to the node.

use crate::prefetch::{
    PrefetchError,
    wire::{HELLO_BYTES, Hello, Message, WireError, notice_loss},
};
use std::{
    io::{self, BufRead, BufReader, Write},
    net::TcpStream,
    time::Duration,
};

/// The connection to the node that executes blocks.
pub(super) struct Node {
    address: String,
    input: BufReader<TcpStream>,
    output: TcpStream,
    /// Number of levels of the account trie that the node keeps in memory.
    pub(super) levels: u8,
}

impl Node {
    /// Connects, and waits for the hello of the node for no longer than `patience`.
    pub(super) fn connect(
        address: &str,
        own: &Hello,
        patience: Duration,
    ) -> Result<Self, PrefetchError> {
        let address = address.to_owned();
        let connect = || -> io::Result<(BufReader<TcpStream>, TcpStream)> {
            let output = TcpStream::connect(&*address)?;
            output.set_nodelay(true)?;
            notice_loss(&output)?;
            output.set_read_timeout(Some(patience))?;
            Ok((BufReader::new(output.try_clone()?), output))
        };
        let (input, output) = connect()
            .map_err(|source| PrefetchError::Connect { address: address.clone(), source })?;
        let mut node = Self { address, input, output, levels: 0 };
        node.send(&Message::Hello(own.clone()))?;
        let objection = match node.greeting(patience)? {
            Message::Hello(hello) => {
                node.levels = hello.levels;
                Hello::objection(&hello, own)
            }
            Message::Refused(reason) => Some(reason),
            _ => return Err(node.broken("it does not answer as a node does")),
        };
        match objection {
            None => Ok(node),
            Some(reason) => Err(PrefetchError::Refused { address: node.address, reason }),
        }
    }

    /// Receives the first message. A server of another protocol may never send one.
    fn greeting(&mut self, patience: Duration) -> Result<Message, PrefetchError> {
        let answer = Message::read(&mut self.input, HELLO_BYTES);
        if matches!(&answer, Err(WireError::Io(error)) if is_timeout(error)) {
            let reason = format!("it has not said hello within {} s", patience.as_secs());
            let source = io::Error::new(io::ErrorKind::TimedOut, reason);
            return Err(PrefetchError::Connect { address: self.address.clone(), source });
        }
        let message = self.received(answer)?;
        self.set_patience(None)?;
        Ok(message)
    }

    /// Waits for a message, no longer than so long. Returns whether there is one, or the connection has ended.
    pub(super) fn has_message(&mut self, patience: Duration) -> Result<bool, PrefetchError> {
        // The system refuses a time of zero.
        self.set_patience(Some(patience.max(Duration::from_millis(1))))?;
        let is_there = match self.input.fill_buf() {
            Ok(_) => true,
            Err(error) if is_timeout(&error) => false,
            Err(error) => return Err(self.broken(&error.to_string())),
        };
        self.set_patience(None)?;
        Ok(is_there)
    }

    /// Sets the time for which a read waits; `None` for ever.
    fn set_patience(&self, patience: Option<Duration>) -> Result<(), PrefetchError> {
        let set = self.output.set_read_timeout(patience);
        set.map_err(|error| self.broken(&error.to_string()))
    }

    pub(super) fn receive(&mut self, most: usize) -> Result<Message, PrefetchError> {
        let answer = Message::read(&mut self.input, most);
        self.received(answer)
    }

    fn received(
        &self,
        answer: Result<Option<Message>, WireError>,
    ) -> Result<Message, PrefetchError> {
        match answer {
            Ok(Some(message)) => Ok(message),
            Ok(None) => Err(self.broken("it is gone without a word")),
            Err(error) => Err(self.broken(&error.to_string())),
        }
    }

    pub(super) fn send(&mut self, message: &Message) -> Result<(), PrefetchError> {
        let sent = self.output.write_all(&message.encode());
        sent.map_err(|error| self.broken(&error.to_string()))
    }

    pub(super) fn broken(&self, reason: &str) -> PrefetchError {
        PrefetchError::Broken { address: self.address.clone(), reason: reason.to_owned() }
    }
}

/// Whether a read has waited for as long as it may.
fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::prefetch::wire::VERSION;
    use alloy_primitives::B256;
    use std::net::TcpListener;

    /// The server may wait for more bytes, as a server of HTTP does.
    #[test]
    fn a_server_that_says_nothing_is_no_node() {
        let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = server.local_addr().unwrap().to_string();
        let (genesis, layer) = (B256::ZERO, "rain".to_owned());
        let own = Hello { version: VERSION, genesis, layer, levels: 0 };
        let found = Node::connect(&address, &own, Duration::from_millis(1));
        let error = found.err().unwrap().to_string();
        assert!(error.contains("has not said hello") && error.contains("--connect"), "{error}");
    }
}
