//! A transaction that runs ahead of its block, on a state that may be older than that of the block.

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

/// Runs a transaction on `sandbox` as if it were the first of the block with this header. Returns the state that it
/// loaded, and keeps no change in the sandbox. Wrong nonces, balances and fees do not stop it. `None` if it cannot run
/// on this state for another reason.
///
/// # Errors
///
/// Fails if the state cannot be read.
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
