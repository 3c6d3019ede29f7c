//! The rules of a block for alloy-evm's block executor.

use alloy_evm::eth::spec::EthExecutorSpec;
use alloy_hardforks::{EthereumHardfork, EthereumHardforks, ForkCondition};
use alloy_primitives::Address;
use polytrie_chainspec::Rules;

use super::Amsterdam;

/// [`Rules`] without the DAO fork, whose drain is done before alloy-evm starts, and with Paris under Clique, because
/// for the block executor Paris only means that no reward is paid. Amsterdam only means that the contracts of EIP-8282
/// are called, which not every draft has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schedule<'a> {
    pub(super) rules: Rules<'a>,
    pub(super) amsterdam: Amsterdam,
}

impl<'a> Schedule<'a> {
    /// Returns these rules, with the newest draft of Amsterdam.
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
