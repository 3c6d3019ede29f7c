//! Compares this trie with the arena's, version by version, in memory and from rows.
//!
//! - `given.rs`: the calls of the store where rows were given.

mod given;

pub(super) use crate::tests::Memory;

use super::{CowTrie, Keep, hash_of_row, node::rlp_node, row};
use crate::{
    Nibbles, RowSink, RowSource, SlotValue, Trie, TrieError, codec::path_of, tests::set, verify_key,
};
use alloy_primitives::{B256, U256, keccak256};
use proptest::prelude::*;
use std::{collections::BTreeMap, ops::ControlFlow};

/// Rows by path, and by the hash of the node that they hold.
type Named = BTreeMap<(Nibbles, B256), Vec<u8>>;

impl Memory {
    /// Returns all rows of a trie that is in memory.
    pub(super) fn of(trie: &CowTrie<SlotValue>) -> Self {
        let mut rows = Self::default();
        trie.write_since(0, &[], &Self::default(), &mut rows).unwrap();
        rows
    }

    /// Returns the rows as they are given.
    pub(super) fn named(&self) -> Named {
        let named = |(path, row): (&Nibbles, &Vec<u8>)| {
            ((*path, hash_of_row::<SlotValue>(path, row).unwrap()), row.clone())
        };
        self.0.iter().map(named).collect()
    }
}

/// Returns the rows of a trie as a sender may give them who calls all children nodes with rows of their own.
pub(super) fn all_called_nodes(whole: &CowTrie<SlotValue>, rows: &Memory) -> Named {
    let lie = |((path, hash), _): ((Nibbles, B256), Vec<u8>)| {
        let (mut rlp, mut lie) = (Vec::new(), Vec::new());
        assert!(whole.node_at(&path, &Memory::default(), 0, &mut rlp).unwrap());
        row::encode(&rlp_node::<SlotValue>(&path, &rlp).unwrap(), path.len(), &mut lie);
        ((path, hash), lie)
    };
    rows.named().into_iter().map(lie).collect()
}

/// Stored rows, and rows that were given.
#[derive(Debug)]
pub(super) struct Given<'a> {
    pub(super) stored: Memory,
    pub(super) given: &'a Named,
}

impl RowSource for Given<'_> {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool, TrieError> {
        self.stored.load(path, out)
    }

    fn given(&self, path: &Nibbles, hash: &B256, out: &mut Vec<u8>) -> bool {
        let row = self.given.get(&(*path, *hash));
        out.extend_from_slice(row.map_or(&[], |row| row));
        row.is_some()
    }
}

/// Stored rows in a store that is not trusted.
pub(super) struct Doubted<T>(pub(super) T);

impl<T: RowSource> RowSource for Doubted<T> {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool, TrieError> {
        self.0.load(path, out)
    }

    fn is_doubted(&self) -> bool {
        true
    }
}

/// Returns a key that shares a long prefix with others, or one in four that does not.
fn key(n: u16) -> B256 {
    let mut key = B256::repeat_byte((n % 3) as u8 * 0x11);
    key.0[(n % 32) as usize] = (n >> 5) as u8;
    if n.is_multiple_of(4) { keccak256(n.to_be_bytes()) } else { key }
}

type Block = Vec<(u16, u8)>;

fn blocks() -> impl Strategy<Value = Vec<Block>> {
    let block = prop::collection::vec((0..200u16, 0..5u8), 0..20);
    prop::collection::vec(block, 1..16)
}

fn changes(block: &Block) -> Vec<(B256, Option<SlotValue>)> {
    let all: BTreeMap<B256, Option<SlotValue>> = block
        .iter()
        .map(|(n, value)| {
            let value = (*value > 1).then(|| SlotValue(U256::from(*value)));
            (key(*n), value)
        })
        .collect();
    all.into_iter().collect()
}

fn leaves(trie: &CowTrie<SlotValue>, rows: &Memory, from: B256) -> Vec<(B256, SlotValue)> {
    let mut found = Vec::new();
    trie.leaves(&from, rows, &mut |key, value| {
        found.push((*key, *value));
        Ok(ControlFlow::Continue(()))
    })
    .unwrap();
    found
}

/// Applies changes to a trie, and drops the paths of lost rows.
fn update(
    trie: &mut CowTrie<SlotValue>,
    changes: &[(B256, Option<SlotValue>)],
    rows: &Memory,
    now: u64,
) {
    trie.update(changes, rows, now, &mut Vec::new()).unwrap();
}

