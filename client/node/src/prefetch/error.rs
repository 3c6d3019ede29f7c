//! Why there are no prefetchers, or why one ends.

use crate::datadir::OpenError;
use polytrie_kv::KvError;
use polytrie_state::StateError;
use std::{io, net::SocketAddr};
use thiserror::Error;

/// Prefetching is not possible, or not any more.
#[derive(Debug, Error)]
pub enum PrefetchError {
    /// The node cannot take in prefetchers.
    #[error("cannot listen on {address}: {source}; name another address with --prefetchers")]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// The operating system's words.
        source: io::Error,
    },
    /// The node is not reached.
    #[error(
        "cannot connect to {address}: {source}; --connect names the address on which `polytrie import --prefetchers` listens"
    )]
    Connect {
        /// What was asked for.
        address: String,
        /// The operating system's words.
        source: io::Error,
    },
    /// One side has no use for the other.
    #[error("the node at {address} and this prefetcher do not fit together: {reason}")]
    Refused {
        /// Where the node is.
        address: String,
        /// What does not fit.
        reason: String,
    },
    /// The connection ended before the node did.
    #[error(
        "the connection to the node at {address} broke: {reason}; the node goes on without this prefetcher, which can be started again"
    )]
    Broken {
        /// Where the node is.
        address: String,
        /// What was seen of it.
        reason: String,
    },
    /// The data directory cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The layer cannot do this, or failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The system gives no thread.
    #[error(transparent)]
    Thread(#[from] KvError),
}
