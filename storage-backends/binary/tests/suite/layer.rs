//! Tests of the commitment against a tree that `ubt` builds from hand-made leaves, and of forged proofs.

#![expect(clippy::unwrap_used, reason = "tests")]

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use polytrie_binary::{
    BinaryLayer, BinaryOptions, BinaryProof, End, GroupDepth, Hashes, InnerProof, StemProof, verify,
};
use polytrie_kv::{Batch, Store};
use polytrie_state::{
    Account, AccountChange, BlockRef, GenesisAccount, GenesisSlots, PREIMAGE_TABLE, Proof, Prove,
    Session, StateLayer, TxWrites, put_address_preimage,
};
use polytrie_testing::Seed;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::{collections::BTreeMap, sync::Arc};
use ubt::{BasicDataLeaf, Blake3Hasher, TreeKey, UnifiedBinaryTree, chunkify_code};

/// Opens an empty layer; returns its store and the layer.
fn empty(levels: u8) -> (Store, Arc<BinaryLayer>) {
    let store = Store::memory(&[BinaryLayer::TABLES, &[PREIMAGE_TABLE]].concat()).unwrap();
    let group_depth = GroupDepth::new(levels).unwrap();
    let options = BinaryOptions { group_depth, ..BinaryOptions::default() };
    (store.clone(), BinaryLayer::open(store, options).unwrap())
}

fn run(store: &Store, layer: &dyn StateLayer, number: u64, accounts: Vec<AccountChange>) -> B256 {
    let parent = BlockRef { number, hash: B256::ZERO };
    let mut session = Session::begin(layer, parent).unwrap();
    session.apply(&TxWrites { accounts }).unwrap();
    session.finish().unwrap().outcome.write(store).unwrap().digest()
}

/// Returns a contract with this code, if it is not empty.
fn contract(address: Address, code: &[u8], slots: Vec<(U256, U256)>) -> AccountChange {
    let code_hash = keccak256(code);
    let account = Account { nonce: 1, balance: U256::from(7), code_hash };
    let code = Some((code_hash, Bytes::copy_from_slice(code)));
    AccountChange { address, account: Some(account), wiped: false, code, slots }
}

/// Computes a key as the EIP describes it, from a position; 256 positions share a stem.
fn key(address: &Address, place: U256, carry: bool) -> B256 {
    let (index, sub): (U256, u8) = (place >> 8, place.byte(0));
    // 256³¹ + slot may have one bit more than 256.
    let index: U256 = if carry { index + (U256::ONE << 248) } else { index };
    let bytes = [&[0; 12][..], address.as_slice(), &index.to_be_bytes::<32>()].concat();
    let mut key = B256::new(*blake3::hash(&bytes).as_bytes());
    key[31] = sub;
    key
}

/// Returns the leaves of a state.
fn leaves(state: &BTreeMap<Address, AccountChange>) -> BTreeMap<B256, B256> {
    let mut leaves = BTreeMap::new();
    for (address, change) in state {
        let Some(account) = change.account else { continue };
        let code = change.code.as_ref().map_or(&[][..], |(_, code)| code);
        let basic = BasicDataLeaf::new(account.nonce, account.balance.to(), code.len() as u32);
        leaves.insert(key(address, U256::ZERO, false), basic.encode());
        leaves.insert(key(address, U256::from(1), false), account.code_hash);
        for (number, chunk) in chunkify_code(code).into_iter().enumerate() {
            leaves.insert(key(address, U256::from(128 + number), false), chunk.encode());
        }
        for (slot, value) in change.slots.iter().filter(|(_, value)| !value.is_zero()) {
            let (place, carry) = match *slot < U256::from(64) {
                true => (U256::from(64) + *slot, false),
                false => slot.overflowing_add(U256::ONE << 248),
            };
            leaves.insert(key(address, place, carry), (*value).into());
        }
    }
    leaves
}

