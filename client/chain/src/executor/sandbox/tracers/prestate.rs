//! The accounts and slots that a transaction reads or changes (`prestateTracer`).

use super::{Context, Ending, Tracer};
use crate::executor::{
    InternalError,
    sandbox::{Sandbox, TraceError},
};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256};
use polytrie_state::Account;
use revm::{
    Inspector,
    bytecode::opcode::{
        BALANCE, EXTCODECOPY, EXTCODEHASH, EXTCODESIZE, SELFDESTRUCT, SLOAD, SSTORE,
    },
    context_interface::{Block, ContextTr, JournalTr, Transaction, transaction::AuthorizationTr},
    interpreter::{
        CallInputs, CallOutcome, CreateInputs, CreateOutcome, InstructionResult, Interpreter,
        interpreter_types::{Jumps, LoopControl},
    },
    primitives::TxKind,
    state::EvmState,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};

/// Estimated bytes of an account in the answer, without its code and slots.
const ACCOUNT: usize = 200;
/// Estimated bytes of a slot with its value.
const SLOT: usize = 140;

/// Options of the tracer.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PrestateConfig {
    /// Whether only changes are wanted, with the values before and after.
    diff_mode: bool,
    disable_code: bool,
    disable_storage: bool,
    /// Whether accounts that are empty before the transaction are listed.
    include_empty: bool,
}

/// Tracer of touched accounts and slots.
#[derive(Debug, Default)]
pub(super) struct Prestate {
    config: PrestateConfig,
    touched: BTreeMap<Address, BTreeSet<U256>>,
    depth: usize,
    /// Account and slot that the current step touches; they are dropped if the step cannot be paid.
    step: Option<(Address, Option<U256>)>,
    /// Greatest size of the answer, in bytes.
    most: usize,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    #[serde(skip_serializing_if = "Option::is_none")]
    balance: Option<U256>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code_hash: Option<B256>,
    #[serde(skip_serializing_if = "is_zero")]
    nonce: u64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    storage: BTreeMap<B256, B256>,
}

impl Shown {
    /// Returns the estimated size as text, in bytes.
    fn size(&self) -> usize {
        let code = self.code.as_ref().map_or(0, |code| code.len());
        ACCOUNT + 2 * code + self.storage.len() * SLOT
    }
}

type Accounts = BTreeMap<Address, Shown>;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(nonce: &u64) -> bool {
    *nonce == 0
}

impl Prestate {
    /// Returns a tracer with an answer of at most about `most` bytes.
    pub(super) fn new(config: PrestateConfig, most: usize) -> Result<Self, TraceError> {
        if config.diff_mode && config.include_empty {
            return Err(TraceError::Tracer("cannot use diffMode with includeEmpty".to_owned()));
        }
        Ok(Self { config, most, ..Self::default() })
    }

    fn touch(&mut self, address: Address) {
        self.touched.entry(address).or_default();
    }

    /// Adds the accounts that every transaction touches before any code runs.
    fn touch_outline(&mut self, ending: &Ending<'_>) -> Result<(), InternalError> {
        let tx = ending.tx;
        self.touch(tx.caller);
        self.touch(ending.block.beneficiary());
        if let TxKind::Call(to) = tx.kind {
            self.touch(to);
            let code_hash = account(ending.before, to)?.code_hash;
            if let Some(delegate) = delegate(&code(ending.before, &code_hash)?) {
                self.touch(delegate);
            }
        }
        for authority in tx.authorization_list().filter_map(AuthorizationTr::authority) {
            self.touch(authority);
        }
        Ok(())
    }

    /// Returns an account before the transaction, without its code, and whether it is empty.
    fn before(&self, sandbox: &Sandbox, address: Address) -> Result<(Shown, bool), InternalError> {
        let account = account(sandbox, address)?;
        let mut shown = Shown {
            balance: Some(account.balance),
            code_hash: Some(account.code_hash).filter(|hash| *hash != KECCAK256_EMPTY),
            nonce: account.nonce,
            ..Shown::default()
        };
        for slot in self.touched.get(&address).into_iter().flatten() {
            let value = sandbox.slot(&address, slot)?;
            shown.storage.insert((*slot).into(), value.into());
        }
        Ok((shown, account.is_empty()))
    }

    /// Adds the codes to the shown accounts. Fails as soon as the answer is too large, because a call of a large
    /// contract costs little.
    fn add_codes(&self, pre: &mut Accounts, sandbox: &Sandbox) -> Result<(), TraceError> {
        let mut left = self.most;
        for shown in pre.values_mut() {
            if let Some(hash) = shown.code_hash.filter(|_| !self.config.disable_code) {
                shown.code = Some(code(sandbox, &hash)?).filter(|code| !code.is_empty());
            }
            left = left.checked_sub(shown.size()).ok_or(TraceError::TooLarge)?;
        }
        Ok(())
    }

    /// Leaves in `pre` the values that the transaction changed. Returns the values after it.
    fn changed(&self, pre: &mut Accounts, ending: &Ending<'_>) -> Result<Accounts, InternalError> {
        let mut post = Accounts::new();
        let mut same = Vec::new();
        for (address, before) in pre.iter_mut() {
            if is_gone(&ending.ran.state, address) {
                continue;
            }
            match self.after(*address, before, ending)? {
                Some(after) => {
                    post.insert(*address, after);
                }
                None => same.push(*address),
            }
        }
        for address in same {
            pre.remove(&address);
        }
        Ok(post)
    }

