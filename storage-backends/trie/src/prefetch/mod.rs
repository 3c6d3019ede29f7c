//! Reading ahead of paths: other threads ([`polytrie_state::ahead`]) read the rows of nodes that a block will need.
//!
//! ```text
//!  the thread of the tries                          threads of `Readers`
//!  ───────────────────────                          ────────────────────
//!  Prefetcher::want(trie, key, depth) ─► queue ───► some keys at a time: the rows of one level of all of
//!                                                   them with one `get_many`, then those of the next level
//!  Trie::get, update ─► Prefetcher::rows ◄──────── found rows
//!                             └─► the store, for what was not read ahead
//! ```
//!
//! - `paths.rs`: the rows of many paths, level by level,
//! - `prefetcher.rs`: the paths of a layer's tries.
//!
//! No result depends on reading ahead, and an error there is not reported: the block meets it when it needs the row.
//! A panic is reported ([`Readers::check`](polytrie_state::ahead::Readers::check)).

mod paths;
mod prefetcher;
#[cfg(test)]
mod tests;

pub use paths::Owner;
pub use prefetcher::Prefetcher;
