//! The trie of one head: nodes in slabs, changed and dropped where they are.
//!
//! [`cow`](crate::cow) keeps tries too, and many versions of them. Two engines stand here because the second one costs: every
//! node there is an allocation of its own, which is counted, copied where a version holds it, and reached by a pointer.
//! With `mpt` on the copy-on-write tree and nothing else changed (release builds in turns, medians of three pairs, two
//! cores, MDBX; `bench chain --workload W --accounts 1000000 --txs 100000` and `bench store --keys N --blocks 5`, `--states
//! mpt`), a second had as many operations as this part of what it has with the arena:
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

pub use evict::{Ages, Cut};
pub use trie::Trie;
