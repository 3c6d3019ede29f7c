//! The blocks of a test, which is a case with an amount of gas per block.

use super::{
    Case, WorstSpec,
    cases::{self, Calls, Plan, doomed},
    state::CANCUN_AFTER,
};
use crate::{
    BlockPlan, Cache, GenerateError, Planned, ProduceError, Producer, Settings, Subject, Wallet,
    fixture::{
        Base,
        base::mix,
        cache::Scratch,
        chain::{ChainFiles, OUTLINE, write},
        store::copied,
    },
    workload::{BLOCK_TIME, CHAIN_ID, GWEI},
};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, Bytes};
use polytrie_chain::ChainOptions;
use serde::{Deserialize, Serialize};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Greatest gas limit of a transaction (EIP-7825).
const MOST_TX_GAS: u64 = 1 << 24;
/// Gas of a transaction with a list, without that of the list's numbers.
const LIST_OVERHEAD: u64 = 60_000;
/// Gas limit of a short transaction, and the gas that it uses.
const SHORT: (u64, u64) = (60_000, 26_500);
/// Gas limit of a transaction that destroys a contract.
const DESTROY_GAS: u64 = 100_000;

/// A test: blocks on top of the genesis block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorstTest {
    /// Name of the case.
    pub case: String,
    /// Gas of a block before blocks are merged.
    pub gas: u64,
    /// Directory of the prepared chain.
    pub chain: PathBuf,
}

/// Makes the blocks of each case for each amount of gas, unless they are in the cache already. `merge`
/// blocks are merged into one.
///
/// # Errors
///
/// Fails if the blocks cannot be made.
pub fn prepare(
    spec: &WorstSpec,
    cases: &[Case],
    gas: &[u64],
    merge: u64,
    base: &Base,
    cache: &Arc<Cache>,
) -> Result<Vec<WorstTest>, GenerateError> {
    let mut maker = None;
    let mut tests = Vec::new();
    for case in cases {
        // A destruction uses no more gas in a larger block.
        let gas = if case.plan == Plan::Destroy { &gas[..gas.len().min(1)] } else { gas };
        for gas in gas {
            let parameters = serde_json::json!({
                "spec": spec, "case": case.name, "gas": gas, "merge": merge, "plan": format!("{:?}", case.plan),
                "gas_limit": spec.genesis().gas_limit, "numbers": "apart in each test",
            });
            let chain = cache.entry(
                &format!("worst-{}", case.name),
                &parameters,
                |dir| -> Result<(), GenerateError> {
                    let maker = match &mut maker {
                        Some(maker) => maker,
                        none => none.insert(Maker::open(spec, base, cache)?),
                    };
                    maker.make(case, gas * merge, dir, cache)
                },
            )?;
            tests.push(WorstTest { case: case.name.clone(), gas: *gas, chain });
        }
    }
    Ok(tests)
}

/// Maker of blocks on the canonical layer `mpt`.
struct Maker {
    spec: WorstSpec,
    producer: Producer,
    outline: String,
    wallet: Wallet,
    deep: [Vec<u32>; 2],
    _store: Scratch,
}

/// A transaction without a sender: callee, data and gas limit.
type Call = (Address, Bytes, u64);

impl Maker {
    fn open(spec: &WorstSpec, base: &Base, cache: &Arc<Cache>) -> Result<Self, GenerateError> {
        let subject = Subject::new("mpt", "mdbx");
        let (store, open, commitment) = copied(cache, base, &subject, &Settings::default())?;
        let plan = spec.genesis();
        let chain_spec = Arc::new(plan.chain_spec(commitment)?);
        let chain = open.begin(chain_spec, ChainOptions::default()).map_err(ProduceError::from)?;
        Ok(Self {
            spec: *spec,
            producer: Producer::new(chain),
            outline: plan.outline(commitment),
            wallet: spec.wallet(),
            deep: [spec.deep_slots().deepest, spec.deep_accounts().deepest],
            _store: store,
        })
    }

    /// Makes the blocks, and takes them back.
    fn make(
        &mut self,
        case: &Case,
        gas: u64,
        dir: &Path,
        cache: &Cache,
    ) -> Result<(), GenerateError> {
        tracing::info!("making the blocks of {} at {} million gas", case.name, gas / 1_000_000);
        write(&dir.join(OUTLINE), &self.outline)?;
        let mut files = ChainFiles::create::<GenerateError>(dir)?;
        // Each test begins at the genesis block, where no account has sent a transaction.
        let mut wallet = self.wallet.clone();
        let mut sent = 0;
        for block in 1..=self.spec.blocks {
            cache.go_on("the blocks of worst cases were made")?;
            let calls = self.calls(case, gas, block);
            let transactions = calls.into_iter().map(|call| {
                let from = sent % wallet.len();
                sent += 1;
                Planned { from, tx: transaction(&mut wallet, from, call).into() }
            });
            let transactions = transactions.collect();
            let parent = self.producer.parent();
            let waits = if block == 1 && case.plan != Plan::Destroy { CANCUN_AFTER } else { 0 };
            let plan = BlockPlan::after(parent, parent.hash(), BLOCK_TIME + waits);
            let plan = BlockPlan { transactions, ..plan };
            let produced = self.producer.produce(plan, &wallet)?;
            files.push::<GenerateError>(&produced.rlp, &produced.senders)?;
        }
        files.finish::<GenerateError>()?;
        Ok(self.producer.begin_again()?)
    }

