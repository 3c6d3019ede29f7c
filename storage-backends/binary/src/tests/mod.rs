//! Tests of the tree against the EIP's reference and against `ubt`.

use crate::{
    BinaryLayer, GROUPS, GroupDepth, STEMS, Stem,
    account::LeafChange,
    group::GroupKey,
    hash::hash_pair,
    node::Node,
    tree::Tree,
    update::{StemChanges, Update},
};
use alloy_primitives::{B256, b256, keccak256};
use polytrie_kv::{Batch, KeyRange, Read, Store};
use polytrie_testing::Seed;
use rand::{RngExt, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};
use ubt::{Blake3Hasher, UnifiedBinaryTree};

mod stems;

/// A tree in a separate store.
struct Grown {
    store: Store,
    root: Node,
    group_depth: GroupDepth,
}

impl Grown {
    fn new(levels: u8) -> Self {
        let group_depth = GroupDepth::new(levels).unwrap();
        Self { store: Store::memory(BinaryLayer::TABLES).unwrap(), root: Node::Empty, group_depth }
    }

    fn tree(&self) -> Tree<'_> {
        Tree { rows: &self.store, cache: None, group_depth: self.group_depth }
    }

    /// Sets leaves, or removes those with the value `None`; returns the root.
    fn change(&mut self, leaves: &[([u8; 32], Option<B256>)]) -> B256 {
        let mut stems: BTreeMap<Stem, Vec<(u8, LeafChange)>> = BTreeMap::new();
        for (key, value) in leaves {
            let change = value.map_or(LeafChange::Remove, LeafChange::Set);
            let stem = Stem(key[..31].try_into().unwrap());
            stems.entry(stem).or_default().push((key[31], change));
        }
        let changes: StemChanges = stems.into_iter().collect();
        let update = Update::of(self.tree(), &self.root, &changes).unwrap();
        let mut batch = Batch::new();
        update.write(&mut batch);
        self.store.write(batch).unwrap();
        self.root = update.root;
        assert_eq!(self.tree().root().unwrap().hash(), self.root.hash(), "the row of the root");
        self.root.hash()
    }

    /// Returns all rows.
    fn rows(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut rows = Vec::new();
        for table in [GROUPS, STEMS] {
            let visit = &mut |key: &[u8], value: &[u8]| {
                rows.push((key.to_vec(), value.to_vec()));
                Ok(ControlFlow::Continue(()))
            };
            self.store.scan(table, KeyRange::ALL, visit).unwrap();
        }
        rows
    }
}

/// A set of leaves, and the root of the tree that holds only them.
type Vector = (Vec<([u8; 32], B256)>, B256);

/// Returns the cases of the tests of the EIP's reference implementation, with the roots that they expect: one leaf,
/// two stems, leaves of one stem and of two, and four stems.
fn vectors() -> [Vector; 5] {
    let of = |stem: [u8; 31], sub: u8, value: u8| {
        let mut key = [sub; 32];
        key[..31].copy_from_slice(&stem);
        (key, B256::repeat_byte(value))
    };
    let (zero, filled) = ([0; 31], [0x80; 31]);
    let at = |first: u8| {
        let mut stem = zero;
        stem[0] = first;
        stem
    };
    let counted = |(n, first): (u8, u8)| {
        let mut value = B256::ZERO;
        value[0] = n;
        (of(at(first), 0, 0).0, value)
    };
    [
        (
            vec![of(zero, 0, 1)],
            b256!("694545468677064fd833cddc8455762fe6b21c6cabe2fc172529e0f573181cd5"),
        ),
        (
            vec![of(zero, 0, 1), of(at(0x80), 0, 2)],
            b256!("85fc622076752a6fcda2c886c18058d639066a83473d9684704b5a29455ed2ed"),
        ),
        (
            vec![of(zero, 3, 1), of(zero, 4, 2), of(zero, 9, 3), of(zero, 255, 4)],
            b256!("aa12acb5689a2dc03e9d7ab0350449c70cdad286750dc8ba1dd092f5e100191a"),
        ),
        (
            vec![of(zero, 3, 1), of(zero, 4, 2), of(filled, 3, 1), of(filled, 4, 2)],
            b256!("d8cb5a1f0611c2af9413c9fa179a4a1bf0eb6debc8d9e10d439b3e32371085ad"),
        ),
        (
            [(1, 0), (2, 0x80), (3, 1), (4, 0x81)].map(counted).to_vec(),
            b256!("e93c209026b8b00d76062638102ece415028bd104e1d892d5399375a323f2218"),
        ),
    ]
}