    /// Returns the changed values of an account after the transaction; `None` if there are none. Slots that did not
    /// change are removed from `before`.
    fn after(
        &self,
        address: Address,
        before: &mut Shown,
        ending: &Ending<'_>,
    ) -> Result<Option<Shown>, InternalError> {
        let Some(account) = ending.ran.state.get(&address) else { return Ok(None) };
        let info = &account.info;
        let mut after = Shown::default();
        let mut is_changed = false;
        if before.balance != Some(info.balance) {
            is_changed = true;
            after.balance = Some(info.balance);
        }
        if before.nonce != info.nonce {
            is_changed = true;
            after.nonce = info.nonce;
        }
        if before.code_hash.unwrap_or(KECCAK256_EMPTY) != info.code_hash {
            is_changed = true;
            after.code_hash = Some(info.code_hash);
            if !self.config.disable_code {
                after.code = Some(match &info.code {
                    Some(code) => code.original_bytes(),
                    None => code(ending.before, &info.code_hash)?,
                });
            }
        }
        before.storage.retain(|slot, old| {
            let slot_now = account.storage.get(&U256::from_be_bytes(slot.0));
            let now = slot_now.map_or(*old, |slot| slot.present_value.into());
            if now == *old {
                return false;
            }
            is_changed = true;
            if !now.is_zero() {
                after.storage.insert(*slot, now);
            }
            !old.is_zero()
        });
        Ok(is_changed.then_some(after))
    }
}

/// Whether an account was destroyed.
fn is_gone(after: &EvmState, address: &Address) -> bool {
    after.get(address).is_some_and(|account| account.is_selfdestructed())
}

fn account(sandbox: &Sandbox, address: Address) -> Result<Account, InternalError> {
    Ok(sandbox.account(&address)?.unwrap_or_default())
}

fn code(sandbox: &Sandbox, hash: &B256) -> Result<Bytes, InternalError> {
    Ok(sandbox.code(hash)?)
}

/// Returns the address that code delegates to (EIP-7702).
fn delegate(code: &[u8]) -> Option<Address> {
    let address = code.strip_prefix(&[0xef, 0x01, 0x00])?;
    Address::try_from(address).ok()
}

impl Inspector<Context<'_>> for Prestate {
    fn step(&mut self, interpreter: &mut Interpreter, _: &mut Context<'_>) {
        let top = interpreter.stack.peek(0).ok();
        self.step = match interpreter.bytecode.opcode() {
            SLOAD | SSTORE => top.map(|slot| (interpreter.input.target_address, Some(slot))),
            BALANCE | EXTCODESIZE | EXTCODECOPY | EXTCODEHASH | SELFDESTRUCT => {
                top.map(|word| (Address::from_word(word.into()), None))
            }
            _ => None,
        };
    }

    fn step_end(&mut self, interpreter: &mut Interpreter, _: &mut Context<'_>) {
        let Some((address, slot)) = self.step.take() else { return };
        let result = interpreter.bytecode.instruction_result();
        if result.is_some_and(|result| {
            result.is_halt() && result != InstructionResult::StateChangeDuringStaticCall
        }) {
            return;
        }
        let slots = self.touched.entry(address).or_default();
        if !self.config.disable_storage {
            slots.extend(slot);
        }
    }

    fn call(&mut self, context: &mut Context<'_>, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.depth += 1;
        self.touch(inputs.bytecode_address);
        // For the transaction's own callee, `touch_outline` adds the delegate of before the transaction.
        if self.depth > 1
            && let Some(account) = context.journal_ref().evm_state().get(&inputs.bytecode_address)
            && let Some(code) = &account.info.code
            && code.is_eip7702()
            && let Some(delegate) = delegate(&code.original_bytes())
        {
            self.touch(delegate);
        }
        None
    }

    fn call_end(&mut self, _: &mut Context<'_>, _: &CallInputs, _: &mut CallOutcome) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn create(
        &mut self,
        context: &mut Context<'_>,
        inputs: &mut CreateInputs,
    ) -> Option<CreateOutcome> {
        self.depth += 1;
        let caller = context.journal_ref().evm_state().get(&inputs.caller());
        let nonce = caller.map_or(0, |account| account.info.nonce);
        self.touch(inputs.created_address(nonce));
        None
    }

    fn create_end(&mut self, _: &mut Context<'_>, _: &CreateInputs, _: &mut CreateOutcome) {
        self.depth = self.depth.saturating_sub(1);
    }
}

impl Tracer for Prestate {
    fn finish(mut self: Box<Self>, ending: &Ending<'_>) -> Result<Box<RawValue>, TraceError> {
        self.touch_outline(ending)?;
        let (mut pre, mut empty) = (Accounts::new(), Vec::new());
        for address in self.touched.keys() {
            let (shown, is_empty) = self.before(ending.before, *address)?;
            if is_empty {
                empty.push(*address);
            }
            pre.insert(*address, shown);
        }
        let post = match self.config.diff_mode {
            true => Some(self.changed(&mut pre, ending)?),
            false => None,
        };
        if !self.config.include_empty {
            for address in empty {
                pre.remove(&address);
            }
        }
        self.add_codes(&mut pre, ending.before)?;
        #[derive(Serialize)]
        struct Diff {
            post: Accounts,
            pre: Accounts,
        }
        match post {
            Some(post) => super::json(&Diff { post, pre }),
            None => super::json(&pre),
        }
    }
}
