//! A chain with a genesis state that is generated, and written directly into a layer.

use super::{Begun, Filled, StateDumpError, Step, fill, go_on};
use crate::datadir::NewDir;
use polytrie_chain::{Head, Start};
use polytrie_chainspec::{GenesisPlan, InitialAccount, system_contracts};
use polytrie_state::StateError;
use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
};

/// Fills a new directory, which has no stamp yet, with these accounts and the system contracts, and begins a chain with
/// this genesis: the one that [`GenesisPlan::write`] writes. After an error the caller must discard the directory.
///
/// # Errors
///
/// Fails if an account or slot comes twice, if the disk or the layer fails, or if `interrupt` is set.
pub fn begin_generated<'a>(
    target: &mut NewDir,
    plan: &GenesisPlan,
    accounts: impl Iterator<Item = InitialAccount<'a>>,
    interrupt: &AtomicBool,
    progress: &mut dyn FnMut(Step),
) -> Result<Begun, StateDumpError> {
    let (db, layer) = (target.dir().chain_db(), Arc::clone(&target.dir().layer));
    let accounts = system_contracts().into_iter().chain(accounts);
    let Filled { root, commitment, accounts, slots } =
        fill(db.store(), &*layer, accounts, interrupt, progress)?;
    go_on(interrupt)?;
    if let Some(found) = commitment.as_state_root().filter(|found| *found != root) {
        let what = format!("{} makes the state root {found} of accounts of {root}", layer.name());
        return Err(StateError::Corrupt(what).into());
    }
    let spec = target.set_genesis(plan, root)?;
    let header = spec.genesis_header().clone();
    let (hash, number, total_difficulty) = (header.hash(), header.number, header.difficulty);
    let head = Head { header, total_difficulty };
    db.begin_at(&spec, &Start { head, block: None, ancestors: BTreeMap::new() })?;
    db.store().checkpoint()?;
    Ok(Begun {
        number,
        hash,
        state_root: root,
        commitment: commitment.digest(),
        accounts,
        slots,
        hashes: 0,
        hashes_wanted: 0,
        knows_difficulty: true,
    })
}
