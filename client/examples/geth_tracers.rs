//! go-ethereum's own cases of its tracers, run through what answers `debug_traceTransaction` here.
//!
//! ```text
//! geth_tracers DIR
//! ```
//!
//! `DIR` is `eth/tracers/internal/tracetest/testdata` of go-ethereum; `scripts/compare-tracers` fetches it. Exit code 1 if
//! a case differs.

#![expect(clippy::print_stdout, reason = "it is a tool that prints what it found")]

use alloy_consensus::{Header, TxEnvelope, transaction::SignerRecoverable};
use alloy_eips::Decodable2718;
use alloy_primitives::{Address, B256, Bytes, U256, hex, keccak256};
use polytrie::executor::sandbox::{Replay, Sandbox};
use polytrie_chainspec::ChainSpec;
use polytrie_state::{Account, AccountChange, StateError, StateReader};
use serde_json::{Value, json};
use std::{collections::BTreeMap, env, error::Error, fs, path::Path, process::ExitCode, sync::Arc};

type Failure = Box<dyn Error>;

/// Directories of cases, and the tracer that each is about.
const SUITES: [(&str, &str); 6] = [
    ("call_tracer", "callTracer"),
    ("call_tracer_withLog", "callTracer"),
    ("call_tracer_flat", "flatCallTracer"),
    ("prestate_tracer", "prestateTracer"),
    ("prestate_tracer_with_diff_mode", "prestateTracer"),
    ("erc7562_tracer", "erc7562Tracer"),
];

/// A state without accounts.
#[derive(Debug)]
struct Nothing;

impl StateReader for Nothing {
    fn account(&self, _: &Address) -> Result<Option<Account>, StateError> {
        Ok(None)
    }

    fn slot(&self, _: &Address, _: &U256) -> Result<U256, StateError> {
        Ok(U256::ZERO)
    }

    fn code(&self, _: &B256) -> Result<Option<Bytes>, StateError> {
        Ok(None)
    }

    fn has_storage(&self, _: &Address) -> Result<bool, StateError> {
        Ok(false)
    }
}

