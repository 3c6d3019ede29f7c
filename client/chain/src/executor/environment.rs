//! The EVM's environment and its executor's, from a header and the rules of its block.

use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use alloy_evm::{EvmEnv, eth::EthBlockExecutionCtx};
use alloy_primitives::Address;
use polytrie_chainspec::Rules;
use polytrie_consensus::clique;
use revm::context_interface::Cfg;

/// Gas of a transaction above which it waits for its turn: its block is not checked yet, and with any more gas it could take
/// any time, and memory that is far from paid for.
const MOST_GAS_AHEAD: u64 = 1 << 27;

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

/// Block and configuration for transactions that run ahead of their turn, on a state that is not yet theirs: nonces,
/// balances and fees keep none of them from running.
pub(super) fn environment_ahead(header: &Header, rules: &Rules<'_>) -> EvmEnv {
    // A wrong one makes the guess a little worse, and comes up in the block's turn.
    let coinbase = clique::coinbase(rules, header).unwrap_or(header.beneficiary);
    let mut env = environment(header, coinbase, rules);
    // Whatever is wrong with a transaction comes up in its turn.
    let cfg = &mut env.cfg_env;
    cfg.disable_nonce_check = true;
    cfg.disable_balance_check = true;
    cfg.disable_base_fee = true;
    cfg.disable_eip3607 = true;
    cfg.disable_block_gas_limit = true;
    cfg.tx_gas_limit_cap = Some(MOST_GAS_AHEAD);
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
