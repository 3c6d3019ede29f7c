//! Blocks of Amsterdam with right lists and wrong ones, on every layer.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::mutations::{damage, mutate};
use crate::{
    BuiltBlock, Candidate, Chain, ChainOptions, InsertError, Inserted, InvalidReason, ListUse,
    NextBlock, executor::Amsterdam, testing,
};
use alloy_consensus::{Block, Signed, Transaction, TxEnvelope, TxLegacy};
use alloy_eips::{
    eip2935::HISTORY_STORAGE_ADDRESS,
    eip4788::BEACON_ROOTS_ADDRESS,
    eip4895::Withdrawal,
    eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
    eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
    eip7928::{AccountChanges, SlotChanges, StorageChange},
    eip8282::{BUILDER_DEPOSIT_CONTRACT_ADDRESS, BUILDER_EXIT_CONTRACT_ADDRESS},
};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, address, bytes, keccak256};
use polytrie_chainspec::ChainSpec;
use polytrie_consensus::{ConsensusError, access_list::AccessListError};
use polytrie_kv::MemoryEngine;
use polytrie_layers::{LAYERS, LayerKind};
use polytrie_state::{Account, TxWrites};
use polytrie_testing::Seed;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use std::{env, sync::Arc};

const SENDER: Address = address!("0x00000000000000000000000000000000000000aa");
/// Contract that adds one to the slot that its input names.
pub(super) const COUNTER: Address = address!("0x00000000000000000000000000000000000000bb");
/// Contract that reads the slot that its input names.
pub(super) const READER: Address = address!("0x00000000000000000000000000000000000000cc");
/// Contract that adds one to a slot, and reverts.
pub(super) const REVERTER: Address = address!("0x00000000000000000000000000000000000000dd");
/// Contract that creates another one (CREATE2) from its input, with its value and the salt zero.
pub(super) const FACTORY: Address = address!("0x0000000000000000000000000000000000000101");
/// Init code of a contract of the factory, whose place has slots from the genesis on, but neither code nor a nonce.
pub(super) const TAKEN: &[u8] = &[0x5a, 0];
const MINER: Address = address!("0x00000000000000000000000000000000000000ee");
pub(super) const NOBODY: Address = address!("0x00000000000000000000000000000000000000ff");
const STAKER: Address = address!("0x0000000000000000000000000000000000000100");

/// Environment variable with the number of mutated and of damaged lists for each layer and use, in place of the
/// default.
const COUNT: &str = "POLYTRIE_MUTATIONS";

/// Address of the contract that the factory creates from this init code.
pub(super) fn place(init: &[u8]) -> Address {
    FACTORY.create2(B256::ZERO, keccak256(init))
}

/// Returns a chain with blocks of Amsterdam, or of the fork before.
pub(super) fn spec(is_amsterdam: bool) -> Arc<ChainSpec> {
    let contract = |code: Bytes| json!({ "balance": "0x0", "nonce": "0x1", "code": code });
    let mut genesis = json!({
        "config": {
            "chainId": 1, "londonBlock": 0, "mergeNetsplitBlock": 0, "terminalTotalDifficulty": 0,
            "shanghaiTime": 0, "cancunTime": 0, "pragueTime": 0, "osakaTime": 0,
        },
        "gasLimit": "0x3938700",
        "difficulty": "0x0",
        "alloc": {
            (SENDER.to_string()): { "balance": "0x56bc75e2d63100000" },
            (COUNTER.to_string()): contract(bytes!("5f3580546001019055")),
            (READER.to_string()): contract(bytes!("5f355450")),
            (REVERTER.to_string()): contract(bytes!("5f35805460010190555f5ffd")),
            (FACTORY.to_string()): contract(bytes!("365f5f375f365f34f55000")),
            (place(TAKEN).to_string()): {
                "balance": "0x1",
                "storage": { (B256::ZERO.to_string()): B256::repeat_byte(1) },
            },
            (HISTORY_STORAGE_ADDRESS.to_string()): contract(bytes!("5f355f55")),
            (BEACON_ROOTS_ADDRESS.to_string()): contract(bytes!("425f55")),
            (WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS.to_string()): contract(bytes!("5f5450")),
            (CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS.to_string()): contract(bytes!("5f54505f5ff3")),
            (BUILDER_DEPOSIT_CONTRACT_ADDRESS.to_string()): contract(bytes!("00")),
            (BUILDER_EXIT_CONTRACT_ADDRESS.to_string()): contract(bytes!("00")),
        },
    });
    if is_amsterdam {
        genesis["config"]["amsterdamTime"] = json!(0);
    }
    Arc::new(ChainSpec::parse("genesis.json", genesis.to_string().as_bytes()).unwrap())
}

