//! Tests that the chain is the same for every use of an access list and for every content: on every layer, with any
//! number of threads, and with interruptions.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::{
    mutations::mutate,
    tests::{
        COUNTER, NOBODY, READER, REVERTER, build_of, candidate, spec, transaction, transactions,
    },
};
use crate::{
    BlockStats, Candidate, Chain, ChainOptions, Inserted, ListUse,
    execute::Execution,
    executor::{Elsewhere, Listed, Together, accesses},
    testing,
};
use alloy_consensus::{Block, TxEnvelope};
use alloy_eips::eip7928::AccountChanges;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, bytes};
use polytrie_chainspec::ChainSpec;
use polytrie_kv::{EngineReads, MemoryEngine};
use polytrie_layers::{LAYERS, LayerKind};
use polytrie_state::Session;
use polytrie_testing::Seed;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

const BLOCKS: usize = 5;

pub(super) const fn run(threads: usize) -> ListUse {
    ListUse::Run { threads }
}

const USES: [ListUse; 10] = [
    ListUse::Check,
    ListUse::Commit,
    run(1),
    run(2),
    run(3),
    run(4),
    run(5),
    run(6),
    run(7),
    run(8),
];

/// Returns a random transaction of the kinds that leave something in a list.
fn any(nonce: u64, random: &mut ChaCha8Rng) -> TxEnvelope {
    let slot = |number: u64| Bytes::from(U256::from(number).to_be_bytes_vec());
    let (few, value) = (random.random_range(0..6), random.random_range(0..3));
    let somebody = Address::from_word(B256::from(U256::from(0x1000 + few)));
    let (to, value, input) = match random.random_range(0..9) {
        0 | 1 => (TxKind::Call(COUNTER), 0, slot(few)),
        2 => (TxKind::Call(READER), 0, slot(few)),
        3 => (TxKind::Call(REVERTER), 0, slot(few)),
        4 => (TxKind::Call(NOBODY), value, Bytes::new()),
        5 => (TxKind::Call(somebody), value, Bytes::new()),
        // The contract has one byte of code and has written two slots, the second with its former value.
        6 => (TxKind::Create, value, bytes!("600160025560015f555f5f5560015ff3")),
        // The contract is destroyed when its transaction ends, and its value with it.
        7 => (TxKind::Create, value, bytes!("600160025530ff")),
        // The contract asks for the hash of the block before.
        _ => (TxKind::Create, value, bytes!("60014303405f555f5ff3")),
    };
    transaction(nonce, to, value, input)
}

/// Blocks with their lists, and the commitment after each.
struct Made {
    blocks: Vec<(Block<TxEnvelope>, Vec<AccountChanges>)>,
    commitments: Vec<B256>,
}

pub(super) fn open(
    kind: &LayerKind,
    engine: &Arc<MemoryEngine>,
    spec: &Arc<ChainSpec>,
    list_use: ListUse,
) -> Chain {
    let options = ChainOptions { list_use, keep_access_lists: true, ..ChainOptions::default() };
    testing::open_spec(kind, engine, options, Arc::clone(spec))
}

fn make(kind: &LayerKind, spec: &Arc<ChainSpec>, random: &mut ChaCha8Rng) -> Made {
    let mut chain = open(kind, &Arc::new(MemoryEngine::new()), spec, ListUse::Check);
    let mut made = Made { blocks: Vec::new(), commitments: Vec::new() };
    let mut nonce = 0;
    for _ in 0..BLOCKS {
        // There is at least one transaction of each kind, so that every mutation finds its target.
        let mut all = transactions(nonce);
        nonce += all.len() as u64;
        let count = random.random_range(0..8);
        all.extend((nonce..nonce + count).map(|nonce| any(nonce, random)));
        nonce += count;
        let built = build_of(&mut chain, &all);
        let list = built.executed.access_list.clone().unwrap();
        chain.insert(candidate(&chain, &built.block, None)).unwrap();
        chain.settle().unwrap();
        made.commitments.push(chain.layer().commitment().digest());
        made.blocks.push((built.block, list));
    }
    made
}

/// Returns a block with its list, beside the block or from elsewhere.
pub(super) fn with_list(
    chain: &Chain,
    (block, list): &(Block<TxEnvelope>, Vec<AccountChanges>),
    beside: bool,
) -> Candidate {
    let rlp = beside.then(|| alloy_rlp::encode(list));
    let mut candidate = candidate(chain, block, rlp);
    candidate.accesses = accesses(list);
    candidate.listed = (!beside).then(|| Arc::new(list.clone()));
    candidate
}

/// Inserts a block. Returns whether it ran by its list.
pub(super) fn insert(chain: &mut Chain, candidate: Candidate) -> bool {
    match chain.insert(candidate).unwrap() {
        Inserted::Extended(stats) => stats.by_list,
        other => panic!("expected another head, found {other:?}"),
    }
}