/// Makes a trie with blocks, one after the other.
fn after(blocks: &[Block]) -> CowTrie<SlotValue> {
    let mut trie = CowTrie::<SlotValue>::empty();
    for (now, block) in (1u64..).zip(blocks) {
        update(&mut trie, &changes(block), &Memory::default(), now);
    }
    trie
}

/// Returns the rows of a trie as one that is made from a witness has them: leaves have rows of their own.
fn rows_with_leaves(whole: &CowTrie<SlotValue>) -> Memory {
    let mut rows = Memory::default();
    let mut node = |path: &Nibbles, _: &B256| {
        let mut rlp = Vec::new();
        let found = whole.node_at(path, &Memory::default(), 0, &mut rlp).unwrap();
        found.then(|| rlp.into())
    };
    let mut put = |path: &Nibbles, row: &[u8]| rows.put(path, row);
    let stored = CowTrie::<SlotValue>::stored(whole.root());
    stored.put_found(&mut node, &mut put, &mut |_, _| {}).unwrap();
    rows
}

/// Returns the leaves of a stored trie. Panics if there are rows that are not part of it.
fn stored_leaves(root: B256, rows: &Memory) -> Vec<(B256, SlotValue)> {
    let mut found = Vec::new();
    let walked = CowTrie::<SlotValue>::stored(root).walk_stored(rows, &mut |key, value| {
        found.push((*key, *value));
        Ok(ControlFlow::Continue(()))
    });
    assert_eq!(walked.unwrap().rows, rows.0.len() as u64);
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn versions_are_right_and_stay(
        blocks in blocks(),
        every in 1..4u64,
        levels in 0..3usize,
        keep in 1..4u64,
    ) {
        let mut arena = Trie::<SlotValue>::empty();
        let mut head = CowTrie::<SlotValue>::empty();
        let (mut gone, mut saved_at, mut rows) = (Vec::new(), 0, Memory::default());
        let mut state = BTreeMap::new();
        let mut versions = Vec::new();
        for (now, block) in (1u64..).zip(&blocks) {
            let changes = changes(block);
            arena.update(&changes, &Memory::default()).unwrap();
            head.update(&changes, &rows, now, &mut gone).unwrap();
            for (key, value) in changes {
                set(&mut state, key, value);
            }
            prop_assert_eq!(head.root(), arena.root());
            // Nodes that no kept version holds are changed in place.
            if now.is_multiple_of(keep) {
                versions.push((head.clone(), rows.clone(), state.clone()));
            }
            if now.is_multiple_of(every) {
                let before = rows.clone();
                let gone = std::mem::take(&mut gone);
                head.write_since(saved_at, &gone, &before, &mut rows).unwrap();
                saved_at = now;
                let used_since = now.saturating_sub(1);
                let all = head.bytes();
                let dropped = head.prune(&Keep { levels, saved: now, used_since, now });
                // Nodes that are copied have no room for more children.
                prop_assert!(head.bytes() + dropped <= all);
                let expected: Vec<_> = state.clone().into_iter().collect();
                prop_assert_eq!(stored_leaves(head.root(), &rows), expected);
            }
        }
        for (version, rows, state) in versions {
            let all: Vec<_> = state.clone().into_iter().collect();
            prop_assert_eq!(leaves(&version, &rows, B256::ZERO), all);
            for n in 0..200 {
                let from = key(n);
                prop_assert_eq!(version.get(&from, &rows, 0).unwrap(), state.get(&from));
                let (value, nodes) = version.prove(&from, &rows, 0).unwrap();
                let proven = verify_key::<SlotValue>(version.root(), &from, &nodes).unwrap();
                prop_assert_eq!(proven.as_ref(), value);
                prop_assert_eq!(value, state.get(&from));
            }
            let from = key(7);
            let later: Vec<_> = state.range(from..).map(|(k, v)| (*k, *v)).collect();
            prop_assert_eq!(leaves(&version, &rows, from), later);
        }
    }

    /// Leaves have rows as in a trie made from a witness; a branch that is written later takes its leaves into its row.
    #[test]
    fn leaves_may_have_rows_of_their_own(blocks in blocks(), at in 0..16usize) {
        let (before, later) = blocks.split_at(at.min(blocks.len()));
        let mut whole = after(before);
        let mut rows = rows_with_leaves(&whole);
        let mut saved = CowTrie::<SlotValue>::stored(whole.root());
        for (now, block) in (1u64..).zip(later) {
            let (mut head, mut gone) = (saved.clone(), Vec::new());
            head.update(&changes(block), &rows, now, &mut gone).unwrap();
            let before = rows.clone();
            head.write_since(now - 1, &gone, &before, &mut rows).unwrap();
            update(&mut whole, &changes(block), &Memory::default(), 100 + now);
            prop_assert_eq!(head.root(), whole.root());
            saved = CowTrie::stored(head.root());
            let expected = leaves(&whole, &Memory::default(), B256::ZERO);
            prop_assert_eq!(stored_leaves(head.root(), &rows), expected);
        }
    }

    /// A given row may be wrong about which children are leaves, because its hash does not tell.
    #[test]
    fn rows_that_are_given_may_call_leaves_what_they_like(
        blocks in blocks(),
        at in 0..16usize,
        every in 1..4u64,
        kinds in prop::collection::vec(0..3u8, 1..40),
    ) {
        let (before, later) = blocks.split_at(at.min(blocks.len()));
        let mut whole = after(before);
        let mut rows = Memory::of(&whole);
        let mut given = BTreeMap::new();
        for ((path, stored), kind) in rows.0.iter().zip(kinds.iter().cycle()) {
            let hash = hash_of_row::<SlotValue>(path, stored).unwrap();
            let mut rlp = Vec::new();
            prop_assert!(whole.node_at(path, &Memory::default(), 0, &mut rlp).unwrap());
            prop_assert_eq!(hash, keccak256(&rlp));
            prop_assert!(hash_of_row::<SlotValue>(path, &rlp).is_err());
            // The row calls all children nodes of their own.
            let mut lie = Vec::new();
            row::encode(&rlp_node::<SlotValue>(path, &rlp).unwrap(), path.len(), &mut lie);
            prop_assert_eq!(hash_of_row::<SlotValue>(path, &lie).unwrap(), hash);
            let row = match kind {
                0 => continue,
                1 => stored.clone(),
                _ => lie,
            };
            given.insert((*path, hash), row);
        }
        let mut head = CowTrie::<SlotValue>::stored(whole.root());
        let (mut gone, mut saved) = (Vec::new(), 0);
        for (now, block) in (1u64..).zip(later) {
            let source = Given { stored: rows.clone(), given: &given };
            head.update(&changes(block), &source, now, &mut gone).unwrap();
            update(&mut whole, &changes(block), &Memory::default(), 100 + now);
            prop_assert_eq!(head.root(), whole.root());
            for n in (now as u16..200).step_by(7) {
                let expected = whole.get(&key(n), &Memory::default(), 0).unwrap();
                prop_assert_eq!(head.get(&key(n), &source, now).unwrap(), expected);
            }
            if !now.is_multiple_of(every) {
                continue;
            }
            let gone = std::mem::take(&mut gone);
            head.write_since(saved, &gone, &source, &mut rows).unwrap();
            saved = now;
            let keep = Keep { levels: 0, saved, used_since: now + 1 - now % 2, now };
            head.prune(&keep);
            let found = stored_leaves(head.root(), &rows);
            prop_assert_eq!(&found, &leaves(&whole, &Memory::default(), B256::ZERO));
            let source = Given { stored: rows.clone(), given: &given };
            let mut seen = Vec::new();
            head.leaves(&B256::ZERO, &source, &mut |key, value| {
                seen.push((*key, *value));
                Ok(ControlFlow::Continue(()))
            }).unwrap();
            prop_assert_eq!(seen, found);
        }
    }

    /// The rows on the path to a key are enough to find it.
    #[test]
    fn the_rows_to_a_key_lead_to_it(blocks in blocks()) {
        let whole = after(&blocks);
        let rows = Memory::of(&whole);
        let stored = CowTrie::<SlotValue>::stored(whole.root());
        for n in 0..200 {
            let (mut some, mut seen) = (Memory::default(), None);
            let mut put = |path: &Nibbles, row: &[u8]| some.put(path, row);
            stored.rows_to(&key(n), &rows, &mut put, |value| seen = Some(*value)).unwrap();
            let alone = CowTrie::<SlotValue>::stored(whole.root());
            prop_assert_eq!(alone.get(&key(n), &some, 0).unwrap().copied(), seen);
            prop_assert_eq!(whole.get(&key(n), &rows, 0).unwrap().copied(), seen);
            prop_assert_eq!(stored.look(&key(n), &some, |value| *value).unwrap(), seen);
        }
    }

    /// A value is changed on its own, with rows and versions as above.
    #[test]
    fn a_value_is_changed_in_its_place(blocks in blocks(), own_rows: bool, keep: bool) {
        let mut whole = after(&blocks);
        let mut rows = if own_rows { rows_with_leaves(&whole) } else { Memory::of(&whole) };
        let mut head = CowTrie::<SlotValue>::stored(whole.root());
        let (before, root, old_rows) = (head.clone(), head.root(), rows.clone());
        let kept = keep.then(|| before.clone());
        drop(before);
        let mut gone = Vec::new();
        for n in 0..200 {
            let value = head.get_mut(&key(n), &rows, 99, &mut gone).unwrap();
            let before = whole.get(&key(n), &rows, 0).unwrap().copied();
            prop_assert_eq!(value.as_deref().copied(), before);
            let (Some(value), 0) = (value, n % 3) else { continue };
            value.0 += U256::from(1);
            let change = [(key(n), Some(*value))];
            update(&mut whole, &change, &Memory::default(), 99);
        }
        prop_assert_eq!(head.root(), whole.root());
        let before = rows.clone();
        head.write_since(98, &gone, &before, &mut rows).unwrap();
        let expected = leaves(&whole, &Memory::default(), B256::ZERO);
        prop_assert_eq!(stored_leaves(head.root(), &rows), expected);
        if let Some(kept) = kept {
            let was = leaves(&kept, &old_rows, B256::ZERO);
            prop_assert_eq!(kept.root(), root);
            let mut again = CowTrie::<SlotValue>::empty();
            let was: Vec<_> = was.into_iter().map(|(key, value)| (key, Some(value))).collect();
            update(&mut again, &was, &Memory::default(), 1);
            prop_assert_eq!(again.root(), root);
        }
    }

    /// Nodes that are loaded on unshared paths of a copy stay with the copy.
    #[test]
    fn what_is_loaded_on_unshared_paths_stays_there(blocks in blocks(), step in 1..9usize) {
        let whole = after(&blocks);
        let rows = Memory::of(&whole);
        let head = CowTrie::<SlotValue>::stored(whole.root());
        for n in (0..200).step_by(step) {
            head.get(&key(n), &rows, 1).unwrap();
        }
        let (bytes, mut copy) = (head.bytes(), head.clone());
        for n in 0..200 {
            let known = copy.unshare(&key(n)).copied();
            let expected = whole.prove(&key(n), &rows, 0).unwrap();
            prop_assert!(known.is_none() || known.as_ref() == expected.0);
            prop_assert_eq!(copy.prove(&key(n), &rows, 2).unwrap(), expected);
        }
        prop_assert_eq!(head.bytes(), bytes);
    }

    #[test]
    fn parts_make_the_whole(blocks in blocks()) {
        let rows = Memory::default();
        let part = |n: usize| CowTrie::<SlotValue>::stored_part(n as u8, &[0x80]).unwrap();
        let mut parts: [CowTrie<SlotValue>; 16] = std::array::from_fn(part);
        let mut whole = CowTrie::<SlotValue>::empty();
        for (now, block) in (1u64..).zip(&blocks) {
            let changes = changes(block);
            update(&mut whole, &changes, &rows, now);
            for (n, part) in parts.iter_mut().enumerate() {
                let own: Vec<_> =
                    changes.iter().filter(|(key, _)| usize::from(key[0] >> 4) == n).cloned().collect();
                update(part, &own, &rows, now);
            }
            let joined = CowTrie::join(&parts, &rows, now).unwrap();
            prop_assert_eq!(joined.root(), whole.root());
            for n in 0..200 {
                let expected = whole.prove(&key(n), &rows, now).unwrap();
                prop_assert_eq!(joined.prove(&key(n), &rows, now).unwrap(), expected);
            }
        }
    }
}

