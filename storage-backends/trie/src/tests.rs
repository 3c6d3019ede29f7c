//! Tests of the engine against a sorted map and alloy-trie's root from scratch.

#![expect(clippy::unwrap_used, reason = "tests")]

use crate::{
    AccountLeaf, Ages, EMPTY_ROOT, LeafChange, LeafValue, Nibbles, RowSink, RowSource, SlotValue,
    SortedBuilder, Trie, TrieError,
    codec::{self, ChildRef, Node, path_of},
    prove_key, verify_key,
};
use alloy_primitives::{B256, U256};
use alloy_trie::HashBuilder;
use polytrie_state::Account;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Rows in a sorted map.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Memory(pub(crate) BTreeMap<Nibbles, Vec<u8>>);

impl RowSource for Memory {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool, TrieError> {
        Ok(self.0.get(path).map(|rlp| out.extend_from_slice(rlp)).is_some())
    }
}

impl RowSink for Memory {
    fn split(&self) -> Self {
        Self::default()
    }
    fn join(&mut self, other: Self) {
        self.0.extend(other.0);
    }
    fn put(&mut self, path: &Nibbles, rlp: &[u8]) {
        self.0.insert(*path, rlp.to_vec());
    }
    fn delete(&mut self, path: &Nibbles) {
        self.0.remove(path);
    }
    fn delete_all(&mut self) {
        self.0.clear();
    }
}

/// The changes of rows that one commit reports.
#[derive(Debug, Default)]
struct Changes {
    cleared: bool,
    rows: Vec<(Nibbles, Option<Vec<u8>>)>,
}

impl RowSink for Changes {
    fn split(&self) -> Self {
        Self::default()
    }
    fn join(&mut self, other: Self) {
        self.rows.extend(other.rows);
    }
    fn put(&mut self, path: &Nibbles, rlp: &[u8]) {
        self.rows.push((*path, Some(rlp.to_vec())));
    }
    fn delete(&mut self, path: &Nibbles) {
        self.rows.push((*path, None));
    }
    fn delete_all(&mut self) {
        self.cleared = true;
    }
}

impl Memory {
    fn apply(&mut self, changes: Changes) {
        if changes.cleared {
            self.0.clear();
        }
        for (path, rlp) in changes.rows {
            set(&mut self.0, path, rlp);
        }
    }
}

/// Sets the value of a key, or removes the key.
pub(crate) fn set<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

pub(crate) type Model = BTreeMap<B256, U256>;

pub(crate) fn oracle_root(model: &Model) -> B256 {
    let mut builder = HashBuilder::default();
    for (key, value) in model {
        let mut bytes = Vec::new();
        SlotValue(*value).encode(&mut bytes);
        builder.add_leaf(Nibbles::unpack(key), &bytes);
    }
    builder.root()
}

pub(crate) fn built(model: &Model) -> (B256, Memory) {
    let mut builder = SortedBuilder::new(Memory::default());
    for (key, value) in model {
        builder.add(*key, SlotValue(*value));
    }
    builder.finish()
}

/// Generates keys that share long prefixes, and end so alike that short nodes occur.
pub(crate) fn key() -> impl Strategy<Value = B256> {
    let prefix_len = prop_oneof![0usize..6, 30usize..32, Just(31)];
    (prefix_len, any::<u8>(), any::<u8>(), 0usize..3).prop_map(|(len, a, b, ends)| {
        let mut key = B256::repeat_byte([0x00, 0x11, 0xff][ends]);
        key.0[len.min(31)] = a & 0x13;
        key.0[31] ^= b & 0x31;
        key
    })
}

pub(crate) fn value() -> impl Strategy<Value = U256> {
    prop_oneof![
        3 => (1u64..4).prop_map(U256::from),
        1 => any::<[u8; 32]>().prop_map(|b| U256::from_be_bytes(b) | U256::ONE),
    ]
}