#[test]
fn roots_are_those_of_the_reference() {
    for (leaves, expected) in vectors() {
        let leaves: Vec<_> = leaves.into_iter().map(|(key, value)| (key, Some(value))).collect();
        for levels in 1..=8 {
            assert_eq!(Grown::new(levels).change(&leaves), expected, "{levels} levels a group");
        }
    }
}

/// The shape of a tree is the depth of each stem.
#[test]
fn shapes_are_those_of_the_reference() {
    let depth = |grown: &Grown, key: [u8; 32]| {
        let stem = Stem(key[..31].try_into().unwrap());
        let way = grown.tree().way(&grown.root, &stem).unwrap();
        assert_eq!(way.end.unwrap().0, stem);
        way.siblings.len()
    };
    let value = Some(B256::repeat_byte(1));
    let (zero, mut far) = ([0; 32], [0; 32]);
    far[0] = 0x80;
    for levels in [1, 2, 5, 8] {
        let mut grown = Grown::new(levels);
        assert_eq!(grown.change(&[]), B256::ZERO);
        grown.change(&[(zero, value)]);
        assert_eq!(depth(&grown, zero), 0);
        grown.change(&[(far, value)]);
        assert_eq!((depth(&grown, zero), depth(&grown, far)), (1, 1));
        // The stems share their first 42 bits.
        let (mut near, mut nearer) = ([0; 32], [0; 32]);
        near[5..].fill(0xc0);
        nearer[5] = 0xe0;
        let mut grown = Grown::new(levels);
        grown.change(&[(near, value), (nearer, value)]);
        assert_eq!((depth(&grown, near), depth(&grown, nearer)), (43, 43));
        // A stem without a sibling moves up again, and all rows between are removed.
        grown.change(&[(near, None)]);
        assert_eq!((depth(&grown, nearer), grown.rows().len()), (0, 2));
        grown.change(&[(nearer, None)]);
        assert_eq!((grown.root.hash(), grown.rows().len()), (B256::ZERO, 0));
    }
}

