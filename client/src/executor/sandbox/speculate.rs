//! The transactions of a block ahead of their turn, to find out what they will touch.

use super::{Sandbox, call::relax, call::run};
use crate::executor::{BlockToExecute, environment::environment};
use alloy_evm::FromRecoveredTx;
use alloy_hardforks::EthereumHardfork;
use polytrie_chainspec::Rules;
use revm::{DatabaseCommit, context::TxEnv, inspector::NoOpInspector};
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs transactions of a block, the `first` and from there every `step`th, on a state that may be older than that of its
/// parent, until `stop` is set. What they read there is a guess at what they will read; one that cannot be run on this
/// state is left out.
pub fn speculate(
    sandbox: &mut Sandbox,
    rules: Rules<'_>,
    block: BlockToExecute<'_>,
    (first, step): (usize, usize),
    stop: &AtomicBool,
) {
    sandbox.set_delegations(rules.is(EthereumHardfork::Prague));
    for (tx, sender) in block.transactions.iter().zip(block.senders).skip(first).step_by(step) {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let mut env = environment(block.header, &rules);
        relax(&mut env);
        let tx = TxEnv::from_recovered_tx(tx, *sender);
        // Whatever is wrong comes up when the block is executed.
        if let Ok((ran, _)) = run(sandbox, &rules, env, tx, NoOpInspector {}) {
            sandbox.commit(ran.state);
        }
    }
}
