//! Writing the rows of many storage tries: the stored rows that this needs are read together.

use super::{CowTrie, fresh::AT_A_TIME};
use crate::{Nibbles, Owner, Result, RowSource, Rows, SlotValue, TrieTables};
use alloy_primitives::{B256, map::HashMap};
use polytrie_kv::{Batch, Read, Values};

/// Rows by trie and path; `None` where there is none.
type Found = HashMap<(Owner, Nibbles), Option<Vec<u8>>>;

impl TrieTables {
    /// Adds to a batch what brings the rows of an older version of storage tries up to these, each with its account and the
    /// paths that it lost, as [`CowTrie::write_since`] does. `store` has the rows of the older version.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub fn write_storages_since<'a>(
        &self,
        since: u64,
        storages: impl IntoIterator<Item = (B256, &'a CowTrie<SlotValue>, Vec<Nibbles>)>,
        store: &dyn Read,
        mut batch: Batch,
    ) -> Result<Batch> {
        let mut storages = storages.into_iter().peekable();
        while storages.peek().is_some() {
            let (mut some, mut paths) = (Vec::new(), Vec::new());
            while paths.len() < AT_A_TIME
                && let Some((owner, trie, gone)) = storages.next()
            {
                let doubtful = trie.doubtful_since(since);
                // A trie with more of them has its own portions.
                if doubtful.len() <= AT_A_TIME {
                    paths.extend(doubtful.iter().map(|(path, _)| (Some(owner), *path)));
                }
                some.push((owner, trie, gone, doubtful));
            }
            paths.sort_unstable();
            let rows = self.get_many(store, &paths, true)?;
            let found: Found = paths.into_iter().zip(rows).collect();
            for (owner, trie, gone, doubtful) in some {
                let rest = self.storage_rows(store, owner);
                let rows = ReadBefore { owner, found: &found, rest };
                let mut sink = self.storage_sink(batch, owner);
                trie.write_knowing(doubtful, since, &gone, &rows, &mut sink)?;
                batch = sink.into_inner();
            }
        }
        Ok(batch)
    }
}

/// The rows of a trie of which some were read before, and may be older ones.
struct ReadBefore<'a> {
    owner: B256,
    found: &'a Found,
    rest: Rows<&'a dyn Read>,
}

impl RowSource for ReadBefore<'_> {
    fn load(&self, path: &Nibbles, out: &mut Vec<u8>) -> Result<bool> {
        self.rest.load(path, out)
    }

    fn load_many(&self, paths: &[Nibbles], is_doubted: bool) -> Result<Values> {
        let found = |path: &Nibbles| self.found.get(&(Some(self.owner), *path)).cloned();
        let known: Option<Vec<_>> =
            if is_doubted { paths.iter().map(found).collect() } else { None };
        match known {
            Some(rows) => Ok(rows),
            None => self.rest.load_many(paths, is_doubted),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::cow::tests::{Given, Memory, all_called_nodes};
    use alloy_primitives::{U256, keccak256};
    use polytrie_kv::{KeyRange, Store, Table};
    use polytrie_kv_testing::{Requests, entries};

    const ACCOUNTS: Table = Table::new(1, "Accounts", 64);
    const STORAGE: Table = Table::new(2, "Storage", 96);
    const TABLES: TrieTables = TrieTables::new(ACCOUNTS, STORAGE);
    const OWNERS: [B256; 3] =
        [B256::repeat_byte(0x11), B256::repeat_byte(0x22), B256::repeat_byte(0xee)];

    /// Returns changes of each `step`th of `count` keys.
    fn changes(count: u64, step: usize, value: u64) -> Vec<(B256, Option<SlotValue>)> {
        let key = |n: u64| keccak256(n.to_be_bytes());
        let value = Some(SlotValue(U256::from(value)));
        let mut changes: Vec<_> = (0..count).step_by(step).map(|n| (key(n), value)).collect();
        changes.sort_unstable_by_key(|(key, _)| *key);
        changes
    }

    /// Writes the new nodes of a trie as those of each owner.
    fn write(store: &Store, trie: &CowTrie<SlotValue>, since: u64) {
        for owner in OWNERS {
            let mut sink = TABLES.storage_sink(Batch::new(), owner);
            trie.write_since(since, &[], &Memory::default(), &mut sink).unwrap();
            store.write(sink.into_inner()).unwrap();
        }
    }

    /// Changes each `step`th of the `count` keys of some tries. The rows of these tries were given, and what the change writes
    /// must equal what it writes for tries without given rows. Returns the number of calls of the store, and the most rows of one.
    fn calls_and_most_rows(count: u64, step: usize) -> (usize, usize) {
        let mut whole = CowTrie::<SlotValue>::empty();
        whole.update(&changes(count, 1, 2), &Memory::default(), 1, &mut Vec::new()).unwrap();
        let stored = Memory::of(&whole);
        let [plain, store] = [(); 2].map(|()| Store::memory(&[ACCOUNTS, STORAGE]).unwrap());
        write(&plain, &whole, 0);
        write(&store, &whole, 0);
        let (given, some) = (all_called_nodes(&whole, &stored), changes(count, step, 3));
        let source = Given { stored, given: &given };
        let heads = OWNERS.map(|owner| {
            let mut head = CowTrie::<SlotValue>::stored(whole.root());
            head.update(&some, &source, 2, &mut Vec::new()).unwrap();
            (owner, head)
        });
        let asked = Requests::new(&store);
        let storages = heads.iter().map(|(owner, head)| (*owner, head, Vec::new()));
        let batch = TABLES.write_storages_since(1, storages, &asked, Batch::new()).unwrap();
        store.write(batch).unwrap();
        whole.update(&some, &Memory::default(), 2, &mut Vec::new()).unwrap();
        write(&plain, &whole, 1);
        let [expected, found] =
            [&plain, &store].map(|store| entries(store, STORAGE, KeyRange::ALL));
        assert!(found == expected, "other rows");
        (asked.made().all(), asked.made().most_keys())
    }

    #[test]
    fn rows_of_many_tries_that_were_given_are_checked_with_one_call() {
        assert_eq!(calls_and_most_rows(200, 9).0, 1);
    }

    #[test]
    fn a_trie_with_many_rows_that_were_given_has_them_checked_in_portions() {
        // Some 1,300 branches of each trie have a child that changed and one that did not.
        let (calls, most) = calls_and_most_rows(6_000, 3);
        assert_eq!((calls, most), (2 * OWNERS.len(), AT_A_TIME));
    }
}
