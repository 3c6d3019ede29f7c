//! `eth_simulateV1`: execution of blocks that are not part of the chain.

use super::calls::check_base_fee;
use crate::{
    Roots,
    rpc::{
        Methods, Rpc,
        args::Args,
        convert::{self, quantity},
        error::{RpcError, RpcResult, revert_message},
        lookup::{At, is_london},
    },
};
use alloy_consensus::{
    Block, BlockBody, EMPTY_OMMER_ROOT_HASH, Eip658Value, Header, Receipt, ReceiptEnvelope,
    Sealable, Sealed, Transaction, TxEnvelope, TxReceipt, proofs,
};
use alloy_eips::eip4895::Withdrawal;
use alloy_hardforks::{EthereumHardfork, EthereumHardforks, ForkCondition};
use alloy_primitives::{Address, B256, Bloom, Signature, TxKind, U256};
use alloy_rpc_types_eth::{
    BlockOverrides, TransactionRequest,
    simulate::{SimBlock, SimulatePayload},
};
use jsonrpsee::core::RegisterMethodError;
use polytrie_chain::executor::sandbox::{
    CallError, CallOutcome, NumberedLog, RunOptions, Sandbox, SimulatedRun,
};
use polytrie_chainspec::{ChainSpec, Rules};
use polytrie_consensus::{access_list::access_list_hash, next_base_fee, next_excess_blob_gas};
use polytrie_state::BlockRef;
use serde_json::{Value, json};

/// Maximum number of simulated blocks, with those that fill gaps.
const MAX_BLOCKS: u64 = 256;

/// Error code: the time of a simulated block is not after that of its parent.
const TIME_ORDER: i32 = -38021;

/// Words after the reason of a halt, as in geth, if the call had less gas than it may have in its block.
const CAPPED: &str = " (gas limit was capped by the RPC server's global gas cap)";

/// Seconds between blocks that have no time of their own.
const BLOCK_TIME: u64 = 12;

pub(super) fn register(methods: &mut Methods) -> Result<(), RegisterMethodError> {
    methods.add_heavy("eth_simulateV1", simulate)
}

fn simulate(rpc: &Rpc, args: &mut Args) -> RpcResult<Vec<Value>> {
    let mut given: Value = args.next()?;
    let withdrawals = take_withdrawals(&mut given)?;
    let payload: SimulatePayload = serde_json::from_value(given)
        .map_err(|error| RpcError::params(format!("invalid argument 0: {error}")))?;
    let id = args.optional_block()?;
    if payload.block_state_calls.is_empty() {
        return Err(RpcError::params("empty input"));
    }
    let view = rpc.node.view();
    let at = rpc.at(&view, id)?;
    let total_difficulty = match &at.pending {
        Some(pending) => view.head.total_difficulty + pending.header.difficulty,
        None => view.db().block_head(at.header.number)?.total_difficulty,
    };
    let wanted = payload.block_state_calls.into_iter().zip(withdrawals);
    let wanted = wanted.map(|(block, withdrawals)| Planned { block, withdrawals }).collect();
    let blocks = fill_gaps(wanted, &at.header)?;
    let options = Options {
        run: RunOptions {
            validation: payload.validation,
            trace_transfers: payload.trace_transfers,
        },
        full: payload.return_full_transactions,
    };
    let parent = BlockRef { number: at.header.number, hash: at.header.hash() };
    let mut roots = rpc.node.roots(&view, parent, at.pending.as_deref(), rpc.deadline())?;
    run_all(rpc, &at, total_difficulty, blocks, options, &mut roots)
}

#[derive(Debug, Clone, Copy)]
struct Options {
    run: RunOptions,
    /// Whether the answer has transactions with all their fields, not only hashes.
    full: bool,
}

/// A block that is to be simulated.
#[derive(Debug, Default)]
struct Planned {
    block: SimBlock,
    withdrawals: Vec<Withdrawal>,
}

