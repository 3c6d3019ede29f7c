//! Firewood with the hashing of Ethereum. It has no commit that waits for the disk: its own thread persists
//! a revision later.

use crate::{Arguments, AuthenticatedStore, Key, Value};
use anyhow::{Context, Result};
use firewood::{
    api::{Db as _, DbView as _, Proposal as _},
    db::{BatchOp, Db, DbConfig, UseParallel},
    manager::RevisionManagerConfig,
};
use firewood_storage::NodeHashAlgorithm;
use std::{num::NonZeroUsize, sync::Arc};

pub(crate) struct Firewood {
    db: Db,
    /// The last committed revision, for the reads of a block.
    revision: Option<Arc<<Db as firewood::api::Db>::Historical>>,
}

impl Firewood {
    pub(crate) fn open(arguments: &Arguments) -> Result<Self> {
        let cache = NonZeroUsize::new(arguments.cache_mib << 20).context("a cache of no bytes")?;
        let manager = RevisionManagerConfig::builder().node_cache_memory_limit(cache).build();
        let config = DbConfig::builder()
            .node_hash_algorithm(NodeHashAlgorithm::Ethereum)
            .use_parallel(UseParallel::Always)
            .manager(manager)
            .build();
        let db = Db::new(&arguments.dir, config).context("cannot open Firewood")?;
        Ok(Self { db, revision: None })
    }
}

impl AuthenticatedStore for Firewood {
    fn read(&mut self, key: &Key) -> Result<Option<Value>> {
        let revision = match &self.revision {
            Some(revision) => revision,
            None => {
                let root = self.db.root_hash().context("the store is empty")?;
                self.revision.insert(self.db.revision(root)?)
            }
        };
        let found = revision.val(key)?;
        found.map(|bytes| Value::try_from(&bytes[..]).context("a value is 32 bytes")).transpose()
    }

    fn commit(&mut self, writes: Vec<(Key, Value)>) -> Result<()> {
        self.revision = None;
        let batch = writes.into_iter().map(|(key, value)| BatchOp::Put { key, value });
        self.db.propose(batch.collect::<Vec<_>>())?.commit()?;
        Ok(())
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.revision = None;
        self.db.close().context("cannot persist what was committed")
    }
}
