//! Loading the nodes on the paths to many keys together: a store on other machines takes as long for one row as for many.

use super::{
    children::Child,
    node::{CowTrie, Link, Node},
};
use crate::{LeafValue, Nibbles, Owner, Result, RowSource, TrieError, TrieTables, codec::path_of};
use alloy_primitives::{B256, map::HashMap};
use polytrie_kv::Read;

/// Number of levels of a path that are read at a time. Below the upper levels, where rows for many keys are in memory, hardly
/// any path has more. A row that is not there costs little beside one that is: both would be in the same part of the store.
const LEVELS: usize = 3;
/// Most paths that are read at a time: their rows are held until they are nodes.
const AT_A_TIME: usize = 4_096;
/// Length of a path of all nibbles of a key.
const LONGEST: usize = 64;

/// A key, and the trie in which it is looked for.
#[derive(Debug)]
pub struct Way<'a, V> {
    /// The account whose storage trie it is; `None` for the account trie.
    pub owner: Owner,
    /// The trie, or the part of it below the first nibble of the key.
    pub trie: &'a CowTrie<V>,
    /// The key.
    pub key: B256,
}

/// The rows that were read last.
#[derive(Default)]
struct Found {
    /// The rows by trie and path; `None` where there is none.
    rows: HashMap<(Owner, Nibbles), Option<Vec<u8>>>,
    /// Whether they may be older ones, or missing.
    are_doubted: bool,
}

impl TrieTables {
    /// Loads the nodes on the paths to keys that are not in memory. Each call of `store` reads some levels of all paths.
    /// `rows_of` returns the rows of a trie: what they were given is used before the store. If each of them is compared
    /// with its reference ([`RowSource::is_doubted`]), the store may answer with older ones ([`Read::read_many`]),
    /// until an answer is wrong. `now` is as in [`CowTrie::get`].
    ///
    /// # Errors
    ///
    /// If a node on a path cannot be read.
    pub fn load_paths<'a, V: LeafValue + 'a, R: RowSource>(
        &self,
        store: &dyn Read,
        ways: impl IntoIterator<Item = Way<'a, V>>,
        rows_of: impl Fn(Owner) -> R,
        now: u64,
    ) -> Result<()> {
        let mut ways = ways.into_iter().peekable();
        let mut are_doubted = rows_of(None).is_doubted();
        while ways.peek().is_some() {
            let mut steps: Vec<Step<'a, V>> =
                ways.by_ref().take(AT_A_TIME).map(Step::first).collect();
            let mut found = Found::default();
            loop {
                let mut waiting = Vec::new();
                for mut step in steps {
                    if step.must_wait(&found, &rows_of, now)? {
                        waiting.push(step);
                    }
                }
                if waiting.is_empty() {
                    break;
                }
                steps = waiting;
                let mut paths: Vec<_> = steps.iter().flat_map(Step::paths).collect();
                paths.sort_unstable();
                paths.dedup();
                // A machine that has missed writes lacks many rows, and asking again for each one would take long.
                are_doubted &= !steps.iter().any(|step| found.rows.contains_key(&step.place()));
                let rows = self.get_many(store, &paths, are_doubted)?;
                found = Found { rows: paths.into_iter().zip(rows).collect(), are_doubted };
            }
        }
        Ok(())
    }
}

/// The place on the way to a key that was reached.
struct Step<'a, V> {
    owner: Owner,
    key: B256,
    link: &'a Link<V>,
    /// Depth of the node at the link.
    depth: usize,
}

impl<'a, V: LeafValue> Step<'a, V> {
    fn first(Way { owner, trie, key }: Way<'a, V>) -> Self {
        Self { owner, key, link: &trie.root, depth: trie.depth() }
    }

    /// Returns the trie and path of the node at the link.
    fn place(&self) -> (Owner, Nibbles) {
        (self.owner, path_of(&self.key, self.depth))
    }

    /// Returns the paths that are read next: that of the node at the link, and those on the way below it.
    fn paths(&self) -> impl Iterator<Item = (Owner, Nibbles)> {
        let depths = self.depth..=(self.depth + LEVELS - 1).min(LONGEST);
        depths.map(move |depth| (self.owner, path_of(&self.key, depth)))
    }

