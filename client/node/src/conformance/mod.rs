//! The official tests of execution: chains of valid and invalid blocks, the same as calls of the Engine API, and single
//! transactions.
//!
//! The content of an entry in a file shows its kind:
//!
//! | it has | it is | format of |
//! |---|---|---|
//! | `blocks` | a blockchain test | [ethereum/tests](https://github.com/ethereum/tests), its legacy tests, `blockchain_tests` of execution-spec-tests |
//! | `engineNewPayloads` | an engine test | `blockchain_tests_engine` of execution-spec-tests |
//! | `transaction` and `post` | a state test; each transaction under each fork counts as one | `state_tests` of execution-spec-tests, `GeneralStateTests` with signed transactions |
//!
//! Any other entry or JSON file is skipped, with the reason, and so are the few tests in `superseded.rs`.
//!
//! A blockchain test runs like an import: a [`Chain`](polytrie_chain::Chain) with the requested state layer on a store
//! in memory. Each block goes from its RLP through [`Candidate::prepare`](polytrie_chain::Candidate::prepare) into
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
//! block's hash and the hashes of its blobs. A call that must be refused is refused with the error code of the test. A
//! valid payload becomes the head at once, as after the call of `engine_forkchoiceUpdated` that follows in a run of
//! these tests.
//!
//! A state test has no chain. Its transaction is checked and runs on a session of the layer, in the environment of the
//! test. It is executed or refused as the test expects, and the hash of its logs, the state root of the layer, and the
//! root computed from all accounts and slots must be those of the test.
//!
//! For a layer without state roots, the root is computed here from accounts and slots after every block, and a block
//! with another root is taken back. Such a layer cannot give the state roots within a block that receipts hold before
//! Byzantium, so a test whose block is invalid for its receipts root alone is skipped, with that reason.
//!
//! Not checked: the seal of proof of work, and the reason of a refusal. No test depends on the first, because each
//! invalid block has another fault.

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
pub use files::test_files;
pub use report::{ConformanceReport, FileReport, Outcome, Summary, TestReport};
pub use runner::{ConformanceOptions, run};
