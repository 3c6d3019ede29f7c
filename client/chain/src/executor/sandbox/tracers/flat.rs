//! The calls of a transaction as a flat list (`flatCallTracer`).

use super::Ending;
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use alloy_rpc_types_trace::geth::CallFrame;
use revm::handler::EthPrecompiles;
use serde::{Deserialize, Serialize};

/// Options of the tracer.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct FlatConfig {
    /// Whether errors are in the words of Parity.
    convert_parity_errors: bool,
    /// Whether calls of precompiles are listed.
    include_precompiles: bool,
}

/// A call in the list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FlatFrame {
    action: Action,
    block_hash: Option<B256>,
    block_number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Output>,
    subtraces: usize,
    trace_address: Vec<usize>,
    transaction_hash: Option<B256>,
    transaction_position: usize,
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum Action {
    Call { call_type: String, from: Address, gas: U256, input: Bytes, to: Address, value: U256 },
    Create { creation_method: String, from: Address, gas: U256, init: Bytes, value: U256 },
    Suicide { address: Address, balance: U256, refund_address: Address },
}

#[derive(Debug, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum Output {
    Call {
        gas_used: U64,
        output: Bytes,
    },
    Create {
        #[serde(skip_serializing_if = "Option::is_none")]
        address: Option<Address>,
        code: Bytes,
        gas_used: U64,
    },
}

/// Returns a transaction's call and those within it, in the order in which they began.
pub(super) fn flattened(
    root: CallFrame,
    config: FlatConfig,
    ending: &Ending<'_>,
) -> Vec<FlatFrame> {
    let precompiles = EthPrecompiles::new(ending.spec).precompiles;
    let is_hidden = |call: &CallFrame| {
        !config.include_precompiles
            && matches!(call.typ.as_str(), "CALL" | "STATICCALL")
            && call.to.is_some_and(|to| precompiles.contains(&to))
    };
    let place = ending.place.unwrap_or_default();
    let mut frames = Vec::new();
    let mut left = vec![(root, Vec::new())];
    while let Some((mut call, trace_address)) = left.pop() {
        let calls = std::mem::take(&mut call.calls);
        let calls: Vec<_> = calls.into_iter().filter(|call| !is_hidden(call)).collect();
        let subtraces = calls.len();
        let below = |index: usize| [trace_address.as_slice(), &[index]].concat();
        let calls = calls.into_iter().enumerate();
        left.extend(calls.map(|(index, call)| (call, below(index))).rev());
        let error = call.error.clone();
        let has_result = error.as_deref().is_none_or(|error| error == "execution reverted");
        let (kind, action, result) = parts(call);
        frames.push(FlatFrame {
            action,
            block_hash: place.block_hash,
            block_number: place.block_number,
            error: error.map(|error| match config.convert_parity_errors {
                true => in_words_of_parity(error),
                false => error,
            }),
            result: result.filter(|_| has_result),
            subtraces,
            trace_address,
            transaction_hash: place.hash,
            transaction_position: place.index,
            kind,
        });
    }
    frames
}

fn parts(call: CallFrame) -> (&'static str, Action, Option<Output>) {
    let CallFrame { typ, from, to, gas, gas_used, input, output, value, .. } = call;
    let (gas_used, value) = (gas_used.saturating_to(), value.unwrap_or_default());
    let output = output.unwrap_or_default();
    match typ.as_str() {
        "SELFDESTRUCT" => {
            let refund_address = to.unwrap_or_default();
            ("suicide", Action::Suicide { address: from, balance: value, refund_address }, None)
        }
        "CREATE" | "CREATE2" => {
            let creation_method = typ.to_lowercase();
            let action = Action::Create { creation_method, from, gas, init: input, value };
            ("create", action, Some(Output::Create { address: to, code: output, gas_used }))
        }
        _ => {
            let (call_type, to) = (typ.to_lowercase(), to.unwrap_or_default());
            let action = Action::Call { call_type, from, gas, input, to, value };
            ("call", action, Some(Output::Call { gas_used, output }))
        }
    }
}

fn in_words_of_parity(error: String) -> String {
    let words = match error.as_str() {
        "contract creation code storage out of gas"
        | "gas uint64 overflow"
        | "max code size exceeded" => "Out of gas",
        error if error.starts_with("out of gas") => "Out of gas",
        "invalid jump destination" => "Bad jump destination",
        "execution reverted" => "Reverted",
        "return data out of bounds" => "Out of bounds",
        error if error.starts_with("stack limit reached") => "Out of stack",
        "precompiled failed" | "invalid input length" => "Built-in failed",
        error if error.starts_with("invalid opcode:") => "Bad instruction",
        error if error.starts_with("stack underflow") => "Stack underflow",
        _ => return error,
    };
    words.to_owned()
}
