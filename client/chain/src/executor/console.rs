//! Messages that contracts print with `console.log` of Solidity, which calls an address without code with the message
//! as data.

use alloy_primitives::{Address, Bytes, address};
use revm::{
    Inspector,
    context_interface::ContextTr,
    interpreter::{CallInputs, CallOutcome},
};
use std::mem;

/// Address that contracts send their messages to: the letters of `console.log`.
pub(crate) const CONSOLE: Address = address!("000000000000000000636F6e736F6c652e6c6f67");

/// Greatest number of bytes that one transaction or call may print.
const MOST_BYTES: usize = 64 << 10;

/// Inspector that gathers the messages of a transaction or call in their order, also if the call reverts later.
#[derive(Debug, Default)]
pub struct Console {
    wanted: bool,
    bytes: usize,
    messages: Vec<Bytes>,
}

impl Console {
    /// Returns an inspector that gathers messages if `wanted`.
    pub fn new(wanted: bool) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// Returns the gathered messages, each as the data of its call.
    pub fn take(&mut self) -> Vec<Bytes> {
        self.bytes = 0;
        mem::take(&mut self.messages)
    }
}

impl<C: ContextTr> Inspector<C> for Console {
    fn call(&mut self, context: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        if self.wanted && inputs.target_address == CONSOLE && self.bytes < MOST_BYTES {
            let data = inputs.input.bytes(context);
            // A call with few bytes costs memory too.
            self.bytes += data.len() + 64;
            self.messages.push(match self.bytes <= MOST_BYTES {
                true => data,
                false => Bytes::from_static(b"... and more"),
            });
        }
        None
    }
}