#[derive(Debug, Clone)]
enum Step {
    Block { changes: BTreeMap<B256, Option<U256>>, root_first: bool, ahead: Option<usize> },
    Clear,
    Evict(Vec<u8>, u32),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let change = (key(), prop_oneof![2 => value().prop_map(Some), 1 => Just(None)]);
    prop_oneof![
        10 => (
            prop::collection::btree_map(key(), value().prop_map(Some), 0..6),
            prop::collection::vec(change, 0..12),
            any::<bool>(),
            prop::option::of(0usize..5),
        )
            .prop_map(|(mut changes, more, root_first, ahead)| {
                changes.extend(more);
                Step::Block { changes, root_first, ahead }
            }),
        1 => Just(Step::Clear),
        3 => (prop::collection::vec(0u8..16, 0..3), 0u32..3)
            .prop_map(|(part, keep)| Step::Evict(part, keep)),
        1 => Just(Step::Reopen),
    ]
}

fn run(steps: Vec<Step>) {
    let mut model = Model::new();
    let mut rows = Memory::default();
    let mut trie = Trie::<SlotValue>::empty();
    let mut block = 0;
    for step in steps {
        block += 1;
        trie.set_block(block);
        let mut early = Changes::default();
        match step {
            Step::Block { changes, root_first, ahead } => {
                let changes: Vec<_> = changes.into_iter().collect();
                // Two parts that overlap, with or without a root or a part of the commit between them: the
                // result is the same.
                let first: Vec<_> = changes[..changes.len() / 2 + 1.min(changes.len())]
                    .iter()
                    .map(|(key, value)| (*key, if key[31] & 1 == 0 { None } else { *value }))
                    .collect();
                for half in [&first[..], &changes[first.len() / 2..]] {
                    let half: Vec<_> =
                        half.iter().map(|(key, value)| (*key, value.map(SlotValue))).collect();
                    trie.update(&half, &rows).unwrap();
                    for (key, value) in half {
                        set(&mut model, key, value.map(|value| value.0));
                    }
                    if root_first {
                        let root = oracle_root(&model);
                        assert_eq!(trie.root(), root);
                        // The rows are behind the nodes in memory.
                        for (key, value) in &model {
                            let (found, nodes) = trie.prove(key, &rows).unwrap();
                            assert_eq!(found, Some(SlotValue(*value)));
                            assert_eq!(verify_key(root, key, &nodes).unwrap(), found);
                        }
                    }
                    if let Some(depth) = ahead {
                        early = trie.commit_below(depth, early);
                    }
                }
            }
            Step::Clear => {
                trie.clear();
                model.clear();
            }
            Step::Evict(part, keep) => trie.evict_part(&part, keep),
            Step::Reopen => trie = Trie::stored(trie.last_root()),
        }
        let (root, changes) = trie.commit(early);
        rows.apply(changes);
        assert_eq!(root, oracle_root(&model), "the root is the one alloy-trie computes");
        let (built_root, built_rows) = built(&model);
        assert_eq!(built_root, root);
        assert_eq!(rows, built_rows, "rows are a function of the leaves alone");
        // Half of the keys are not in the trie, or end in another way than those that are.
        let ends = model.keys().flat_map(|key| [*key, B256::repeat_byte(key[31])]);
        trie.fetch(&ends.collect::<Vec<_>>());
        for (key, value) in &model {
            assert_eq!(trie.get(key, &rows).unwrap(), Some(&SlotValue(*value)));
            let (found, nodes) = prove_key::<SlotValue>(key, &rows).unwrap();
            assert_eq!(found, Some(SlotValue(*value)));
            assert_eq!(trie.prove(key, &rows).unwrap(), (found, nodes.clone()));
            let loaded = Trie::<SlotValue>::stored(root).prove(key, &rows).unwrap();
            assert_eq!(loaded, (found, nodes.clone()));
            let mut bytes = Vec::new();
            SlotValue(*value).encode(&mut bytes);
            alloy_trie::proof::verify_proof(root, Nibbles::unpack(key), Some(bytes), &nodes)
                .unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_history_gives_the_root_and_rows_of_its_leaves(steps in prop::collection::vec(step(), 1..30)) {
        run(steps);
    }

    /// Rows may be written blocks later: nodes that have no row yet stay in memory, and others need not.
    #[test]
    fn rows_may_be_written_blocks_later(
        blocks in prop::collection::vec(
            prop::collection::btree_map(key(), prop_oneof![3 => value().prop_map(Some), 1 => Just(None)], 0..4),
            1..40,
        ),
        lag in 1usize..4,
    ) {
        let mut model = Model::new();
        let mut rows = Memory::default();
        let mut trie = Trie::<SlotValue>::empty();
        let mut unwritten = std::collections::VecDeque::new();
        for (now, changes) in (1..).zip(blocks) {
            trie.set_block(now);
            let changed: Vec<_> = changes.iter().map(|(key, value)| (*key, value.map(SlotValue))).collect();
            trie.update(&changed, &rows).unwrap();
            for (key, value) in changes {
                set(&mut model, key, value);
            }
            let (root, changes) = trie.commit(Changes::default());
            prop_assert_eq!(root, oracle_root(&model));
            unwritten.push_back(changes);
            if unwritten.len() > lag {
                rows.apply(unwritten.pop_front().unwrap());
            }
            trie.evict(unwritten.len() as u32);
        }
        unwritten.into_iter().for_each(|changes| rows.apply(changes));
        prop_assert_eq!(rows, built(&model).1);
    }

    #[test]
    fn absent_keys_are_proven_absent(keys in prop::collection::btree_set(key(), 1..20), absent in key()) {
        let model: Model = keys.into_iter().filter(|k| *k != absent).map(|k| (k, U256::from(7))).collect();
        let (root, rows) = built(&model);
        let (found, nodes) = prove_key::<SlotValue>(&absent, &rows).unwrap();
        prop_assert_eq!(found, None);
        let loaded = Trie::<SlotValue>::stored(root).prove(&absent, &rows).unwrap();
        prop_assert_eq!(loaded, (found, nodes.clone()));
        if root != EMPTY_ROOT {
            alloy_trie::proof::verify_proof(root, Nibbles::unpack(absent), None, &nodes).unwrap();
        }
    }

    /// Nodes may prove more keys than the one they were made for. Any nodes may be put together. If they prove
    /// anything of any key, it is true.
    #[test]
    fn nodes_of_other_keys_prove_the_truth_or_nothing(
        model in prop::collection::btree_map(key(), value(), 1..30),
        shown in key(),
        other in key(),
    ) {
        let (root, rows) = built(&model);
        let (_, nodes) = prove_key::<SlotValue>(&shown, &rows).unwrap();
        let (_, others) = prove_key::<SlotValue>(&other, &rows).unwrap();
        let mut forged = vec![[&nodes[..], &others[..]].concat()];
        for cut in 0..=nodes.len() {
            forged.push(nodes[..cut].to_vec());
            forged.push(nodes[cut..].to_vec());
            forged.push([&nodes[..cut], &others[cut.min(others.len())..]].concat());
        }
        for nodes in &forged {
            for key in model.keys().chain([&shown, &other]) {
                if let Ok(found) = verify_key::<SlotValue>(root, key, nodes) {
                    prop_assert_eq!(found.map(|found| found.0), model.get(key).copied());
                }
            }
        }
    }

    #[test]
    fn a_part_is_dropped_and_no_other(
        keys in prop::collection::btree_map(key(), value(), 1..200),
        part in prop::collection::vec(0u8..16, 1..3),
    ) {
        let (root, rows) = built(&keys);
        let mut trie = Trie::<SlotValue>::stored(root);
        for key in keys.keys() {
            trie.get(key, &rows).unwrap();
        }
        trie.set_block(1);
        let (mut in_part, mut in_all) = (Ages::default(), Ages::default());
        let bytes = trie.add_ages(&part, &mut in_part);
        prop_assert!(bytes <= trie.add_ages(&[], &mut in_all));
        let before = trie.bytes();
        trie.evict_part(&part, 0);
        prop_assert!(before - trie.bytes() <= bytes);
        for key in keys.keys() {
            let begins = Nibbles::unpack(key).iter().zip(&part).all(|(a, b)| a == *b);
            let missing = trie.missing(key);
            prop_assert!(missing.is_none_or(|depth| begins && depth >= part.len()), "{missing:?}");
        }
    }

    #[test]
    fn nodes_on_the_ways_of_keys_go_as_deep_ones_do(
        keys in prop::collection::btree_map(key(), value(), 1..200),
        touched in prop::collection::vec(key(), 1..40),
        bytes in 4_000usize..30_000,
    ) {
        let (root, rows) = built(&keys);
        let mut trie = Trie::<SlotValue>::stored(root);
        trie.set_block(1);
        for key in &touched {
            trie.get(key, &rows).unwrap();
        }
        trie.set_block(3);
        let cut = trie.evict_deepest(bytes, 1);
        let missing = |trie: &mut Trie<SlotValue>| -> Vec<_> {
            keys.keys().chain(&touched).map(|key| trie.missing(key)).collect()
        };
        let expected = missing(&mut trie);
        for key in &touched {
            trie.get(key, &rows).unwrap();
        }
        let all = trie.bytes();
        // Nodes of the last block stay.
        trie.evict_ways(touched.iter(), cut, 1);
        prop_assert_eq!(trie.bytes(), all);
        trie.set_block(5);
        trie.evict_ways(touched.iter(), cut, 1);
        prop_assert_eq!(missing(&mut trie), expected);
        // Changed nodes stay.
        let change = (touched[0], Some(SlotValue(U256::from(7))));
        trie.update(&[change], &rows).unwrap();
        trie.set_block(9);
        trie.evict_ways(touched.iter(), cut, 1);
        let mut model = keys;
        model.insert(touched[0], U256::from(7));
        prop_assert_eq!(trie.root(), oracle_root(&model));
    }

    #[test]
    fn a_change_may_keep_a_part_of_the_leaf(
        blocks in prop::collection::vec(
            prop::collection::btree_map(key(), (prop::option::of(1u64..4), prop::option::of(1u8..4)), 0..12),
            1..6,
        ),
    ) {
        let rows = Memory::default();
        let mut model = BTreeMap::<B256, AccountLeaf>::new();
        let (mut trie, mut expected) = (Trie::<AccountLeaf>::empty(), Trie::<AccountLeaf>::empty());
        for block in blocks {
            let (mut changes, mut leaves) = (Vec::new(), Vec::new());
            for (key, (nonce, root)) in block {
                let account = nonce.map(|nonce| Account { nonce, ..Account::default() });
                let storage_root = root.map(B256::repeat_byte);
                changes.push((key, LeafChange { account, storage_root }));
                let before = model.get(&key).map_or(EMPTY_ROOT, |leaf| leaf.storage_root);
                let root = storage_root.unwrap_or(before);
                let leaf = account.map(|account| AccountLeaf::new(&account, root));
                leaves.push((key, leaf));
                set(&mut model, key, leaf);
            }
            trie.update(&changes, &rows).unwrap();
            expected.update(&leaves, &rows).unwrap();
            prop_assert_eq!(trie.root(), expected.root());
        }
        for (key, leaf) in &model {
            prop_assert_eq!(trie.get(key, &rows).unwrap(), Some(leaf));
        }
    }

    #[test]
    fn decoding_any_bytes_is_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let root = Nibbles::new();
        let _ = crate::row::decode::<SlotValue>(&root, &bytes, &mut crate::row::RowChildren::new());
        let _ = crate::row::decode::<crate::AccountLeaf>(&root, &bytes, &mut crate::row::RowChildren::new());
        let _ = crate::codec::decode_node::<SlotValue>(&bytes);
        let _ = crate::codec::decode_node::<crate::AccountLeaf>(&bytes);
    }
}

#[test]
fn large_batches_are_hashed_in_parallel_to_the_same_root() {
    let mut model = Model::new();
    let mut rows = Memory::default();
    let mut trie = Trie::<SlotValue>::empty();
    for block in 0u64..5 {
        trie.set_block(block as u32);
        // All threads hash the larger batch, and two the smaller one.
        let count = if block % 2 == 0 { 3_000 } else { 300 };
        let mut changes: Vec<_> = (0u64..count)
            .map(|i| {
                let n = (i * 7 + block * 1_000) % 9_000;
                let key = alloy_primitives::keccak256(n.to_be_bytes());
                let value = (n % 5 != block).then(|| U256::from(n + block + 1));
                (key, value)
            })
            .collect();
        changes.sort_by_key(|(key, _)| *key);
        changes.dedup_by_key(|(key, _)| *key);
        for (key, value) in &changes {
            set(&mut model, *key, *value);
        }
        let changes: Vec<_> = changes.into_iter().map(|(k, v)| (k, v.map(SlotValue))).collect();
        trie.update(&changes, &rows).unwrap();
        let (root, changes) = trie.commit(Changes::default());
        rows.apply(changes);
        assert_eq!(root, oracle_root(&model));
        assert_eq!(rows, built(&model).1);
        trie.evict(block as u32 % 2);
    }
}

/// Nodes that were not touched for longer than those are dropped.
#[test]
fn reads_touch_the_nodes_on_their_paths() {
    // Below the root are two extensions, each with a branch, below which is another one.
    let key = |first: u8, last: u8| {
        let mut key = B256::ZERO;
        key.0[..4].copy_from_slice(&[first, first, first, last]);
        key
    };
    let model: Model = [0x11, 0x22]
        .into_iter()
        .flat_map(|first| [0x01, 0x02, 0x13].map(|last| (key(first, last), U256::from(7))))
        .collect();
    let (root, rows) = built(&model);
    let (read, other) = (key(0x11, 0x01), key(0x22, 0x01));
    let reads: [fn(&mut Trie<SlotValue>, &B256, &Memory); 3] = [
        |trie, key, rows| assert!(trie.get(key, rows).unwrap().is_some()),
        |trie, key, _| assert!(trie.known(key).is_some()),
        |trie, key, _| assert_eq!(trie.missing(key), None),
    ];
    for touch in reads {
        let mut trie = Trie::<SlotValue>::stored(root);
        for key in model.keys() {
            trie.get(key, &rows).unwrap();
        }
        trie.set_block(4);
        touch(&mut trie, &read, &rows);
        trie.evict(1);
        assert_eq!([&read, &other].map(|key| trie.missing(key)), [None, Some(1)]);
    }
}

/// A value of any length.
#[derive(Debug, Clone, PartialEq)]
struct Blob(Vec<u8>);

impl LeafValue for Blob {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        Ok(Self(bytes.to_vec()))
    }
}

