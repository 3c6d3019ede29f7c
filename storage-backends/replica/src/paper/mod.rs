//! `--replica.mode paper`: Storage Replica as the paper prints it, over the trie that its authors measured against.
//!
//! ```text
//!  executing thread                       fetchers, which only read        the end of the block
//!  ────────────────                       ─────────────────────────        ────────────────────
//!  SLOAD ──┬─ flat row of the slot
//!          └─ path ─► bounded queue ────► nodes of the path ─► cache ───►  one thread changes the trie
//!  SSTORE ─── path ─► (full: the EVM                                       over the nodes in the cache
//!                      waits)                                              and hashes it
//! ```
//!
//! The trie is that of [`polytrie_mpt_hash`], with a row for every node under its hash. Only slots are flat; accounts are
//! read from the trie. Every SLOAD and SSTORE that the EVM makes asks for its path, those of a slot that was asked for
//! before, too. Nothing of the trie is changed before the block ends.
//!
//! The paper's second database is a table of its own here, or a store of its own with `--replica.path`. It commits with
//! the trie, as [`Flat`] describes: what is printed about that leaves two databases that differ after a crash.
//!
//! - `layer.rs`: the layer, and its outcomes with flat rows beside those of the trie,
//! - `session.rs`: one block under way,
//! - `fetch.rs`: the queue and the threads behind it.
//!
//! [`Flat`]: crate::flat::Flat

mod fetch;
mod layer;
mod session;

pub use layer::{PaperLayer, PaperOptions};