#[test]
fn no_use_of_lists_changes_anything() {
    for (number, kind) in (0..).zip(LAYERS) {
        for is_amsterdam in [false, true] {
            let seed = Seed::or(number + 100);
            let mut random = ChaCha8Rng::seed_from_u64(seed.value());
            let spec = spec(is_amsterdam);
            let made = make(kind, &spec, &mut random);
            for list_use in USES {
                let what = format!("{} {seed:?} {list_use:?}", kind.name);
                let engine = Arc::new(MemoryEngine::new());
                let mut chain = open(kind, &engine, &spec, list_use);
                loop {
                    let next = usize::try_from(chain.head().header.number).unwrap();
                    // Under some layers a block waits while the next ones run.
                    for block in made.blocks.iter().skip(next) {
                        let beside = is_amsterdam && random.random();
                        let candidate = with_list(&chain, block, beside);
                        let by_list = insert(&mut chain, candidate);
                        assert_eq!(by_list, list_use != ListUse::Check, "{what}");
                        if random.random_ratio(1, 6) {
                            break;
                        }
                    }
                    if random.random() {
                        chain.settle().unwrap();
                    }
                    let head = usize::try_from(chain.head().header.number).unwrap();
                    if head == BLOCKS {
                        break;
                    }
                    // Blocks that are not durable are lost, and inserted again.
                    if random.random() {
                        chain.flush().unwrap();
                    }
                    drop(chain);
                    chain = open(kind, &engine, &spec, list_use);
                }
                let found = chain.layer().commitment().digest();
                assert_eq!(Some(&found), made.commitments.last(), "{what}");
                for kept in chain.take_access_lists() {
                    let at = usize::try_from(kept.number - 1).unwrap();
                    assert_eq!(kept.list, made.blocks[at].1, "{what}");
                }
            }
        }
    }
}

/// A wrong list from elsewhere neither makes its block invalid nor changes the result.
#[test]
fn wrong_lists_from_elsewhere_cost_time_only() {
    for (number, kind) in (0..).zip(LAYERS) {
        let seed = Seed::or(number + 200);
        let mut random = ChaCha8Rng::seed_from_u64(seed.value());
        for is_amsterdam in [false, true] {
            let spec = spec(is_amsterdam);
            let made = make(kind, &spec, &mut random);
            for list_use in [ListUse::Commit, run(1), run(2)] {
                let engine = Arc::new(MemoryEngine::new());
                let mut chain = open(kind, &engine, &spec, list_use);
                for (block, list) in &made.blocks {
                    let transactions = block.body.transactions.len();
                    let (what, wrong) = mutate(list, transactions, &mut random);
                    let candidate = with_list(&chain, &(block.clone(), wrong), false);
                    let by_list = insert(&mut chain, candidate);
                    // Before Amsterdam a list with the right final values is enough for a commitment.
                    let may = list_use == ListUse::Commit && !is_amsterdam;
                    assert!(!by_list || may, "{} {seed:?} {list_use:?} {what}", kind.name);
                }
                chain.settle().unwrap();
                let found = chain.layer().commitment().digest();
                assert_eq!(Some(&found), made.commitments.last(), "{} {seed:?}", kind.name);
            }
        }
    }
}

/// The thread of the commitment may read meanwhile.
#[test]
fn a_run_waits_for_its_own_reads_only() {
    let (kind, spec) = (polytrie_layers::layer("raw").unwrap(), spec(true));
    let engine = Arc::new(MemoryEngine::new());
    let mut chain = open(kind, &engine, &spec, ListUse::Check);
    let built = build_of(&mut chain, &transactions(0));
    let list = built.executed.access_list.clone().unwrap();
    // The new chain has no row in memory.
    chain.flush().unwrap();
    drop(chain);
    let mut chain = open(kind, &engine, &spec, ListUse::Check);
    let candidate = with_list(&chain, &(built.block, list.clone()), true);
    let rules = spec.rules(candidate.number(), candidate.header.timestamp, true);
    let (layer, parent) = (Arc::clone(&chain.layer), chain.head.block_ref());
    let mut session = Session::begin(&*layer, parent).unwrap();
    let coinbase = *candidate.coinbase.as_ref().unwrap();
    let (list, below) = (Arc::new(list), chain.storage_at_head());
    let block = chain.executor.read_listed(&mut session, &rules, coinbase, list, below).unwrap();
    drop(session);
    for (threads, elsewhere) in
        [1, 2].into_iter().flat_map(|n| [Elsewhere::Run, Elsewhere::Commitment].map(|e| (n, e)))
    {
        let is_here = elsewhere == Elsewhere::Run;
        let unread = Address::repeat_byte(threads + 2 * u8::from(is_here));
        let first = || {
            let mut session = Session::begin(&*layer, parent).unwrap();
            session.account(&unread).unwrap();
        };
        let together = Some(Together { threads: threads.into(), first: &first, elsewhere });
        let listed = Some(Listed { block: &block, together });
        let how = Execution { listed, ..Execution::default() };
        let (mut session, mut stats) = (block.session(), BlockStats::default());
        let before = EngineReads::of_this_thread();
        chain.execute(&rules, &candidate, &mut session, how, &mut stats).unwrap();
        assert_eq!(EngineReads::of_this_thread() != before, is_here, "{threads} threads");
        assert_eq!(stats.waited, EngineReads::default(), "{threads} threads");
    }
}
