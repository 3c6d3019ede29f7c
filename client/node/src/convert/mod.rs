//! Conversion of one layer's state into another's: the same chain with the same head, in another data directory.
//!
//! Both states are walked in hash order, slots in portions (`Walk`), and every layer writes slots one after the other
//! as they come. So memory does not depend on the number of accounts, nor on the number of slots of one account; only
//! the hashes of all codes are kept. Undo records are not converted, because they belong to the source's layer. Blocks
//! after the head can be taken back again.

use crate::{
    datadir::{DataDir, OpenError},
    state_root::RootBuilder,
};
use alloy_primitives::{B256, keccak256};
use polytrie_chain::{ChainDb, ChainError};
use polytrie_state::{Commitment, GenesisAccount, GenesisSlots, StateError, StateLayer};
use std::{
    cell::Cell,
    collections::HashSet,
    iter,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};
use thiserror::Error;
use walk::Walk;

mod walk;

const CONVERTING: &str = "converting the state";
const COMPARING: &str = "comparing the states";
const NAMING: &str = "copying addresses and slots";
const COPYING: &str = "copying blocks";

/// Error of a conversion.
#[derive(Debug, Error)]
pub enum ConvertError {
    /// A new directory that cannot be made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A failure of a layer.
    #[error(transparent)]
    State(#[from] StateError),
    /// Rows of the chain that cannot be read or written.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// A directory without a block.
    #[error("there is no block in the data directory yet; import some first")]
    NoHead,
    /// A new state with another root than its block.
    #[error(
        "the converted state has the root {found}, block {number} at the head has {expected}; check the source with `polytrie db check` (the blocks of a devnet under a layer without state roots hold none, so no other layer can go on from them)"
    )]
    Root {
        /// Number of the head.
        number: u64,
        /// Root of the new state.
        found: B256,
        /// Root in the header.
        expected: B256,
    },
    /// Two states that differ.
    #[error("the converted state differs from its source at {0}; please report this")]
    Different(String),
    /// A stop that the user asked for.
    #[error(
        "interrupted while {0}; what there is of the new directory is no data directory yet: run the same command again to begin anew, or remove it with `polytrie db drop`"
    )]
    Interrupted(&'static str),
}

/// Result of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Converted {
    /// Number of the head.
    pub number: u64,
    /// Hash of the head.
    pub hash: B256,
    /// Number of accounts.
    pub accounts: u64,
    /// Number of slots.
    pub slots: u64,
    /// Commitment of the new layer.
    pub commitment: B256,
}

