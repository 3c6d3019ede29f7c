//! The search for damage.
//!
//! Every byte of every row is bound by another row: records and trees by the hash of their tuple, tuples by the
//! history, the history by itself and the head row, entries by the records. The commitments of all trees are computed
//! again from the versions, and so are the nodes that are kept for witnesses.

use crate::{
    ACCOUNTS, ENTRIES, EPOCHS, HISTORY, LEAVES, SLOTS, TREES,
    account::AccountState,
    allocation::references,
    history::{History, read_node},
    kept::{self, Share},
    key::Key,
    log::{Chunk, Epoch},
    merkle::{IN_HISTORY, node},
    path::{Path, entry_index, entry_row_key},
    prove::leaf_at,
    record::{KeyRecord, read_slot_value},
    trees::{LvmtHead, Tree},
};
use alloy_primitives::B256;
use polytrie_amt::{Entry, G1Affine, SLOTS as AMT_SLOTS, Setup, Versions, commit, sum_groups};
use polytrie_kv::{KeyRange, Read};
use polytrie_state::{CheckReport, Result, StateError, each_row};
use std::collections::{BTreeMap, HashMap};

/// Number of versions that are gathered before they are converted to points.
const GATHERED: usize = 1 << 18;

pub(crate) fn check(
    store: &dyn Read,
    setup: &Setup,
    head: &LvmtHead,
    share: Option<Share>,
    progress: &mut dyn FnMut(u64),
) -> Result<CheckReport> {
    let mut scrub = Scrub {
        store,
        setup,
        report: CheckReport::default(),
        sums: Sums::default(),
        leaves: None,
        named: 0,
    };
    let found = scrub
        .run(head.history.size(), progress)
        .and_then(|()| kept::check(store, setup, head, share, &mut scrub.report));
    match found {
        // A row that does not decode is a problem as well, and ends the search.
        Err(StateError::Corrupt(problem)) => scrub.report.problem(problem),
        other => other?,
    }
    Ok(scrub.report)
}

struct Scrub<'a> {
    store: &'a dyn Read,
    setup: &'a Setup,
    report: CheckReport,
    sums: Sums,
    /// The chunk of tuples that was read last.
    leaves: Option<((u64, u32), Chunk)>,
    /// Number of records in the slot that their entry names.
    named: u64,
}