    /// Goes on through the nodes that are in memory, were read or were given. Returns whether the next one must be read.
    fn must_wait<R: RowSource>(
        &mut self,
        found: &Found,
        rows_of: &impl Fn(Owner) -> R,
        now: u64,
    ) -> Result<bool> {
        loop {
            let node = match self.link.in_memory() {
                Some(node) => node,
                None if self.link.is_empty() => return Ok(false),
                None => match self.arrived(found, &rows_of(self.owner), now)? {
                    Some(node) => node,
                    None => return Ok(true),
                },
            };
            node.touch(now);
            match node.toward(&self.key, self.depth) {
                Some((Child::Inner(child), depth)) => (self.link, self.depth) = (child, depth),
                Some((Child::Leaf(_), _)) | None => return Ok(false),
            }
        }
    }

    /// Returns the node at the link, if its row was given, or was read and is not wrong.
    fn arrived(
        &self,
        found: &Found,
        rows: &impl RowSource,
        now: u64,
    ) -> Result<Option<&'a Node<V>>> {
        let (link, place) = (self.link, self.place());
        let path = place.1;
        if let Some(node) = link.given(&path, rows, now)? {
            return Ok(Some(link.keep(node)));
        }
        match found.rows.get(&place) {
            None => Ok(None),
            Some(Some(row)) => match link.read(&path, row, rows, now) {
                Err(TrieError::Malformed { .. }) if found.are_doubted => Ok(None),
                node => Ok(Some(link.keep(node?))),
            },
            Some(None) if found.are_doubted => Ok(None),
            // A leaf that a given row called a node with a row of its own, or a lost row.
            Some(None) => link.resolve(|| path, rows, now),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{
        SlotValue,
        cow::tests::{Doubted, Given, Memory, all_called_nodes},
    };
    use alloy_primitives::{U256, keccak256};
    use polytrie_kv::{Batch, KeyRange, KvError, Store, Table, Values, Visit};
    use polytrie_kv_testing::{Requests, set_row};

    const ACCOUNTS: Table = Table::new(1, "Accounts", 64);
    const STORAGE: Table = Table::new(2, "Storage", 96);
    const TABLES: TrieTables = TrieTables::new(ACCOUNTS, STORAGE);
    const OWNERS: [Owner; 3] = [None, Some(B256::repeat_byte(0x11)), Some(B256::repeat_byte(0xee))];

    /// A store where, if its answers are doubted, some rows are missing and others are those of another key.
    struct Unsure(Store);

    impl Read for Unsure {
        fn get_into(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool, KvError> {
            self.0.get_into(table, key, out)
        }

        fn read_many(
            &self,
            table: Table,
            keys: &[&[u8]],
            is_doubted: bool,
        ) -> Result<Values, KvError> {
            let mut rows = self.0.get_many(table, keys)?;
            for at in (1..rows.len()).filter(|_| is_doubted) {
                match at % 5 {
                    0 => rows[at] = None,
                    1 => rows.swap(at, at - 1),
                    _ => {}
                }
            }
            Ok(rows)
        }

        fn scan(
            &self,
            table: Table,
            range: KeyRange<'_>,
            visit: &mut Visit<'_>,
        ) -> Result<(), KvError> {
            self.0.scan(table, range, visit)
        }
    }

    fn key(n: u64) -> B256 {
        keccak256(n.to_be_bytes())
    }

    /// Makes a trie of 500 keys, and a store in which each owner has it.
    fn stored() -> (CowTrie<SlotValue>, Requests<Box<Unsure>>) {
        let value = Some(SlotValue(U256::from(7)));
        let mut changes: Vec<_> = (0..500).map(|n| (key(n), value)).collect();
        changes.sort_unstable_by_key(|(key, _)| *key);
        let (none, mut whole) = (Memory::default(), CowTrie::<SlotValue>::empty());
        whole.update(&changes, &none, 1, &mut Vec::new()).unwrap();
        let store = Store::memory(&[ACCOUNTS, STORAGE]).unwrap();
        for owner in OWNERS {
            let mut sink = match owner {
                None => TABLES.account_sink(Batch::new()),
                Some(owner) => TABLES.storage_sink(Batch::new(), owner),
            };
            whole.write_since(0, &[], &none, &mut sink).unwrap();
            store.write(sink.into_inner()).unwrap();
        }
        (whole, Requests::new(Box::new(Unsure(store))))
    }

    /// Keys that are there, and some that are not.
    fn asked() -> Vec<B256> {
        (400..600).map(key).collect()
    }

    fn ways<'a>(
        tries: &'a [(Owner, CowTrie<SlotValue>)],
        keys: &'a [B256],
    ) -> impl Iterator<Item = Way<'a, SlotValue>> {
        tries.iter().flat_map(move |(owner, trie)| {
            keys.iter().map(move |key| Way { owner: *owner, trie, key: *key })
        })
    }