#[test]
fn values_of_every_length_come_back() {
    for len in [0usize, 1, 127, 128, 129, 255, 256, 300, 5_000, 0x7fff] {
        let leaves: Vec<_> =
            (1u8..4).map(|i| (B256::repeat_byte(i * 0x11), Blob(vec![i; len]))).collect();
        let mut builder = SortedBuilder::new(Memory::default());
        leaves.iter().for_each(|(key, value)| builder.add(*key, value.clone()));
        let (root, rows) = builder.finish();
        let mut trie = Trie::<Blob>::stored(root);
        for (key, value) in &leaves {
            assert_eq!(trie.get(key, &rows).unwrap(), Some(value));
        }
    }
}

#[test]
fn paths_of_every_length_come_back() {
    let key = B256::new(std::array::from_fn(|i| i as u8 * 7 + 0x1f));
    let whole = path_of(&key, 64);
    for depth in 0..=64 {
        let (mut rlp, value) = (Vec::new(), SlotValue(U256::from(7)));
        codec::encode_leaf(&key, depth, &value, &mut rlp, &mut Vec::new());
        match codec::decode_node::<SlotValue>(&rlp) {
            Ok(Node::Leaf { suffix, value: found }) => {
                assert_eq!((suffix, found), (whole.slice(depth..), value));
            }
            other => panic!("a leaf at depth {depth}: {other:?}"),
        }
    }
    for len in 1..64 {
        let (mut rlp, reference) = (Vec::new(), ChildRef::hashed(key));
        codec::encode_extension(&whole.slice(..len), &reference, &mut rlp);
        match codec::decode_node::<SlotValue>(&rlp) {
            Ok(Node::Extension { prefix, child }) => {
                assert_eq!((prefix, child), (whole.slice(..len), reference));
            }
            other => panic!("an extension of {len} nibbles: {other:?}"),
        }
    }
}
