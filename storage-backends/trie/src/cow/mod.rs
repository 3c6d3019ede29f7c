//! A trie whose versions share nodes. A change copies those nodes on the path to it that other versions hold, and
//! changes in place those that no other version holds (RainBlock's DSM-Tree keeps the state like this).
//!
//! A version is a handful of pointers, so it can be kept, compared or dropped at will; a node that no version refers to
//! is freed. References (hashes) are computed on request, once for each node. A node that is only in the store is a
//! stub with its reference, and is loaded when it is touched.
//!
//! The arena's [`Trie`](crate::Trie) is the alternative: it has one version, whose nodes are changed and dropped in
//! place. It takes less memory and work a node, and cannot be compared with an earlier state.
//!
//! Rows stand under the paths of their nodes, a branch with its leaves (see `row`). Rows of the arena's trie, in which
//! a branch also has the extension before it, can be read too, so proofs and witnesses of both tries are made here.
//!
//! A row may also come from a sender that is not trusted ([`RowSource::given`](crate::RowSource::given)). Its hash is
//! compared with the reference that leads to it. Each reference in a row is one item of RLP, so the hash tells where the
//! children stand. It does not tell which children are leaves, that is, which ones are in the row of the branch and have
//! no row of their own. Therefore such a branch is in doubt: a child without a row is looked for in the stored row of
//! the branch, and that row is read before it is replaced, once for each branch and together with others.
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
mod paths;
mod prune;
mod row;
mod storages;
mod update;
mod witness;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;

pub use bag::{Lookup, PutRow};
pub use entry::{Entry, Storage};
pub use leaves::Walked;
pub use node::{CowTrie, CowValue};
pub use paths::Way;
pub use prune::Keep;
pub use row::hash_of_row;
pub use witness::StateTries;