    #[test]
    fn paths_of_many_tries_are_loaded_in_a_few_calls() {
        let (whole, store) = stored();
        let none = Memory::default();
        let tries = OWNERS.map(|owner| (owner, CowTrie::<SlotValue>::stored(whole.root())));
        let (keys, rows_of) = (asked(), |owner| TABLES.rows_of(&store, owner));
        TABLES.load_paths(&store, ways(&tries, &keys), rows_of, 2).unwrap();
        // A call for each table, and levels by threes.
        let calls = store.made().all();
        assert!((2..=6).contains(&calls), "{calls}");
        TABLES.load_paths(&store, ways(&tries, &keys), rows_of, 2).unwrap();
        assert_eq!(store.made().all(), calls, "all of it is in memory");
        for (_, trie) in &tries {
            for key in &keys {
                assert_eq!(trie.get(key, &none, 2).unwrap(), whole.get(key, &none, 2).unwrap());
            }
        }
    }

    /// Rows that were given are not read, and a leaf that they call a node is found nevertheless.
    #[test]
    fn rows_that_were_given_come_first() {
        let (whole, store) = stored();
        let (keys, rows) = (asked(), Memory::of(&whole));
        for (lies, calls) in [(false, 0..=0), (true, 1..=usize::MAX)] {
            let before = store.made().all();
            let given = if lies { all_called_nodes(&whole, &rows) } else { rows.named() };
            let tries = [(None, CowTrie::<SlotValue>::stored(whole.root()))];
            let rows_of = |_| Given { stored: rows.clone(), given: &given };
            TABLES.load_paths(&store, ways(&tries, &keys), rows_of, 2).unwrap();
            let found = store.made().all() - before;
            assert!(calls.contains(&found), "{found}");
            for key in &keys {
                let none = Memory::default();
                assert_eq!(
                    tries[0].1.get(key, &none, 2).unwrap(),
                    whole.get(key, &none, 2).unwrap()
                );
            }
        }
    }

    #[test]
    fn wrong_answers_are_asked_for_again_together() {
        let (whole, store) = stored();
        let tries = OWNERS.map(|owner| (owner, CowTrie::<SlotValue>::stored(whole.root())));
        let keys = asked();
        let rows_of = |owner| Doubted(TABLES.rows_of(&store, owner));
        TABLES.load_paths(&store, ways(&tries, &keys), rows_of, 2).unwrap();
        let calls = store.made().all();
        assert!((3..=10).contains(&calls), "{calls}");
        for (_, trie) in &tries {
            for key in &keys {
                let none = Memory::default();
                assert_eq!(trie.get(key, &none, 2).unwrap(), whole.get(key, &none, 2).unwrap());
            }
        }
    }

    #[test]
    fn a_row_that_is_lost_is_noticed() {
        let (whole, store) = stored();
        set_row(&store.inner.0, ACCOUNTS, &[4], None);
        let tries = [(None, CowTrie::<SlotValue>::stored(whole.root()))];
        let (keys, rows_of) = (asked(), |owner| TABLES.rows_of(&store, owner));
        let loaded = TABLES.load_paths(&store, ways(&tries, &keys), rows_of, 2);
        let lost = Nibbles::from_nibbles([4]);
        assert!(matches!(loaded, Err(TrieError::Missing { path }) if path == lost), "{loaded:?}");
    }
}
