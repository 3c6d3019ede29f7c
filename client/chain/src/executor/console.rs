//! What contracts print with `console.log` of Solidity: calls to an address without code, with what to print as their data.

use alloy_primitives::{Address, Bytes, address};
use revm::{
    Inspector,
    context_interface::ContextTr,
    interpreter::{CallInputs, CallOutcome},
};
use std::mem;

/// Where contracts send what they want to have printed: the letters of `console.log`.
pub(crate) const CONSOLE: Address = address!("000000000000000000636F6e736F6c652e6c6f67");

/// Bytes that one transaction or call may print.
const MOST_BYTES: usize = 64 << 10;

/// Gathers what a transaction or call wants to have printed, in the order in which it asks for it, also where it reverts
/// later.
#[derive(Debug, Default)]
pub struct Console {
    wanted: bool,
    bytes: usize,
    messages: Vec<Bytes>,
}

impl Console {
    /// One that gathers only if that is `wanted`.
    pub fn new(wanted: bool) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// What was gathered, as the data of the calls.
    pub fn take(&mut self) -> Vec<Bytes> {
        self.bytes = 0;
        mem::take(&mut self.messages)
    }
}

impl<C: ContextTr> Inspector<C> for Console {
    fn call(&mut self, context: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        if self.wanted && inputs.target_address == CONSOLE && self.bytes < MOST_BYTES {
            let data = inputs.input.bytes(context);
            // A call of few bytes costs memory too.
            self.bytes += data.len() + 64;
            self.messages.push(match self.bytes <= MOST_BYTES {
                true => data,
                false => Bytes::from_static(b"... and more"),
            });
        }
        None
    }
}
