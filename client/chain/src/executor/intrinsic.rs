//! The gas of a transaction before its first instruction.

use alloy_consensus::TxEnvelope;
use alloy_evm::FromRecoveredTx;
use alloy_primitives::Address;
use polytrie_chainspec::Rules;
use revm::{context::TxEnv, context_interface::cfg::gas::calculate_initial_tx_gas_for_tx};

/// Returns the least gas limit of a transaction: the intrinsic gas, or the floor for its data (EIP-7623) if that is
/// more.
pub fn intrinsic_gas(rules: &Rules<'_>, tx: &TxEnvelope) -> u64 {
    let env = TxEnv::from_recovered_tx(tx, Address::ZERO);
    let gas = calculate_initial_tx_gas_for_tx(env, rules.spec_id(), None);
    (gas.initial_regular_gas + gas.initial_state_gas).max(gas.floor_gas)
}

/// Returns the precompiles of a block: their names (EIP-7910) and addresses, sorted.
pub fn precompiles(rules: &Rules<'_>) -> Vec<(String, Address)> {
    use revm::handler::EthPrecompiles;
    let all = EthPrecompiles::new(rules.spec_id()).precompiles;
    let mut named: Vec<_> =
        all.inner().iter().map(|(address, code)| (code.id().name().to_owned(), *address)).collect();
    named.sort_unstable();
    named
}