fn main() -> Result<ExitCode, Failure> {
    let dir = env::args().nth(1).ok_or("usage: geth_tracers DIR")?;
    let (mut equal, mut different) = (0, 0);
    for (suite, tracer) in SUITES {
        let mut files: Vec<_> = fs::read_dir(Path::new(&dir).join(suite))?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        files.retain(|file| file.extension().is_some_and(|ext| ext == "json"));
        files.sort();
        let (count, mut wrong) = (files.len(), Vec::new());
        for file in files {
            if let Err(reason) = run(&file, tracer) {
                wrong.push(format!("  {}: {reason}", file.display()));
            }
        }
        println!("{suite} ({tracer}): {} of {count} equal", count - wrong.len());
        wrong.iter().for_each(|line| println!("{line}"));
        equal += count - wrong.len();
        different += wrong.len();
    }
    println!(
        "{equal} equal, {different} different; the tracers in JavaScript (*_legacy) are not run"
    );
    Ok(if different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run(file: &Path, tracer: &str) -> Result<(), Failure> {
    let mut case: Value = serde_json::from_slice(&fs::read(file)?)?;
    let mut genesis = case["genesis"].take();
    let context = &case["context"];
    let at = (number(&context["number"]), number(&context["timestamp"]));
    let rules = json!({
        "config": rules_at(genesis["config"].take(), at),
        "difficulty": "0x1", "gasLimit": "0x1", "alloc": {},
    });
    let spec = ChainSpec::parse("case", &serde_json::to_vec(&rules)?)?;
    let mut sandbox = Sandbox::new(Arc::new(Nothing), Arc::new(|_: u64| None));
    for (address, account) in accounts(&genesis)? {
        sandbox.apply(AccountChange { address, ..account });
    }
    let merged = spec.terminal_total_difficulty().is_some_and(|total| total.is_zero());
    let rules = spec.rules(at.0, at.1, merged);
    let header = Header {
        number: at.0,
        timestamp: at.1,
        difficulty: U256::from(number(&context["difficulty"])),
        gas_limit: number(&context["gasLimit"]),
        beneficiary: serde_json::from_value(context["miner"].clone())?,
        base_fee_per_gas: context.get("baseFeePerGas").map(number),
        excess_blob_gas: rules.blob_params().map(|_| 0),
        mix_hash: genesis
            .get("mixHash")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .parse()
            .unwrap_or_default(),
        parent_beacon_block_root: rules.blob_params().map(|_| B256::ZERO),
        ..Header::default()
    };
    let raw = hex::decode(case["input"].as_str().unwrap_or_default())?;
    let tx = TxEnvelope::decode_2718(&mut raw.as_slice())?;
    let sender = tx.recover_signer()?;
    let options = json!({ "tracer": tracer, "tracerConfig": case["tracerConfig"] });
    let mut replay = Replay::begin(&mut sandbox, &header, rules)?;
    let place = (B256::ZERO, 0);
    let mut bytes = usize::MAX;
    let found = replay.trace(&tx, sender, place, serde_json::from_value(options)?, &mut bytes)?;
    let mut found: Value = serde_json::from_str(found.get())?;
    let mut wanted = case["result"].take();
    for side in [&mut found, &mut wanted] {
        for frame in side.as_array_mut().into_iter().flatten() {
            leave_out_place(frame);
        }
    }
    // A measured time is not part of the answer.
    if let Some(frame) = wanted.as_object_mut() {
        frame.remove("time");
    }
    if tracer == "callTracer" {
        number_logs(&mut wanted);
        number_logs(&mut found);
    }
    match difference(&found, &wanted, "") {
        Some(difference) => Err(difference.into()),
        None => Ok(()),
    }
}

/// The forks that are in force at one block (number and time), all of them from the beginning: the cases are of single
/// blocks, and some have forks in an order that no chain has. Who is paid stands in the case, and not in a seal.
fn rules_at(mut config: Value, at: (u64, u64)) -> Value {
    let Some(fields) = config.as_object_mut() else { return config };
    for name in ["clique", "daoForkBlock", "daoForkSupport", "eip155Block"] {
        fields.remove(name);
    }
    fields.retain(|name, value| {
        let is_on = match (name.ends_with("Block"), name.ends_with("Time")) {
            (true, _) => number(value) <= at.0,
            (_, true) => number(value) <= at.1,
            _ => return true,
        };
        *value = json!(0);
        is_on
    });
    if fields.contains_key("eip158Block") {
        fields.insert("eip155Block".to_owned(), json!(0));
    }
    fields.entry("ethash").or_insert_with(|| json!({}));
    config
}

/// What geth's own harness does not compare of a flat call; it reads a field that is not there as zero.
fn leave_out_place(frame: &mut Value) {
    let Some(fields) = frame.as_object_mut() else { return };
    for name in ["blockHash", "blockNumber", "transactionHash", "transactionPosition", "time"] {
        fields.remove(name);
    }
    for name in ["action", "result"] {
        if let Some(inner) = fields.get_mut(name).and_then(Value::as_object_mut) {
            inner.retain(|_, value| {
                let text = value.as_str().and_then(|text| text.strip_prefix("0x"));
                text.is_none_or(|digits| digits.chars().any(|digit| digit != '0'))
            });
        }
    }
    fields.retain(|_, value| !value.is_null() && *value != json!({}));
}

/// A log whose number is not there is the first one.
fn number_logs(frame: &mut Value) {
    for log in frame.get_mut("logs").and_then(Value::as_array_mut).into_iter().flatten() {
        let fields = log.as_object_mut().into_iter();
        fields.for_each(|fields| {
            fields.entry("index").or_insert_with(|| json!("0x0"));
        });
    }
    let calls = frame.get_mut("calls").and_then(Value::as_array_mut);
    calls.into_iter().flatten().for_each(number_logs);
}

fn accounts(genesis: &Value) -> Result<BTreeMap<Address, AccountChange>, Failure> {
    let mut all = BTreeMap::new();
    for (address, account) in genesis["alloc"].as_object().into_iter().flatten() {
        let address: Address = address.parse()?;
        let code = account["code"].as_str().unwrap_or_default().parse::<Bytes>()?;
        let code = (!code.is_empty()).then(|| (keccak256(&code), code));
        let slots = account["storage"].as_object().into_iter().flatten();
        let slots = slots
            .map(|(slot, value)| Ok((slot.parse()?, value.as_str().unwrap_or_default().parse()?)));
        let nonce = account.get("nonce").map_or(0, number);
        let balance = account["balance"].as_str().unwrap_or("0").parse()?;
        let mut kept = Account { nonce, balance, ..Account::default() };
        if let Some((hash, _)) = &code {
            kept.code_hash = *hash;
        }
        let slots = slots.collect::<Result<Vec<(U256, U256)>, Failure>>()?;
        let change = AccountChange { address, account: Some(kept), wiped: false, code, slots };
        all.insert(address, change);
    }
    Ok(all)
}

/// A number as these files write it.
fn number(value: &Value) -> u64 {
    let text = value.as_str().and_then(|text| text.parse::<U256>().ok());
    text.map_or_else(|| value.as_u64().unwrap_or_default(), |number| number.saturating_to())
}

/// The first place where two answers differ.
fn difference(found: &Value, wanted: &Value, at: &str) -> Option<String> {
    match (found, wanted) {
        (Value::Object(a), Value::Object(b)) => {
            let names: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            names
                .into_iter()
                .find_map(|name| difference(&found[name], &wanted[name], &format!("{at}.{name}")))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let both = a.iter().zip(b).enumerate();
            both.into_iter().find_map(|(i, (a, b))| difference(a, b, &format!("{at}[{i}]")))
        }
        _ if found == wanted => None,
        _ => {
            let short = |value: &Value| value.to_string().chars().take(120).collect::<String>();
            Some(format!("{at} is {}, geth has {}", short(found), short(wanted)))
        }
    }
}
