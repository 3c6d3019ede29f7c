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
//! The trie is that of [`polytrie_mpt_hash`], with a row for every node under its hash. Only slots are flat; accounts
//! are read from the trie. Every SLOAD and SSTORE that the EVM makes requests its path, even if that of the same slot
//! was requested before. No node of the trie is changed before the block ends.
//!
//! The paper's second database is a separate table here, or a second store with `--replica.path`. It commits with the
//! trie, as [`Flat`] describes: the arrangement as printed leaves two databases that differ after a crash.
//!
//! - `layer.rs`: the layer, and its outcomes with flat rows beside those of the trie,
//! - `session.rs`: one block in progress,
//! - `fetch.rs`: the queue and the threads behind it.
//!
//! [`Flat`]: crate::flat::Flat

mod fetch;
mod layer;
mod session;

pub use layer::{PaperLayer, PaperOptions};