    /// Returns the transactions of a block.
    fn calls(&self, case: &Case, gas: u64, block: u64) -> Vec<Call> {
        let each_block = gas.div_ceil(MOST_TX_GAS);
        let tx_gas = gas / each_block;
        let all = each_block * self.spec.blocks;
        // These are the numbers of the block's transactions in the test, from 0.
        let numbers = each_block * (block - 1)..each_block * block;
        match case.plan {
            Plan::Through(calls) => {
                let first = |n| first(&calls, (gas, tx_gas, all), n);
                let call = |n| (calls.to, cases::call(&calls, first(n), &[]), tx_gas);
                numbers.map(call).collect()
            }
            Plan::Listed(calls, each) => {
                let [slots, accounts] = &self.deep;
                let is_slots = calls.routine == cases::Routine::LoadListed;
                let list = if is_slots { slots } else { accounts };
                // No number comes twice in a transaction, because the second access would cost little.
                let length = (tx_gas.saturating_sub(LIST_OVERHEAD) / each).min(list.len() as u64);
                let tx_gas = LIST_OVERHEAD + length * each;
                let each_block = gas / tx_gas;
                let part = |n: u64| -> Vec<u32> {
                    let begin = (n * length) as usize;
                    let numbers = begin..begin + length as usize;
                    numbers.filter_map(|at| list.get(at % list.len())).copied().collect()
                };
                let call = |n| (calls.to, cases::call(&calls, 0, &part(n)), tx_gas);
                (each_block * (block - 1)..each_block * block).map(call).collect()
            }
            Plan::Short(to) => {
                let (most, used) = SHORT;
                (0..gas / used).map(|_| (to, Bytes::new(), most)).collect()
            }
            Plan::Destroy => vec![(doomed(block), Bytes::new(), DESTROY_GAS)],
        }
    }
}

/// Returns the first number of the transaction with the number `n` in a test: blocks of `gas`, transactions of `tx_gas`, and
/// `all` of them.
///
/// In each test and case it is another one. A layer that replays a log when it is opened, as `rain` does, has in memory what the
/// tests before wrote; little of that may be what a cold test reads.
fn first(calls: &Calls, (gas, tx_gas, all): (u64, u64, u64), n: u64) -> u64 {
    let routine = calls.routine as u64;
    let Some(count) = calls.count else {
        return (routine << 58) + ((gas / 1_000_000) << 40) + (n << 16);
    };
    // Each transaction has a part of the numbers for itself, and begins so early in it that it does not come to the next one.
    let part = count / all;
    let room = part.saturating_sub(tx_gas / calls.routine.least_gas()) + 1;
    n * part + mix(mix(gas ^ (routine << 56)) ^ n) % room
}

fn transaction(wallet: &mut Wallet, from: usize, (to, input, gas_limit): Call) -> TxEip1559 {
    TxEip1559 {
        chain_id: CHAIN_ID,
        nonce: wallet.use_nonce(from),
        gas_limit,
        max_fee_per_gas: 100 * GWEI,
        max_priority_fee_per_gas: GWEI / 10,
        to: to.into(),
        input,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::cases::Routine, *};
    use std::collections::HashSet;

    /// Returns the numbers of a test of ten blocks, and how many it would have without repetitions.
    fn numbers(routine: Routine, count: Option<u64>, gas: u64) -> (HashSet<u64>, usize) {
        let calls = Calls { to: Address::ZERO, routine, count, base: 0, value: 0 };
        let each_block = gas.div_ceil(MOST_TX_GAS);
        let (tx_gas, all) = (gas / each_block, 10 * each_block);
        let each = tx_gas / routine.least_gas();
        let of = |n| {
            let first = first(&calls, (gas, tx_gas, all), n);
            (first..first + each).map(move |number| number % count.unwrap_or(u64::MAX))
        };
        ((0..all).flat_map(of).collect(), (all * each) as usize)
    }

    /// Each test of the cases that write slots, with the default gas, is held against all before it.
    #[test]
    fn a_cold_test_reads_little_of_what_those_before_it_wrote() {
        const M: u64 = 1_000_000;
        let slots = [(Routine::Store, Some(M)), (Routine::ThereAndBack, Some(M))];
        let small = [(Routine::StoreAndCall, Some(M / 10))];
        let new = [(Routine::Store, None), (Routine::Pay, None), (Routine::Balance, None)];
        for (cases, most) in [(&slots[..], 0.4), (&small[..], 0.4), (&new[..], 0.0)] {
            let mut before: Vec<HashSet<u64>> = Vec::new();
            for (routine, count) in cases {
                for gas in [30 * M, 60 * M, 100 * M] {
                    let (numbers, length) = numbers(*routine, *count, gas);
                    assert_eq!(numbers.len(), length, "{routine:?} {gas}");
                    for other in &before {
                        let again = numbers.intersection(other).count() as f64 / length as f64;
                        assert!(again <= most, "{routine:?} {gas}: {again}");
                    }
                    before.push(numbers);
                }
            }
        }
    }
}
