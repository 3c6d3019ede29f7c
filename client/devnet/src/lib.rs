//! A node with its own chain, which makes blocks of the transactions that it receives.
//!
//! ```text
//!   RPC threads                     miner thread
//!   ───────────                     ────────────
//!   recover sender, check ─► Pool ─► best first ─► Chain::build ─► adopt ─► View (head, state) ─► events
//!                                                  executor, session,        read by all threads
//!                                                  commitment: as import
//! ```
//!
//! [`Node`] owns all of it. Blocks are executed and written by the code that an import uses. So the file that
//! `polytrie export` writes of a devnet can be imported by this client, and by others where the layer's commitment is
//! the state root.

mod accounts;
mod cheats;
mod clock;
mod console;
mod dump;
pub mod engine;
mod error;
mod events;
mod genesis;
mod log;
mod miner;
mod node;
mod pending;
mod pool;
mod producer;
pub mod rpc;
mod settings;
mod snapshots;
mod view;

pub use accounts::{DEFAULT_MNEMONIC, DevAccounts, MnemonicError};
pub use cheats::Cheats;
pub use clock::Clock;
pub(crate) use console::printable;
pub use dump::{Dump, Origin, WholeAccount};
pub use error::{NodeError, NodeFailure, Result};
pub use events::{Event, FormerChain, Listener, Reverted};
pub use genesis::dev_genesis;
pub use miner::{Miner, MinerThreads, MiningMode};
pub use node::{
    AccountParts, AccountRange, FoundAccount, Marks, Node, NodeOptions, RangeLimits, Roots,
    SlotRange,
};
pub use pending::PendingBlock;
pub use polytrie_consensus::{impersonate, impersonated, sender_of};
pub use pool::{Added, BlockFees, Content, Pool, PoolError, PoolLimits, PoolTransaction};
pub use producer::{BlockTime, MineOptions, Payload};
pub use settings::Settings;
pub use view::View;

#[cfg(test)]
mod tests;