/// Random leaves are put and removed in batches. The root is that of `ubt` after each, whatever the group depth, and
/// in the end the rows are those of a tree that never had the removed leaves.
#[test]
fn roots_are_those_of_ubt() {
    let seed = Seed::or(7_864);
    let mut rng = ChaCha8Rng::seed_from_u64(seed.value());
    let mut trees: Vec<Grown> = (1..=8).map(Grown::new).collect();
    let mut ubt: UnifiedBinaryTree<Blake3Hasher> = UnifiedBinaryTree::new();
    let mut there: BTreeMap<[u8; 32], B256> = BTreeMap::new();
    for round in 0..24 {
        let mut batch: BTreeMap<[u8; 32], Option<B256>> = BTreeMap::new();
        for _ in 0..rng.random_range(1..60) {
            // `ubt` takes zero for a leaf that is not there.
            batch.insert(stems::key(&mut rng), Some(B256::from(rng.random::<[u8; 32]>()) | ONE));
        }
        let mut known: Vec<_> = there.keys().copied().collect();
        known.shuffle(&mut rng);
        let fewer = if round % 6 == 5 { known.len() } else { known.len() / 4 };
        batch.extend(known.into_iter().take(fewer).map(|key| (key, None)));
        for (key, value) in &batch {
            match value {
                Some(value) => {
                    there.insert(*key, *value);
                    ubt.insert_b256(B256::new(*key), *value);
                }
                None => {
                    there.remove(key);
                    ubt.delete(&ubt::TreeKey::from_bytes(B256::new(*key)));
                }
            }
        }
        let leaves: Vec<_> = batch.into_iter().collect();
        let expected = ubt.root_hash().unwrap();
        for grown in &mut trees {
            let found = grown.change(&leaves);
            assert_eq!(
                found,
                expected,
                "round {round}, {} levels a group",
                grown.group_depth.levels()
            );
        }
    }
    let leaves: Vec<_> = there.iter().map(|(key, value)| (*key, Some(*value))).collect();
    for grown in &trees {
        let mut straight = Grown::new(grown.group_depth.levels());
        straight.change(&leaves);
        assert_eq!(straight.rows(), grown.rows(), "{} levels a group", grown.group_depth.levels());
        let mut found = Vec::new();
        let visit = &mut |stem: &Stem, _: &B256| {
            found.push(*stem);
            Ok(ControlFlow::Continue(()))
        };
        grown.tree().stems(&grown.root, visit).unwrap();
        let mut expected: Vec<_> =
            there.keys().map(|key| Stem(key[..31].try_into().unwrap())).collect();
        expected.dedup();
        assert_eq!(found, expected);
    }
}

const ONE: B256 = B256::with_last_byte(1);

/// A written zero is a leaf, and a missing one is none; so the EIP says, unlike `ubt`.
#[test]
fn a_leaf_of_zeros_is_a_leaf() {
    let mut grown = Grown::new(5);
    let with = grown.change(&[([0; 32], Some(ONE)), ([1; 32], Some(B256::ZERO))]);
    let without = grown.change(&[([1; 32], None)]);
    assert_ne!(with, without);
    assert_eq!(hash_pair(&B256::ZERO, &B256::ZERO), B256::ZERO);
}

/// What is read ahead may not be needed. So damage there is no error: a read that needs the group finds it.
#[test]
fn paths_are_followed_up_to_a_damaged_group() {
    let value = Some(B256::repeat_byte(1));
    let stems = [0x00, 0x40, 0x80, 0xc0].map(|first| {
        let mut stem = Stem([0; 31]);
        stem.0[0] = first;
        stem
    });
    let leaves = stems.map(|stem| {
        let mut key = [0; 32];
        key[..31].copy_from_slice(&stem.0);
        (key, value)
    });
    let mut grown = Grown::new(1);
    grown.change(&leaves);
    assert_eq!(Vec::from_iter(grown.tree().look_at(&grown.root, stems).unwrap()), stems);
    let (key, length) = GroupKey::on_way_to(&stems[3], 1).bytes();
    let mut batch = Batch::new();
    batch.put(GROUPS, &key[..length], b"no group");
    grown.store.write(batch).unwrap();
    assert_eq!(Vec::from_iter(grown.tree().look_at(&grown.root, stems).unwrap()), stems[..2]);
    assert!(grown.tree().leaves(&grown.root, &stems[0]).is_ok());
    assert!(grown.tree().leaves(&grown.root, &stems[3]).is_err());
}

/// Each portion of the paths is followed.
#[test]
fn the_stems_that_exist_are_found_on_many_paths() {
    let key = |n: u16| keccak256(n.to_be_bytes()).0;
    let stem = |n: u16| Stem(key(n)[..31].try_into().unwrap());
    let leaves: Vec<_> = (0..5_000).map(|n| (key(n), Some(B256::repeat_byte(1)))).collect();
    let mut grown = Grown::new(5);
    grown.change(&leaves);
    // Some stems are asked for twice, and some do not exist.
    let asked = (0..6_000).chain(0..100).map(stem);
    let found = grown.tree().look_at(&grown.root, asked).unwrap();
    assert_eq!(found, (0..5_000).map(stem).collect::<BTreeSet<_>>());
}
