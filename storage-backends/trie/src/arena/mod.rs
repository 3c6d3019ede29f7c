//! The trie engine for one head: nodes in slabs, changed and dropped in place.
//!
//! [`cow`](crate::cow) keeps tries too, and many versions of them. There are two engines because the second one costs
//! more: every node there is a separate allocation with a reference count, is copied if another version holds it, and
//! is reached by a pointer. The table shows `mpt` on the copy-on-write tree, with nothing else changed: its
//! operations per second as a fraction of those with the arena (release builds in turns, medians of three pairs, two
//! cores, MDBX; `bench chain --workload W --accounts 1000000 --txs 100000` and `bench store --keys N --blocks 5`,
//! `--states mpt`):
//!
//! | transfers | ERC-20 | store, 1,000,000 keys | store, 10,000,000 keys |
//! |---|---|---|---|
//! | 0.79 (0.79–0.82) | 0.81 (0.79–0.83) | 0.68 (0.64–0.71) | 0.53 (0.50–0.66) |
//!
//! A layer with one head takes this engine; a layer with many versions at once takes `cow`.

mod evict;
mod get;
mod hash;
mod proof;
mod slabs;
mod trie;
mod update;

pub use evict::Cut;
pub use trie::Trie;
