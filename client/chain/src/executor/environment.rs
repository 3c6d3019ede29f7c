//! The environment of the EVM and of its block executor, from a header and the rules of its block.

use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use alloy_evm::{EvmEnv, eth::EthBlockExecutionCtx};
use alloy_primitives::Address;
use polytrie_chainspec::Rules;
use polytrie_consensus::clique;
use revm::context_interface::Cfg;

/// Greatest gas limit of a transaction that runs ahead of its block. The block is not checked yet, and a transaction
/// with more gas could take any time, and memory that is far from paid for.
const MOST_GAS_AHEAD: u64 = 1 << 27;

/// Returns block and configuration for the EVM. `coinbase` receives the fees: for a block of a chain, the result of
/// [`coinbase`](polytrie_consensus::clique::coinbase).
///
/// Base fee, blob fee, difficulty or PREVRANDAO, the gas cap of a transaction (EIP-7825) and the blob limits follow
/// from header and rules. EIP-1283 is not part of the environment.
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
        // Without this the limit would be twice the contract limit; but the setting does not change the limit of
        // EIP-3860.
        env.cfg_env.limit_contract_initcode_size = Some(init_code);
    }
    env
}

/// Returns block and configuration for transactions that run ahead of their block, on an earlier state: wrong nonces,
/// balances and fees do not stop them.
pub(super) fn environment_ahead(header: &Header, rules: &Rules<'_>) -> EvmEnv {
    // A wrong coinbase makes the prediction a little worse, and is an error when the block itself is executed.
    let coinbase = clique::coinbase(rules, header).unwrap_or(header.beneficiary);
    let mut env = environment(header, coinbase, rules);
    // An invalid transaction is an error when the block itself is executed.
    let cfg = &mut env.cfg_env;
    cfg.disable_nonce_check = true;
    cfg.disable_balance_check = true;
    cfg.disable_base_fee = true;
    cfg.disable_eip3607 = true;
    cfg.disable_block_gas_limit = true;
    cfg.tx_gas_limit_cap = Some(MOST_GAS_AHEAD);
    env
}

/// Returns the values that a block's executor needs beside the environment.
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
