//! The opening of a database.

use crate::{RocksEngine, engine::Database, error::convert};
use polytrie_kv::{AtPath, Result, Table, create_dir};
use rocksdb::{BlockBasedIndexType, BlockBasedOptions, Cache, DB, DBCompressionType, Options};
use std::{path::PathBuf, sync::Arc};

/// The file that names the newest state; RocksDB creates it with the database.
const CURRENT_FILE: &str = "CURRENT";
/// Bits a key of the filter that shows which keys a file does not have. About one answer in a hundred is wrong.
const FILTER_BITS: f64 = 10.0;
/// Largest size in bytes of RocksDB's own log file.
const LOG_BYTES: usize = 1 << 20;

/// The options for opening a RocksDB database.
#[derive(Debug, Clone)]
pub struct RocksOptions {
    /// Directory of the database, created with its parents when missing.
    pub path: PathBuf,
    /// All tables that the caller will use.
    pub tables: Vec<Table>,
    /// Whether the database is opened without the right to write. It must exist; tables that it lacks read as empty.
    pub read_only: bool,
    /// Whether a write is on disk when it returns. `false` is for throw-away data only.
    pub durable: bool,
    /// Whether reads and writes bypass the cache of the operating system, so that the caches here are all the memory
    /// that reads have. Not every file system supports this.
    pub direct_io: bool,
    /// Bytes of caches: a quarter for recently read rows, the rest for blocks, indexes and filters.
    pub cache_bytes: usize,
    /// Bytes of writes that are kept in memory, all tables together, before they go to a sorted file.
    pub write_buffer_bytes: usize,
}

impl RocksOptions {
    /// Returns options for a database that is writable and durable, with 256 MiB of caches, 64 MiB of write buffers
    /// and no direct I/O.
    pub fn new(path: impl Into<PathBuf>, tables: &[Table]) -> Self {
        Self {
            path: path.into(),
            tables: tables.to_vec(),
            read_only: false,
            durable: true,
            direct_io: false,
            cache_bytes: 256 << 20,
            write_buffer_bytes: 64 << 20,
        }
    }

    /// Bytes of rows that the store caches. A row that is read ahead takes a tenth of the memory of its block, so
    /// that many times as many rows are still cached when they are needed.
    pub(crate) const fn row_cache_bytes(&self) -> usize {
        self.cache_bytes / 4
    }
}

impl RocksEngine {
    /// Opens a database, or creates it.
    ///
    /// # Errors
    ///
    /// [`DuplicateTable`](polytrie_kv::KvError::DuplicateTable); [`Io`](polytrie_kv::KvError::Io) for a directory that
    /// cannot be used; [`InUse`](polytrie_kv::KvError::InUse) if another process, or this one, has it open;
    /// [`Corrupt`](polytrie_kv::KvError::Corrupt); [`DiskFull`](polytrie_kv::KvError::DiskFull).
    pub fn open(options: RocksOptions) -> Result<Self> {
        let RocksOptions { path, tables, .. } = &options;
        Table::expect_distinct(tables)?;
        let current = path.join(CURRENT_FILE);
        if options.read_only {
            // RocksDB would report a missing file without its name.
            std::fs::metadata(&current).at("open", &current)?;
        } else {
            // RocksDB makes its files durable, but not the name of their directory.
            create_dir(path).at("create", path)?;
        }
        let db = open(&options, current.exists()).map_err(|e| convert("opening", path, e))?;
        Ok(Self { db: Arc::new(Database { db, options }) })
    }
}

fn open(options: &RocksOptions, exists: bool) -> Result<DB, rocksdb::Error> {
    let path = &options.path;
    let general = general_options(options);
    // A database must be opened with all its column families, even those of tables that this program does not know.
    let mut names = if exists { DB::list_cf(&general, path)? } else { Vec::new() };
    if !options.read_only {
        for table in &options.tables {
            if !names.iter().any(|name| name == table.name) {
                names.push(table.name.to_owned());
            }
        }
    }
    let table_options = table_options(options);
    let families = names.iter().map(|name| (name, table_options.clone()));
    if options.read_only {
        DB::open_cf_with_opts_for_read_only(&general, path, families, false)
    } else {
        DB::open_cf_with_opts(&general, path, families)
    }
}

/// Returns the options of the database as a whole.
fn general_options(options: &RocksOptions) -> Options {
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get());
    let mut general = Options::default();
    general.create_if_missing(true);
    general.create_missing_column_families(true);
    general.increase_parallelism(i32::try_from(threads).unwrap_or(i32::MAX));
    general.set_db_write_buffer_size(options.write_buffer_bytes);
    general.set_use_direct_reads(options.direct_io);
    general.set_use_direct_io_for_flush_and_compaction(options.direct_io);
    // RocksDB's own log is of use only to its developers.
    general.set_max_log_file_size(LOG_BYTES);
    general.set_keep_log_file_num(2);
    general.set_stats_dump_period_sec(0);
    general
}

/// Returns the options of each table.
fn table_options(options: &RocksOptions) -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&Cache::new_lru_cache(options.cache_bytes - options.row_cache_bytes()));
    blocks.set_bloom_filter(FILTER_BITS, false);
    // Indexes and filters count as part of the cache, where they are bounded.
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_cache_index_and_filter_blocks_with_high_priority(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    // Indexes and filters are split into parts: those of a large file are half a megabyte, and a cache that cannot
    // hold them all would read that much for one row.
    blocks.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
    blocks.set_partition_filters(true);
    blocks.set_pin_top_level_index_and_filter(true);
    let mut table = Options::default();
    table.set_block_based_table_factory(&blocks);
    table.set_compression_type(DBCompressionType::Lz4);
    table.set_write_buffer_size(options.write_buffer_bytes);
    table
}