impl Scrub<'_> {
    fn run(&mut self, epochs: u64, progress: &mut dyn FnMut(u64)) -> Result<()> {
        self.report.check_codes(self.store)?;
        self.history(epochs)?;
        self.accounts(progress)?;
        self.slots()?;
        self.entries()?;
        self.trees()
    }

    /// Checks that tuples lead to epochs and epochs to the root, and that there are no further rows.
    fn history(&mut self, size: u64) -> Result<()> {
        for number in 0..size {
            let epoch = Epoch::read(self.store, number)?;
            if read_node(self.store, 0, number)? != epoch.root() {
                self.report.problem(format!("epoch {number} is not the one in the history"));
            }
            for (chunk, root) in epoch.chunks.iter().enumerate() {
                let len = epoch.chunk_len(chunk);
                let found = Chunk::read(self.store, number, chunk as u32, len)?.root();
                if found != Some(*root) {
                    self.report.problem(format!(
                        "chunk {chunk} of epoch {number} does not lead to its root"
                    ));
                }
            }
            self.report.nodes += epoch.chunks.len() as u64;
        }
        let mut level = 0;
        while size >> (level + 1) > 0 {
            for index in 0..size >> (level + 1) {
                let [left, right] = [0, 1].map(|n| read_node(self.store, level, 2 * index + n));
                let expected = node(IN_HISTORY, &left?, &right?);
                if read_node(self.store, level + 1, index)? != expected {
                    self.report.problem(format!(
                        "node {index} of level {} of the history is not the hash of those below",
                        level + 1
                    ));
                }
            }
            level += 1;
        }
        History::load(self.store, size)?;
        let nodes: u64 = (0..u64::BITS).map(|level| size >> level).sum();
        self.report.expect_rows(self.store, HISTORY, nodes)?;
        self.report.expect_rows(self.store, EPOCHS, size)?;
        self.report.expect_rows(self.store, LEAVES, self.report.nodes)
    }

    fn accounts(&mut self, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let store = self.store;
        each_row(store, ACCOUNTS, KeyRange::ALL, |key, row| {
            let (key, record) = (Key::from_row(ACCOUNTS, key)?, KeyRecord::read(row)?);
            self.record(&key, &record)?;
            let Some(account) = AccountState::read(&record.value)?.account else { return Ok(()) };
            self.report.count_account(progress);
            self.report.check_code_is_there(store, format_args!("{key:?}"), &account)?;
            Ok(())
        })?;
        progress(self.report.accounts);
        Ok(())
    }

    fn slots(&mut self) -> Result<()> {
        let store = self.store;
        let mut owner: Option<(B256, AccountState)> = None;
        each_row(store, SLOTS, KeyRange::ALL, |key, row| {
            let (key, record) = (Key::from_row(SLOTS, key)?, KeyRecord::read(row)?);
            self.record(&key, &record)?;
            let Key::Slot { account, incarnation, .. } = key else { return Ok(()) };
            if owner.is_none_or(|(known, _)| known != account) {
                let record = crate::read::read_record(store, &Key::Account(account))?;
                owner = Some((account, crate::read::state_of(record.as_ref())?));
            }
            let state = owner.map_or_else(AccountState::default, |(_, state)| state);
            if incarnation > state.incarnation {
                self.report.problem(format!("{key:?} is of an incarnation that has not begun"));
            }
            if incarnation == state.incarnation && !read_slot_value(&record.value)?.is_zero() {
                self.report.slots += 1;
                if state.account.is_none() {
                    self.report.problem(format!("{key:?} has a value, and no account"));
                }
            }
            Ok(())
        })
    }

    /// Checks that a record is that of its tuple, and has the slot that its entry gives it.
    fn record(&mut self, key: &Key, record: &KeyRecord) -> Result<()> {
        let height = self.setup.height();
        let position = key.position();
        if leaf_at(self.store, &record.at, &mut self.leaves)? != Some(record.leaf(&position)) {
            self.report.problem(format!("{key:?} is not what its tuple says"));
        }
        let level = record.place.level;
        let row = self.store.get(ENTRIES, &entry_row_key(height, level, &position))?;
        let row = row.unwrap_or_default();
        let mut own = Vec::new();
        key.write_reference(&mut own);
        let named = references(&row)?.into_iter().nth(usize::from(record.place.slot) - 1);
        if named == references(&own)?.into_iter().next() {
            self.named += 1;
        } else {
            self.report.problem(format!("{key:?} has a slot that its entry does not give it"));
        }
        let path = Path::of(height, level, &position);
        let index = entry_index(height, level, &position);
        self.sums.add(self.setup, path, index, usize::from(record.place.slot), record.version);
        Ok(())
    }

    /// Checks that entries name as many keys as there are.
    fn entries(&mut self) -> Result<()> {
        let mut named = 0;
        each_row(self.store, ENTRIES, KeyRange::ALL, |key, row| {
            Path::from_row_key(self.setup.height(), key)?;
            named += references(row)?.len() as u64;
            Ok(())
        })?;
        if named != self.named {
            let expected = self.named;
            self.report.problem(format!("the entries name {named} keys, expected {expected}"));
        }
        Ok(())
    }

    /// Checks that trees are those of their tuples, and that their commitments are those of the versions.
    fn trees(&mut self) -> Result<()> {
        let height = self.setup.height();
        let mut found: Vec<(Path, G1Affine)> = Vec::new();
        each_row(self.store, TREES, KeyRange::ALL, |key, row| {
            let path = Path::from_row_key(height, key)?;
            let tree = Tree::read(&path, row)?;
            found.push((path, tree.commitment));
            self.report.nodes += 1;
            if path == Path::ROOT {
                return Ok(());
            }
            if leaf_at(self.store, &tree.at, &mut self.leaves)? != Some(tree.leaf(&path)) {
                self.report.problem(format!("{path:?} is not what its tuple says"));
            }
            let above = Path::of(height, path.level - 1, &path.prefix);
            let index = entry_index(height, above.level, &path.prefix);
            self.sums.add(self.setup, above, index, 0, tree.version);
            Ok(())
        })?;
        let mut expected = std::mem::take(&mut self.sums).finish(self.setup);
        for (path, commitment) in found {
            if expected.remove(&path) != Some(commitment) {
                self.report.problem(format!("{path:?} does not commit to the versions below it"));
            }
        }
        if let Some(path) = expected.into_keys().min() {
            self.report.problem(format!("{path:?} is missing"));
        }
        Ok(())
    }
}

/// The commitments computed from versions, in portions.
#[derive(Default)]
struct Sums {
    gathered: BTreeMap<Path, BTreeMap<u32, Versions>>,
    count: usize,
    commitments: HashMap<Path, G1Affine>,
}

impl Sums {
    fn add(&mut self, setup: &Setup, path: Path, index: u32, slot: usize, version: u64) {
        let entry = self.gathered.entry(path).or_default().entry(index).or_insert([0; AMT_SLOTS]);
        // A slot comes twice only if rows are damaged; then the sum is wrong, as it should be.
        entry[slot] = entry[slot].wrapping_add(version);
        self.count += 1;
        if self.count >= GATHERED {
            self.settle(setup);
        }
    }

    fn settle(&mut self, setup: &Setup) {
        self.count = 0;
        for (path, entries) in std::mem::take(&mut self.gathered) {
            let entries: Vec<Entry> =
                entries.into_iter().map(|(index, versions)| Entry { index, versions }).collect();
            let part = commit(setup, &entries);
            let sum = self.commitments.entry(path).or_insert(polytrie_amt::identity());
            *sum = sum_groups(&[*sum, part], &[2])[0];
        }
    }

    fn finish(mut self, setup: &Setup) -> HashMap<Path, G1Affine> {
        self.settle(setup);
        self.commitments
    }
}
