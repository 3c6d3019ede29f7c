//! Blocks that ask for what a list has no values of, or does not name. They run by their list nevertheless.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::{
    modes::{insert, open, run, with_list},
    tests::{COUNTER, FACTORY, NOBODY, TAKEN, build_of, candidate, place, spec, transaction},
};
use crate::{Chain, ListUse, executor::Executor};
use alloy_consensus::{Block, Signed, TxEip7702, TxEnvelope};
use alloy_eips::{eip2930::AccessList, eip7702::Authorization, eip7928::AccountChanges};
use alloy_primitives::{Address, Bytes, Signature, TxKind, U256, bytes};
use polytrie_kv::MemoryEngine;
use polytrie_layers::{LAYERS, LayerKind};
use polytrie_state::{StateError, StateLayer, StateReader};
use polytrie_testing::{AlterLayer, AlteredLayer};
use std::sync::Arc;

/// Makes a transaction with this nonce.
type Make = Box<dyn Fn(u64) -> TxEnvelope>;

fn pay(to: Address, value: u64) -> Make {
    Box::new(move |nonce| transaction(nonce, TxKind::Call(to), value, Bytes::new()))
}

fn call(to: Address, input: Bytes) -> Make {
    Box::new(move |nonce| transaction(nonce, TxKind::Call(to), 0, input.clone()))
}

/// Applies an instruction to an address, in the init code of a contract.
fn apply(instruction: u8, address: Address) -> Make {
    let init = [&[0x73][..], address.as_slice(), &[instruction, 0]].concat();
    Box::new(move |nonce| transaction(nonce, TxKind::Create, 0, init.clone().into()))
}

/// Returns a transaction that pays no tip and delegates an account to a contract, and that account.
fn delegate() -> (Make, Address) {
    let signature = Signature::test_signature();
    let authorization = Authorization { chain_id: U256::ONE, address: COUNTER, nonce: 0 };
    let authorization = authorization.into_signed(signature);
    let authority = authorization.recover_authority().unwrap();
    let make = move |nonce| {
        let tx = TxEip7702 {
            chain_id: 1,
            nonce,
            gas_limit: 1_000_000,
            max_fee_per_gas: 10_000_000_000,
            max_priority_fee_per_gas: 0,
            to: NOBODY,
            value: U256::ZERO,
            access_list: AccessList::default(),
            authorization_list: vec![authorization.clone()],
            input: Bytes::new(),
        };
        TxEnvelope::Eip7702(Signed::new_unhashed(tx, signature))
    };
    (Box::new(make), authority)
}

fn blocks() -> Vec<Vec<Make>> {
    let (kept, taken) = (bytes!("60015ff3"), Bytes::from_static(TAKEN));
    // These leave no code: with a nonce alone, with a slot, after a revert, and destroyed in favour of themselves and of
    // their creator.
    let bare =
        [bytes!("00"), bytes!("600160015500"), bytes!("5f5ffd"), bytes!("30ff"), bytes!("33ff")];
    let create = |init: &Bytes| call(FACTORY, init.clone());
    let ((delegated, authority), (again, _)) = (delegate(), delegate());
    let [nobody, heir, absent] = [2, 3, 4].map(Address::repeat_byte);
    let precompile = Address::with_last_byte(4);
    vec![
        // Ether is there before the contracts.
        bare.iter().map(|init| pay(place(init), 5)).chain([create(&kept)]).collect(),
        // The last creations meet slots, and a contract with code.
        bare.iter().chain([&taken, &kept]).map(create).collect(),
        // Creations meet a contract without code, or slots, or fail or succeed again, after a payment.
        bare.iter().chain([&taken]).flat_map(|init| [pay(place(init), 7), create(init)]).collect(),
        vec![
            apply(0x31, nobody),
            apply(0x3b, nobody),
            apply(0x3f, nobody),
            apply(0x3f, COUNTER),
            apply(0xff, heir),
            pay(absent, 0),
            pay(precompile, 0),
        ],
        vec![delegated, call(authority, Bytes::from(vec![0; 32]))],
        // The authorization is void the second time.
        vec![again, pay(authority, 1)],
    ]
}

