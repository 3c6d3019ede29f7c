//! Execution of one block by the EVM: environment, state, hooks, receipts.
//!
//! An [`Executor`] lives as long as the node and keeps analysed code. [`Executor::execute_block`]
//! runs a block on a [`Session`](polytrie_state::Session) and returns the result ([`Executed`]).
//! Every change of state goes through [`Session::apply`](polytrie_state::Session::apply), in this
//! order:
//!
//! 1. the drain of The DAO (EIP-779), in its block only;
//! 2. the system calls before the transactions (EIP-2935, EIP-4788);
//! 3. the transactions, one after the other;
//! 4. the system calls after them (EIP-7002, EIP-7251);
//! 5. block and ommer rewards, or withdrawals (EIP-4895).
//!
//! alloy-evm's `EthBlockExecutor` does all but the first: it would drain The DAO last, but on the
//! chain the drain came first.
//!
//! An [`ExecuteError`] is about the block ([`BlockInvalid`]) or about this machine
//! ([`InternalError`]): a store that cannot be read never makes a block invalid.
//!
//! # What is not checked here
//!
//! [`polytrie_consensus`] checks the header, the body, and the result against the header. A block
//! whose header or body is invalid may be executed without harm, but the result means nothing.

mod access_list;
mod amsterdam;
mod block;
mod changes;
mod codes;
mod console;
mod dao;
mod database;
mod deposits;
mod ending;
mod environment;
mod error;
mod hashes;
mod hints;
mod in_order;
mod intrinsic;
mod listed;
mod prefetch;
mod rewards;
mod run;
pub mod sandbox;
mod schedule;
mod senders;
mod system;

#[cfg(test)]
mod tests;

pub use amsterdam::Amsterdam;
pub use block::BlockToExecute;
pub use codes::CodeCache;
pub use console::Console;
pub use ending::Failed;
pub use error::{BlockInvalid, ExecuteError, InternalError};
pub use hashes::BlockHashes;
pub use intrinsic::{intrinsic_gas, precompiles};
pub use listed::{Elsewhere, Listed, ListedBlock, Together, accesses};
pub use prefetch::{Foresight, Gather, IsOver, Prefetch, Prefetcher};
pub use rewards::block_rewards;
pub use run::{BlockRun, Executed, Executor, Included};
pub(crate) use senders::recover_authorities;
pub use senders::{Recovery, SenderError, Senders, recover_senders};
pub use system::SystemContracts;
