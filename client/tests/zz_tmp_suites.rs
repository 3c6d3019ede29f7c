//! temp
use alloy_consensus::{Block, Header, Sealable, Sealed, TxEnvelope};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256, KECCAK256_EMPTY};
use alloy_rlp::Decodable;
use polytrie::{consensus::{self, *}, executor::*};
use polytrie_chainspec::{ChainSpec, Forks};
use polytrie_kv::Store;
use polytrie_state::*;
use polytrie_testing::{Oracle, OracleLayer};
use serde_json::Value;
use std::{collections::HashMap, sync::Mutex};
use rayon::prelude::*;
use alloy_hardforks::EthereumHardfork;

struct Node { header: Sealed<Header>, td: U256, state: Oracle, ancestors: RecentAncestors, hashes: HashMap<u64,B256> }

fn hexb(v: &Value) -> Vec<u8> { alloy_primitives::hex::decode(v.as_str().unwrap()).unwrap() }
fn num(v: &Value) -> U256 { let s=v.as_str().unwrap(); let s=s.strip_prefix("0x").unwrap_or(s); if s.is_empty(){U256::ZERO}else{U256::from_str_radix(s,16).unwrap()} }

fn pre(v: &Value) -> Oracle {
    let mut o = Oracle::default();
    for (a, acc) in v.as_object().unwrap() {
        let address: Address = a.parse().unwrap();
        let code = Bytes::from(hexb(&acc["code"]));
        let code_hash = if code.is_empty() { KECCAK256_EMPTY } else { keccak256(&code) };
        let slots = acc["storage"].as_object().unwrap().iter().map(|(k,v)| (hash_slot(&num(&Value::String(k.clone()))), num(v))).filter(|(_,v)| !v.is_zero()).collect();
        o.insert(GenesisAccount { hash: hash_address(&address), account: Account { nonce: num(&acc["nonce"]).to(), balance: num(&acc["balance"]), code_hash }, code: (!code.is_empty()).then_some(code), slots });
    }
    o
}

fn import(spec: &ChainSpec, executor: &mut Executor, nodes: &HashMap<B256, Node>, rlp: &[u8]) -> Result<Node, String> {
    let block = polytrie::blocks::decode_block(rlp).map_err(|e| format!("decode {e}"))?;
    let _: &Block<TxEnvelope> = &block;
    let parent = nodes.get(&block.header.parent_hash).ok_or("unknown parent")?;
    let rules = spec.rules(block.header.number, block.header.timestamp, spec.is_merged_after(parent.td));
    check_header(&rules, &parent.header, &block.header).map_err(|e| format!("header: {e}"))?;
    check_body(&rules, &block).map_err(|e| format!("body: {e}"))?;
    check_ommers(&rules, &block.header, &block.body.ommers, &parent.ancestors).map_err(|e| format!("ommers: {e}"))?;
    let senders = recover_senders(&block.body.transactions).map_err(|e| format!("senders: {e}"))?;
    let tables = [OracleLayer::TABLES, &[CODE_TABLE]].concat();
    let layer = OracleLayer::open(Store::memory(&tables).unwrap()).unwrap();
    layer.load(&mut parent.state.genesis().map(Ok)).unwrap();
    let mut session = Session::begin(&*layer, BlockRef { number: parent.header.number, hash: parent.header.hash() }).unwrap();
    if !rules.is(EthereumHardfork::Byzantium) { session = session.with_intermediate_roots(); }
    let hashes = |n: u64| parent.hashes.get(&n).copied();
    let done = executor.execute_block(&mut session, rules, &hashes, BlockToExecute::new(&block, &senders)).map_err(|e| match e { ExecuteError::Invalid(e) => format!("exec: {e}"), ExecuteError::Internal(e) => format!("INTERNAL: {e}")})?;
    let r = ExecutedResult { gas_used: done.gas_used, receipts: &done.receipts, requests: done.requests.as_ref(), blob_gas_used: done.blob_gas_used, block_access_list_hash: None };
    consensus::check_result(&rules, &block.header, &r, if done.receipts_comparable {ReceiptsRoot::Compare} else {ReceiptsRoot::Skip}).map_err(|e| format!("result: {e}"))?;
    let fin = session.finish().map_err(|e| format!("INTERNAL finish {e}"))?;
    let root = fin.outcome.commitment.as_state_root().unwrap();
    if root != block.header.state_root { return Err(format!("state root {root} != {}", block.header.state_root)); }
    let mut state = parent.state.clone();
    state.apply_set(&fin.writes);
    let header = block.header.clone().seal_slow();
    let mut ancestors = parent.ancestors.clone();
    ancestors.push(Ancestor::new(header.clone(), &block.body.ommers));
    let mut hashes = parent.hashes.clone();
    hashes.insert(header.number, header.hash());
    Ok(Node { td: parent.td + header.difficulty, header, state, ancestors, hashes })
}