/// Takes the withdrawals of each block out of a request, because the library's type has no field for them, and refuses
/// base fees that do not fit into a header.
fn take_withdrawals(given: &mut Value) -> RpcResult<Vec<Vec<Withdrawal>>> {
    let blocks = given.get_mut("blockStateCalls").and_then(Value::as_array_mut);
    let overrides = blocks.into_iter().flatten().map(|block| block.get_mut("blockOverrides"));
    let take = |overrides: Option<&mut Value>| {
        let Some(overrides) = overrides else { return Ok(Vec::new()) };
        check_base_fee(overrides)?;
        let Some(list) = overrides.get_mut("withdrawals") else { return Ok(Vec::new()) };
        let list = serde_json::from_value::<Option<Vec<Withdrawal>>>(list.take());
        list.map(Option::unwrap_or_default)
            .map_err(|error| RpcError::params(format!("withdrawals of a block override: {error}")))
    };
    overrides.map(take).collect()
}

/// Gives every block its number and time, and inserts empty blocks where numbers are left out.
fn fill_gaps(wanted: Vec<Planned>, base: &Header) -> RpcResult<Vec<Planned>> {
    let mut blocks = Vec::with_capacity(wanted.len());
    let (mut number, mut time) = (base.number, base.timestamp);
    for mut planned in wanted {
        let overrides = planned.block.block_overrides.get_or_insert_default();
        let next = overrides.number.unwrap_or_else(|| U256::from(number) + U256::from(1));
        if next <= U256::from(number) {
            return Err(RpcError::new(
                -38020,
                format!("block numbers must be in order: {next} <= {number}"),
            ));
        }
        if next - U256::from(base.number) > U256::from(MAX_BLOCKS) {
            return Err(RpcError::new(-38026, "too many blocks"));
        }
        let next: u64 = next.to();
        while number + 1 < next {
            number += 1;
            time = after(time)?;
            let mut gap = Planned::default();
            gap.block.block_overrides = Some(BlockOverrides {
                number: Some(U256::from(number)),
                time: Some(time),
                ..Default::default()
            });
            blocks.push(gap);
        }
        let next_time = overrides.time.map_or_else(|| after(time), Ok)?;
        if next_time <= time {
            return Err(RpcError::new(
                TIME_ORDER,
                format!("block timestamps must be in order: {next_time} <= {time}"),
            ));
        }
        (number, time) = (next, next_time);
        overrides.number = Some(U256::from(number));
        overrides.time = Some(time);
        blocks.push(planned);
    }
    Ok(blocks)
}

/// Returns the time of a block without one, after a parent at `time`.
fn after(time: u64) -> RpcResult<u64> {
    time.checked_add(BLOCK_TIME).ok_or_else(|| {
        let reason =
            format!("block timestamps must be in order: none comes {BLOCK_TIME} s after {time}");
        RpcError::new(TIME_ORDER, reason)
    })
}

fn run_all(
    rpc: &Rpc,
    at: &At,
    mut total_difficulty: U256,
    blocks: Vec<Planned>,
    options: Options,
    roots: &mut Roots,
) -> RpcResult<Vec<Value>> {
    let mut sandbox = at.sandbox(rpc);
    sandbox.record();
    let mut parent = at.header.clone();
    // The chain does not have the pending block.
    sandbox.set_block_hash(parent.number, parent.hash());
    let mut gas_left = rpc.limits.gas_cap;
    let mut answers = Vec::with_capacity(blocks.len());
    for Planned { block, withdrawals } in blocks {
        rpc.in_time()?;
        let overrides = block.block_overrides.clone().unwrap_or_default();
        let number = overrides.number.unwrap_or_default().saturating_to();
        let rules = rules(rpc.node.spec(), number, overrides.time.unwrap_or(0), total_difficulty);
        // Precompiles that were moved by an override stay moved for one block only.
        sandbox.restore_precompiles();
        if let Some(state) = &block.state_overrides {
            sandbox.override_state(rules.spec_id(), state)?;
        }
        let header = header(&rules, &parent, &overrides, options);
        let mut one = One {
            options,
            overrides: &overrides,
            header,
            rules,
            used: Used::default(),
            gas_left: &mut gas_left,
        };
        let (sealed, answer) = one.run(&mut sandbox, block.calls, withdrawals, roots)?;
        sandbox.set_block_hash(sealed.number, sealed.hash());
        total_difficulty = total_difficulty.saturating_add(sealed.difficulty);
        parent = sealed;
        answers.push(answer);
    }
    Ok(answers)
}