pub(super) fn transaction(nonce: u64, to: TxKind, value: u64, input: Bytes) -> TxEnvelope {
    let gas_price = 10_000_000_000;
    let (value, gas_limit) = (U256::from(value), 1_000_000);
    let tx = TxLegacy { chain_id: None, nonce, gas_price, gas_limit, to, value, input };
    TxEnvelope::Legacy(Signed::new_unhashed(tx, Signature::test_signature()))
}

/// Returns the transactions of a block. The first one has this nonce.
pub(super) fn transactions(nonce: u64) -> Vec<TxEnvelope> {
    let slot = |number: u64| Bytes::from(U256::from(number).to_be_bytes_vec());
    let calls = [
        (TxKind::Call(COUNTER), 0, slot(5)),
        (TxKind::Call(NOBODY), 7, Bytes::new()),
        (TxKind::Call(READER), 0, slot(9)),
        (TxKind::Call(READER), 0, slot(3)),
        // The creation leaves a contract of one byte.
        (TxKind::Create, 0, bytes!("60015ff3")),
        (TxKind::Call(REVERTER), 0, slot(2)),
        (TxKind::Call(COUNTER), 0, slot(5)),
        (TxKind::Call(COUNTER), 0, slot(1 + nonce)),
    ];
    let numbered = (nonce..).zip(calls);
    numbered.map(|(nonce, (to, value, input))| transaction(nonce, to, value, input)).collect()
}

fn open(kind: &LayerKind, list_use: ListUse) -> Chain {
    let options = ChainOptions { keep_access_lists: true, list_use, ..ChainOptions::default() };
    testing::open_spec(kind, &Arc::new(MemoryEngine::new()), options, spec(true))
}

/// Builds the next block without adding it to the chain.
fn build(chain: &mut Chain) -> BuiltBlock {
    let nonce = chain.head().header.number * transactions(0).len() as u64;
    build_of(chain, &transactions(nonce))
}

/// Builds the next block from these transactions, as [`build`] does.
pub(super) fn build_of(chain: &mut Chain, transactions: &[TxEnvelope]) -> BuiltBlock {
    let parent = &chain.head().header;
    let withdrawals = [(STAKER, 3), (Address::repeat_byte(1), 0)]
        .map(|(address, amount)| Withdrawal { address, amount, ..Withdrawal::default() });
    let next = NextBlock {
        timestamp: parent.timestamp + 12,
        gas_limit: parent.gas_limit,
        beneficiary: MINER,
        withdrawals: withdrawals.to_vec(),
        ..NextBlock::default()
    };
    let built = chain.build(next, &TxWrites::default(), &mut |run, _, _| {
        for tx in transactions {
            assert_eq!(run.transact(tx, SENDER)?.failed.is_some(), tx.to() == Some(REVERTER));
        }
        Ok(transactions.to_vec())
    });
    built.unwrap().into_block()
}

/// Returns a block with its list beside it, as a candidate.
pub(super) fn candidate(
    chain: &Chain,
    block: &Block<TxEnvelope>,
    list: Option<Vec<u8>>,
) -> Candidate {
    let senders = vec![SENDER; block.body.transactions.len()];
    let rlp = alloy_rlp::encode(block).into();
    let (mut candidate, _) =
        Candidate::with_senders(chain.spec(), block.clone(), rlp, Some(senders));
    candidate.access_list = list.map(Bytes::from);
    candidate
}

