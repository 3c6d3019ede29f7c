//! Engines that wrap another engine.

use polytrie_kv::{Changes, Engine, KvError, View};
use std::{fmt::Debug, path::PathBuf};

/// An engine that changes some operations of another one and passes the rest on, by means of
/// [`wrapped!`](crate::wrapped).
pub trait Wrapped: Debug + Send + Sync + 'static {
    /// Returns the wrapped engine.
    fn inner(&self) -> &dyn Engine;

    /// Implements [`Engine::view`].
    ///
    /// # Errors
    ///
    /// Those of [`Engine::view`].
    fn on_view(&self) -> Result<Box<dyn View>, KvError> {
        self.inner().view()
    }

    /// Implements [`Engine::write`].
    ///
    /// # Errors
    ///
    /// Those of [`Engine::write`].
    fn on_write(&self, changes: &dyn Changes) -> Result<(), KvError> {
        self.inner().write(changes)
    }

    /// Implements [`Engine::row_cache_bytes`].
    fn kept_rows(&self) -> usize {
        self.inner().row_cache_bytes()
    }

    /// Implements [`Engine::is_remote`].
    fn is_elsewhere(&self) -> bool {
        self.inner().is_remote()
    }

    /// Implements [`Engine::is_read_only`].
    fn takes_nothing(&self) -> bool {
        self.inner().is_read_only()
    }

    /// Implements [`Engine::lost`].
    fn loss(&self) -> Option<KvError> {
        self.inner().lost()
    }

    /// Implements [`Engine::journal_dir`].
    fn journal(&self) -> Option<PathBuf> {
        None
    }
}

/// Makes an [`Engine`] of a type that is [`Wrapped`].
#[macro_export]
macro_rules! wrapped {
    ($wrapper:ty $(, $($parameter:tt)*)?) => {
        impl$(<$($parameter)*>)? $crate::kv::Engine for $wrapper {
            fn name(&self) -> &'static str {
                $crate::Wrapped::inner(self).name()
            }

            fn view(&self) -> Result<Box<dyn $crate::kv::View>, $crate::kv::KvError> {
                $crate::Wrapped::on_view(self)
            }

            fn write(&self, changes: &dyn $crate::kv::Changes) -> Result<(), $crate::kv::KvError> {
                $crate::Wrapped::on_write(self, changes)
            }

            fn row_cache_bytes(&self) -> usize {
                $crate::Wrapped::kept_rows(self)
            }

            fn is_remote(&self) -> bool {
                $crate::Wrapped::is_elsewhere(self)
            }

            fn is_read_only(&self) -> bool {
                $crate::Wrapped::takes_nothing(self)
            }

            fn lost(&self) -> Option<$crate::kv::KvError> {
                $crate::Wrapped::loss(self)
            }

            fn journal_dir(&self) -> Option<std::path::PathBuf> {
                $crate::Wrapped::journal(self)
            }

            fn scratch_dir(&self) -> Option<std::path::PathBuf> {
                $crate::Wrapped::inner(self).scratch_dir()
            }

            fn settle(&self) -> Result<(), $crate::kv::KvError> {
                $crate::Wrapped::inner(self).settle()
            }

            fn disk_bytes(&self) -> Result<u64, $crate::kv::KvError> {
                $crate::Wrapped::inner(self).disk_bytes()
            }

            fn table_stats(&self, table: $crate::kv::Table) -> Result<$crate::kv::TableStats, $crate::kv::KvError> {
                $crate::Wrapped::inner(self).table_stats(table)
            }
        }
    };
}
