//! The account trie, which belongs to the first worker.

use super::{effort::Effort, message::LeafWrite};
use alloy_primitives::{B256, map::B256HashMap};
use polytrie_kv::Batch;
use polytrie_state::{Account, Result, corrupt};
use polytrie_trie::{AccountLeaf, EMPTY_ROOT, LeafChange, Prefetcher, Trie};

/// An account's hash and the change of its leaf.
type Change = (B256, LeafChange);

#[derive(Debug)]
pub(super) struct Accounts {
    trie: Trie<AccountLeaf>,
    /// The new values of accounts whose slots did not change in the block, if the trie does not have them yet.
    log: B256HashMap<Option<Account>>,
    /// The new values of accounts whose slots changed: their leaves wait for storage roots.
    waiting: B256HashMap<Option<Account>>,
    /// Rows of the block that were made ahead of its end.
    rows: Batch,
    effort: Effort,
    /// Whether the block in progress has changed an account.
    changed: bool,
}

impl Accounts {
    pub(super) fn stored(root: B256) -> Self {
        Self {
            trie: Trie::stored(root),
            log: B256HashMap::default(),
            waiting: B256HashMap::default(),
            rows: Batch::new(),
            effort: Effort::default(),
            changed: false,
        }
    }

    pub(super) const fn begin(&mut self, turn: u32) {
        self.trie.set_block(turn);
    }

    /// Notes the new value of an account; the trie is updated later.
    pub(super) fn write(&mut self, write: &LeafWrite) {
        self.changed = true;
        if write.storage || self.waiting.contains_key(&write.account) {
            self.log.remove(&write.account);
            self.waiting.insert(write.account, write.after);
        } else {
            self.log.insert(write.account, write.after);
        }
    }

    /// Returns the nibble from which on the path to an account is missing in memory; `None` if nothing is missing.
    pub(super) fn missing(&mut self, account: &B256) -> Option<usize> {
        self.trie.missing(account)
    }

    /// Returns the written accounts that the trie does not have yet and whose paths are not completely in memory,
    /// with the nibble from which on each is missing.
    pub(super) fn still_missing(&mut self) -> Vec<(B256, usize)> {
        let Self { trie, log, waiting, .. } = self;
        let written = log.keys().chain(waiting.keys());
        written.filter_map(|account| Some((*account, trie.missing(account)?))).collect()
    }

    /// Returns the trie's leaf of an account, if the path to it is in memory.
    pub(super) fn known(&mut self, account: &B256) -> Option<Option<AccountLeaf>> {
        self.trie.known(account).map(Option::<&AccountLeaf>::copied)
    }

    /// Returns the root of an account's storage, if it is in memory; valid as long as the block in progress has not
    /// changed the storage.
    pub(super) fn known_storage_root(&mut self, account: &B256) -> Option<B256> {
        Some(self.trie.known(account)?.map_or(EMPTY_ROOT, |leaf| leaf.storage_root))
    }

    /// Returns the trie's leaf of an account, and reads the path to it into memory.
    pub(super) fn get(
        &mut self,
        account: &B256,
        source: &Prefetcher,
    ) -> Result<Option<AccountLeaf>> {
        Ok(self.trie.get(account, &source.rows(None))?.copied())
    }

    /// Updates the trie with the noted accounts, and makes rows of subtrees that will hardly change again in this
    /// block. Returns whether there was anything to do.
    pub(super) fn work_ahead(&mut self, source: &Prefetcher) -> Result<bool> {
        if self.log.is_empty() {
            return Ok(false);
        }
        let mut changes = self.taken();
        changes.sort_unstable_by_key(|(account, _)| *account);
        let applied = changes.len();
        self.effort.add(applied);
        self.trie.update(&changes, &source.rows(None))?;
        if let Some(depth) = self.effort.depth() {
            let rows = crate::TRIE.account_sink(std::mem::take(&mut self.rows));
            self.rows = self.trie.commit_below(depth, rows).into_inner();
        }
        Ok(applied > 0)
    }

    /// Takes the accounts out of the log as changes of the trie, in no order.
    fn taken(&mut self) -> Vec<Change> {
        let change = |(hash, account)| (hash, LeafChange { account, storage_root: None });
        self.log.drain().map(change).collect()
    }

    /// Updates the trie with all noted accounts and these storage roots, and computes the root; at the end of the
    /// block rows are added to `rows`.
    pub(super) fn seal(
        &mut self,
        roots: &B256HashMap<B256>,
        source: &Prefetcher,
        rows: Option<&mut Batch>,
    ) -> Result<B256> {
        let mut changes = self.taken();
        self.effort.add(changes.len());
        for (hash, account) in &self.waiting {
            let storage_root = roots.get(hash).copied();
            if account.is_some() && storage_root.is_none() {
                return Err(corrupt!("account {hash}: a storage trie did not say its root"));
            }
            changes.push((*hash, LeafChange { account: *account, storage_root }));
        }
        changes.sort_unstable_by_key(|(account, _)| *account);
        self.trie.update(&changes, &source.rows(None))?;
        let Some(rows) = rows else { return Ok(self.trie.root()) };
        if !self.rows.is_empty() {
            rows.absorb(std::mem::take(&mut self.rows));
        }
        let all = crate::TRIE.account_sink(std::mem::take(rows));
        let (root, all) = self.trie.commit(all);
        *rows = all.into_inner();
        self.effort.end();
        Ok(root)
    }

    /// Ends the block; returns whether it changed an account.
    pub(super) fn end(&mut self) -> bool {
        self.waiting.clear();
        std::mem::take(&mut self.changed)
    }

    /// Goes back to `root`, which the store holds, if `void` says that later blocks changed the trie, or if the block
    /// in progress did.
    pub(super) fn forget(&mut self, void: bool, root: B256, turn: u32) {
        if void || self.changed {
            *self = Self::stored(root);
            self.begin(turn);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.trie.bytes()
    }

    /// Drops from memory the nodes that were not touched in the last `keep` turns.
    pub(super) fn evict(&mut self, keep: u32) {
        self.trie.evict(keep);
    }
}
