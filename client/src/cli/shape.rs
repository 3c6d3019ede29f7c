//! Shapes of generated states.

use clap::ValueEnum;

/// Whose shape a state can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Network {
    /// Ethereum's main network.
    Mainnet,
}
