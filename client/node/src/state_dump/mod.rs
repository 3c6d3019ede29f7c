//! A data directory that begins with the state at some block, from another client's dump.
//!
//! ```text
//! DumpReader ─► Gathered     one pass over the file: everything under its hash, code under its own
//!               Sorter       in order of the hashes, in memory or in sorted runs on disk
//!               Sorted ─► StateLayer::load, and beside it the root of every storage and of the state
//!               root = that of the header? ─► ChainDb::begin_at: header N, hashes before it
//! ```
//!
//! Memory does not depend on the size of the state, except for the hashes of all codes.

mod error;
mod gather;
mod generated;
mod initial;
mod partial;
mod preimages;
mod sorted;
mod start;
mod write;

pub use error::StateDumpError;
pub use generated::begin_generated;
pub use initial::fill;
pub use partial::{PartialState, Preimages};
pub use sorted::Filled;
pub use write::{DumpForm, DumpOptions, write_dump};

use crate::datadir::DataDir;
use alloy_primitives::{B256, U256};
use gather::Gathered;
use polytrie_files::{
    KnownHeader,
    dump::{DumpEnd, DumpReader},
    input_name,
};
use polytrie_state::StateError;
use preimages::PreimageRows;
use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

/// Inputs of a chain that begins with a dump.
#[derive(Debug)]
pub struct Beginning {
    /// Path of the dump; `-` is standard input.
    pub dump: PathBuf,
    /// Headers up to that of the dump's block, each the parent of the next; at least one.
    pub headers: Vec<KnownHeader>,
    /// File of the headers, for messages.
    pub header_file: PathBuf,
    /// Total difficulty with the dump's block, if the user gave it.
    pub total_difficulty: Option<U256>,
    /// Whether addresses and slots are kept beside their hashes.
    pub keep_preimages: bool,
}

/// Progress of filling a new directory.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Name of the current step.
    pub what: &'static str,
    /// Number of accounts done.
    pub accounts: u64,
    /// Number of slots done.
    pub slots: u64,
    /// Per cent of the file that are read.
    pub percent: Option<u64>,
}

/// Summary of a chain that starts from a state dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begun {
    /// Number of its first block. The state of it was loaded.
    pub number: u64,
    /// Hash of that block.
    pub hash: B256,
    /// State root of that block, which the accounts have.
    pub state_root: B256,
    /// Commitment of the layer.
    pub commitment: B256,
    /// Number of accounts.
    pub accounts: u64,
    /// Number of slots.
    pub slots: u64,
    /// Number of earlier blocks with known hashes.
    pub hashes: u64,
    /// Number of earlier blocks that `BLOCKHASH` may ask for.
    pub hashes_wanted: u64,
    /// Whether the total difficulty is known.
    pub knows_difficulty: bool,
}

/// Fills a new directory, which has no stamp yet. After an error the caller must discard it.
///
/// # Errors
///
/// Fails if a file is wrong or cannot be read, if the state is not that of the header, if a store or a layer fails, or
/// if `interrupt` is set.
pub fn begin(
    target: &DataDir,
    beginning: Beginning,
    interrupt: &AtomicBool,
    progress: &mut dyn FnMut(Step),
) -> Result<Begun, StateDumpError> {
    let spec = target.spec()?;
    let db = target.chain_db();
    // Inputs that can be checked at once are checked before hours are spent.
    let (mut start, knows_difficulty) = start::start(&spec, &beginning)?;
    let expected = start.head.header.state_root;
    let name = input_name(&beginning.dump);
    let reader = DumpReader::open(&beginning.dump)?;
    let read = reader.progress();
    let keeps_preimages = beginning.keep_preimages || target.layer.needs_preimages();
    let mut gathered = Gathered::new(
        target.store.scratch().clone(),
        PreimageRows::new(&target.store, keeps_preimages),
        (start.head.number(), expected),
        interrupt,
    );
    let mut reading = |accounts, slots| {
        let percent = read.total().map(|total| 100 * read.read() / total.max(1));
        progress(Step { what: "reading the dump", accounts, slots, percent });
    };
    gathered.tell = Some(&mut reading);
    match reader.read(&mut gathered) {
        Ok(_) => {}
        Err(DumpEnd::File(error)) => return Err(error.into()),
        Err(DumpEnd::Sink(error)) => return Err(error.of_dump(&name)),
    }
    let filled = gathered.finish()?.fill(&*target.layer, interrupt, progress);
    let Filled { root, commitment, accounts, slots } =
        filled.map_err(|error| error.of_dump(&name))?;
    go_on(interrupt)?;
    for found in [Some(root), commitment.as_state_root()].into_iter().flatten() {
        if found != expected {
            let number = start.head.number();
            let (file, header) = (name.to_string(), input_name(&beginning.header_file).to_string());
            return Err(StateDumpError::Root { file, header, number, found, expected });
        }
    }
    start::add_stored_hashes(&mut start, &spec, &*target.layer)?;
    let (hashes, hashes_wanted) = start.known_hashes();
    db.begin_at(&spec, &start)?;
    db.store().checkpoint().map_err(StateError::from)?;
    Ok(Begun {
        number: start.head.number(),
        hash: start.head.hash(),
        state_root: expected,
        commitment: commitment.digest(),
        accounts,
        slots,
        hashes,
        hashes_wanted,
        knows_difficulty,
    })
}

fn go_on(interrupt: &AtomicBool) -> Result<(), StateDumpError> {
    match interrupt.load(Ordering::Relaxed) {
        true => Err(StateDumpError::Interrupted),
        false => Ok(()),
    }
}
