//! Reading ahead: what a block will need is read by other threads before the block comes to it.
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
//! - `readers.rs`: the threads, and whether the store is so slow that they pay,
//! - `reading.rs`: what waits to be read ahead for one block, whatever it is,
//! - `paths.rs`: the rows of many paths, level by level,
//! - `prefetcher.rs`: paths of a layer's tries.
//!
//! Nothing depends on what is read ahead, and an error there is not reported: the block meets it where it needs the row.
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