/// Returns the row of a branch without leaves, with these bytes as the references of its children.
fn branch_row(refs: &[(u8, &[u8])]) -> Vec<u8> {
    let inner = refs.iter().fold(0u16, |inner, (n, _)| inner | 1u16 << *n);
    let mut row = vec![0];
    row.extend_from_slice(&inner.to_be_bytes());
    row.extend_from_slice(&[0; 2]);
    for (_, bytes) in refs {
        row.push(bytes.len() as u8);
        row.extend_from_slice(bytes);
    }
    row
}

/// The RLP of a branch has the references of its children one after the other. If any bytes were references, a row could
/// cut it elsewhere: its hash would be right, and its children would be others, or stand elsewhere.
#[test]
fn a_row_that_cuts_a_branch_elsewhere_is_refused() {
    let (path, rows) = (Nibbles::new(), Memory::default());
    let mut trie = CowTrie::<SlotValue>::empty();
    let value = SlotValue(U256::from(1));
    let changes = [0x11, 0x22].map(|byte| (B256::repeat_byte(byte), Some(value)));
    update(&mut trie, &changes, &rows, 1);
    let mut rlp = Vec::new();
    assert!(trie.node_at(&path, &rows, 0, &mut rlp).unwrap());
    // Two bytes of the list, nothing, two hashes, and nothing from there on.
    assert_eq!((rlp.len(), rlp[2], rlp[3], rlp[36], rlp[69]), (83, 0x80, 0xa0, 0xa0, 0x80));
    let (first, second) = (&rlp[4..36], &rlp[37..69]);
    let whole = branch_row(&[(1, first), (2, second)]);
    assert_eq!(hash_of_row::<SlotValue>(&path, &whole).unwrap(), trie.root());
    // Nothing at the first nibble, as a child.
    let more = branch_row(&[(0, &rlp[2..3]), (1, first), (2, second)]);
    // The first hash as two children, so that the second one stands at the next nibble; two times nothing as one child.
    let moved = branch_row(&[(1, &rlp[3..34]), (2, &rlp[34..36]), (3, second), (4, &rlp[69..71])]);
    for row in [more, moved] {
        let error = hash_of_row::<SlotValue>(&path, &row).unwrap_err();
        assert!(matches!(error, TrieError::Malformed { .. }), "{error}");
    }
}

