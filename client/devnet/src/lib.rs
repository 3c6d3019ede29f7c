//! A node with a chain of its own: transactions come in, blocks come out.
//!
//! ```text
//!   RPC threads                     miner thread
//!   ───────────                     ────────────
//!   recover sender, check ─► Pool ─► best first ─► Chain::build ─► adopt ─► View (head, state) ─► events
//!                                                  executor, session,        read by everybody
//!                                                  commitment: as import
//! ```
//!
//! [`Node`] owns all of it. Blocks are made by the same executor and written in the same way as an import does it, so
//! that what `polytrie export` writes of a devnet can be imported again, by this client and (where the layer's
//! commitment is the state root) by others.

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
pub use error::{NodeError, NodeFailure};
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