/// Returns the rules of a simulated block; `before` is the total difficulty of its parent.
///
/// The block is past the merge if `before` has reached the terminal difficulty. A simulated chain may not reach that
/// although its numbers or times are later. So the block is past the merge too from the network's fork block for it on,
/// and from the time of Shanghai on. Before London there is no merge.
fn rules(spec: &ChainSpec, number: u64, time: u64, before: U256) -> Rules<'_> {
    let is_later = |fork| match spec.ethereum_fork_activation(fork) {
        ForkCondition::TTD { fork_block, .. } => fork_block.is_some_and(|block| number >= block),
        condition => condition.active_at_timestamp(time),
    };
    let merged = spec.is_merged_after(before)
        || is_london(spec, number)
            && (is_later(EthereumHardfork::Paris) || is_later(EthereumHardfork::Shanghai));
    spec.rules(number, time, merged)
}

/// Returns the header of a simulated block, as far as it is known before execution.
fn header(
    rules: &Rules<'_>,
    parent: &Sealed<Header>,
    overrides: &BlockOverrides,
    options: Options,
) -> Header {
    let cancun = rules.is(EthereumHardfork::Cancun);
    let base_fee = match (overrides.base_fee, options.run.validation) {
        (Some(fee), _) => fee.saturating_to(),
        (None, true) => {
            next_base_fee(rules, parent).map_or(0, |fee| u64::try_from(fee).unwrap_or(u64::MAX))
        }
        (None, false) => 0,
    };
    let difficulty = overrides.difficulty.unwrap_or(parent.difficulty);
    let excess = next_excess_blob_gas(rules, parent);
    Header {
        parent_hash: parent.hash(),
        ommers_hash: EMPTY_OMMER_ROOT_HASH,
        beneficiary: overrides.coinbase.unwrap_or(parent.beneficiary),
        // After the merge the difficulty is zero, whatever the caller wants (EIP-3675).
        difficulty: if rules.merged { U256::ZERO } else { difficulty },
        number: rules.number,
        gas_limit: overrides.gas_limit.unwrap_or(parent.gas_limit),
        timestamp: rules.timestamp,
        mix_hash: overrides.random.unwrap_or_default(),
        base_fee_per_gas: rules.is(EthereumHardfork::London).then_some(base_fee),
        excess_blob_gas: excess.map(|excess| u64::try_from(excess).unwrap_or(u64::MAX)),
        parent_beacon_block_root: cancun.then(|| overrides.beacon_root.unwrap_or_default()),
        ..Header::default()
    }
}

/// A simulated block during its execution.
struct One<'a> {
    options: Options,
    overrides: &'a BlockOverrides,
    header: Header,
    rules: Rules<'a>,
    used: Used,
    /// Gas that all remaining calls together may still use.
    gas_left: &'a mut u64,
}

/// Gas that the calls of a block have used so far.
#[derive(Default)]
struct Used {
    /// Gas that their senders pay for, which the receipts sum up.
    paid: u64,
    regular: u64,
    state: u64,
}

impl Used {
    fn add(&mut self, outcome: &CallOutcome) {
        self.paid += outcome.gas_used;
        self.regular += outcome.regular_gas;
        self.state += outcome.state_gas;
    }