/// Accounts with code and slots are added, changed and removed; after each block the root is that of a new tree of
/// `ubt` with the leaves of the state.
#[test]
fn the_commitment_is_the_root_of_the_leaves() {
    let seed = Seed::or(31);
    let mut rng = ChaCha8Rng::seed_from_u64(seed.value());
    let layers = [1, 5, 8].map(empty);
    let mut state: BTreeMap<Address, AccountChange> = BTreeMap::new();
    for number in 0..12 {
        let mut block = Vec::new();
        for byte in 1..=30 {
            let address = Address::repeat_byte(byte);
            let is_there = state.contains_key(&address);
            let change = match rng.random_range(0..4) {
                0 if is_there => AccountChange {
                    address,
                    account: None,
                    wiped: true,
                    code: None,
                    slots: Vec::new(),
                },
                1 | 2 => {
                    // `ubt` takes a chunk of zeros for one that is not there.
                    let bytes = 0..rng.random_range(0..6_000);
                    let code: Vec<u8> = bytes.map(|_| rng.random_range(1..=u8::MAX)).collect();
                    let mut slots = BTreeMap::new();
                    for _ in 0..rng.random_range(0..20) {
                        let bits = [4, 7, 10, 256][rng.random_range(0..4)];
                        let slot = U256::from_be_bytes(rng.random::<[u8; 32]>()) >> (256 - bits);
                        slots.insert(slot, U256::from(rng.random::<u32>()) + U256::ONE);
                    }
                    let wiped = is_there;
                    AccountChange { wiped, ..contract(address, &code, slots.into_iter().collect()) }
                }
                _ => continue,
            };
            match change.account {
                Some(_) => drop(state.insert(address, change.clone())),
                None => drop(state.remove(&address)),
            }
            block.push(change);
        }
        let mut tree: UnifiedBinaryTree<Blake3Hasher> = UnifiedBinaryTree::new();
        for (key, value) in leaves(&state) {
            tree.insert(TreeKey::from_bytes(key), value);
        }
        let expected = tree.root_hash().unwrap();
        for (store, layer) in &layers {
            let found = run(store, &**layer, number, block.clone());
            assert_eq!(found, expected, "block {number}");
            let report = layer.check(&mut |_| {}).unwrap();
            assert_eq!(report.problems, Vec::<String>::new());
        }
    }
}

/// A code may come with the first of its accounts only. The others are written in portions nevertheless.
#[test]
fn accounts_that_share_code_are_loaded_in_portions() {
    let (code, mut preimages) = ([0x5b_u8; 200], Batch::new());
    let mut accounts = BTreeMap::new();
    for byte in 1..=50 {
        let address = Address::repeat_byte(byte);
        put_address_preimage(&mut preimages, &keccak256(address), &address);
        accounts.insert(keccak256(address), contract(address, &code, Vec::new()));
    }
    let (store, layer) = empty(5);
    store.write(preimages).unwrap();
    let mut first = Some(Bytes::copy_from_slice(&code));
    let mut sorted = accounts.iter().map(|(hash, change)| {
        let (account, slots) = (change.account.unwrap(), GenesisSlots::default());
        Ok(GenesisAccount { hash: *hash, account, code: first.take(), slots })
    });
    let loaded = layer.load(&mut sorted).unwrap();
    // The tables are emptied, the portion of the first account is written, then that of the others, then the tree.
    let writes = store.counters().flushes;
    assert!(writes < 10, "{writes}");
    let (store, built) = empty(5);
    assert_eq!(loaded.digest(), run(&store, &*built, 0, accounts.into_values().collect()));
}

fn form(proof: &Proof) -> BinaryProof {
    serde_json::from_value(proof.proof.clone()).unwrap()
}

fn verifies(root: B256, proof: &BinaryProof) -> bool {
    let proof = serde_json::to_value(proof).unwrap();
    verify(root, &Proof { layer: BinaryLayer::NAME.to_owned(), proof }).is_ok()
}

fn pair(left: B256, right: B256) -> B256 {
    B256::new(*blake3::hash(&[left.0, right.0].concat()).as_bytes())
}

