//! Creation where storage is already present (EIP-7610).

use alloy_evm::eth::EthEvmContext;
use revm::{
    context_interface::{JournalTr, journaled_state::account::JournaledAccountTr},
    handler::FrameResult,
    interpreter::{CreateInputs, CreateOutcome, Gas, InstructionResult, InterpreterResult},
    primitives::{Bytes, KECCAK_EMPTY, constants::CALL_STACK_LIMIT},
};

use crate::StateHook;

/// Returns the result of a creation that collides with storage; `None` if it does not collide, or fails for another
/// reason that revm finds by itself. Has the effects of any collision: the creator's nonce goes up, the new address is
/// warm.
pub(crate) fn collide<DB: StateHook>(
    context: &mut EthEvmContext<DB>,
    depth: usize,
    inputs: &CreateInputs,
) -> Result<Option<FrameResult>, DB::Error> {
    if depth > CALL_STACK_LIMIT as usize {
        return Ok(None);
    }
    let journal = &mut context.journaled_state;
    let creator = &journal.load_account(inputs.caller())?.data.info;
    let nonce = creator.nonce;
    if creator.balance < inputs.value() || nonce == u64::MAX {
        return Ok(None);
    }
    // The address is kept in `inputs`, so that it is not hashed again.
    let address = inputs.created_address(nonce);
    let target = &journal.load_account(address)?.data.info;
    // The collision with a nonce or code is one that revm finds.
    let is_taken = target.nonce != 0 || target.code_hash != KECCAK_EMPTY;
    if is_taken || !journal.database.has_storage(address)? {
        return Ok(None);
    }
    journal.load_account_mut(inputs.caller())?.bump_nonce();
    Ok(Some(FrameResult::Create(CreateOutcome {
        result: InterpreterResult {
            result: InstructionResult::CreateCollision,
            gas: Gas::new_with_regular_gas_and_reservoir(inputs.gas_limit(), inputs.reservoir()),
            output: Bytes::new(),
        },
        address: None,
        charged_create_state_gas: inputs.charged_create_state_gas(),
    })))
}
