//! SSTORE of Constantinople (EIP-1283): charged by how the value relates to the one before the
//! transaction.
//!
//! Petersburg removed this rule, Istanbul brought it back with other prices and a check on the gas left (EIP-2200). So
//! the code of Istanbul is used here with the prices of EIP-1283 and without the check.

use alloy_evm::Database;
use revm::{
    context_interface::{
        Host,
        cfg::gas_params::{GasId, GasParams},
    },
    interpreter::{InstructionExecResult, InstructionResult, instructions::host},
};

use crate::instructions::Frame;

const SLOAD: u64 = 200;
const SET: u64 = 20_000;
const RESET: u64 = 5_000;
const CLEAR_REFUND: u64 = 15_000;

/// Changes the prices of SSTORE in `params` to those of EIP-1283.
pub(crate) fn set_prices(params: &mut GasParams) {
    params.override_gas([
        (GasId::sstore_static(), SLOAD),
        (GasId::sstore_set_without_load_cost(), SET - SLOAD),
        (GasId::sstore_reset_without_cold_load_cost(), RESET - SLOAD),
        (GasId::sstore_set_refund(), SET - SLOAD),
        (GasId::sstore_reset_refund(), RESET - SLOAD),
        (GasId::sstore_clearing_slot_refund(), CLEAR_REFUND),
    ]);
}

/// Executes SSTORE at the prices of EIP-1283, which must have been set by [`set_prices`].
pub(crate) fn sstore<DB: Database>(frame: Frame<'_, DB>) -> InstructionExecResult {
    host::sstore_with_gas_accounting(frame, |frame, _, change| {
        let prices = frame.host.gas_params();
        // `true` selects the net rule that EIP-1283 and EIP-2200 share; no slot is cold before
        // Berlin.
        let cost = prices.sstore_dynamic_gas(true, &change.data, false);
        let refund = prices.sstore_refund(true, &change.data);
        if !frame.interpreter.gas.record_regular_cost(cost) {
            return Err(InstructionResult::OutOfGas);
        }
        frame.interpreter.gas.record_refund(refund);
        Ok(())
    })
}
