//! MDBX, a memory-mapped B+tree with one writer and any number of readers.

mod check;
mod cursor;
mod error;
mod meta;
mod open;
mod row;
mod tally;
mod view;
mod write;

pub use open::MdbxOptions;

use crate::{
    Changes, Durable, Engine, KvError, Result, Table, TableStats, View, disk::dir_bytes,
    table::TableSet,
};
use error::Context;
use parking_lot::Mutex;
use row::Rows;
use signet_libmdbx::Environment;
use std::{path::PathBuf, sync::Arc};
use tally::TALLY_TABLE;
use view::{MdbxView, steadily};

/// Name of the engine on the command line and in errors.
const NAME: &str = "mdbx";
/// Name of the data file within the environment's directory; MDBX chooses it.
const DATA_FILE: &str = "mdbx.dat";
/// Bytes of a page. The length of the longest key depends on it.
const PAGE_BYTES: usize = 4 << 10;
/// Name of the file with the reader table; MDBX chooses it.
const LOCK_FILE: &str = "mdbx.lck";

/// MDBX: the default engine.
///
/// One environment in one directory, one named database a table. A write is one transaction, synced to disk
/// before it returns (unless [`MdbxOptions::durable`] is off). The map grows by itself up to
/// [`MdbxOptions::max_bytes`]; only address space is reserved for it.
///
/// A view pins the pages it reads until it is dropped, so the file grows while old views live. One process
/// may open a directory only once at a time.
#[derive(Debug)]
pub struct MdbxEngine {
    env: Environment,
    tables: Arc<Databases>,
    /// The lock that the one running write holds, so that a second one waits here rather than inside MDBX.
    writing: Mutex<()>,
    read_only: bool,
    durable: bool,
}

/// The open tables of an environment.
#[derive(Debug)]
struct Databases {
    set: TableSet,
    /// The rows of each table of `set`; `None` for a table that does not exist in an environment opened read-only.
    /// Such a table reads as empty.
    rows: Vec<Option<Rows>>,
    context: Context,
}

impl Databases {
    /// Returns the rows of a table.
    fn rows(&self, table: Table) -> Result<Option<&Rows>> {
        Ok(self.rows[self.set.position(table)?].as_ref())
    }

    /// Returns the tables that have a tally.
    fn counted(&self) -> impl Iterator<Item = Table> {
        let tables = self.set.as_slice().iter().copied();
        tables.filter(|table| *table != TALLY_TABLE)
    }
}

impl Engine for MdbxEngine {
    fn name(&self) -> &'static str {
        NAME
    }

    fn view(&self) -> Result<Box<dyn View>> {
        Ok(Box::new(MdbxView::new(&self.env, &self.tables, &self.writing)?))
    }

    fn write(&self, changes: &dyn Changes) -> Result<()> {
        if self.read_only {
            return Err(KvError::read_only(self.tables.context.path()));
        }
        let _writing = self.writing.lock();
        write::write(&self.env, &self.tables, changes)
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn journal_dir(&self) -> Option<PathBuf> {
        self.durable.then(|| self.tables.context.path().to_owned())
    }

    fn scratch_dir(&self) -> Option<PathBuf> {
        // An engine that is not durable holds scratch data itself.
        let is_kept = self.durable && !self.read_only;
        is_kept.then(|| self.tables.context.path().to_owned())
    }

    fn last_commit(&self) -> Result<Option<Durable>> {
        let pages = meta::MetaPages::read(self.tables.context.path())?;
        Ok(pages.and_then(|pages| pages.last_commit()))
    }

    fn disk_bytes(&self) -> Result<u64> {
        dir_bytes(self.tables.context.path())
    }

    fn table_stats(&self, table: Table) -> Result<TableStats> {
        let context = &self.tables.context;
        let Some(rows) = self.tables.rows(table)? else { return Ok(TableStats::default()) };
        let failed = |e| context.error("reading the size of a table", e);
        let tx = steadily(&self.env, || self.env.begin_ro_unsync())
            .map_err(|e| context.error("opening a view", e))?;
        let stat = tx.db_stat(&rows.database).map_err(failed)?;
        let pages = stat.branch_pages() + stat.leaf_pages() + stat.overflow_pages();
        Ok(TableStats {
            entries: stat.entries() as u64,
            bytes: pages as u64 * u64::from(stat.page_size()),
        })
    }
}
