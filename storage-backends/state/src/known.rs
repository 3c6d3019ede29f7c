//! What a block is going to touch, read before it runs.
//!
//! Where that is told beforehand, a block needs its layer no more once all of it has been read: it runs on what was read,
//! and the layer meanwhile works on what the block is going to leave.
//!
//! ```text
//! Session::begin ──► Known::read ──► apply what the block leaves ──► finish             the layer, on any thread
//!                         └────────► Known::session: run the block ──► into_writes      the same writes, or it was told wrong
//! ```

use crate::{Access, Account, LayerSession, Outcome, Session, StateError, WriteSet};
use alloy_primitives::{
    Address, B256, Bytes, U256,
    map::{AddressMap, B256Map, HashMap},
};
use std::sync::Arc;

/// Accounts, slots and codes as they are before a block.
#[derive(Debug, Default)]
pub struct Known {
    accounts: AddressMap<KnownAccount>,
    codes: B256Map<Bytes>,
}

#[derive(Debug)]
struct KnownAccount {
    account: Option<Account>,
    slots: HashMap<U256, U256>,
    /// Whether it has any slot; `None` if the layer was not asked.
    has_storage: Option<bool>,
}

impl Known {
    /// Reads all of this from a session in which nothing was written so far.
    ///
    /// # Errors
    ///
    /// As [`Session::account`] and [`Session::slot`].
    pub fn read(session: &mut Session, accesses: &[Access]) -> Result<Self, StateError> {
        let mut known = Self::default();
        for access in accesses {
            match access {
                Access::Account(address) => {
                    known.account_mut(session, address)?;
                }
                Access::SlotRead(address, slot) | Access::SlotWrite(address, slot) => {
                    let value = session.slot(address, slot)?;
                    known.account_mut(session, address)?.slots.insert(*slot, value);
                }
            }
        }
        Ok(known)
    }

    /// Reads the code with this hash.
    ///
    /// # Errors
    ///
    /// As [`Session::code`]; [`StateError::Corrupt`] if it is not there.
    pub fn read_code(&mut self, session: &mut Session, hash: B256) -> Result<Bytes, StateError> {
        let code = session
            .code(&hash)?
            .ok_or_else(|| StateError::Corrupt(format!("there is no code with the hash {hash}")))?;
        self.codes.insert(hash, code.clone());
        Ok(code)
    }

    /// Finds out whether an account has any slot, which only the creation of a contract asks.
    ///
    /// # Errors
    ///
    /// As [`Session::has_storage`].
    pub fn look_for_storage(
        &mut self,
        session: &mut Session,
        address: &Address,
    ) -> Result<(), StateError> {
        let found = session.has_storage(address)?;
        self.account_mut(session, address)?.has_storage = Some(found);
        Ok(())
    }

    /// An account before the block.
    ///
    /// # Errors
    ///
    /// [`StateError::Untold`] if it was not read.
    pub fn account(&self, address: &Address) -> Result<Option<Account>, StateError> {
        Ok(self.known(address)?.account)
    }

    /// A slot before the block; zero where there is none.
    ///
    /// # Errors
    ///
    /// [`StateError::Untold`] if it was not read.
    pub fn slot(&self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        self.known(address)?.slots.get(slot).copied().ok_or(StateError::Untold)
    }

    /// Whether an account had any slot before the block.
    ///
    /// # Errors
    ///
    /// [`StateError::Untold`] if that was not looked up.
    pub fn has_storage(&self, address: &Address) -> Result<bool, StateError> {
        let known = self.known(address)?;
        match known.account {
            None => Ok(false),
            Some(_) => known.has_storage.ok_or(StateError::Untold),
        }
    }

    /// A block that runs on this and on nothing else. It has no outcome: what it changes is what
    /// [`Session::into_writes`] says.
    pub fn session(self: &Arc<Self>) -> Session {
        Session::on(Box::new(KnownSession(Arc::clone(self))))
    }

    fn known(&self, address: &Address) -> Result<&KnownAccount, StateError> {
        self.accounts.get(address).ok_or(StateError::Untold)
    }

    fn account_mut(
        &mut self,
        session: &mut Session,
        address: &Address,
    ) -> Result<&mut KnownAccount, StateError> {
        use alloy_primitives::map::Entry;
        Ok(match self.accounts.entry(*address) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(KnownAccount {
                account: session.account(address)?,
                slots: HashMap::default(),
                has_storage: None,
            }),
        })
    }
}

/// A block that runs on what is known.
#[derive(Debug)]
struct KnownSession(Arc<Known>);

impl LayerSession for KnownSession {
    fn account(&mut self, address: &Address, _: &B256) -> Result<Option<Account>, StateError> {
        self.0.account(address)
    }

    fn slot(
        &mut self,
        address: &Address,
        _: &B256,
        slot: &U256,
        _: &B256,
    ) -> Result<U256, StateError> {
        self.0.slot(address, slot)
    }

    fn code(&mut self, code_hash: &B256) -> Result<Option<Bytes>, StateError> {
        self.0.codes.get(code_hash).cloned().map(Some).ok_or(StateError::Untold)
    }

    fn has_storage(&mut self, address: &Address, _: &B256) -> Result<bool, StateError> {
        self.0.has_storage(address)
    }

    fn finish(self: Box<Self>, _: &WriteSet) -> Result<Outcome, StateError> {
        Err(StateError::Protocol("a block was finished that runs on what is known and on no layer"))
    }
}
