//! The official tests of execution: chains of blocks good and bad, the same as calls of the Engine API, and single
//! transactions.
//!
//! What an entry of a file is, its content tells:
//!
//! | it has | it is | format of |
//! |---|---|---|
//! | `blocks` | a blockchain test | [ethereum/tests](https://github.com/ethereum/tests), its legacy tests, `blockchain_tests` of execution-spec-tests |
//! | `engineNewPayloads` | an engine test | `blockchain_tests_engine` of execution-spec-tests |
//! | `transaction` and `post` | a state test; each transaction under each fork counts as one | `state_tests` of execution-spec-tests, `GeneralStateTests` with signed transactions |
//!
//! Any other entry or JSON file is skipped, with the reason, and so are the few tests in `superseded.rs`.
//!
//! A blockchain test runs through the same path as an import: a [`Chain`](polytrie_chain::Chain) with the state
//! layer asked for, on a store in memory; each block goes from its RLP through
//! [`Candidate::prepare`](polytrie_chain::Candidate::prepare) into
//! [`Chain::insert`](polytrie_chain::Chain::insert). A test passes if
//!
//! - every valid block is accepted, with the hash that the test gives it;
//! - every invalid block is refused as invalid, and not mistaken for a failure of the node; a block of another
//!   branch, which an import executes only once that branch is the better one, is executed at once;
//! - the head at the end is the test's last block;
//! - accounts, code hashes and slots of the layer are those of the test's post-state, and the state root that
//!   they make is the one in the head.
//!
//! An engine test is the same with payloads. Beside the block, version and parameters of each call are checked, the
//! block's hash and those of its blobs; a call that must be refused is, with the error code of the test; a valid
//! payload is the head at once, as the call of `engine_forkchoiceUpdated` wants it that follows in a run of these tests.
//!
//! A state test has no chain. Its transaction is checked and runs on a session of the layer, in the environment that the
//! test gives; it is executed or refused as the test says, its logs have the hash, and the state after it the root that
//! the test gives, as have the accounts and slots.
//!
//! For a layer that has no state root of its own, the root is made here from accounts and slots after every
//! block, and a block that says another is taken back. What no such layer can give are the state roots within
//! a block that receipts before Byzantium hold: a test whose block is invalid for nothing but the receipts
//! root is then skipped, with that reason.
//!
//! Not checked: the seal of proof of work, and for what reason something is refused. No test depends on the first: each
//! block that is invalid has another fault.

mod chain_test;
mod error;
mod files;
mod format;
mod mismatch;
mod post_state;
mod report;
mod runner;
mod state_test;
mod superseded;

pub use error::ConformanceError;
pub use report::{ConformanceReport, FileReport, Outcome, Summary, TestReport};
pub use runner::{ConformanceOptions, run};
