//! What a transaction cannot be cheaper than on this machine: decoding, recovery of the sender, bare revm, keccak.
//!
//! ```text
//! floor DIR
//! ```
//!
//! `DIR` is what `polytrie bench generate --out DIR` wrote. One thread; each part goes through the whole chain by
//! itself, so that it has the caches to itself. Execution is revm on a hash map that holds the whole state, with nothing
//! beside it: no receipts, no checks, no state layer. The hashes are those that the state tries need, by the count of
//! accounts and slots that each block changes and of those there are; two prices stand for them, one by one and eight
//! at a time as the tries hash.

#![expect(clippy::print_stdout, reason = "it is a tool that prints figures")]

use alloy_consensus::{Block, Header, Transaction, TxEnvelope};
use alloy_evm::{EthEvmFactory, Evm, EvmEnv, EvmFactory, FromRecoveredTx};
use alloy_genesis::Genesis;
use alloy_primitives::{Address, B256, U256, keccak256, map::HashSet};
use polytrie::{blocks::BlockReader, executor::recover_senders};
use polytrie_trie::keccak::Inputs;
use revm::{
    DatabaseCommit,
    bytecode::Bytecode,
    context::{BlockEnv, CfgEnv, TxEnv},
    context_interface::block::BlobExcessGasAndPrice,
    database::{CacheDB, EmptyDB},
    primitives::hardfork::SpecId,
    state::AccountInfo,
};
use std::{env, error::Error, fs::File, hint::black_box, io::BufReader, path::Path, time::Instant};

/// Bytes of a branch with 16 children, of a leaf of the account trie, and of one of a storage trie, about.
const BRANCH: usize = 532;
const ACCOUNT_LEAF: usize = 110;
const SLOT_LEAF: usize = 70;
/// Hashes that a price is the mean of.
const HASHES: usize = 200_000;

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let dir = env::args().nth(1).ok_or("usage: floor DIR")?;
    let dir = Path::new(&dir);

    let start = Instant::now();
    let mut blocks = Vec::new();
    for raw in BlockReader::open(dir.join("chain.rlp"))? {
        blocks.push(raw?.decode()?);
    }
    let decode = start.elapsed();
    let txs: usize = blocks.iter().map(|block| block.body.transactions.len()).sum();
    let line = |what: &str, micros: f64| println!("{what:<52}{micros:>8.2} µs a transaction");
    let each = |time: std::time::Duration| time.as_secs_f64() * 1e6 / txs as f64;
    println!("{txs} transactions in {} blocks, one thread", blocks.len());
    line("decode", each(decode));

    let start = Instant::now();
    let mut senders = Vec::new();
    for block in &blocks {
        senders.push(recover_senders(&block.body.transactions)?);
    }
    line("recover the sender", each(start.elapsed()));

    let genesis: Genesis =
        serde_json::from_reader(BufReader::new(File::open(dir.join("genesis.json"))?))?;
    let mut state = State::new(&genesis);
    let start = Instant::now();
    for (block, senders) in blocks.iter().zip(&senders) {
        state.execute(block, senders)?;
    }
    line("bare revm, state in a hash map", each(start.elapsed()));

    let branch = prices(BRANCH);
    let (account, slot) = (prices(ACCOUNT_LEAF), prices(SLOT_LEAF));
    let mut needed = Needed::default();
    for changed in &state.changed {
        needed.add(changed.accounts as f64, state.accounts);
        needed.add_slots(changed.slots as f64, state.slots);
    }
    let per_tx = |count: f64| count / txs as f64;
    println!(
        "{:<52}{:>8.2} branches, {:.2} leaves a transaction",
        "hashes that the tries need",
        per_tx(needed.branches),
        per_tx(needed.accounts + needed.slots)
    );
    for (what, at) in [("keccak of them, one by one", 0), ("keccak of them, eight at a time", 1)] {
        let nanos =
            needed.branches * branch[at] + needed.accounts * account[at] + needed.slots * slot[at];
        line(what, per_tx(nanos) / 1e3);
    }
    println!(
        "one branch of {BRANCH} bytes: {:.0} ns by itself, {:.0} ns as one of eight",
        branch[0], branch[1]
    );
    Ok(())
}

/// The state in memory, and how much of it each block changed.
struct State {
    db: CacheDB<EmptyDB>,
    accounts: f64,
    /// Slots of the account that has most.
    slots: f64,
    changed: Vec<Changed>,
}

struct Changed {
    accounts: usize,
    slots: usize,
}

