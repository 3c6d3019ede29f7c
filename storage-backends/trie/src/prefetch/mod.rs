//! Reading ahead: other threads read the rows that a block will need before the block needs them.
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
//! - `readers.rs`: the threads, and the measurement of whether the store is slow enough for them to help,
//! - `reading.rs`: the queue of items to read ahead for one block, whatever they are,
//! - `paths.rs`: the rows of many paths, level by level,
//! - `prefetcher.rs`: the paths of a layer's tries.
//!
//! No result depends on reading ahead, and an error there is not reported: the block meets it when it needs the row.
//! A panic is reported ([`Readers::check`]).

mod paths;
mod prefetcher;
mod readers;
mod reading;
#[cfg(test)]
mod tests;

pub use paths::Owner;
pub use prefetcher::Prefetcher;
pub use readers::Readers;
pub use reading::{ReadAhead, Reading};
