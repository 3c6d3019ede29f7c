//! Finding and opening the setup of `lvmt`.
//!
//! Setups are files in a directory. `--lvmt.setup` (or `POLYTRIE_LVMT_SETUP`) names it; otherwise a data directory
//! remembers where its own was, and there are two places in the user's cache: one for a setup from a ceremony, which new data directories get, and one for an
//! insecure setup for development, which is only ever used for data directories that were made with it.

use super::LvmtSettings;
use crate::{Parameters, normal, user_cache};
use alloy_primitives::B256;
use clap::Args;
use parking_lot::Mutex;
use polytrie_amt::{Setup, SetupError, VerifyingKey};
use polytrie_kv::KvError;
use polytrie_lvmt::{LvmtLayer, Proofs};
use polytrie_state::StateError;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};

/// Where the setup is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[command(next_help_heading = "LVMT")]
pub struct LvmtNeeds {
    /// Directory of the setup, as `polytrie setup lvmt` makes it [default: polytrie/lvmt in the user's cache]
    #[arg(id = "lvmt.setup", long = "lvmt.setup", value_name = "DIR", env = "POLYTRIE_LVMT_SETUP")]
    pub setup: Option<PathBuf>,
}

/// What the stamp of a data directory says of its setup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// Its name.
    pub(super) id: B256,
    /// The height of its trees.
    pub(super) height: u8,
    /// The directory in which it was found last.
    dir: Option<PathBuf>,
}

impl Remembered {
    pub(super) fn of(parameters: &Parameters) -> Option<Self> {
        Some(Self {
            id: parameters.get(SETUP)?.parse().ok()?,
            height: parameters.get(HEIGHT)?.parse().ok()?,
            dir: parameters.get(PLACE).map(PathBuf::from),
        })
    }
}

/// Where a setup is kept that was made without saying where.
///
/// # Errors
///
/// If the environment names no home.
pub fn default_dir(insecure: bool) -> Result<PathBuf, StateError> {
    let cache = user_cache().ok_or_else(|| {
        unsupported(
            "has no place for its setup, as neither XDG_CACHE_HOME nor HOME is set; name a directory with --lvmt.setup".into(),
        )
    })?;
    Ok(cache.join(if insecure { "lvmt-insecure-dev" } else { "lvmt" }))
}

/// The verifying key of the setup to use: that of the directory that was named; else the one that is `wanted`, where a data
/// directory remembers it or in the cache; or, if none is wanted, the one from a ceremony in the cache.
///
/// # Errors
///
/// If it is not there, or damaged. An insecure setup is never taken without being named or wanted.
pub fn find(
    needs: &LvmtNeeds,
    wanted: Option<B256>,
    remembered: Option<&Remembered>,
) -> Result<(PathBuf, VerifyingKey), StateError> {
    if let Some(dir) = &needs.setup {
        return Ok((dir.clone(), VerifyingKey::open(dir).map_err(refused)?));
    }
    let Some(wanted) = wanted else {
        let (secure, insecure) = (default_dir(false)?, default_dir(true)?);
        return match VerifyingKey::open(&secure) {
            Ok(key) => Ok((secure, key)),
            Err(SetupError::Missing { .. }) => {
                Err(none_for_new(&secure, &insecure, &VerifyingKey::open(&insecure)))
            }
            Err(error) => Err(refused(error)),
        };
    };
    // Where there is no cache, there is none in it.
    let cache = [default_dir(true), default_dir(false)].into_iter().flatten();
    let mut places: Vec<_> = remembered.and_then(|known| known.dir.clone()).into_iter().collect();
    for dir in cache {
        if !places.contains(&dir) {
            places.push(dir);
        }
    }
    let mut damaged = None;
    for dir in &places {
        match VerifyingKey::open(dir) {
            Ok(key) if key.id() == wanted => return Ok((dir.clone(), key)),
            // It is the one that is wanted, most likely.
            Err(error @ (SetupError::Damaged { .. } | SetupError::Io { .. })) => {
                damaged = Some(error);
            }
            _ => {}
        }
    }
    Err(damaged.map_or_else(
        || {
            let looked: Vec<_> = places.iter().map(|dir| dir.display().to_string()).collect();
            unsupported(format!(
                "needs the setup {wanted}, which was looked for in {} and is not there; name the directory where it is with `--lvmt.setup`",
                looked.join(", ")
            ))
        },
        refused,
    ))
}

