//! Block execution on state that was read ahead.
//!
//! If a block's accesses are known beforehand, the block no longer needs its layer once all of them have been read. It
//! runs on those values, and the layer meanwhile works on the changes that the block was announced to make.
//!
//! ```text
//! Session::begin ──► Known::read ──► finish_known: what the block leaves                the layer, on any thread
//!                         └────────► Known::session: run the block ──► into_writes      the same writes, or the announced changes were wrong
//! ```
//!
//! An access list does not say whether an account has slots, which a block asks where it creates a contract. Hardly any
//! block asks that of an account for which it could not be foreseen, so it is looked up while the block runs
//! ([`HasStorage`]).

use crate::{
    Access, Account, LayerSession, Outcome, Result, Session, StateError, TxWrites, WriteSet,
    cache::{Entries, Entry, in_order},
    corrupt,
    keys::hash_keys,
};
use alloy_primitives::{
    Address, B256, Bytes, U256,
    map::{AddressMap, B256Map},
};
use std::{mem, sync::Arc};

/// Tells whether an account has any slot before the block.
pub type HasStorage = Box<dyn Fn(&Address) -> Result<bool> + Send + Sync>;

/// The accounts, slots and codes that were read, as they are before a block.
pub struct Known {
    /// The accounts and slots, in the form of a session. So a session on them begins with a copy, and need not hash their
    /// keys again.
    entries: Entries,
    /// Whether an account has any slot, if that was looked up before the block.
    storage: AddressMap<bool>,
    /// Looks up whether any other account has a slot, before the block.
    below: HasStorage,
    codes: B256Map<Bytes>,
}

polytrie_kv::debug_fields!(Known { entries, storage, codes });

impl Known {
    /// Reads all of `accesses` from a session in which nothing was written so far. The session keeps none of it afterwards.
    /// `below` answers for the state at which the session began.
    ///
    /// # Errors
    ///
    /// Those of [`Session::account`] and [`Session::slot`].
    pub fn read(session: &mut Session, accesses: &[Access], below: HasStorage) -> Result<Self> {
        let hashes = hash_keys(accesses);
        let account = |(access, hash): (&Access, &B256)| {
            matches!(access, Access::Account(_)).then_some(*hash)
        };
        let accounts: Vec<_> = accesses.iter().zip(&hashes).filter_map(account).collect();
        session.cache.layer.expect(&accounts);
        session.cache.accounts.reserve(accounts.len());
        for (access, hash) in accesses.iter().zip(hashes) {
            session.cache.read(*access, hash)?;
        }
        let entries = mem::take(&mut session.cache.accounts);
        Ok(Self { entries, storage: AddressMap::default(), below, codes: B256Map::default() })
    }

    /// Reads the code with this hash.
    ///
    /// # Errors
    ///
    /// Those of [`Session::code`]; [`StateError::Corrupt`] if the code is not there.
    pub fn read_code(&mut self, session: &mut Session, hash: B256) -> Result<Bytes> {
        let code = session
            .code(&hash)?
            .ok_or_else(|| corrupt!("there is no code with the hash {hash}"))?;
        self.add_code(hash, code.clone());
        Ok(code)
    }

    /// Adds code that the caller has kept from an earlier block, because it may be dropped while the block runs.
    pub fn add_code(&mut self, hash: B256, code: Bytes) {
        self.codes.insert(hash, code);
    }

    /// Looks up whether an account has any slot, for a block that will probably ask.
    ///
    /// # Errors
    ///
    /// [`StateError::Untold`] if the account was not read, and those of [`Session::has_storage`].
    pub fn look_for_storage(&mut self, session: &mut Session, address: &Address) -> Result<()> {
        let found = session.cache.layer.has_storage(address, &self.known(address)?.hash)?;
        self.storage.insert(*address, found);
        Ok(())
    }

    /// Returns an account as it was before the block; `None` if it did not exist.
    ///
    /// # Errors
    ///
    /// [`StateError::Untold`] if it was not read.
    pub fn account(&self, address: &Address) -> Result<Option<Account>> {
        Ok(self.known(address)?.before)
    }

    /// Returns the value of a slot before the block; zero if it was not set.
    ///
    /// # Errors
    ///
    /// [`StateError::Untold`] if it was not read.
    pub fn slot(&self, address: &Address, slot: &U256) -> Result<U256> {
        self.known(address)?.slot_before(slot).ok_or(StateError::Untold)
    }

    /// Whether an account had any slot before the block.
    ///
    /// # Errors
    ///
    /// [`StateError::Untold`] if the account was not read, and those of looking it up.
    pub fn has_storage(&self, address: &Address) -> Result<bool> {
        match (self.known(address)?.before, self.storage.get(address)) {
            (None, _) => Ok(false),
            (Some(_), Some(found)) => Ok(*found),
            (Some(_), None) => (self.below)(address),
        }
    }

    /// Begins a session that reads only these values. It has no outcome: [`Session::into_writes`] returns its
    /// changes.
    pub fn session(self: &Arc<Self>) -> Session {
        let layer = Box::new(KnownSession(Arc::clone(self)));
        Session::on_entries(layer, self.entries.clone())
    }

    /// Returns the write set of a block that makes these changes. `layer` has the state before it.
    pub(crate) fn write_set(
        &self,
        changes: &TxWrites,
        layer: &mut dyn LayerSession,
    ) -> Result<WriteSet> {
        let found =
            changes.accounts.iter().map(|change| Ok((change, self.known(&change.address)?)));
        let found = found.collect::<Result<Vec<_>>>()?;
        let (mut accounts, mut codes) = (Vec::with_capacity(found.len()), Vec::new());
        for (_, change, entry) in in_order(found.into_iter()) {
            let (address, after) = (&change.address, change.account);
            let wipe = (change.wiped || after.is_none())
                && entry.before.is_some()
                && layer.has_storage(address, &entry.hash)?;
            let had = entry.before.map(|before| before.code_hash);
            let is_new = after.is_some_and(|now| had != Some(now.code_hash));
            codes.extend(change.code.clone().filter(|_| is_new));
            accounts.push(entry.write_of(change, wipe)?);
        }
        Ok(WriteSet::of(accounts, codes))
    }

    fn known(&self, address: &Address) -> Result<&Entry> {
        self.entries.get(address).ok_or(StateError::Untold)
    }
}

/// A session that reads only known values.
#[derive(Debug)]
struct KnownSession(Arc<Known>);

impl LayerSession for KnownSession {
    fn account(&mut self, address: &Address, _: &B256) -> Result<Option<Account>> {
        self.0.account(address)
    }

    fn slot(&mut self, address: &Address, _: &B256, slot: &U256, _: &B256) -> Result<U256> {
        self.0.slot(address, slot)
    }

    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>> {
        self.0.codes.get(code_hash).cloned().map(Some).ok_or(StateError::Untold)
    }

    fn has_storage(&mut self, address: &Address, _: &B256) -> Result<bool> {
        self.0.has_storage(address)
    }

    fn finish(self: Box<Self>, _: &WriteSet) -> Result<Outcome> {
        Err(StateError::Protocol("a block was finished that runs on what is known and on no layer"))
    }
}
