//! The rules of a block as alloy-evm's block executor is to see them.

use alloy_evm::eth::spec::EthExecutorSpec;
use alloy_hardforks::{EthereumHardfork, EthereumHardforks, ForkCondition};
use alloy_primitives::Address;
use polytrie_chainspec::Rules;

/// [`Rules`] without the DAO fork, which is applied before alloy-evm has its turn, and with Paris under Clique: all that
/// the block executor makes of Paris is that no reward is paid.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schedule<'a>(pub(super) Rules<'a>);

impl EthereumHardforks for Schedule<'_> {
    fn ethereum_fork_activation(&self, fork: EthereumHardfork) -> ForkCondition {
        match fork {
            EthereumHardfork::Dao => ForkCondition::Never,
            EthereumHardfork::Paris if self.0.clique().is_some() => ForkCondition::Block(0),
            fork => self.0.ethereum_fork_activation(fork),
        }
    }
}

impl EthExecutorSpec for Schedule<'_> {
    fn deposit_contract_address(&self) -> Option<Address> {
        self.0.deposit_contract_address()
    }
}
