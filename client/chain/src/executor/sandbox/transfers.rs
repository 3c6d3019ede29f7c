//! Ether that moves, as logs.

use alloy_primitives::{Address, B256, Log, LogData, U256, address, b256};
use revm::{
    Inspector,
    context_interface::ContextTr,
    interpreter::{CallInputs, CallOutcome, CallScheme, CreateInputs, CreateOutcome},
};

/// Who seems to have logged a transfer of ether.
const ETHER: Address = address!("eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee");

/// `Transfer(address,address,uint256)`.
const TRANSFER: B256 = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");

/// Gathers the logs of a transaction and, if asked to, one for each transfer of ether among them, in the form that
/// ERC-20 tokens log theirs. What a reverted call logged is left out.
#[derive(Debug, Default)]
pub(super) struct TransferLogs {
    transfers: bool,
    /// How many there were so far in the block, those of reverted calls counted.
    seen: u64,
    /// The logs of each call under way.
    frames: Vec<Vec<NumberedLog>>,
    done: Vec<NumberedLog>,
}

/// A log with its number in the block.
pub type NumberedLog = (u64, Log);

impl TransferLogs {
    /// `seen` logs came before in the block.
    pub(super) const fn new(transfers: bool, seen: u64) -> Self {
        Self { transfers, seen, frames: Vec::new(), done: Vec::new() }
    }

    /// What was gathered, and how many logs the block has seen by now.
    pub(super) fn into_logs(self) -> (Vec<NumberedLog>, u64) {
        (self.done, self.seen)
    }

    const fn number(&mut self, log: Log) -> NumberedLog {
        let number = self.seen;
        self.seen += 1;
        (number, log)
    }

    fn begin(&mut self, transfer: Option<(Address, Address, U256)>) {
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
    fn log(&mut self, _: &mut C, log: Log) {
        let log = self.number(log);
        self.frames.last_mut().unwrap_or(&mut self.done).push(log);
    }

    fn call(&mut self, _: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        let moves = inputs.scheme != CallScheme::DelegateCall;
        let value = inputs.transfer_value().unwrap_or_default();
        self.begin(moves.then_some((inputs.caller, inputs.target_address, value)));
        None
    }

    fn call_end(&mut self, _: &mut C, _: &CallInputs, outcome: &mut CallOutcome) {
        self.end(outcome.result.result.is_ok());
    }

    fn create(&mut self, context: &mut C, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        use revm::context_interface::JournalTr;
        // The address follows from the nonce, and that was just read.
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

    fn selfdestruct(&mut self, contract: Address, target: Address, value: U256) {
        if self.transfers && !value.is_zero() {
            self.begin(Some((contract, target, value)));
            self.end(true);
        }
    }
}