/// Makes the next block of a chain, with its list. The first transaction has this nonce.
fn next(chain: &mut Chain, nonce: u64, block: &[Make]) -> (Block<TxEnvelope>, Vec<AccountChanges>) {
    let transactions: Vec<_> = (nonce..).zip(block).map(|(nonce, make)| make(nonce)).collect();
    let built = build_of(chain, &transactions);
    let candidate = candidate(chain, &built.block, None);
    chain.insert(candidate).unwrap();
    chain.settle().unwrap();
    (built.block, built.executed.access_list.unwrap())
}

/// Runs the blocks by their lists, on a layer with every use of lists.
fn run_by_lists(kind: &LayerKind, is_amsterdam: bool) {
    let spec = spec(is_amsterdam);
    let empty = |list_use| open(kind, &Arc::new(MemoryEngine::new()), &spec, list_use);
    let uses = [ListUse::Commit, run(1), run(3)];
    let (mut made, mut chains) = (empty(ListUse::Check), uses.map(empty));
    let mut nonce = 0;
    for block in blocks() {
        let listed = next(&mut made, nonce, &block);
        nonce += block.len() as u64;
        for (chain, list_use) in chains.iter_mut().zip(uses) {
            let what =
                format!("{} {list_use:?} {is_amsterdam} {}", kind.name, listed.0.header.number);
            let candidate = with_list(chain, &listed, is_amsterdam);
            assert!(insert(chain, candidate), "{what}");
        }
    }
    for chain in &mut chains {
        chain.settle().unwrap();
        let digests = [&*chain, &made].map(|chain| chain.layer().commitment().digest());
        assert_eq!(digests[0], digests[1], "{}", kind.name);
    }
}

#[test]
fn what_a_list_does_not_tell_is_looked_up() {
    for kind in LAYERS {
        run_by_lists(kind, false);
        run_by_lists(kind, true);
    }
}

/// The cache has room for two codes of those that each block calls before and after its transactions.
#[test]
fn code_that_leaves_the_cache_while_a_block_is_read_is_there_when_it_runs() {
    let (kind, spec) = (polytrie_layers::layer("mpt").unwrap(), spec(false));
    let empty = |list_use| open(kind, &Arc::new(MemoryEngine::new()), &spec, list_use);
    for list_use in [ListUse::Commit, run(2)] {
        let (mut made, mut chain) = (empty(ListUse::Check), empty(list_use));
        chain.executor = Executor::new(400).with_access_lists();
        for nonce in 0..3 {
            let listed = next(&mut made, nonce, &[pay(NOBODY, 1)]);
            let candidate = with_list(&chain, &listed, false);
            assert!(insert(&mut chain, candidate), "{list_use:?} {nonce}");
        }
    }
}

/// A layer with readers that begin outside of thread pools only.
#[derive(Debug)]
struct Outside;

impl AlterLayer for Outside {
    fn reader(&self, inner: &Arc<dyn StateLayer>) -> Result<Arc<dyn StateReader>, StateError> {
        match rayon::current_thread_index() {
            None => inner.reader(),
            Some(_) => Err(StateError::Protocol("a thread of a pool wants a reader")),
        }
    }
}

#[test]
fn no_thread_of_a_pool_begins_a_reader() {
    let (kind, spec) = (polytrie_layers::layer("mpt").unwrap(), spec(false));
    let empty = |list_use| open(kind, &Arc::new(MemoryEngine::new()), &spec, list_use);
    for list_use in [ListUse::Commit, run(2)] {
        let (mut made, mut chain) = (empty(ListUse::Check), empty(list_use));
        chain.layer = Arc::new(AlteredLayer::new(Arc::clone(&chain.layer), Outside));
        let taken = call(FACTORY, Bytes::from_static(TAKEN));
        let listed = next(&mut made, 0, &[taken]);
        let candidate = with_list(&chain, &listed, false);
        assert!(insert(&mut chain, candidate), "{list_use:?}");
    }
}