    /// Returns the gas in the header: from Amsterdam on that of the kind of which more was used (EIP-8037).
    fn in_block(&self, rules: &Rules<'_>) -> u64 {
        match rules.is(EthereumHardfork::Amsterdam) {
            true => self.regular.max(self.state),
            false => self.paid,
        }
    }
}

/// The result of a call.
struct Called {
    tx: TxEnvelope,
    sender: Address,
    outcome: CallOutcome,
    logs: Vec<NumberedLog>,
}

impl One<'_> {
    fn run(
        &mut self,
        sandbox: &mut Sandbox,
        calls: Vec<TransactionRequest>,
        withdrawals: Vec<Withdrawal>,
        roots: &mut Roots,
    ) -> RpcResult<(Sealed<Header>, Value)> {
        if self.rules.is(EthereumHardfork::Amsterdam) {
            sandbox.begin_access_list();
        }
        let before = self.header.clone();
        let mut run = SimulatedRun::begin(
            sandbox,
            &before,
            self.rules,
            Some(self.overrides),
            self.options.run,
        )?;
        let mut called = Vec::with_capacity(calls.len());
        let mut receipts = Vec::with_capacity(calls.len());
        for request in calls {
            let one = self.call(&mut run, request)?;
            // Before Byzantium a receipt holds the state root, if the layer has one.
            let root = match self.rules.is(EthereumHardfork::Byzantium) {
                true => B256::ZERO,
                false => roots.after(run.take_recorded())?,
            };
            receipts.push(receipt(&one, self.used.paid, root));
            called.push(one);
        }
        let shanghai = self.rules.is(EthereumHardfork::Shanghai);
        let withdrawals = shanghai.then_some(withdrawals);
        let requests = run.finish(receipts.clone(), withdrawals.as_deref())?;
        let list = sandbox.end_access_list();
        let transactions = called.iter().map(|one| one.tx.clone()).collect();
        let body = BlockBody {
            transactions,
            ommers: Vec::new(),
            withdrawals: withdrawals.map(Into::into),
        };
        let header = &mut self.header;
        header.requests_hash = requests.map(|requests| requests.requests_hash());
        // As in geth, the slot is left out: no consensus layer gives one.
        header.block_access_list_hash = list.map(|list| access_list_hash(&list));
        header.transactions_root = proofs::calculate_transaction_root(&body.transactions);
        header.withdrawals_root =
            body.withdrawals.as_ref().map(|list| proofs::calculate_withdrawals_root(list));
        header.receipts_root = proofs::calculate_receipt_root(&receipts);
        header.logs_bloom = receipts.iter().fold(Bloom::ZERO, |bloom, one| bloom | one.bloom());
        let blobs = body.transactions.iter().filter_map(Transaction::blob_gas_used).sum();
        header.blob_gas_used = self.rules.is(EthereumHardfork::Cancun).then_some(blobs);
        header.state_root = roots.after(sandbox.take_recorded())?;
        let sealed = header.clone().seal_slow();
        let block = Block { header: header.clone(), body };
        let answer = answer(&sealed, block, called, self.options.full)?;
        Ok((sealed, answer))
    }

    fn call(
        &mut self,
        run: &mut SimulatedRun<'_>,
        mut request: TransactionRequest,
    ) -> RpcResult<Called> {
        let sender = request.from.unwrap_or_default();
        request.from = Some(sender);
        if request.nonce.is_none() {
            request.nonce = Some(run.sandbox().account(&sender)?.unwrap_or_default().nonce);
        }
        let (used, limit) = (self.header.gas_used, self.header.gas_limit);
        let wanted = request.gas.unwrap_or(limit - used);
        if used.saturating_add(wanted) > limit {
            return Err(RpcError::new(
                -38015,
                format!("block gas limit reached: {used} >= {limit}"),
            ));
        }
        let gas = wanted.min(*self.gas_left);
        request.gas = Some(gas);
        let (mut outcome, logs) = run.call(request.clone()).map_err(|error| match error {
            CallError::Refused(refusal) => {
                let message = format!("err: {} (supplied gas {gas})", refusal.message);
                RpcError::new(refusal.code, message)
            }
            error => error.into(),
        })?;
        if let Some(reason) = outcome.halt.as_mut().filter(|_| gas < wanted) {
            reason.push_str(CAPPED);
        }
        let tx = self.transaction(request)?;
        self.used.add(&outcome);
        self.header.gas_used = self.used.in_block(&self.rules);
        *self.gas_left -= outcome.gas_used.min(*self.gas_left);
        Ok(Called { tx, sender, outcome, logs })
    }

    /// Returns a call as an unsigned transaction.
    fn transaction(&self, mut request: TransactionRequest) -> RpcResult<TxEnvelope> {
        let london = self.rules.is(EthereumHardfork::London);
        if !london {
            request.max_fee_per_gas = None;
            request.max_priority_fee_per_gas = None;
        }
        if request.gas_price.is_none() && london {
            request.max_fee_per_gas.get_or_insert_default();
            request.max_priority_fee_per_gas.get_or_insert_default();
        } else {
            request.gas_price.get_or_insert_default();
        }
        let blob_fee = request.max_fee_per_blob_gas.unwrap_or(0);
        request.max_fee_per_blob_gas = request.blob_versioned_hashes.as_ref().map(|_| blob_fee);
        request.to = Some(request.to.unwrap_or(TxKind::Create));
        request.chain_id = Some(self.rules.spec.chain_id());
        request.normalize_input();
        let typed = request.build_consensus_tx().map_err(|error| RpcError::params(error.error))?;
        let nobody = Signature::new(U256::ZERO, U256::ZERO, false);
        Ok(typed.into_envelope(nobody))
    }
}