/// There is no setup that a new data directory could get by itself.
fn none_for_new(
    secure: &Path,
    insecure: &Path,
    development: &Result<VerifyingKey, SetupError>,
) -> StateError {
    let hint = match development {
        Ok(_) => format!(
            "; the insecure one for development in {} is used if you name it with `--lvmt.setup`",
            insecure.display()
        ),
        Err(_) => " (or with --insecure-dev, for development)".to_owned(),
    };
    unsupported(format!(
        "needs a setup, and there is none in {}; make one with `polytrie setup lvmt --g1 FILE --g2 FILE` or `--ptau FILE`{hint}",
        secure.display()
    ))
}

/// The setup to use, mapped once a process.
///
/// # Errors
///
/// As [`find`]; and if its tables are missing or damaged.
pub(super) fn open(
    settings: &LvmtSettings,
    wanted: Option<B256>,
) -> Result<Arc<Setup>, StateError> {
    type Opened = BTreeMap<(PathBuf, bool), Arc<Setup>>;
    static OPENED: LazyLock<Mutex<Opened>> = LazyLock::new(Mutex::default);
    let dir = match &settings.needs.setup {
        Some(dir) => dir.clone(),
        None => find(&settings.needs, wanted, settings.remembered.as_ref())?.0,
    };
    let proofs = settings.proofs() != Proofs::None;
    let mut opened = OPENED.lock();
    if let Some(setup) = opened.get(&(dir.clone(), proofs)) {
        return Ok(Arc::clone(setup));
    }
    let setup = Arc::new(Setup::open(&dir, proofs).map_err(refused)?);
    warn_if_insecure(setup.is_insecure(), &dir);
    opened.insert((dir, proofs), Arc::clone(&setup));
    Ok(setup)
}

/// Says so if what is done with the setup in a directory rests on nothing.
pub(super) fn warn_if_insecure(is_insecure: bool, dir: &Path) {
    if is_insecure {
        tracing::warn!(
            "the setup in {} is for development: whoever knows its seed can prove anything",
            dir.display()
        );
    }
}

/// The parameters of a setup that the stamp of a data directory keeps.
pub(super) fn parameters(key: &VerifyingKey, dir: &Path) -> Parameters {
    let kind = if key.is_insecure() { "insecure-dev" } else { "ceremony" };
    BTreeMap::from([
        (SETUP.to_owned(), key.id().to_string()),
        ("lvmt.security".to_owned(), kind.to_owned()),
        (HEIGHT.to_owned(), key.height().to_string()),
        (PLACE.to_owned(), normal(dir).display().to_string()),
    ])
}

/// The parameter of the stamp that names the setup.
const SETUP: &str = "lvmt.setup";
const HEIGHT: &str = "lvmt.height";
/// The parameter that says where it was found.
pub(super) const PLACE: &str = "lvmt.setup.path";

fn refused(error: SetupError) -> StateError {
    match error {
        // Another one has to be named or made.
        SetupError::Missing { .. } | SetupError::NoProofs { .. } => {
            unsupported(format!("cannot use its setup: {error}"))
        }
        SetupError::Io { action, path, source } => KvError::Io { action, path, source }.into(),
        SetupError::Damaged { .. } | SetupError::Mixed { .. } => KvError::Engine {
            engine: LvmtLayer::NAME,
            action: "opening its setup",
            reason: error.to_string(),
        }
        .into(),
    }
}

fn unsupported(reason: String) -> StateError {
    StateError::Unsupported { layer: LvmtLayer::NAME, reason }
}
