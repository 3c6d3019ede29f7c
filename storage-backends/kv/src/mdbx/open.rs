//! The opening of an environment.

use super::{
    DATA_FILE, Databases, LOCK_FILE, MdbxEngine, PAGE_BYTES, check, error,
    meta::MetaPages,
    row::Rows,
    tally::{TALLY_TABLE, expect_counts},
    view::steadily,
};
use crate::{
    AtPath, KvError, Result, Table,
    confirmed::Confirmed,
    disk::{create_dir, sync_dir},
    expect_threads,
    journal::JOURNAL_TABLE,
    table::TableSet,
};
use error::{Context, OPENING};
use parking_lot::Mutex;
use signet_libmdbx::{
    DatabaseFlags, Environment, EnvironmentBuilder, EnvironmentFlags, Geometry, MdbxError, Mode,
    SyncMode, sys::PageSize,
};
use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The largest map that MDBX can address with pages of this size (2^31 of them).
const MOST_BYTES: u64 = 8 << 40;
/// The smallest map that opening still tries to reserve where address space is limited.
const LEAST_BYTES: u64 = 1 << 30;
/// Readers of all views together: 32 live views of 32 readers.
const MAX_READERS: u64 = 1_024;
/// Number of entries of the list of free pages that a write may search for consecutive pages.
const FREE_LIST_LIMIT: u64 = 256 << 10;
/// Pages a write may hold in memory (256 MiB) before it begins to write them out.
const DIRTY_PAGES: u64 = 64 << 10;
/// Number of a write's pages in memory that are kept for the next write: having the system clear new pages takes
/// longer than filling them.
const SPARE_PAGES: u64 = DIRTY_PAGES;

/// The options for opening an MDBX environment.
#[derive(Debug, Clone)]
pub struct MdbxOptions {
    /// Directory of the environment, created with its parents when missing.
    pub path: PathBuf,
    /// All tables that the caller will use.
    pub tables: Vec<Table>,
    /// Whether the environment is opened without the right to write. It must exist; tables that it lacks read as
    /// empty.
    pub read_only: bool,
    /// Whether a write is on disk when it returns. `false` is for throw-away data only: a crash of the machine (not
    /// of the process) may then destroy everything.
    pub durable: bool,
    /// Whether to open the environment at the commit before, if a confirmed commit is missing or damaged.
    pub repair: bool,
    /// Whether every page and every row is checked before opening ends. Damage is an error then, and not only once it
    /// is read.
    pub check: bool,
    /// Largest size of the data file in bytes; `None` for the most that MDBX and the machine allow.
    pub max_bytes: Option<u64>,
}

impl MdbxOptions {
    /// Returns options for an environment that is writable, durable, and as large as the disk allows.
    pub fn new(path: impl Into<PathBuf>, tables: &[Table]) -> Self {
        Self {
            path: path.into(),
            tables: tables.to_vec(),
            read_only: false,
            durable: true,
            repair: false,
            check: false,
            max_bytes: None,
        }
    }
}

