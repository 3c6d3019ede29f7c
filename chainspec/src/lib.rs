//! The description of an Ethereum chain: its forks, its genesis block and the accounts at genesis.
//!
//! Five chains are built in (`mainnet`, `sepolia`, `holesky`, `hoodi`, `dev`); any other is read from a `genesis.json`
//! in the format of geth. [`ChainSpec::load`] takes either. The rules of one block come from [`ChainSpec::rules`].

mod allocation;
mod blobs;
mod clique;
mod dev;
mod difference;
mod error;
mod forks;
mod genesis;
mod initial;
mod presets;
mod rules;
mod spec;

pub use allocation::GenesisAccounts;
pub use alloy_genesis::GenesisAccount;
pub use clique::Clique;
pub use dev::{DEV_BASE_FEE, DEV_GAS_LIMIT};
pub use difference::Difference;
pub use error::ChainSpecError;
pub use forks::{DaoFork, Forks};
pub use genesis::GenesisPlan;
pub use initial::{InitialAccount, builder_contracts, system_contracts};
pub use rules::Rules;
pub use spec::ChainSpec;