/// Fills the empty directory `target` with the chain and state of `source`, and compares the two. The head's row is
/// written last: until then the target is no chain. `progress` gets the name of the current step and the number of
/// accounts done.
///
/// # Errors
///
/// Fails if a store or a layer fails, if the states differ in the end, or if `interrupt` is set.
pub fn convert(
    source: &DataDir,
    target: &DataDir,
    interrupt: &AtomicBool,
    progress: &mut dyn FnMut(&'static str, u64),
) -> Result<Converted, ConvertError> {
    let head = source.chain_db().head()?.ok_or(ConvertError::NoHead)?;
    source.chain_db().check_settled()?;
    let (from, to) = (&*source.layer, &*target.layer);
    // An interrupt ends the walk early, which is no failure of the layer.
    let ended = |what| match interrupt.load(Ordering::Relaxed) {
        true => Err(ConvertError::Interrupted(what)),
        false => Ok(()),
    };
    let whole = |is_whole: bool, what| match is_whole {
        true => Ok(()),
        false => Err(ConvertError::Interrupted(what)),
    };
    if to.needs_preimages() {
        let target = ChainDb::new(target.store.clone());
        whole(source.chain_db().copy_preimages(&target, interrupt)?, NAMING)?;
    }
    let filled = fill(from, to, interrupt, progress);
    ended(CONVERTING)?;
    let Filled { accounts, slots, commitment } = filled?;
    let (number, expected) = (head.number(), head.header.state_root);
    let is_root = |found: B256| match found == expected {
        true => Ok(()),
        false => Err(ConvertError::Root { number, found, expected }),
    };
    commitment.as_state_root().map_or(Ok(()), is_root)?;
    // A layer without state roots accepts any state, so the state that is read from the source must have the source's
    // root.
    let mut root = (source.kind.canonical && !target.kind.canonical).then(RootBuilder::default);
    let compared = compare(from, to, root.as_mut(), interrupt, progress);
    ended(COMPARING)?;
    compared?;
    root.map(RootBuilder::root).map_or(Ok(()), is_root)?;
    progress(COPYING, accounts);
    let (source, target) = (source.chain_db(), ChainDb::new(target.store.clone()));
    whole(source.copy_to(&target, interrupt)?, COPYING)?;
    Ok(Converted {
        number: head.number(),
        hash: head.hash(),
        accounts,
        slots,
        commitment: commitment.digest(),
    })
}

/// Size of the state that was written into a layer, and its commitment.
struct Filled {
    accounts: u64,
    slots: u64,
    commitment: Commitment,
}

/// Fills an empty layer with the state of another one.
fn fill(
    source: &dyn StateLayer,
    target: &dyn StateLayer,
    interrupt: &AtomicBool,
    progress: &mut dyn FnMut(&'static str, u64),
) -> Result<Filled, ConvertError> {
    let reader = source.reader()?;
    let mut codes = HashSet::new();
    let mut accounts = 0;
    let slots = Cell::new(0);
    let commitment = thread::scope(|scope| {
        let walk = Walk::start(scope, source, interrupt)?;
        let mut next = || -> Result<Option<GenesisAccount<'_>>, StateError> {
            let Some((hash, account)) = walk.account()? else { return Ok(None) };
            let code = match account.has_code() && codes.insert(account.code_hash) {
                true => Some(reader.code(&account.code_hash)?.ok_or_else(|| {
                    StateError::Corrupt(format!("the code of account {hash} is missing"))
                })?),
                false => None,
            };
            if code.as_ref().is_some_and(|code| keccak256(code) != account.code_hash) {
                return Err(StateError::Corrupt(format!(
                    "the code of account {hash} has another hash than {}",
                    account.code_hash
                )));
            }
            accounts += 1;
            progress(CONVERTING, accounts);
            let found = walk.slots().inspect(|_| slots.set(slots.get() + 1));
            Ok(Some(GenesisAccount { hash, account, code, slots: GenesisSlots::new(found) }))
        };
        target.load(&mut iter::from_fn(|| next().transpose()))
    })?;
    Ok(Filled { accounts, slots: slots.get(), commitment })
}

/// Compares both states side by side, and adds their accounts and slots to `root`.
fn compare(
    source: &dyn StateLayer,
    target: &dyn StateLayer,
    mut root: Option<&mut RootBuilder>,
    interrupt: &AtomicBool,
    progress: &mut dyn FnMut(&'static str, u64),
) -> Result<(), ConvertError> {
    let (left_reader, right_reader) = (source.reader()?, target.reader()?);
    let mut codes = HashSet::new();
    thread::scope(|scope| {
        let (left, right) =
            (Walk::start(scope, source, interrupt)?, Walk::start(scope, target, interrupt)?);
        for done in 1.. {
            let (expected, found) = (left.account()?, right.account()?);
            if expected != found {
                let first = expected.into_iter().chain(found).map(|(hash, _)| hash).min();
                let hash = first.unwrap_or_default();
                return Err(ConvertError::Different(format!("account {hash}")));
            }
            let Some((hash, account)) = expected else { break };
            loop {
                // Equal storages have equal portions.
                let (expected, found) = (left.portion()?, right.portion()?);
                if expected != found {
                    return Err(ConvertError::Different(format!("the slots of account {hash}")));
                }
                let Some(portion) = expected else { break };
                if let Some(root) = &mut root {
                    portion.iter().try_for_each(|(hash, value)| root.slot(*hash, value))?;
                }
            }
            if let Some(root) = &mut root {
                root.account(hash, &account)?;
            }
            if account.has_code()
                && codes.insert(account.code_hash)
                && right_reader.code(&account.code_hash)? != left_reader.code(&account.code_hash)?
            {
                return Err(ConvertError::Different(format!("the code of account {hash}")));
            }
            progress(COMPARING, done);
        }
        Ok(())
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
