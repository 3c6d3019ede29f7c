//! Logs of ether transfers.

use super::selfdestruct::{self, Destruction};
use alloy_primitives::{Address, B256, Log, LogData, U256, address, b256};
use revm::{
    Inspector,
    context_interface::{ContextTr, JournalTr},
    interpreter::{CallInputs, CallOutcome, CallScheme, CreateInputs, CreateOutcome, Interpreter},
};

/// Address that seems to have logged a transfer of ether.
const ETHER: Address = address!("eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee");

/// Topic of `Transfer(address,address,uint256)`.
const TRANSFER: B256 = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");

/// Inspector that gathers the logs of a transaction and, if wanted, adds one for each transfer of ether in the
/// form of an ERC-20 token's. The logs of reverted calls are left out.
#[derive(Debug, Default)]
pub(super) struct TransferLogs {
    transfers: bool,
    /// Number of logs so far in the block, with those of reverted calls.
    seen: u64,
    /// Logs of each open call.
    frames: Vec<Vec<NumberedLog>>,
    done: Vec<NumberedLog>,
    /// The destruction that the current step is about to do.
    destroying: Option<Destruction>,
}

/// Sender, receiver and value of a transfer.
type Transfer = (Address, Address, U256);

/// A log with its number in the block.
pub type NumberedLog = (u64, Log);

impl TransferLogs {
    /// Returns an inspector for a transaction after `seen` logs of the block.
    pub(super) const fn new(transfers: bool, seen: u64) -> Self {
        Self { transfers, seen, frames: Vec::new(), done: Vec::new(), destroying: None }
    }

    /// Returns the gathered logs, and the number of logs of the block so far.
    pub(super) fn into_logs(self) -> (Vec<NumberedLog>, u64) {
        (self.done, self.seen)
    }

    const fn number(&mut self, log: Log) -> NumberedLog {
        let number = self.seen;
        self.seen += 1;
        (number, log)
    }

    fn begin(&mut self, transfer: Option<Transfer>) {
        let mut logs = Vec::new();
        if let Some((from, to, value)) =
            transfer.filter(|(.., value)| self.transfers && !value.is_zero())
        {
            let topics = vec![TRANSFER, from.into_word(), to.into_word()];
            let data = value.to_be_bytes::<32>().into();
            let log = Log { address: ETHER, data: LogData::new_unchecked(topics, data) };
            logs.push(self.number(log));
        }
        self.frames.push(logs);
    }

    fn end(&mut self, kept: bool) {
        let Some(logs) = self.frames.pop() else { return };
        if kept {
            self.frames.last_mut().unwrap_or(&mut self.done).extend(logs);
        }
    }
}

impl<C: ContextTr> Inspector<C> for TransferLogs {
    fn step(&mut self, interpreter: &mut Interpreter, context: &mut C) {
        self.destroying = match self.transfers {
            true => selfdestruct::begun(interpreter, context),
            false => None,
        };
    }

    fn step_end(&mut self, interpreter: &mut Interpreter, _: &mut C) {
        let Some(transfer) = self.destroying.take() else { return };
        if selfdestruct::is_done(interpreter) {
            self.begin(Some(transfer));
            self.end(true);
        }
    }

    fn log(&mut self, _: &mut C, log: Log) {
        let log = self.number(log);
        self.frames.last_mut().unwrap_or(&mut self.done).push(log);
    }

    fn call(&mut self, _: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        // CALLCODE leaves its ether with the caller, and geth does not log it.
        let moves = inputs.scheme == CallScheme::Call;
        let value = inputs.transfer_value().unwrap_or_default();
        self.begin(moves.then_some((inputs.caller, inputs.target_address, value)));
        None
    }

    fn call_end(&mut self, _: &mut C, _: &CallInputs, outcome: &mut CallOutcome) {
        self.end(outcome.result.result.is_ok());
    }

    fn create(&mut self, context: &mut C, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        // The address follows from the nonce, which was just read.
        let nonce = context
            .journal_mut()
            .load_account(inputs.caller())
            .map_or(0, |account| account.data.info.nonce);
        let created = inputs.created_address(nonce);
        self.begin(Some((inputs.caller(), created, inputs.value())));
        None
    }

    fn create_end(&mut self, _: &mut C, _: &CreateInputs, outcome: &mut CreateOutcome) {
        self.end(outcome.result.result.is_ok());
    }
}
