//! The EVM's environment and its executor's, from a header and the rules of its block.

use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use alloy_evm::{EvmEnv, eth::EthBlockExecutionCtx};
use alloy_primitives::Address;
use polytrie_chainspec::Rules;
use revm::context_interface::Cfg;

/// Block and configuration for the EVM. `coinbase` is who is paid the fees: of a block of a chain, what
/// [`coinbase`](polytrie_consensus::clique::coinbase) says.
///
/// Base fee, blob fee, difficulty or PREVRANDAO, the gas cap of a transaction (EIP-7825) and the
/// blob limits follow from header and rules; whether EIP-1283 is in force is not part of it.
pub(super) fn environment(header: &Header, coinbase: Address, rules: &Rules<'_>) -> EvmEnv {
    let mut env = EvmEnv::for_eth_block(header, *rules, rules.spec.chain_id(), rules.blob_params());
    env.block_env.beneficiary = coinbase;
    let spec_id = rules.spec_id();
    if env.cfg_env.spec != spec_id {
        env.cfg_env.set_spec_and_mainnet_gas_params(spec_id);
    }
    let init_code = env.cfg_env.max_initcode_size();
    if let Some(limit) = rules.spec.contract_size_limit() {
        env.cfg_env.limit_contract_code_size = Some(limit);
        // Else it would be twice as much as that: the limit of EIP-3860 is not meant.
        env.cfg_env.limit_contract_initcode_size = Some(init_code);
    }
    env
}

/// What a block's executor needs beside the environment.
pub(super) fn context<'a>(
    header: &Header,
    ommers: &'a [Header],
    withdrawals: Option<&'a [Withdrawal]>,
) -> EthBlockExecutionCtx<'a> {
    EthBlockExecutionCtx {
        parent_hash: header.parent_hash,
        parent_beacon_block_root: header.parent_beacon_block_root,
        ommers,
        withdrawals: withdrawals.map(Into::into),
        extra_data: header.extra_data.clone(),
        tx_count_hint: None,
        slot_number: header.slot_number,
    }
}
