//! Conversions of every layer's state into every other's, with a contract of several portions of
//! slots.

use super::{
    COPYING, ConvertError, Filled, RootBuilder, compare, convert, fill,
    walk::{PORTION, Walk},
};
use crate::datadir::{DataDir, OpenOptions};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use polytrie_kv::{Batch, Store};
use polytrie_layers::{LAYERS, LayerKind, LayerOptions};
use polytrie_state::{
    Account, GenesisAccount, PREIMAGE_TABLE, StateLayer, hash_address, hash_slot,
    put_address_preimage, put_slot_preimage,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// Accounts with their numbers of slots: around the size of a portion, and none at both ends.
const STATE: [(u8, usize); 7] = [
    (0x01, 0),
    (0x20, PORTION - 1),
    (0x21, PORTION),
    (0x22, PORTION + 1),
    (0x80, 5 * PORTION + 7),
    (0x81, 1),
    (0xff, 0),
];

/// A flag that is never set: no test here is interrupted by it.
static NEVER: AtomicBool = AtomicBool::new(false);

type State = BTreeMap<B256, (Account, BTreeMap<B256, U256>)>;

fn state() -> State {
    let account = |((byte, slots), address): ((u8, usize), Address)| {
        let slots = (1..=slots as u64).map(|n| (hash_slot(&U256::from(n)), U256::from(n)));
        let code_hash = keccak256(code(byte));
        let account = Account { nonce: 1, balance: U256::from(byte), code_hash };
        (hash_address(&address), (account, slots.collect()))
    };
    STATE.into_iter().zip(addresses()).map(account).collect()
}

/// Returns an address for each account, in the order of their hashes.
fn addresses() -> Vec<Address> {
    let mut addresses: Vec<_> = STATE.iter().map(|(byte, _)| Address::repeat_byte(*byte)).collect();
    addresses.sort_by_key(hash_address);
    addresses
}

/// Returns the hash of the account with this byte.
fn hash_of(byte: u8) -> B256 {
    let at = STATE.iter().position(|(other, _)| *other == byte).unwrap();
    hash_address(&addresses()[at])
}

/// Returns the code of an account; the accounts share two codes.
fn code(byte: u8) -> Bytes {
    vec![byte % 2; 40].into()
}

/// Opens a layer on a store that has the addresses and slots.
fn open(kind: &LayerKind) -> Arc<dyn StateLayer> {
    let store = Store::memory(&[kind.tables, &[PREIMAGE_TABLE]].concat()).unwrap();
    let mut preimages = Batch::new();
    for address in addresses() {
        put_address_preimage(&mut preimages, &hash_address(&address), &address);
    }
    for slot in (0..=6 * PORTION as u64).map(U256::from) {
        put_slot_preimage(&mut preimages, &hash_slot(&slot), &slot);
    }
    store.write(preimages).unwrap();
    (kind.open)(store.into(), &LayerOptions::for_tests()).unwrap()
}

fn filled(kind: &LayerKind, state: &State) -> Arc<dyn StateLayer> {
    let layer = open(kind);
    let mut accounts = state.iter().map(|(hash, (account, slots))| {
        let slots: Vec<_> = slots.iter().map(|(slot, value)| (*slot, *value)).collect();
        let code = [0, 1].map(code).into_iter().find(|code| keccak256(code) == account.code_hash);
        Ok(GenesisAccount { hash: *hash, account: *account, code, slots: slots.into() })
    });
    layer.load(&mut accounts).unwrap();
    layer
}

#[test]
fn large_contracts_become_those_of_every_layer() {
    let state = state();
    let all: usize = STATE.iter().map(|(_, slots)| slots).sum();
    let canonical = LAYERS.iter().find(|kind| kind.canonical).unwrap();
    let expected = filled(canonical, &state).commitment().as_state_root();
    for from in LAYERS {
        let source = filled(from, &state);
        for to in LAYERS {
            let context = format!("{} into {}", from.name, to.name);
            let target = open(to);
            let Filled { accounts, slots, commitment } =
                fill(&*source, &*target, &NEVER, &mut |_, _| {}).unwrap();
            assert_eq!((accounts, slots), (STATE.len() as u64, all as u64), "{context}");
            assert_eq!(commitment, filled(to, &state).commitment(), "{context}");
            let mut root = RootBuilder::default();
            compare(&*source, &*target, Some(&mut root), &NEVER, &mut |_, _| {})
                .unwrap_or_else(|e| panic!("{context}: {e}"));
            assert_eq!(Some(root.root()), expected, "{context}");
        }
    }
}

#[test]
fn every_difference_is_found() {
    let kind = &LAYERS[0];
    let state = state();
    let source = filled(kind, &state);
    let large = hash_of(0x80);
    type Change = fn(&mut BTreeMap<B256, U256>);
    let changes: [Change; 4] = [
        |slots| {
            slots.pop_last();
        },
        |slots| {
            slots.pop_first();
        },
        |slots| {
            slots.insert(hash_slot(&U256::ZERO), U256::ONE);
        },
        |slots| *slots.values_mut().nth(3 * PORTION).unwrap() += U256::ONE,
    ];
    let find = |other: &State| {
        let target = filled(kind, other);
        match compare(&*source, &*target, None, &NEVER, &mut |_, _| {}) {
            Err(ConvertError::Different(place)) => place,
            other => panic!("no difference but {other:?}"),
        }
    };
    for change in changes {
        let mut other = state.clone();
        change(&mut other.get_mut(&large).unwrap().1);
        assert_eq!(find(&other), format!("the slots of account {large}"));
    }
    for gone in [0x01, 0x80, 0xff].map(hash_of) {
        let mut other = state.clone();
        other.remove(&gone);
        assert_eq!(find(&other), format!("account {gone}"));
        let mut other = state.clone();
        other.get_mut(&gone).unwrap().0.balance += U256::ONE;
        assert_eq!(find(&other), format!("account {gone}"));
    }
}

#[test]
fn slots_come_in_portions_and_may_be_passed_over() {
    let layer = filled(&LAYERS[0], &state());
    thread::scope(|scope| {
        let walk = Walk::start(scope, &*layer, &NEVER).unwrap();
        for (n, (byte, count)) in STATE.into_iter().enumerate() {
            let (hash, _) = walk.account().unwrap().unwrap();
            assert_eq!(hash, hash_of(byte));
            if n % 3 == 2 {
                continue;
            }
            let mut left = count;
            while let Some(portion) = walk.portion().unwrap() {
                assert_eq!(portion.len(), left.min(PORTION));
                left -= portion.len();
            }
            assert_eq!(left, 0);
        }
        assert_eq!(walk.account().unwrap(), None);
        // A walk that is dropped halfway ends its thread.
        assert!(Walk::start(scope, &*layer, &NEVER).unwrap().account().unwrap().is_some());
    });
}

#[test]
fn an_interrupt_ends_it_in_the_midst_of_an_account() {
    let state = state();
    let source = filled(&LAYERS[0], &state);
    for to in LAYERS {
        let interrupt = AtomicBool::new(false);
        let mut reached = 0;
        // The fifth account has several portions of slots.
        let mut progress = |_, accounts| {
            reached = accounts;
            interrupt.store(accounts == 5, Ordering::Relaxed);
        };
        let ended = fill(&*source, &*open(to), &interrupt, &mut progress);
        assert!(ended.is_err(), "{}", to.name);
        assert_eq!(reached, 5, "{}", to.name);
        interrupt.store(false, Ordering::Relaxed);
        let mut progress = |_, accounts| interrupt.store(accounts == 2, Ordering::Relaxed);
        let ended = compare(&*source, &*filled(to, &state), None, &interrupt, &mut progress);
        assert!(ended.is_err(), "{}", to.name);
    }
}

/// The blocks of a large chain take long to copy.
#[test]
fn the_copy_of_the_blocks_ends_at_an_interrupt() {
    let (kv, chain) = (Some("memory".to_owned()), Some("dev".to_owned()));
    let options = OpenOptions { kv, chain, ..OpenOptions::default() };
    let (_chain, source) = DataDir::open(&options, true).unwrap().into_chain().unwrap();
    let target = DataDir::open(&options, true).unwrap();
    let interrupt = AtomicBool::new(false);
    let ended = convert(&source, &target, &interrupt, &mut |what, _| {
        if what == COPYING {
            interrupt.store(true, Ordering::Relaxed);
        }
    });
    let error = ended.unwrap_err();
    assert!(matches!(error, ConvertError::Interrupted(COPYING)), "{error}");
    assert!(target.chain_db().head().unwrap().is_none(), "what is there is no chain");
}
