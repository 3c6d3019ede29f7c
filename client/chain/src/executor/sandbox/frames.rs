//! The calls within a transaction.

use super::{Replay, TraceError, budget::Budget, selfdestruct::Calls};
use alloy_consensus::TxEnvelope;
use alloy_primitives::{Address, Bytes, U256};
use revm_inspectors::tracing::{
    TracingInspector, TracingInspectorConfig,
    types::{CallKind, CallTraceNode},
};

/// Kind of a call.
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
    /// SELFDESTRUCT, which is no call but moves ether as one does.
    SelfDestruct,
}

impl FrameKind {
    /// Returns the name of the instruction.
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

    /// Whether a call of this kind can move ether.
    pub const fn moves_ether(self) -> bool {
        !matches!(self, Self::StaticCall | Self::DelegateCall)
    }
}

/// A call within a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Kind of the call.
    pub kind: FrameKind,
    /// Number of calls above it; 0 for the transaction itself.
    pub depth: usize,
    /// Address of the caller.
    pub from: Address,
    /// Address of the callee or the new contract, or the receiver of a SELFDESTRUCT.
    pub to: Address,
    /// Wei that the call moves.
    pub value: U256,
    /// Data of the call, or the init code.
    pub input: Bytes,
    /// Returned data; the code of a new contract.
    pub output: Bytes,
    /// Whether its changes were kept: neither it nor a call above it failed.
    pub kept: bool,
}

impl Replay<'_> {
    /// Runs the next transaction. Returns its calls in the order in which they began. They may take about `bytes`,
    /// and their size is subtracted from it.
    ///
    /// # Errors
    ///
    /// Fails if the calls take too many bytes, the state cannot be read, the sandbox's deadline is over, or the
    /// transaction is not valid at this place after all.
    pub fn frames(
        &mut self,
        tx: &TxEnvelope,
        sender: Address,
        bytes: &mut usize,
    ) -> Result<Vec<Frame>, TraceError> {
        let calls = TracingInspector::new(TracingInspectorConfig::default_parity());
        let observers = (Budget::of_calls(*bytes), Calls::new(calls));
        let (_, (budget, calls)) = self.next(tx, sender, observers)?;
        *bytes = budget.left().ok_or(TraceError::TooLarge)?;
        let nodes = calls.record.into_traces().into_nodes();
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
