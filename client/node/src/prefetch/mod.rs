//! Prefetchers: separate processes, also on other machines, which read for a node the trie nodes that its next blocks
//! will need.
//!
//! ```text
//! import ──► announces blocks before it executes them ────► prefetcher: runs their transactions on the durable state
//!   │                                                         │       that it sees, some blocks behind
//!   │ layer: looks here before it reads its store             ▼
//!   └──────◄── bag: the stored nodes on the paths to the keys that they touched
//! ```
//!
//! A block waits for its bag no longer than it would take without one, and for no prefetcher that was late before. No
//! result depends on a prefetcher: each node is verified by its hash where it is used ([`Bags`](polytrie_state::Bags)).
//! Any process that can reach the port sees the announced blocks and can waste time, so the port must be in a private
//! network.

mod client;
mod error;
#[cfg(feature = "fuzzing")]
mod frames;
mod server;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
mod wire;

pub use client::{PrefetchOptions, Prefetched, prefetch};
pub use error::PrefetchError;
#[cfg(feature = "fuzzing")]
pub use frames::{Frame, bag_frame, read_frame};
pub use server::{PrefetcherReport, Prefetchers};
