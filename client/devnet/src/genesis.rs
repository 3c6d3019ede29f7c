//! The genesis of a development chain.

use alloy_primitives::{Address, Bytes, U256};
use polytrie_chainspec::{DEV_BASE_FEE, DEV_GAS_LIMIT, GenesisPlan, InitialAccount};

/// Returns a `genesis.json` with every fork up to Osaka from the first block on, the system contracts of these forks,
/// and `accounts` with `balance` wei each.
pub fn dev_genesis(chain_id: u64, accounts: &[Address], balance: U256) -> Vec<u8> {
    let plan = GenesisPlan {
        chain_id,
        // Shanghai, Cancun, Prague and Osaka.
        fork_times: vec![0; 4],
        timestamp: 0,
        gas_limit: DEV_GAS_LIMIT,
        base_fee: DEV_BASE_FEE,
        extra_data: Bytes::new(),
        deposit_contract: None,
    };
    let accounts = accounts.iter().map(|address| InitialAccount::funded(*address, balance));
    let mut json = Vec::new();
    plan.write(accounts, &mut json).expect("writing to memory does not fail");
    json
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_hardforks::EthereumHardfork;
    use polytrie_chainspec::ChainSpec;

    #[test]
    fn every_fork_is_active_from_the_first_block() {
        let account = Address::repeat_byte(7);
        let json = dev_genesis(99, &[account], U256::from(5));
        let spec = ChainSpec::parse("dev", &json).unwrap();
        assert_eq!(spec.chain_id(), 99);
        assert!(spec.rules(1, 1, true).is(EthereumHardfork::Osaka));
        assert!(spec.is_merged_after(U256::ZERO));
        let found = spec.genesis_accounts().find(|(address, _)| *address == account).unwrap();
        assert_eq!(found.1.balance, U256::from(5));
    }
}