/// Rows that are sound, and belong to another trie, are noticed.
#[test]
fn rows_of_another_trie_are_noticed() {
    let stored = |value: u64| {
        let mut trie = CowTrie::<SlotValue>::empty();
        let change = |n| (key(n), Some(SlotValue(U256::from(value))));
        let changes: BTreeMap<_, _> = (0..200).map(change).collect();
        update(&mut trie, &Vec::from_iter(changes), &Memory::default(), 1);
        (trie.root(), Doubted(Memory::of(&trie)))
    };
    let ((root, rows), (_, others)) = (stored(1), stored(2));
    for n in 0..200 {
        let trie = CowTrie::<SlotValue>::stored(root);
        let other = trie.get(&key(n), &others, 0).map(|value| value.copied());
        assert!(matches!(other, Err(TrieError::Malformed { .. })), "{other:?}");
        assert_eq!(trie.get(&key(n), &rows, 0).unwrap(), Some(&SlotValue(U256::from(1))));
    }
}

/// A row by path that is lost is noticed, even if the reference to it is the node. The node is read from the reference
/// only where such nodes have no rows.
#[test]
fn a_lost_row_of_an_embedded_node_is_noticed() {
    struct NoRows<'a>(&'a Memory);

    impl RowSource for NoRows<'_> {
        fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool, TrieError> {
            self.0.load(path, out)
        }

        fn leaves_out_embedded(&self) -> bool {
            true
        }
    }

    let mut trie = CowTrie::<SlotValue>::empty();
    let near = |last| {
        let mut key = B256::repeat_byte(0x11);
        key.0[31] = last;
        key
    };
    let value = SlotValue(U256::from(1));
    let keys = [near(0x11), near(0x12), B256::repeat_byte(0x22)];
    update(&mut trie, &keys.map(|key| (key, Some(value))), &Memory::default(), 1);
    let mut rows = Memory::of(&trie);
    // The branch of the first two keys, whose RLP is 22 bytes long.
    let path = path_of(&keys[0], 63);
    assert!(rows.0.remove(&path).is_some());
    for key in &keys[..2] {
        let lost = CowTrie::<SlotValue>::stored(trie.root());
        let found = lost.get(key, &rows, 0).map(|value| value.copied());
        assert!(matches!(found, Err(TrieError::Missing { path: at }) if at == path), "{found:?}");
        assert_eq!(lost.get(key, &NoRows(&rows), 0).unwrap(), Some(&value));
    }
}

/// Large changes are made and hashed on several threads.
#[test]
fn large_changes_lead_to_the_same_root() {
    let rows = Memory::default();
    let mut arena = Trie::<SlotValue>::empty();
    let mut head = CowTrie::<SlotValue>::empty();
    for now in 1..4u64 {
        let mut changes: Vec<_> = (0..10_000u64)
            .filter(|n| !(n + now).is_multiple_of(3))
            .map(|n| {
                let value = SlotValue(U256::from(n + now));
                (keccak256(n.to_be_bytes()), (n % 4 != now).then_some(value))
            })
            .collect();
        changes.sort_unstable_by_key(|(key, _)| *key);
        arena.update(&changes, &rows).unwrap();
        update(&mut head, &changes, &rows, now);
        CowTrie::resolve_all([&head]);
        assert_eq!(head.root(), arena.root());
    }
    let stored = Memory::of(&head);
    let walked = CowTrie::<SlotValue>::stored(head.root())
        .walk_stored(&stored, &mut |_, _| Ok(ControlFlow::Continue(())))
        .unwrap();
    assert_eq!(walked.rows, stored.0.len() as u64);
    assert!(walked.nodes > 2 * walked.rows, "leaves are in the rows of their branches");
}
