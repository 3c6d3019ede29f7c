//! The official blockchain tests: a genesis state, blocks good and bad, and the state they must end in.
//!
//! Every test runs through the same path as an import: a [`Chain`](crate::chain::Chain) with the state
//! layer asked for, on a store in memory; each block goes from its RLP through
//! [`Candidate::prepare`](crate::chain::Candidate::prepare) into
//! [`Chain::insert`](crate::chain::Chain::insert). A test passes if
//!
//! - every valid block is accepted, with the hash that the test gives it;
//! - every invalid block is refused as invalid, and not mistaken for a failure of the node; a block of another
//!   branch, which an import executes only once that branch is the better one, is executed at once;
//! - the head at the end is the test's last block;
//! - accounts, code hashes and slots of the layer are those of the test's post-state, and the state root that
//!   they make is the one in the head.
//!
//! For a layer that has no state root of its own, the root is made here from accounts and slots after every
//! block, and a block that says another is taken back. What no such layer can give are the state roots within
//! a block that receipts before Byzantium hold: a test whose block is invalid for nothing but the receipts
//! root is then skipped, with that reason.
//!
//! Not checked: the seal of proof of work. No test depends on it: each block that is invalid has another
//! fault.
//!
//! The format is that of [ethereum/tests](https://github.com/ethereum/tests), its legacy tests, and the
//! `blockchain_tests` of execution-spec-tests. A JSON file or an entry of one in another format (a state test,
//! a test of the engine API) is skipped, with that reason.

mod error;
mod files;
mod format;
mod post_state;
mod report;
mod runner;
mod test;

pub use error::ConformanceError;
pub use report::{ConformanceReport, FileReport, Outcome, Summary, TestReport};
pub use runner::{ConformanceOptions, run};