/// Returns the block with the hash of this list in its header.
fn promising(block: &Block<TxEnvelope>, list: &[u8]) -> Block<TxEnvelope> {
    let mut block = block.clone();
    block.header.block_access_list_hash = Some(keccak256(list));
    block
}

/// Inserts a block with this list, and returns the error that it is refused with.
fn refused(chain: &mut Chain, block: &Block<TxEnvelope>, list: Option<Vec<u8>>) -> ConsensusError {
    let candidate = candidate(chain, block, list);
    match chain.insert(candidate).map(drop).and_then(|()| chain.settle()) {
        Err(InsertError::Invalid(invalid)) => match invalid.reason {
            InvalidReason::Consensus(error) => error,
            other => panic!("refused for another reason: {other}"),
        },
        other => panic!("expected a refusal, found {other:?}"),
    }
}

#[test]
fn wrong_lists_are_refused_and_change_nothing() {
    let count = env::var(COUNT).map_or(50, |count| count.parse().unwrap());
    let uses = [ListUse::Check, ListUse::Commit, ListUse::Run { threads: 3 }];
    for (number, (kind, list_use)) in
        (0..).zip(LAYERS.iter().flat_map(|kind| uses.map(|list_use| (kind, list_use))))
    {
        let seed = Seed::or(number + 1);
        let mut random = ChaCha8Rng::seed_from_u64(seed.value());
        let mut chain = open(kind, list_use);
        // A first block gives the later ones a state that could be damaged.
        let first = build(&mut chain);
        chain.insert(candidate(&chain, &first.block, None)).unwrap();
        chain.settle().unwrap();
        let (head, commitment) = (chain.head().hash(), chain.layer().commitment().digest());
        let built = build(&mut chain);
        let list = built.executed.access_list.clone().unwrap();
        let rlp = alloy_rlp::encode(&list);
        let transactions = built.block.body.transactions.len();
        let unharmed = |chain: &Chain, what: &str| {
            let found = (chain.head().hash(), chain.layer().commitment().digest());
            assert_eq!(found, (head, commitment), "{} {seed:?} {what}", kind.name);
        };
        for _ in 0..count {
            let (what, wrong) = mutate(&list, transactions, &mut random);
            let wrong = alloy_rlp::encode(&wrong);
            let block = promising(&built.block, &wrong);
            let error = refused(&mut chain, &block, Some(wrong.clone()));
            let known = matches!(
                &error,
                ConsensusError::AccessList(AccessListError::Differs(_) | AccessListError::Form(_))
            );
            assert!(known, "{} {seed:?} {what}: {error}", kind.name);
            unharmed(&chain, what);
            // Without the list itself only the hash differs.
            let error = refused(&mut chain, &block, None);
            assert!(matches!(error, ConsensusError::BlockAccessListHash { .. }), "{error}");
            // With the right header the list is that of another block.
            let error = refused(&mut chain, &built.block, Some(wrong));
            let other = ConsensusError::AccessList(AccessListError::Hash {
                found: block.header.block_access_list_hash.unwrap(),
                expected: keccak256(&rlp),
            });
            assert_eq!(error, other);
            unharmed(&chain, what);
        }
        for _ in 0..count {
            let wrong = damage(&rlp, &mut random);
            if wrong == rlp {
                continue;
            }
            let block = promising(&built.block, &wrong);
            let error = refused(&mut chain, &block, Some(wrong));
            assert!(matches!(error, ConsensusError::AccessList(_)), "{seed:?}: {error}");
            unharmed(&chain, "damaged");
        }
        // The right list is accepted.
        let inserted = chain.insert(candidate(&chain, &built.block, Some(rlp))).unwrap();
        assert!(matches!(inserted, Inserted::Extended(_)));
        chain.settle().unwrap();
        assert_eq!(chain.head().hash(), built.header.hash(), "{}", kind.name);
        assert_eq!(chain.layer().commitment().digest(), built.header.state_root);
        let kept = chain.take_access_lists();
        assert!(kept.iter().any(|kept| kept.hash == built.header.hash() && kept.list == list));
    }
}

