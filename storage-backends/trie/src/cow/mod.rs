//! A trie whose versions share what they have in common: a change copies the path to it as far as other versions hold
//! it, and what no other version holds is changed where it is (RainBlock's DSM-Tree keeps the state like this).
//!
//! A version is a handful of pointers, so it can be kept, compared or dropped at will; what no version refers to
//! any more frees itself. References (hashes) are resolved when somebody asks for them, once a node. A node that is
//! in the store only is a stub with its reference, and is loaded when it is touched.
//!
//! Rows stand under the paths of their nodes, a branch with its leaves (see `row`); they are not those of
//! [`Rows::leaves`](crate::Rows::leaves).
//!
//! A [`CowTrie`] may be the part of a larger trie below some path; then its root is referred to like any node.

mod bag;
mod children;
mod fresh;
mod get;
mod hash;
mod leaves;
mod node;
mod prune;
mod row;
mod update;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;

pub use bag::{Lookup, Split};
pub use leaves::Walked;
pub use node::{CowTrie, CowValue, Joined};
pub use prune::Keep;
