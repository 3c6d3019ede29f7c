//! Prefetchers: processes of their own, on other machines perhaps, that read for a node what its next blocks will need.
//!
//! ```text
//! import ──► announces blocks whose turn has not come ──► prefetcher: runs their transactions on the durable state
//!   │                                                         │       that it sees, some blocks behind
//!   │ layer: asks here before it asks its store               ▼
//!   └──────◄── bag: the stored nodes on the way to what they touched
//! ```
//!
//! No block waits for a prefetcher, and no result depends on one: each node is verified by its hash where it is used
//! ([`Bags`](polytrie_state::Bags)). Whoever can reach the port sees the blocks that are announced, and can waste time; so it
//! belongs into a private network.

mod client;
mod error;
mod server;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
mod wire;

pub use client::{PrefetchOptions, Prefetched, prefetch};
pub use error::PrefetchError;
pub use server::{PrefetcherReport, Prefetchers};
