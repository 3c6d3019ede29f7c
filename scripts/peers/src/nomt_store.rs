//! NOMT: keys go into its trie as they are, which saves it the hash that a key costs in Ethereum's trie.

use crate::{Arguments, Key, Value};
use anyhow::{Context, Result};
use nomt::{KeyReadWrite, Options, Session, SessionParams, hasher::Blake3Hasher};

/// Buckets of its hash table a key: enough that the table stays less than half full.
const BUCKETS: u64 = 64_000;

pub(crate) struct Nomt {
    store: nomt::Nomt<Blake3Hasher>,
    /// Reads and warms up the block under way.
    session: Option<Session<Blake3Hasher>>,
}

impl Nomt {
    pub(crate) fn open(arguments: &Arguments) -> Result<Self> {
        let mut options = Options::new();
        options.path(&arguments.dir);
        options.commit_concurrency(arguments.threads);
        options.warm_up(true);
        options.hashtable_buckets(u32::try_from(BUCKETS.max(arguments.keys / 4))?);
        options.page_cache_size(arguments.cache_mib / 2);
        options.leaf_cache_size(arguments.cache_mib / 2);
        options.bitbox_seed([7; 16]);
        let store = nomt::Nomt::open(options).context("cannot open NOMT")?;
        Ok(Self { store, session: None })
    }

    /// The value now; `None` if the key is not there.
    pub(crate) fn read(&mut self, key: &Key) -> Result<Option<Value>> {
        let store = &self.store;
        let session =
            self.session.get_or_insert_with(|| store.begin_session(SessionParams::default()));
        session.warm_up(*key);
        let found = session.read(*key)?;
        found.map(|bytes| Value::try_from(bytes).ok().context("a value is 32 bytes")).transpose()
    }

    /// Sets values, each key once and in order, and computes the root. Durable when it returns.
    pub(crate) fn commit(&mut self, writes: Vec<(Key, Value)>) -> Result<()> {
        let session = match self.session.take() {
            Some(session) => session,
            None => self.store.begin_session(SessionParams::default()),
        };
        let changes = writes.into_iter();
        let changes = changes.map(|(key, value)| (key, KeyReadWrite::Write(Some(value.to_vec()))));
        session.finish(changes.collect())?.commit(&self.store)
    }
}