/// The forged path goes through the stem of an account to its leaves, where one is missing, as if that were the
/// position of the stem.
#[test]
fn a_stem_is_not_passed_as_an_inner_node() {
    let (store, layer) = empty(5);
    let places = (1..=u8::MAX).map(Address::repeat_byte);
    let mut places = places.map(|address| (address, key(&address, U256::ZERO, false)));
    let (address, stem) = places.find(|(_, stem)| stem[0] >= 0b1100_0000).unwrap();
    let root = run(&store, &*layer, 0, vec![contract(address, &[], Vec::new())]);
    let honest = form(&layer.prove(&address, &[]).unwrap());
    assert!(verifies(root, &honest));
    let End::Stem { values, .. } = &honest.stems[0].end else { panic!("it is there") };
    let [basic_data, code_hash] =
        [0, 1].map(|at: usize| B256::new(*blake3::hash(values[at].unwrap().as_slice()).as_bytes()));
    let half = (0..6).fold(pair(basic_data, code_hash), |hash, _| pair(hash, B256::ZERO));
    // The key of basic data is the stem followed by a zero.
    assert_eq!(pair(stem, pair(half, B256::ZERO)), root);
    let way =
        Hashes { count: 2, mask: Bytes::from_static(&[0b1100_0000]), hashes: vec![stem, half] };
    let no_hashes = Hashes { count: 0, mask: Bytes::new(), hashes: Vec::new() };
    let mut forged = BinaryProof {
        exists: false,
        nonce: U256::ZERO,
        balance: U256::ZERO,
        code_hash: Account::default().code_hash,
        stems: vec![StemProof { way, inner: Vec::new(), end: End::Nothing }],
        ..honest
    };
    assert!(!verifies(root, &forged));
    // A forged proof about the inner node fails, too.
    forged.stems[0].inner = vec![InnerProof { turns: 0, siblings: no_hashes, hash: root }];
    assert!(!verifies(root, &forged));
}

/// An inner node whose left child's hash could be a stem at this position may be passed, if it is proven not to be a
/// stem.
#[test]
fn an_inner_node_that_looks_like_a_stem_is_passed() {
    let (store, layer) = empty(5);
    let accounts = (1..=16).map(|byte| AccountChange {
        code: None,
        ..contract(Address::repeat_byte(byte), &[], Vec::new())
    });
    run(&store, &*layer, 0, accounts.collect());
    let absent = Address::repeat_byte(99);
    // A change of one account changes one half of the root, and each 256th hash ends in a zero.
    let found = (1..10_000_u64).find_map(|number| {
        let byte = (number % 16) as u8 + 1;
        let code_hash = Account::default().code_hash;
        let account = Some(Account { nonce: 1 + number, balance: U256::ZERO, code_hash });
        let before = contract(Address::repeat_byte(byte), &[], Vec::new());
        let change = AccountChange { account, code: None, ..before };
        let root = run(&store, &*layer, number, vec![change]);
        let proof = form(&layer.prove(&absent, &[]).unwrap());
        assert!(verifies(root, &proof), "block {number}");
        (!proof.stems[0].inner.is_empty()).then_some((root, proof))
    });
    let (root, proof) = found.unwrap();
    let mut without = proof.clone();
    without.stems[0].inner.clear();
    assert!(!verifies(root, &without));
    let mut twice = proof.clone();
    twice.stems[0].inner.push(proof.stems[0].inner[0].clone());
    assert!(!verifies(root, &twice));
    for turn in 0..16 {
        let mut turned = proof.clone();
        turned.stems[0].inner[0].turns ^= 1 << turn;
        assert!(!verifies(root, &turned), "turn {turn}");
    }
    let mut other = proof;
    other.stems[0].inner[0].hash = B256::repeat_byte(1);
    assert!(!verifies(root, &other));
}

/// The keys of the account at address zero could be hashes of nodes: all leaves of its slots' stems are opened.
#[test]
fn slots_of_address_zero_are_proven() {
    let (store, layer) = empty(5);
    let [there, beside, absent] = [1_000u64, 1_001, 5_000].map(U256::from);
    let contract = contract(Address::ZERO, &[], vec![(there, U256::from(7))]);
    let root = run(&store, &*layer, 0, vec![contract]);
    let proof = layer.prove(&Address::ZERO, &[there, beside, absent]).unwrap();
    let expected = vec![(there, U256::from(7)), (beside, U256::ZERO), (absent, U256::ZERO)];
    assert_eq!(verify(root, &proof).unwrap().slots, expected);
    let proof = form(&proof);
    let End::Stem { values, .. } = &proof.stems[1].end else { panic!("it is there") };
    assert_eq!(values.len(), 256);
}