impl MdbxEngine {
    /// Opens an environment, or creates it.
    ///
    /// # Errors
    ///
    /// [`KvError::DuplicateTable`]; [`KvError::Io`] for a directory that cannot be used; [`KvError::InUse`] if this
    /// process has it open already; [`KvError::Corrupt`] if the file is not MDBX's, or damage was found;
    /// [`KvError::DiskFull`].
    pub fn open(mut options: MdbxOptions) -> Result<Self> {
        for own in [JOURNAL_TABLE, TALLY_TABLE] {
            if !options.tables.contains(&own) {
                options.tables.push(own);
            }
        }
        let set = TableSet::new(&options.tables)?;
        let path = &options.path;
        let data = path.join(DATA_FILE);
        let mut length = 0;
        let mut refused = None;
        if options.read_only {
            // MDBX would report a missing file without its name.
            length = std::fs::metadata(&data).at("open", &data)?.len();
            match allocate_reader_table(&path.join(LOCK_FILE)) {
                Ok(()) => {}
                // On a read-only file system MDBX does without.
                Err(KvError::Io { path, source, .. }) => refused = no_reader(&path, &source),
                Err(full) => return Err(full),
            }
        } else {
            create_dir(path).at("create", path)?;
            allocate_reader_table(&path.join(LOCK_FILE))?;
            if let Ok(meta) = std::fs::metadata(&data) {
                length = meta.len();
            }
        }
        if options.durable {
            check_meta_pages(&options)?;
        }
        // The binding starts a thread and panics if it cannot. Four threads are tested for rather than one, so that
        // it matters less if other threads start meanwhile.
        expect_threads(4)?;
        let opened = open_environment(&options, length);
        let (env, max_bytes) = match (opened, refused) {
            (Err(KvError::Io { .. }), Some(refused)) => return Err(refused),
            (opened, _) => opened?,
        };
        let context = Context::new(path, max_bytes);
        if options.check {
            check::pages(&env, &context)?;
        }
        let tables = open_tables(&env, set, context, &options)?;
        if options.check {
            check::rows(&env, &tables)?;
        }
        if options.durable && !options.read_only {
            // What is built on it, such as a stamp, must not be durable before it is.
            let synced = File::open(&data).and_then(|file| file.sync_all());
            synced.and_then(|()| sync_dir(path, "mdbx: names")).at("sync", path)?;
        }
        Ok(Self {
            env,
            tables: Arc::new(tables),
            writing: Mutex::new(()),
            read_only: options.read_only,
            durable: options.durable,
        })
    }
}

/// Checks that the confirmed commit is there, before MDBX opens the file and changes it.
fn check_meta_pages(options: &MdbxOptions) -> Result<()> {
    let path = &options.path;
    // The confirmation is read first, because another process may commit meanwhile.
    let confirmed = Confirmed::read(path)?.and_then(|confirmed| confirmed.commit);
    let Some(mut pages) = MetaPages::read(path)? else {
        let missing = || format!("{} is missing", path.join(DATA_FILE).display());
        return match confirmed {
            Some(_) => Err(KvError::Corrupt(missing())),
            None => Ok(()),
        };
    };
    match (pages.expect(confirmed), confirmed) {
        (Err(KvError::Lost { .. }), Some(confirmed)) if options.repair => {
            pages.give_up(confirmed);
            pages.expect(None)?;
        }
        (found, _) => found?,
    }
    if options.read_only { Ok(()) } else { pages.mend() }
}

/// Explains why a store cannot be read without write permission: readers note in this file which pages they read, so
/// that no writer reuses those. `None` if `source` is another error.
fn no_reader(path: &Path, source: &io::Error) -> Option<KvError> {
    (source.kind() == io::ErrorKind::PermissionDenied).then(|| {
        let reason = format!(
            "{source} (a reader says so in this file; make this one file writable, or read a copy of the directory)"
        );
        KvError::io("write to", path, io::Error::new(source.kind(), reason))
    })
}

/// Opens the environment with as large a map as the machine allows; returns it and the size of the map.
fn open_environment(options: &MdbxOptions, length: u64) -> Result<(Environment, u64)> {
    let mut max_bytes = options.max_bytes.unwrap_or(MOST_BYTES).min(MOST_BYTES);
    let mut recovered = false;
    loop {
        match builder(options, length, max_bytes).open(&options.path) {
            Ok(env) => return Ok((env, max_bytes)),
            // A power failure has left the file shorter than its set length, without losing a page in use. MDBX
            // restores the length, but only with write permission.
            Err(MdbxError::WannaRecovery) if options.read_only && !recovered => {
                recovered = true;
                let mode = Mode::ReadWrite { sync_mode: SyncMode::Durable };
                let mut writable = Environment::builder();
                writable.set_flags(EnvironmentFlags { mode, ..EnvironmentFlags::default() });
                writable.open(&options.path).map_err(|e| {
                    let context = Context::new(&options.path, max_bytes);
                    context.error("giving its file the length that it had", e)
                })?;
            }
            // Under a limit of address space (`ulimit -v`, small containers) a smaller map may do.
            Err(e) if is_map_too_large(e) && max_bytes / 2 >= LEAST_BYTES.max(length) => {
                max_bytes /= 2;
            }
            Err(e) => return Err(Context::new(&options.path, max_bytes).error(OPENING, e)),
        }
    }
}