fn receipt(called: &Called, cumulative_gas_used: u64, root: B256) -> ReceiptEnvelope {
    let receipt = Receipt {
        status: match root.is_zero() {
            true => Eip658Value::Eip658(called.outcome.success),
            false => Eip658Value::PostState(root),
        },
        cumulative_gas_used,
        logs: called.outcome.logs.clone(),
    };
    ReceiptEnvelope::from_typed(called.tx.tx_type(), receipt)
}

fn answer(
    header: &Sealed<Header>,
    block: Block<TxEnvelope>,
    called: Vec<Called>,
    full: bool,
) -> RpcResult<Value> {
    let rlp_length = alloy_rlp::encode(&block).len();
    let senders: Vec<Address> = called.iter().map(|one| one.sender).collect();
    let mut calls = Vec::with_capacity(called.len());
    for (index, one) in called.into_iter().enumerate() {
        calls.push(call_answer(header, index, one)?);
    }
    let senders = full.then_some(senders.as_slice());
    let mut answer = convert::block_with(header.clone(), block, rlp_length, senders)?;
    answer["calls"] = Value::Array(calls);
    Ok(answer)
}

fn call_answer(header: &Sealed<Header>, index: usize, called: Called) -> RpcResult<Value> {
    let Called { tx, outcome, logs, .. } = called;
    let logs: Vec<_> = logs
        .into_iter()
        .map(|(log_index, inner)| convert::log(header, (tx.tx_hash(), index), log_index, inner))
        .collect();
    let mut answer = json!({
        "returnData": outcome.output,
        "logs": logs,
        "gasUsed": quantity(outcome.gas_used),
        "maxUsedGas": quantity(outcome.gas_spent),
        "status": quantity(u8::from(outcome.success)),
    });
    if outcome.reverted() {
        // The return data of a revert is in the error.
        answer["returnData"] = json!("0x");
        answer["error"] = json!({
            "message": revert_message(&outcome.output),
            "code": 3,
            "data": outcome.output,
        });
    } else if let Some(reason) = outcome.halt {
        answer["error"] = json!({ "message": reason, "code": -32015 });
    }
    Ok(answer)
}