impl State {
    fn new(genesis: &Genesis) -> Self {
        let mut db = CacheDB::new(EmptyDB::default());
        let mut slots = 0;
        for (address, account) in &genesis.alloc {
            let code = account.code.clone().map(Bytecode::new_raw);
            let mut info = AccountInfo {
                balance: account.balance,
                nonce: account.nonce.unwrap_or_default(),
                ..AccountInfo::default()
            };
            if let Some(code) = code {
                info = info.with_code(code);
            }
            db.insert_account_info(*address, info);
            let storage = account.storage.iter().flatten();
            slots = slots.max(storage.clone().count());
            for (slot, value) in storage {
                let (slot, value) = ((*slot).into(), (*value).into());
                // The database in memory cannot fail.
                let Ok(()) = db.insert_account_storage(*address, slot, value);
            }
        }
        Self { db, accounts: genesis.alloc.len() as f64, slots: slots as f64, changed: Vec::new() }
    }

    fn execute(&mut self, block: &Block<TxEnvelope>, senders: &[Address]) -> Result<(), Failure> {
        let chain_id = block.body.transactions.iter().find_map(Transaction::chain_id);
        let env = environment(&block.header, chain_id.unwrap_or(1));
        let mut evm = EthEvmFactory::default().create_evm(&mut self.db, env);
        let (mut accounts, mut slots) =
            (HashSet::<Address>::default(), HashSet::<(Address, U256)>::default());
        for (tx, sender) in block.body.transactions.iter().zip(senders) {
            let done = evm.transact_raw(TxEnv::from_recovered_tx(tx, *sender))?;
            for (address, account) in done.state.iter().filter(|(_, account)| account.is_touched())
            {
                accounts.insert(*address);
                slots.extend(account.changed_storage_slots().map(|(slot, _)| (*address, *slot)));
            }
            evm.db_mut().commit(done.state);
        }
        self.changed.push(Changed { accounts: accounts.len(), slots: slots.len() });
        Ok(())
    }
}

fn environment(header: &Header, chain_id: u64) -> EvmEnv {
    let cfg = CfgEnv::new_with_spec(SpecId::OSAKA).with_chain_id(chain_id);
    let block = BlockEnv {
        number: U256::from(header.number),
        beneficiary: header.beneficiary,
        timestamp: U256::from(header.timestamp),
        gas_limit: header.gas_limit,
        basefee: header.base_fee_per_gas.unwrap_or_default(),
        prevrandao: Some(header.mix_hash),
        blob_excess_gas_and_price: Some(BlobExcessGasAndPrice {
            excess_blob_gas: 0,
            blob_gasprice: 1,
        }),
        ..BlockEnv::default()
    };
    EvmEnv::new(cfg, block)
}

/// Nodes that are hashed anew.
#[derive(Default)]
struct Needed {
    branches: f64,
    accounts: f64,
    slots: f64,
}

impl Needed {
    fn add(&mut self, changed: f64, of: f64) {
        self.branches += branches(changed, of);
        self.accounts += changed;
    }

    fn add_slots(&mut self, changed: f64, of: f64) {
        self.branches += branches(changed, of);
        self.slots += changed;
    }
}

/// How many branches of a trie of `of` random keys lie above `changed` of them: of the 16^d places of a level, as many as
/// any of them leads to, as long as a place has two keys to branch for.
fn branches(changed: f64, of: f64) -> f64 {
    let mut sum = 0.0;
    let mut places = 1.0_f64;
    while places < of && changed > 0.0 {
        let reached = places * (1.0 - (1.0 - 1.0 / places).powf(changed));
        // A place is a branch if another key lies there too.
        let shared = 1.0 - (1.0 - 1.0 / places).powf(of - 1.0);
        sum += reached * shared;
        places *= 16.0;
    }
    sum
}

/// Nanoseconds of a hash of `len` bytes: by itself, and as one of many.
fn prices(len: usize) -> [f64; 2] {
    let mut input = vec![7; len];
    let start = Instant::now();
    for n in 0..HASHES {
        input[..8].copy_from_slice(&(n as u64).to_be_bytes());
        black_box(keccak256(&input));
    }
    let single = start.elapsed();
    let mut inputs = Inputs::default();
    let start = Instant::now();
    for from in (0..HASHES).step_by(256) {
        inputs.clear();
        for n in from..from + 256 {
            input[..8].copy_from_slice(&(n as u64).to_be_bytes());
            inputs.add(n as u32, |bytes| bytes.extend_from_slice(&input), |_| true);
        }
        inputs.hash(|_, hash: B256| {
            black_box(hash);
        });
    }
    let many = start.elapsed();
    [single, many].map(|time| time.as_secs_f64() * 1e9 / HASHES as f64)
}
