//! A transaction ahead of its turn, on a state that may be older than that of its block.

use super::{CallError, Sandbox, call::run};
use crate::executor::{InternalError, environment::environment_ahead};
use alloy_consensus::{Header, TxEnvelope};
use alloy_evm::FromRecoveredTx;
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::Address;
use polytrie_chainspec::Rules;
use revm::{
    context::TxEnv, context_interface::Transaction, inspector::NoOpInspector, state::EvmState,
};

/// Runs a transaction on `sandbox` as if it were the first of the block with this header; returns what it loaded of the
/// state, and keeps nothing of it there. Neither nonces, nor balances, nor fees keep it from running. `None` if it cannot be
/// run on this state all the same.
///
/// # Errors
///
/// If the state cannot be read.
pub fn run_ahead(
    sandbox: &mut Sandbox,
    header: &Header,
    rules: Rules<'_>,
    tx: &TxEnvelope,
    sender: Address,
) -> Result<Option<EvmState>, InternalError> {
    sandbox.set_delegations(rules.is(EthereumHardfork::Prague));
    let tx = TxEnv::from_recovered_tx(tx, sender);
    if tx.max_balance_spending().is_err() {
        return Ok(None);
    }
    let env = environment_ahead(header, &rules);
    match run(sandbox, &rules, env, tx, NoOpInspector {}) {
        Ok((ran, NoOpInspector {})) => Ok(Some(ran.state)),
        Err(CallError::Refused(_) | CallError::TooLong) => Ok(None),
        Err(CallError::Internal(error)) => Err(error),
    }
}