/// The senders are recovered while the transactions run. They have no ether, so that no transaction can be executed.
#[test]
fn a_block_whose_senders_are_not_known_is_refused_in_the_same_words_with_its_list() {
    let uses = [ListUse::Check, ListUse::Commit, ListUse::Run { threads: 3 }];
    for kind in LAYERS {
        let [plain, commit, run] = uses.map(|list_use| {
            let mut chain = open(kind, list_use);
            let before = (chain.head().hash(), chain.layer().commitment().digest());
            let built = build(&mut chain);
            let list = alloy_rlp::encode(built.executed.access_list.as_ref().unwrap());
            let said = [None, Some(5)].map(|unsigned| {
                let mut block = built.block.clone();
                if let Some(at) = unsigned {
                    // No key makes this `r`.
                    let bad = Signature::new(U256::from(5), U256::ONE, false);
                    let tx = block.body.transactions[at].as_legacy().unwrap().tx().clone();
                    block.body.transactions[at] = Signed::new_unhashed(tx, bad).into();
                }
                let (hash, rlp) = (block.header.hash_slow(), alloy_rlp::encode(&block).into());
                let mut candidate = Candidate::of_payload(chain.spec(), hash, block, rlp);
                candidate.access_list = Some(list.clone().into());
                chain.insert(candidate).unwrap_err().to_string()
            });
            let after = (chain.head().hash(), chain.layer().commitment().digest());
            assert_eq!(after, before, "{}", kind.name);
            said
        });
        assert!(plain[0].contains("transaction 0 "), "{}: {}", kind.name, plain[0]);
        assert!(plain[1].contains("transaction 5 "), "{}: {}", kind.name, plain[1]);
        assert!(plain[1].contains("its sender cannot be recovered"), "{}", plain[1]);
        assert_eq!((&plain, &plain), (&commit, &run), "{}", kind.name);
    }
}

/// A header of Amsterdam has the gas of the dimension that its block used more of; its receipts have the gas that was
/// paid (EIP-8037).
#[test]
fn receipts_that_do_not_add_up_to_the_gas_of_the_header_are_no_damage() {
    let kind = LAYERS.first().unwrap();
    let mut chain = open(kind, ListUse::Check);
    let built = build(&mut chain);
    let paid = built.executed.receipts.last().unwrap().cumulative_gas_used();
    assert_ne!(paid, built.header.gas_used);
    chain.insert(candidate(&chain, &built.block, None)).unwrap();
    chain.settle().unwrap();
    let report = chain.db().check(chain.spec(), &mut |_| {}).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}

/// A fork of the chain, and the chain after `begin_anew`, use the same draft of Amsterdam as the chain.
#[test]
fn a_fork_follows_the_draft_of_its_chain() {
    let kind = polytrie_layers::layer("mpt").unwrap();
    let mut chain = open(kind, ListUse::Check).with_amsterdam(Amsterdam::Bal57);
    let built = build(&mut chain);
    let newest = build(&mut open(kind, ListUse::Check));
    assert_ne!(built.header.hash(), newest.header.hash());
    let mut fork = chain.fork().unwrap();
    fork.insert(candidate(&fork, &built.block, None)).unwrap();
    fork.settle().unwrap();
    drop(fork);
    chain.begin_anew(spec(true)).unwrap();
    assert_eq!(build(&mut chain).header, built.header);
}

