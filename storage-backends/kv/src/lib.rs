//! The key-value seam of polytrie.
//!
//! An [`Engine`] is thin: ordered byte tables, a consistent [`View`], one atomic durable write. Everything
//! that would otherwise be written once per engine stands above it in [`Store`]: the overlay of blocks that
//! are not flushed yet, snapshots, background flushing, counters, poisoning after a failed write. A new
//! engine is therefore one file (or one crate, where it drags a C++ build along).
//!
//! The arrows point down: this crate knows nothing of accounts, tries or blocks.

mod batch;
mod checksum;
mod chunk;
mod codec;
mod confirmed;
mod counters;
mod debug;
pub mod disk;
mod engine;
mod error;
mod flush;
mod fork;
mod journal;
mod live;
mod lock;
mod mdbx;
mod memory;
mod options;
mod overlay;
mod own_reads;
mod read;
mod recent;
mod scratch;
mod shard;
mod snapshot;
mod sorter;
mod store;
mod table;
mod threads;
mod versions;
mod writing;

pub use batch::{Batch, Changes, Op};
pub use checksum::{append_checksum, strip_checksum};
pub use codec::take_array;
pub use confirmed::{Durable, is_confirmed};
pub use counters::CountersSnapshot;
pub use disk::{create_dir, dir_bytes, write_whole};
pub use engine::{Engine, TableStats, View};
pub use error::{AtPath, KvError, Result};
pub use live::{Live, LiveSet, Ticket};
pub use lock::DirLock;
pub use mdbx::{MdbxEngine, MdbxOptions};
pub use memory::MemoryEngine;
pub use options::{Durability, StoreOptions};
pub use own_reads::EngineReads;
pub use read::{Entry, KeyRange, Read, Values, Visit, prefix_end, with_row};
pub use scratch::{Part, Scratch};
pub use snapshot::Snapshot;
pub use sorter::{Run, Sortable, Sorter};
pub use store::{Pending, Progress, Store};
pub use table::Table;
pub use threads::{Panicked, Worker, caught, expect_threads};
pub use versions::{Older, Versions};
