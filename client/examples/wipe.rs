//! What it costs to destroy a large contract, and to take that back: time and memory, for every state layer.
//!
//! ```text
//! wipe SLOTS DIR [LAYER]…
//! ```
//!
//! Makes a chain below `DIR` for each layer, in which a contract has so many slots, and then does one thing after the other,
//! each in a process of its own so that their memory can be compared: a block that is one payment, a block that destroys
//! the contract, taking that block back, reading a slot as it was before the block, and pruning what the way back would
//! need. Prints the time that each took, flush included, and the most memory: that of the process alone, looked at every
//! few milliseconds, and with the pages of files that it had mapped.

#![expect(clippy::print_stdout, reason = "it is a tool that prints figures")]

use alloy_primitives::{Address, U256};
use polytrie::{
    chain::{Chain, ChainOptions, NextBlock, StateHistory},
    datadir::{DataDir, OpenOptions},
    layers::{self, LAYERS, LayerOptions},
    process::{own_rss_bytes, peak_rss_bytes},
};
use polytrie_state::{Account, AccountChange, TxWrites};
use std::{
    env,
    error::Error,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

type Failure = Box<dyn Error>;

const CONTRACT: Address = Address::repeat_byte(0xcc);

/// Slots that one block sets.
const SLOTS_A_BLOCK: u64 = 100_000;

const STEPS: [&str; 6] = ["fill", "pay", "destroy", "back", "read", "prune"];

fn main() -> Result<(), Failure> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [slots, dir, layers @ ..] = &args[..] else {
        return Err("usage: wipe SLOTS DIR [LAYER]…".into());
    };
    if let Ok(step) = env::var("WIPE_STEP") {
        let layer = layers.first().ok_or("no layer")?;
        return run(&step, slots.parse()?, PathBuf::from(dir).join(layer), layer);
    }
    let all: Vec<String> = LAYERS.iter().map(|layer| layer.name.to_owned()).collect();
    println!(
        "{:<8} {:<8} {:>10} {:>12} {:>12}",
        "layer", "step", "seconds", "own, MiB", "all, MiB"
    );
    for layer in if layers.is_empty() { &all[..] } else { layers } {
        for step in STEPS {
            let mut again = Command::new(env::current_exe()?);
            let again = again.args([slots, dir, layer]).env("WIPE_STEP", step);
            if !again.status()?.success() {
                return Err(format!("{layer}: {step} failed").into());
            }
        }
        std::fs::remove_dir_all(PathBuf::from(dir).join(layer))?;
    }
    Ok(())
}

/// Does one thing in this process and prints what it took.
fn run(step: &str, slots: u64, dir: PathBuf, layer: &str) -> Result<(), Failure> {
    let undo_blocks = if step == "prune" { 1 } else { ChainOptions::default().undo_blocks };
    let kind = layers::layer(layer)?;
    let mut options = OpenOptions {
        datadir: Some(dir.clone()),
        chain: Some("dev".into()),
        state: Some(layer.into()),
        layer: LayerOptions::default(),
        chain_options: ChainOptions { undo_blocks, ..ChainOptions::default() },
        ..OpenOptions::default()
    };
    if let Some(provision) = kind.provision(&options.layer) {
        let place = dir.with_file_name(provision.name);
        if !place.exists() {
            (provision.make)(&place)?;
        }
        (provision.take)(&mut options.layer, &place);
    }
    let (mut chain, _dir) = DataDir::open(&options, step == "fill")?.into_chain()?;
    let (peak, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    let start = Instant::now();
    let took = thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                peak.fetch_max(own_rss_bytes(), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(5));
            }
        });
        let done = act(step, slots, &mut chain).and_then(|()| Ok(chain.flush()?));
        ended.store(true, Ordering::Relaxed);
        done.map(|()| start.elapsed())
    })?;
    let [own, all] = [peak.into_inner(), peak_rss_bytes()].map(|bytes| bytes >> 20);
    println!("{layer:<8} {step:<8} {:>10.2} {own:>12} {all:>12}", took.as_secs_f64());
    Ok(())
}

fn act(step: &str, slots: u64, chain: &mut Chain) -> Result<(), Failure> {
    match step {
        "fill" => {
            for first in (0..slots).step_by(SLOTS_A_BLOCK as usize) {
                let mut change = account(CONTRACT, 1);
                let numbers = first..slots.min(first + SLOTS_A_BLOCK);
                change.slots = numbers.map(|n| (U256::from(n), U256::from(n + 1))).collect();
                block(chain, change)?;
            }
            Ok(())
        }
        "pay" => block(chain, account(Address::repeat_byte(1), 5)),
        "destroy" => {
            block(chain, AccountChange { account: None, wiped: true, ..account(CONTRACT, 1) })
        }
        "back" => {
            let parent = chain.head().number() - 1;
            chain.unwind_to(parent)?;
            // For what comes next.
            chain.flush()?;
            Ok(())
        }
        "read" => {
            act("destroy", slots, chain)?;
            let history = StateHistory::new(chain.layer().clone());
            let (head, snapshot) = (chain.head(), chain.db().store().snapshot());
            let reader = history.at(head, chain.layer().reader()?, &snapshot, head.number() - 1)?;
            let reader = reader.ok_or("the undo record is gone")?;
            for n in (0..slots).step_by(97) {
                assert_eq!(reader.slot(&CONTRACT, &U256::from(n))?, U256::from(n + 1), "slot {n}");
            }
            Ok(())
        }
        "prune" => (0..2).try_for_each(|n| block(chain, account(Address::repeat_byte(1), 9 + n))),
        _ => Err(format!("there is no step {step}").into()),
    }
}

fn account(address: Address, balance: u64) -> AccountChange {
    let account = Account { balance: U256::from(balance), ..Account::default() };
    AccountChange { address, account: Some(account), wiped: false, code: None, slots: Vec::new() }
}

/// Adds a block that does nothing else.
fn block(chain: &mut Chain, change: AccountChange) -> Result<(), Failure> {
    let parent = &chain.head().header;
    let (timestamp, gas_limit) = (parent.timestamp + 1, parent.gas_limit);
    let next = NextBlock { timestamp, gas_limit, ..NextBlock::default() };
    let writes = TxWrites { accounts: vec![change] };
    let built = chain.build(next, &writes, &mut |_, _, _| Ok(Vec::new()))?;
    chain.adopt(built)?;
    Ok(())
}
