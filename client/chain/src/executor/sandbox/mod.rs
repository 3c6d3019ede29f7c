//! Calls, traces and simulated blocks. Their changes stay in memory.
//!
//! A [`Sandbox`] reads from some block and keeps writes in memory. [`call`] runs one transaction or call on it,
//! [`Replay`] runs the transactions of a block with an inspector, and a [`SimulatedRun`] runs a block that is never
//! added to the chain.

mod ahead;
mod budget;
mod call;
mod database;
mod deadline;
mod frames;
mod message;
mod overrides;
mod parity;
mod precompiles;
mod recorder;
mod refusal;
mod replay;
mod revert;
mod run;
mod selfdestruct;
mod trace;
mod tracers;
mod transfers;

pub use ahead::run_ahead;
pub(super) use call::halt_message;
pub use call::{CallError, CallOutcome, CallRequest, call};
pub use database::Sandbox;
pub use frames::{Frame, FrameKind};
pub use overrides::OverrideError;
pub use parity::{TraceTypes, parity_trace_call};
pub use recorder::{RecordingReader, Seen};
pub use refusal::Refusal;
pub use replay::Replay;
pub use revert::{RevertReason, panic_meaning, revert_reason};
pub use revm::inspector::NoOpInspector as NoObserver;
pub use revm_inspectors::access_list::AccessListInspector;
pub use run::{RunOptions, SimulatedRun};
pub use trace::{TraceError, trace_call};
pub use transfers::NumberedLog;

use alloy_evm::eth::EthEvmContext;
use precompiles::SandboxPrecompiles;
use revm::Inspector;
use revm_state_hooks::HookedEvm;

/// EVM on a sandbox.
type SandboxEvm<'a, I> = HookedEvm<&'a mut Sandbox, I, SandboxPrecompiles>;

/// Inspector of an EVM on a sandbox.
pub trait Observer: for<'a> Inspector<EthEvmContext<&'a mut Sandbox>> {}

impl<I> Observer for I where I: for<'a> Inspector<EthEvmContext<&'a mut Sandbox>> {}
