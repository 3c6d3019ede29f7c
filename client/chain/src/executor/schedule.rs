//! The rules of a block as alloy-evm's block executor is to see them.

use alloy_evm::eth::spec::EthExecutorSpec;
use alloy_hardforks::{EthereumHardfork, EthereumHardforks, ForkCondition};
use alloy_primitives::Address;
use polytrie_chainspec::Rules;

use super::Amsterdam;

/// [`Rules`] without the DAO fork, which is applied before alloy-evm has its turn, and with Paris under Clique: all that
/// the block executor makes of Paris is that no reward is paid. All that it makes of Amsterdam is that the contracts of
/// EIP-8282 are called, which not every Amsterdam has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schedule<'a> {
    pub(super) rules: Rules<'a>,
    pub(super) amsterdam: Amsterdam,
}

impl<'a> Schedule<'a> {
    /// These rules, with the newest Amsterdam.
    pub(super) const fn new(rules: Rules<'a>) -> Self {
        Self { rules, amsterdam: Amsterdam::Newest }
    }
}

impl EthereumHardforks for Schedule<'_> {
    fn ethereum_fork_activation(&self, fork: EthereumHardfork) -> ForkCondition {
        match fork {
            EthereumHardfork::Dao => ForkCondition::Never,
            EthereumHardfork::Paris if self.rules.clique().is_some() => ForkCondition::Block(0),
            EthereumHardfork::Amsterdam if !self.amsterdam.has_builder_requests() => {
                ForkCondition::Never
            }
            fork => self.rules.ethereum_fork_activation(fork),
        }
    }
}

impl EthExecutorSpec for Schedule<'_> {
    fn deposit_contract_address(&self) -> Option<Address> {
        self.rules.deposit_contract_address()
    }
}
