//! Finding and opening the setup of `lvmt`.
//!
//! A setup is a directory of files. `--lvmt.setup` (or `POLYTRIE_LVMT_SETUP`) names it. Without the option a data
//! directory remembers the directory of its own setup, and the user's cache has two more: one for a setup from a
//! ceremony, which new data directories get, and one for an insecure setup for development, which only data directories
//! that were made with it get.

use super::LvmtSettings;
use crate::{Parameters, normal, user_cache};
use alloy_primitives::B256;
use clap::Args;
use parking_lot::Mutex;
use polytrie_amt::{Setup, SetupError, VerifyingKey};
use polytrie_kv::KvError;
use polytrie_lvmt::{LvmtLayer, Proofs};
use polytrie_state::{Result, StateError};
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

/// The setup that the stamp of a data directory names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// Id of the setup.
    pub(super) id: B256,
    /// Height of the setup's trees.
    pub(super) height: u8,
    /// Directory where the setup was last found.
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

/// Returns the directory in the user's cache for a setup that is made without `--lvmt.setup`.
///
/// # Errors
///
/// Fails if the environment has neither `XDG_CACHE_HOME` nor `HOME`.
pub fn default_dir(insecure: bool) -> Result<PathBuf> {
    let cache = user_cache().ok_or_else(|| {
        unsupported(
            "has no place for its setup, as neither XDG_CACHE_HOME nor HOME is set; name a directory with --lvmt.setup".into(),
        )
    })?;
    Ok(cache.join(if insecure { "lvmt-insecure-dev" } else { "lvmt" }))
}

/// Finds the setup to use, and returns its directory and verifying key. This is the setup of the directory that `needs`
/// names; else the `wanted` one, in the remembered directory or the cache; or, if none is wanted, the one from a
/// ceremony in the cache.
///
/// # Errors
///
/// Fails if the setup is missing or damaged. An insecure setup is never used unless it is named or wanted.
pub fn find(
    needs: &LvmtNeeds,
    wanted: Option<B256>,
    remembered: Option<&Remembered>,
) -> Result<(PathBuf, VerifyingKey)> {
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
    // A machine without a cache directory has no setup there.
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
            // The damaged setup is most likely the wanted one.
            Err(error @ (SetupError::Damaged { .. } | SetupError::Io(_))) => {
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

/// Returns the error that a new data directory finds no setup in the cache.
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

/// Opens the setup to use. Its files are mapped once per process.
///
/// # Errors
///
/// Fails as [`find`] does, and if the tables of the setup are missing or damaged.
pub(super) fn open(settings: &LvmtSettings, wanted: Option<B256>) -> Result<Arc<Setup>> {
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

/// Logs a warning if the setup is insecure, because its proofs show nothing then.
pub(super) fn warn_if_insecure(is_insecure: bool, dir: &Path) {
    if is_insecure {
        tracing::warn!(
            "the setup in {} is for development: with its seed anything can be proven",
            dir.display()
        );
    }
}

/// Returns the parameters of a setup for the stamp of a data directory.
pub(super) fn parameters(key: &VerifyingKey, dir: &Path) -> Parameters {
    let kind = if key.is_insecure() { "insecure-dev" } else { "ceremony" };
    BTreeMap::from([
        (SETUP.to_owned(), key.id().to_string()),
        ("lvmt.security".to_owned(), kind.to_owned()),
        (HEIGHT.to_owned(), key.height().to_string()),
        (PLACE.to_owned(), normal(dir).display().to_string()),
    ])
}

/// Parameter of the stamp with the id of the setup.
const SETUP: &str = "lvmt.setup";
const HEIGHT: &str = "lvmt.height";
/// Parameter of the stamp with the directory where the setup was last found.
pub(super) const PLACE: &str = "lvmt.setup.path";

fn refused(error: SetupError) -> StateError {
    match error {
        // The user has to name or make another setup.
        SetupError::Missing { .. } | SetupError::NoProofs { .. } => {
            unsupported(format!("cannot use its setup: {error}"))
        }
        SetupError::Io(error) => error.into(),
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