fn run(t: &Value) -> Result<(), String> {
    let network = t["network"].as_str().unwrap();
    let forks = Forks::test_network(network).ok_or(format!("network {network}"))?;
    let gen_block = Block::<TxEnvelope>::decode(&mut &hexb(&t["genesisRLP"])[..]).map_err(|e| format!("genesis {e}"))?;
    let spec = ChainSpec::with_forks("test", 1, forks, gen_block.header.clone(), []).with_deposit_contract(Some("0x00000000219ab540356cbb839cbe05303d7705fa".parse().unwrap()));
    let state = pre(&t["pre"]);
    if state.state_root() != gen_block.header.state_root { return Err("genesis root".into()); }
    let header = gen_block.header.seal_slow();
    let mut ancestors = RecentAncestors::new();
    ancestors.push(Ancestor::new(header.clone(), &[]));
    let ghash = header.hash();
    let mut nodes = HashMap::new();
    nodes.insert(ghash, Node { td: header.difficulty, hashes: HashMap::from([(0, ghash)]), header, state, ancestors });
    let mut executor = Executor::new(1 << 20);
    for (i, b) in t["blocks"].as_array().unwrap().iter().enumerate() {
        let invalid = b.as_object().unwrap().keys().any(|k| k.starts_with("expectException"));
        let r = import(&spec, &mut executor, &nodes, &hexb(&b["rlp"]));
        match (r, invalid) {
            (Ok(n), false) => { nodes.insert(n.header.hash(), n); }
            (Ok(_), true) => return Err(format!("block {i} accepted, expected {b:?}").chars().take(300).collect()),
            (Err(e), false) => return Err(format!("block {i}: {e}")),
            (Err(e), true) => if e.contains("INTERNAL") { return Err(format!("block {i}: {e}")) },
        }
    }
    let last: B256 = t["lastblockhash"].as_str().unwrap().parse().unwrap();
    if !nodes.contains_key(&last) { return Err("lastblockhash not among valid".into()); }
    Ok(())
}

#[test]
fn suites() {
    let dirs = std::env::var("DIRS").unwrap();
    let filter = std::env::var("FILTER").unwrap_or_default();
    let mut files = Vec::new();
    fn walk(p: &std::path::Path, out: &mut Vec<std::path::PathBuf>) { for e in std::fs::read_dir(p).unwrap() { let p = e.unwrap().path(); if p.is_dir() { walk(&p, out) } else if p.extension().is_some_and(|e| e == "json") { out.push(p) } } }
    for d in dirs.split(',') { walk(d.as_ref(), &mut files); }
    files.sort();
    let stats = Mutex::new((0u64, 0u64, Vec::<String>::new()));
    files.par_iter().filter(|f| f.to_string_lossy().contains(&filter)).for_each(|f| {
        let v: Value = match serde_json::from_slice(&std::fs::read(f).unwrap()) { Ok(v) => v, Err(_) => return };
        let Some(o) = v.as_object() else { return };
        for (name, t) in o {
            if name.starts_with('_') || t.get("blocks").is_none() { continue; }
            let r = std::panic::catch_unwind(|| run(t)).unwrap_or_else(|p| Err(format!("PANIC {:?}", p.downcast_ref::<String>())));
            let mut s = stats.lock().unwrap();
            match r { Ok(()) => s.0 += 1, Err(e) => { s.1 += 1; s.2.push(format!("{name} [{}] {e}", t["network"])); } }
        }
    });
    let s = stats.into_inner().unwrap();
    println!("{} passed, {} failed", s.0, s.1);
    for l in s.2.iter().take(400) { println!("{}", l.chars().take(500).collect::<String>()); }
}
