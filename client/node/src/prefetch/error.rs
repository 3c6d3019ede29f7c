//! The errors of prefetchers, and of the node that listens for them.

use crate::datadir::OpenError;
use polytrie_kv::KvError;
use polytrie_state::StateError;
use std::{io, net::SocketAddr};
use thiserror::Error;

/// Prefetching is not possible, or has ended early.
#[derive(Debug, Error)]
pub enum PrefetchError {
    /// The node cannot listen for prefetchers.
    #[error("cannot listen on {address}: {source}; name another address with --prefetchers")]
    Listen {
        /// The address to listen on.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The node cannot be reached.
    #[error(
        "cannot connect to {address}: {source}; --connect names the address on which `polytrie import --prefetchers` listens"
    )]
    Connect {
        /// The address to connect to.
        address: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The node and the prefetcher do not work together.
    #[error("the node at {address} and this prefetcher do not fit together: {reason}")]
    Refused {
        /// The address of the node.
        address: String,
        /// The difference between the two.
        reason: String,
    },
    /// The connection ended before the node was done.
    #[error(
        "the connection to the node at {address} broke: {reason}; the node goes on without this prefetcher, which can be started again"
    )]
    Broken {
        /// The address of the node.
        address: String,
        /// The reason that was found.
        reason: String,
    },
    /// The data directory cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The layer does not support prefetchers, or failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The system gives no thread.
    #[error(transparent)]
    Thread(#[from] KvError),
}