/// The final values of the list are compared with the writes that the block passes to the layer.
#[test]
fn a_list_ends_with_what_its_block_leaves() {
    for kind in LAYERS {
        let mut chain = open(kind, ListUse::Check);
        for _ in 0..3 {
            let built = build(&mut chain);
            let list = built.executed.access_list.as_ref().unwrap();
            let written = built.writes().accounts();
            for account in written {
                let address = account.address.unwrap();
                let listed = list.iter().find(|listed| listed.address == address).unwrap();
                assert_ends(account.before, account.after, listed);
                let mut slots: Vec<_> =
                    account.slots.iter().map(|slot| (slot.slot.unwrap(), slot.after)).collect();
                slots.sort_unstable();
                let ends = listed.storage_post_states().collect::<Vec<_>>();
                assert_eq!(ends, slots, "{address}");
            }
            let unwritten = list.iter().filter(|listed| {
                written.iter().all(|account| account.address != Some(listed.address))
            });
            for listed in unwritten {
                assert!(!listed.has_changes(), "{}", listed.address);
            }
            let (block, rlp) = (built.block.clone(), alloy_rlp::encode(list));
            chain.insert(candidate(&chain, &block, Some(rlp))).unwrap();
            chain.settle().unwrap();
        }
    }
}

fn assert_ends(before: Option<Account>, after: Option<Account>, listed: &AccountChanges) {
    let [before, after] = [before, after].map(Option::unwrap_or_default);
    assert_eq!(listed.balance_post_state().unwrap_or(before.balance), after.balance);
    assert_eq!(listed.nonce_post_state().unwrap_or(before.nonce), after.nonce);
    assert_eq!(listed.code_hash_post_state().unwrap_or(before.code_hash), after.code_hash);
}

/// Returns each changed slot of an account, with the index of each change and the value after it.
fn changes(account: &AccountChanges) -> Vec<(u64, Vec<(u64, u64)>)> {
    let change = |slot: &SlotChanges| {
        let left =
            |change: &StorageChange| (change.block_access_index.get(), change.new_value.to());
        (slot.slot.to(), slot.changes.iter().map(left).collect())
    };
    account.storage_changes.iter().map(change).collect()
}

#[test]
fn a_list_tells_who_changed_what() {
    let kind = LAYERS.first().unwrap();
    let mut chain = open(kind, ListUse::Check);
    let built = build(&mut chain);
    let list = built.executed.access_list.unwrap();
    let of = |address| list.iter().find(|account| account.address == address).unwrap();
    let after = built.block.body.transactions.len() as u64 + 1;
    // Two transactions add one to slot 5, the last one to slot 1.
    assert_eq!(changes(of(COUNTER)), [(1, vec![(8, 1)]), (5, vec![(1, 1), (7, 2)])]);
    assert_eq!(of(READER).storage_reads, [U256::from(3), U256::from(9)]);
    // A change that is reverted is listed as a read.
    assert_eq!(of(REVERTER).storage_reads, [U256::from(2)]);
    assert!(!of(REVERTER).has_changes());
    // The system calls before and after the transactions have indices of their own.
    assert_eq!(changes(of(BEACON_ROOTS_ADDRESS)), [(0, vec![(0, 12)])]);
    assert_eq!(of(WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS).storage_reads, [U256::ZERO]);
    let paid = &of(STAKER).balance_changes;
    assert_eq!((paid.len(), paid[0].block_access_index.get()), (1, after));
    assert_eq!(paid[0].post_balance, U256::from(3_000_000_000u64));
    // Each transaction has a nonce and pays a fee.
    let nonces = of(SENDER).nonce_changes.iter();
    assert!(nonces.map(|n| (n.block_access_index.get(), n.new_nonce)).eq((1..after).zip(1..)));
    assert_eq!(of(SENDER).balance_changes.len() as u64, after - 1);
    assert_eq!(of(MINER).balance_changes.len() as u64, after - 1);
    let created = &of(SENDER.create(4));
    assert_eq!(created.code_changes.len(), 1);
    assert_eq!(created.code_changes[0].new_code, bytes!("00"));
    assert_eq!(created.code_changes[0].block_access_index.get(), 5);
    assert_eq!(created.nonce_changes[0].new_nonce, 1);
    // The caller of the system calls is not in the list.
    let system = address!("0xfffffffffffffffffffffffffffffffffffffffe");
    assert!(list.iter().all(|account| account.address != system));
    assert!(list.is_sorted_by(|before, after| before.address < after.address));
    assert_ne!(built.header.block_access_list_hash, Some(B256::ZERO));
}
