//! A trie whose versions share what they have in common: a change copies the path to it as far as other versions hold
//! it, and what no other version holds is changed where it is (RainBlock's DSM-Tree keeps the state like this).
//!
//! A version is a handful of pointers, so it can be kept, compared or dropped at will; what no version refers to
//! any more frees itself. References (hashes) are resolved on request, once a node. A node that is
//! in the store only is a stub with its reference, and is loaded when it is touched.
//!
//! The arena's [`Trie`](crate::Trie) is the other way: one version, whose nodes are changed and dropped where they are, for
//! less memory and work a node, and which cannot be compared with what it was.
//!
//! Rows stand under the paths of their nodes, a branch with its leaves (see `row`). Those of the arena's trie, in which a
//! branch has the extension before it too, are read as well, so whatever only reads needs no second way: proofs and
//! witnesses are made here for both.
//!
//! A row may also come from somebody who need not be trusted ([`RowSource::given`](crate::RowSource::given)): its hash is that
//! of the reference that leads to it. The hash does not tell which children are leaves, and so stand in the stored row and have
//! none of their own. Such a branch doubts what it was told: a child without a row is looked for in the stored row of its
//! branch, and so it is before that is replaced.
//!
//! A [`CowTrie`] may be the part of a larger trie below some path; then its root is referred to like any node.

mod bag;
mod children;
mod entry;
mod fresh;
mod get;
mod hash;
mod leaves;
mod node;
mod parts;
mod prune;
mod row;
mod update;
mod witness;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;

pub use bag::{Lookup, PutRow};
pub use entry::{Entry, Storage};
pub use leaves::Walked;
pub use node::{CowTrie, CowValue};
pub use prune::Keep;
pub use row::hash_of_row;
pub use witness::StateTries;
