//! The calls of the store where rows were given.

use super::{Block, Given, Memory, after, all_called_nodes, changes, update};
use crate::{Nibbles, RowSource, SlotValue, TrieError, cow::CowTrie};
use alloy_primitives::B256;
use parking_lot::Mutex;

/// Stored rows, with the number of rows in each reading of many.
struct Counted<'a> {
    rows: Given<'a>,
    read: Mutex<Vec<usize>>,
}

impl RowSource for Counted<'_> {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool, TrieError> {
        self.rows.load(path, out)
    }

    fn load_many(
        &self,
        paths: &[Nibbles],
        is_doubted: bool,
    ) -> Result<Vec<Option<Vec<u8>>>, TrieError> {
        self.read.lock().push(paths.len());
        self.rows.stored.load_many(paths, is_doubted)
    }

    fn given(&self, path: &Nibbles, hash: &B256, out: &mut Vec<u8>) -> bool {
        self.rows.given(path, hash, out)
    }
}

/// A store on other machines takes as long for one row as for many.
#[test]
fn rows_that_were_given_are_checked_together_and_once() {
    let all = |value: u8| -> Block { (0..200).map(|n| (n, value)).collect() };
    let trie = after(&[all(2)]);
    let rows = Memory::of(&trie);
    let given = rows.named();
    let rows = Given { stored: rows, given: &given };
    let source = Counted { rows, read: Mutex::default() };
    let mut head = CowTrie::<SlotValue>::stored(trie.root());
    // A few keys, so that some children of their branches are not in memory.
    let some = [(0, 3), (40, 3), (41, 3), (100, 3)];
    for now in [1, 2] {
        let block: Block = some.map(|(key, value)| (key, value + now as u8)).into();
        head.update(&changes(&block), &source, now, &mut Vec::new()).unwrap();
        head.write_since(now - 1, &[], &source, &mut Memory::default()).unwrap();
    }
    let read = source.read.into_inner();
    assert!(read[0] > 1, "{read:?}");
    assert_eq!(read[1..].iter().sum::<usize>(), 0, "{read:?}");
}

/// Rows that were given, and a store in which some rows are older ones where many are read, and others are missing or
/// damaged.
struct Stale<'a> {
    rows: Given<'a>,
    older: Memory,
    /// Number of rows that were read alone.
    alone: Mutex<usize>,
}

impl RowSource for Stale<'_> {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool, TrieError> {
        *self.alone.lock() += 1;
        self.rows.load(path, out)
    }

    fn load_many(
        &self,
        paths: &[Nibbles],
        is_doubted: bool,
    ) -> Result<Vec<Option<Vec<u8>>>, TrieError> {
        let sure = self.rows.stored.load_many(paths, is_doubted)?;
        if !is_doubted {
            return Ok(sure);
        }
        let rows = (0..).zip(self.older.load_many(paths, is_doubted)?).zip(sure);
        let damaged = Some(b"no row".to_vec());
        let answers = rows.map(|((n, older), sure)| {
            let answers = [older, None, sure, damaged.clone()];
            answers[n % 4].clone()
        });
        Ok(answers.collect())
    }

    fn given(&self, path: &Nibbles, hash: &B256, out: &mut Vec<u8>) -> bool {
        self.rows.given(path, hash, out)
    }
}

/// A machine of the store may have missed a write, and the leaves of a branch must not be lost for that. It may have missed
/// many, so the rows that it lacks are read together, too.
#[test]
fn leaves_of_given_rows_are_found_in_sure_ones() {
    let all = |value: u8| -> Block { (0..200).map(|n| (n, value)).collect() };
    let [trie, other] = [2, 4].map(|value| after(&[all(value)]));
    let (rows, older) = (Memory::of(&trie), Memory::of(&other));
    let given = all_called_nodes(&trie, &rows);
    let some: Block = (0..200).step_by(9).map(|n| (n, 3)).collect();
    let written = |source: &dyn Fn(&mut CowTrie<SlotValue>, &mut Memory)| {
        let (mut head, mut after) = (CowTrie::stored(trie.root()), rows.clone());
        source(&mut head, &mut after);
        after
    };
    let plain = written(&|head, after| {
        update(head, &changes(&some), &rows, 1);
        head.write_since(0, &[], &rows, after).unwrap();
    });
    let found = written(&|head, after| {
        let rows = Given { stored: rows.clone(), given: &given };
        let source = Stale { rows, older: older.clone(), alone: Mutex::default() };
        let mut gone = Vec::new();
        head.update(&changes(&some), &source, 1, &mut gone).unwrap();
        *source.alone.lock() = 0;
        head.write_since(0, &gone, &source, after).unwrap();
        assert_eq!(*source.alone.lock(), 0);
    });
    assert!(found == plain, "other rows");
}
