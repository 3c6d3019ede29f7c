//! The calls that a transaction consists of.

use super::{Replay, TraceError, budget::Budget};
use alloy_consensus::TxEnvelope;
use alloy_primitives::{Address, Bytes, U256};
use revm_inspectors::tracing::{
    TracingInspector, TracingInspectorConfig,
    types::{CallKind, CallTraceNode},
};

/// How a call came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// CALL, or the transaction itself.
    Call,
    /// STATICCALL.
    StaticCall,
    /// DELEGATECALL.
    DelegateCall,
    /// CALLCODE.
    CallCode,
    /// CREATE, or the transaction itself.
    Create,
    /// CREATE2.
    Create2,
    /// SELFDESTRUCT: no call, but it moves ether as one.
    SelfDestruct,
}

impl FrameKind {
    /// The name of the instruction.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "CALL",
            Self::StaticCall => "STATICCALL",
            Self::DelegateCall => "DELEGATECALL",
            Self::CallCode => "CALLCODE",
            Self::Create => "CREATE",
            Self::Create2 => "CREATE2",
            Self::SelfDestruct => "SELFDESTRUCT",
        }
    }

    /// Whether ether can move with it.
    pub const fn moves_ether(self) -> bool {
        !matches!(self, Self::StaticCall | Self::DelegateCall)
    }
}

/// One call of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// How it came about.
    pub kind: FrameKind,
    /// Calls above it; 0 for the transaction itself.
    pub depth: usize,
    /// Who calls.
    pub from: Address,
    /// Who is called or created, or receives what is left.
    pub to: Address,
    /// Wei that move.
    pub value: U256,
    /// Data of the call, or the initial code.
    pub input: Bytes,
    /// What it returned; the code of a new contract.
    pub output: Bytes,
    /// Whether its changes stayed: neither it nor a call above it failed.
    pub kept: bool,
}

impl Replay<'_> {
    /// Runs the next transaction; returns the calls it consists of, in the order in which they began. They may take
    /// about `bytes`; what they take is subtracted from them.
    ///
    /// # Errors
    ///
    /// If the calls take too much, the state cannot be read, the sandbox's time is over, or the transaction is not
    /// valid at this place after all.
    pub fn frames(
        &mut self,
        tx: &TxEnvelope,
        sender: Address,
        bytes: &mut usize,
    ) -> Result<Vec<Frame>, TraceError> {
        let observer = TracingInspector::new(TracingInspectorConfig::default_parity());
        let (_, (budget, observer)) =
            self.next(tx, sender, (Budget::of_calls(*bytes), observer))?;
        *bytes = budget.left().ok_or(TraceError::TooLarge)?;
        let nodes = observer.into_traces().into_nodes();
        let mut frames = Vec::with_capacity(nodes.len());
        let mut kept = vec![false; nodes.len()];
        for (index, node) in nodes.iter().enumerate() {
            let above = node.parent.is_none_or(|parent| kept[parent]);
            kept[index] = above && !node.trace.is_error();
            frames.push(frame(node, kept[index]));
            frames.extend(selfdestruct(node, kept[index]));
        }
        Ok(frames)
    }
}

fn frame(node: &CallTraceNode, kept: bool) -> Frame {
    let trace = &node.trace;
    let kind = match trace.kind {
        CallKind::Call | CallKind::AuthCall => FrameKind::Call,
        CallKind::StaticCall => FrameKind::StaticCall,
        CallKind::CallCode => FrameKind::CallCode,
        CallKind::DelegateCall => FrameKind::DelegateCall,
        CallKind::Create => FrameKind::Create,
        CallKind::Create2 => FrameKind::Create2,
    };
    Frame {
        kind,
        depth: trace.depth,
        from: trace.caller,
        to: trace.address,
        value: trace.value,
        input: trace.data.clone(),
        output: trace.output.clone(),
        kept,
    }
}

fn selfdestruct(node: &CallTraceNode, kept: bool) -> Option<Frame> {
    let trace = &node.trace;
    Some(Frame {
        kind: FrameKind::SelfDestruct,
        depth: trace.depth + 1,
        from: trace.selfdestruct_address.unwrap_or(trace.address),
        to: trace.selfdestruct_refund_target?,
        value: trace.selfdestruct_transferred_value.unwrap_or_default(),
        input: Bytes::new(),
        output: Bytes::new(),
        kept,
    })
}