fn is_map_too_large(error: MdbxError) -> bool {
    match error {
        MdbxError::TooLarge | MdbxError::UnableExtendMapSize => true,
        other => {
            let code = other.to_err_code();
            code > 0
                && std::io::Error::from_raw_os_error(code).kind() == std::io::ErrorKind::OutOfMemory
        }
    }
}

fn builder(options: &MdbxOptions, length: u64, max_bytes: u64) -> EnvironmentBuilder {
    let sync_mode = if options.durable { SyncMode::Durable } else { SyncMode::UtterlyNoSync };
    let mode = if options.read_only { Mode::ReadOnly } else { Mode::ReadWrite { sync_mode } };
    let mut builder = Environment::builder();
    builder
        .set_max_dbs(options.tables.len())
        .set_max_readers(MAX_READERS)
        .set_rp_augment_limit(FREE_LIST_LIMIT)
        .set_txn_dp_limit(DIRTY_PAGES)
        .set_dp_reserve_limit(SPARE_PAGES)
        .set_flags(EnvironmentFlags {
            mode,
            // State is read at random places; read-ahead would only evict needed pages.
            no_rdahead: true,
            coalesce: true,
            ..EnvironmentFlags::default()
        });
    if !options.read_only {
        // Steps grow with the file, so that a small file stays small and a large one is rarely extended.
        let step = (length / 16).clamp(4 << 20, 1 << 30).next_power_of_two().min(max_bytes);
        builder.set_geometry(Geometry {
            size: Some(0..usize::try_from(max_bytes).unwrap_or(usize::MAX)),
            growth_step: Some(isize::try_from(step).unwrap_or(isize::MAX)),
            shrink_threshold: Some(isize::try_from(step * 4).unwrap_or(isize::MAX)),
            page_size: Some(PageSize::Set(PAGE_BYTES)),
        });
    }
    builder
}

/// Opens the tables, and creates them where possible, and checks that they have as many rows as were written. The
/// handles live as long as the environment.
fn open_tables(
    env: &Environment,
    set: TableSet,
    context: Context,
    options: &MdbxOptions,
) -> Result<Databases> {
    let rows = Vec::with_capacity(set.as_slice().len());
    let mut tables = Databases { rows, set, context };
    let Databases { set, rows, context } = &mut tables;
    let failed = |e| context.error("opening the tables", e);
    if options.read_only {
        let tx = steadily(env, || env.begin_ro_unsync()).map_err(failed)?;
        for table in set.as_slice() {
            rows.push(match tx.open_db(Some(table.name)) {
                Ok(database) => Some(Rows::new(*table, database)),
                Err(MdbxError::NotFound) => None,
                Err(e) => return Err(failed(e)),
            });
        }
        expect_counts(&tx, &tables)?;
        // Handles opened in a transaction outlive it only if it is committed, even where nothing is written.
        tx.commit().map_err(|e| tables.context.error("opening the tables", e))?;
    } else {
        let tx = env.begin_rw_unsync().map_err(failed)?;
        for table in set.as_slice() {
            let database =
                tx.create_db(Some(table.name), DatabaseFlags::empty()).map_err(failed)?;
            rows.push(Some(Rows::new(*table, database)));
        }
        // The check comes before a table that damage hides is created again.
        expect_counts(&tx, &tables)?;
        tx.commit().map_err(|e| tables.context.error("creating the tables", e))?;
    }
    Ok(tables)
}

/// Makes sure that the file of the reader table has all its blocks on disk.
///
/// MDBX creates it sparse (and empties it when it closes) and writes to it through a memory map: on a full disk that
/// would kill the process with a bus error. Only an empty file is filled, so one in use is not disturbed; MDBX cuts
/// off the surplus.
fn allocate_reader_table(path: &Path) -> Result<()> {
    /// Bytes of the file: MDBX needs 32 bytes a reader and a header of less than two pages.
    const BYTES: usize = MAX_READERS as usize * 32 + 8 * 1_024;
    let mut file = OpenOptions::new().append(true).create(true).open(path).at("create", path)?;
    let length = file.metadata().at("open", path)?.len();
    if length == 0 {
        file.write_all(&vec![0; BYTES]).at("write to", path)?;
    }
    Ok(())
}
