//! The chain for development.

use alloy_consensus::Sealable;
use alloy_genesis::{Genesis, GenesisAccount};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, U256, address, uint};

use crate::{ChainSpec, Forks, allocation::Allocation, genesis, initial::system_contracts};

/// Gas limit of the genesis block of a chain for development.
pub const DEV_GAS_LIMIT: u64 = 60_000_000;

/// Base fee of the genesis block of a chain for development, in wei: 1 gwei.
pub const DEV_BASE_FEE: u64 = 1_000_000_000;

/// Balance of each account of the chain `dev`, in wei: 10,000 ether.
const BALANCE: U256 = uint!(10_000_000_000_000_000_000_000_U256);

/// The first ten accounts of the mnemonic `test test test test test test test test test test test junk`, at the paths
/// m/44'/60'/0'/0/0 to m/44'/60'/0'/0/9.
const ACCOUNTS: [Address; 10] = [
    address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266"),
    address!("70997970C51812dc3A010C7d01b50e0d17dc79C8"),
    address!("3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"),
    address!("90F79bf6EB2c4f870365E785982E1f101E93b906"),
    address!("15d34AAf54267DB7D7c367839AAf71A00a2C6A65"),
    address!("9965507D1a55bcC2695C58ba16FB37d819B0A4dc"),
    address!("976EA74026E726554dB657fA54763abd0C3a0aa9"),
    address!("14dC79964da2C08b23698B3D3cc7Ca32193d9955"),
    address!("23618e81E3f5cdF7f54C3d65f7FBc0aBf5B21E8f"),
    address!("a0Ee7A142d267C1f36714E4a8F75612F20a79720"),
];

/// Returns the chain named `dev`.
pub(crate) fn default() -> ChainSpec {
    with_accounts(1337, ACCOUNTS.map(|account| (account, BALANCE)))
}

/// Returns a chain for development: every fork up to Osaka from genesis on, already merged, with the system contracts
/// that blocks call, [`DEV_GAS_LIMIT`] and [`DEV_BASE_FEE`].
pub(crate) fn with_accounts(
    chain_id: u64,
    accounts: impl IntoIterator<Item = (Address, U256)>,
) -> ChainSpec {
    let contracts = system_contracts().map(|contract| {
        let (nonce, code) = (Some(contract.nonce), Some(contract.code));
        (contract.address, GenesisAccount { nonce, code, ..Default::default() })
    });
    let funded = accounts
        .into_iter()
        .map(|(address, balance)| (address, GenesisAccount { balance, ..Default::default() }));
    // The contracts come last, so that an account of the same address cannot displace one.
    let allocation = Allocation::from_accounts(funded.chain(contracts));
    let forks = Forks::up_to(EthereumHardfork::Osaka);
    let genesis = Genesis {
        gas_limit: DEV_GAS_LIMIT,
        base_fee_per_gas: Some(DEV_BASE_FEE.into()),
        ..Default::default()
    };
    let header = genesis::header(&genesis, 0, allocation.state_root(), &forks);
    let header = header.expect("the genesis block above is valid");
    ChainSpec {
        name: "dev".to_owned(),
        chain_id,
        forks,
        genesis_header: header.seal_slow(),
        allocation,
        deposit_contract: None,
        fixed_difficulty: None,
        clique: None,
        contract_size_limit: None,
        outline: None,
    }
}

#[cfg(test)]
mod tests {
    use alloy_eips::eip4788::BEACON_ROOTS_ADDRESS;
    use alloy_primitives::{B256, b256};

    use super::*;

    #[test]
    fn everything_up_to_osaka_from_genesis() {
        let spec = default();
        assert_eq!((spec.name(), spec.chain_id(), spec.deposit_contract()), ("dev", 1337, None));
        let header = spec.genesis_header().inner();
        assert_eq!((header.gas_limit, header.base_fee_per_gas), (60_000_000, Some(1_000_000_000)));
        assert_eq!(
            (header.parent_beacon_block_root, header.excess_blob_gas),
            (Some(B256::ZERO), Some(0))
        );
        assert!(header.requests_hash.is_some() && header.block_access_list_hash.is_none());
        let rules = spec.rules(1, 1, true);
        assert_eq!(rules.fork_name(), "Osaka");
        assert_eq!(rules.blob_params().map(|params| params.max_blob_count), Some(9));
        // Data directories of this chain rely on its genesis not changing.
        assert_eq!(
            spec.genesis_hash(),
            b256!("470ed6a0f30aee94ce45a1d8fa9616eb2edb854f7f10ef52b5732d6e35d5d257")
        );
    }

    #[test]
    fn accounts_and_contracts() {
        let accounts: Vec<_> = default().genesis_accounts().collect();
        assert_eq!(accounts.len(), 14);
        let funded = accounts.iter().filter(|(_, account)| account.balance == BALANCE).count();
        let contracts = accounts
            .iter()
            .filter(|(_, account)| account.code.is_some() && account.nonce == Some(1))
            .count();
        assert_eq!((funded, contracts), (10, 4));
        let own = with_accounts(
            5,
            [(Address::repeat_byte(1), U256::from(1)), (BEACON_ROOTS_ADDRESS, U256::MAX)],
        );
        assert_eq!((own.chain_id(), own.genesis_accounts().len()), (5, 5));
        assert!(own.genesis_accounts().all(|(_, account)| account.balance <= U256::from(1)));
    }
}
