//! Engines around another one.

use crate::{Changes, Engine, KvError, Table, TableStats, View};
use std::{fmt::Debug, path::PathBuf};

/// An engine that does one thing in its own way and hands the rest on to another.
pub trait Wrapped: Debug + Send + Sync + 'static {
    /// The other one.
    fn inner(&self) -> &dyn Engine;

    /// What [`Engine::view`] does.
    ///
    /// # Errors
    ///
    /// As that.
    fn on_view(&self) -> Result<Box<dyn View>, KvError> {
        self.inner().view()
    }

    /// What [`Engine::write`] does.
    ///
    /// # Errors
    ///
    /// As that.
    fn on_write(&self, changes: &dyn Changes) -> Result<(), KvError> {
        self.inner().write(changes)
    }

    /// What [`Engine::row_cache_bytes`] says.
    fn kept_rows(&self) -> usize {
        self.inner().row_cache_bytes()
    }

    /// What [`Engine::is_read_only`] says.
    fn takes_nothing(&self) -> bool {
        self.inner().is_read_only()
    }

    /// What [`Engine::journal_dir`] says.
    fn journal(&self) -> Option<PathBuf> {
        None
    }
}

impl<T: Wrapped> Engine for T {
    fn name(&self) -> &'static str {
        self.inner().name()
    }

    fn view(&self) -> Result<Box<dyn View>, KvError> {
        self.on_view()
    }

    fn write(&self, changes: &dyn Changes) -> Result<(), KvError> {
        self.on_write(changes)
    }

    fn row_cache_bytes(&self) -> usize {
        self.kept_rows()
    }

    fn is_read_only(&self) -> bool {
        self.takes_nothing()
    }

    fn journal_dir(&self) -> Option<PathBuf> {
        self.journal()
    }

    fn scratch_dir(&self) -> Option<PathBuf> {
        self.inner().scratch_dir()
    }

    fn disk_bytes(&self) -> Result<u64, KvError> {
        self.inner().disk_bytes()
    }

    fn table_stats(&self, table: Table) -> Result<TableStats, KvError> {
        self.inner().table_stats(table)
    }
}
