//! `polytrie db drop`.

use crate::{
    access_lists::ACCESS_LISTS_FILE,
    cli::{authrpc::SECRET_FILE, exit::Failure, output::ResultArgs},
    datadir::{
        self, DataDir, GENESIS_FILE, OUTLINE_FILE, UNFINISHED_FILE, forget_flat, remove_flat,
    },
    import::SHADOW_PREFIX,
    layers,
};
use clap::Args;
use polytrie_kv::{DirLock, KvError, disk::if_there};
use polytrie_state::{STAMP_FILE, Stamp, StampError};
use serde::Serialize;
use std::{
    fs,
    io::{self, BufRead, IsTerminal, Write},
    path::{Path, PathBuf},
};

/// Remove a data directory, also an unfinished one: everything that polytrie wrote into it and into its --replica.path, and
/// nothing else.
#[derive(Debug, Args)]
pub(in crate::cli) struct DropArgs {
    /// Directory of chain and state.
    #[arg(long, value_name = "DIR")]
    pub(super) datadir: PathBuf,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    result: ResultArgs,
}

/// The result; serialises to the JSON of `--json`.
#[derive(Debug, Serialize)]
struct Dropped {
    datadir: PathBuf,
    /// `false` if the user said no.
    removed: bool,
    /// Whether files of others are in the directory, and stay.
    others: bool,
}

pub(super) fn run(args: DropArgs) -> Result<(), Failure> {
    let dir = &args.datadir;
    let Whose { content, flat, keeps_genesis } = whose(dir)?;
    let lock = DirLock::acquire(dir)?;
    let result = args.result.open()?;
    let mut dropped = Dropped { datadir: dir.clone(), removed: false, others: false };
    if !args.yes && !confirm(dir, &content)? {
        return result.write(&dropped, || "nothing was removed".to_owned());
    }
    // The flat state is removed first: only the data directory records its path and that it belongs to it.
    let flat = match flat {
        None => String::new(),
        Some(path) => match remove_flat(&path, dir)? {
            None => format!(", and its flat state in {}", path.display()),
            Some(why) => format!("; its flat state in {} {why}", path.display()),
        },
    };
    let left = remove(dir, keeps_genesis)
        .map_err(|(path, source)| KvError::io("remove", &path, source))?;
    drop(lock);
    (dropped.removed, dropped.others) = (true, left);
    result.write(&dropped, || match left {
        false => format!("removed {}{flat}", dir.display()),
        true => format!(
            "removed what polytrie kept in {}; other files are in it and stay{flat}",
            dir.display()
        ),
    })
}

/// The content of a data directory that is about to be removed.
struct Whose {
    /// The content in words, for the question to the user.
    content: String,
    /// Path of the flat state, if it is outside the data directory.
    flat: Option<PathBuf>,
    /// Whether the directory holds the genesis file of its chain, as `polytrie devnet` writes it.
    keeps_genesis: bool,
}

/// Describes the content of the directory. Fails if it is no data directory of this program.
fn whose(dir: &Path) -> Result<Whose, Failure> {
    match Stamp::read(dir) {
        Ok(Some(stamp)) => {
            let flat = layers::replica_path(&stamp);
            let mut content = format!("the chain {} under `{}`", stamp.chain, stamp.state);
            if let Some(path) = &flat {
                content += &format!(" (flat state in {})", path.display());
            }
            let keeps_genesis = DataDir::keeps_genesis(dir, &stamp);
            Ok(Whose { content, flat, keeps_genesis })
        }
        // The directory is ours, whatever its format.
        Err(StampError::Format { created_by, .. }) => {
            Ok(Whose { content: format!("data of {created_by}"), flat: None, keeps_genesis: false })
        }
        Ok(None) if datadir::is_unfinished(dir) => {
            let flat = datadir::begun(dir).as_ref().and_then(layers::replica_path);
            let content = "a data directory that was not finished".to_owned();
            // A data directory is created only in a directory without foreign files, so all files are ours.
            Ok(Whose { content, flat, keeps_genesis: true })
        }
        Ok(None) => Err(Failure::Usage(format!(
            "{} is not a data directory of polytrie: there is no {STAMP_FILE} in it; check the path, nothing was removed",
            dir.display()
        ))),
        Err(error) => Err(error.into()),
    }
}

fn confirm(dir: &Path, content: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage(format!(
            "{} holds {content} and would be removed for good; add --yes if that is meant",
            dir.display()
        )));
    }
    let mut stderr = io::stderr().lock();
    let mut answer = String::new();
    write!(stderr, "Remove {content} in {} for good? [y/N] ", dir.display())
        .and_then(|()| stderr.flush())
        .and_then(|()| io::stdin().lock().read_line(&mut answer))
        .map_err(|e| Failure::Machine(format!("cannot ask on the terminal: {e}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Removes our files. The stamp, or the mark of an unfinished directory, goes last but for the lock, so that a
/// command that was stopped can be run again. Returns whether other files are left.
fn remove(dir: &Path, keeps_genesis: bool) -> Result<bool, (PathBuf, io::Error)> {
    let gone =
        |path: &Path, result: io::Result<()>| if_there(result).map_err(|e| (path.to_owned(), e));
    for shadow in shadows(dir).map_err(|e| (dir.to_owned(), e))? {
        gone(&shadow, fs::remove_dir_all(&shadow))?;
    }
    let db = dir.join("db");
    gone(&db, fs::remove_dir_all(&db))?;
    forget_flat(dir).map_err(|e| (dir.to_owned(), e))?;
    let [stamp, outline, unfinished, genesis_part] =
        [STAMP_FILE, OUTLINE_FILE, UNFINISHED_FILE, GENESIS_FILE].map(|name| format!("{name}.tmp"));
    let genesis = keeps_genesis.then_some([GENESIS_FILE, &genesis_part]).into_iter().flatten();
    let beside = [ACCESS_LISTS_FILE, SECRET_FILE];
    let files = [&outline, OUTLINE_FILE, &unfinished, UNFINISHED_FILE, &stamp, STAMP_FILE, "LOCK"];
    for name in beside.into_iter().chain(genesis).chain(files) {
        let file = dir.join(name);
        gone(&file, fs::remove_file(&file))?;
    }
    match fs::remove_dir(dir) {
        Ok(()) => Ok(false),
        Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(true),
        // A mount point, for example, cannot be removed; it is enough that it is empty.
        Err(e) if e.kind() == io::ErrorKind::ResourceBusy => Ok(false),
        Err(e) => Err((dir.to_owned(), e)),
    }
}

/// The data directories of `import --shadow` in this one, complete or not.
fn shadows(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut shadows = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let named = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(SHADOW_PREFIX);
        let is_ours = || [STAMP_FILE, "LOCK"].iter().any(|file| path.join(file).is_file());
        if path.file_name().is_some_and(named) && is_ours() {
            shadows.push(path);
        }
    }
    Ok(shadows)
}
