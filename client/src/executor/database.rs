//! A session as the database under revm.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use alloy_primitives::{Address, B256, U256, map::AddressMap};
use polytrie_state::{Access, Session, StateError, TxWrites};
use revm::{
    Database, DatabaseCommit,
    bytecode::Bytecode,
    state::{Account as EvmAccount, AccountInfo},
};
use revm_state_hooks::StateHook;

use super::{BlockHashes, CodeCache, InternalError, changes::account_change};

/// The state of a session, as revm reads it and writes to it.
pub(super) struct SessionDatabase<'a> {
    pub(super) session: &'a mut Session,
    codes: &'a mut CodeCache,
    hashes: &'a dyn BlockHashes,
    /// The first thing that went wrong. Outlives the database, because alloy-evm drops it with its own error, and
    /// because a commit cannot return one.
    failure: Arc<OnceLock<InternalError>>,
    /// Kept between transactions for its allocation.
    writes: TxWrites,
}

impl<'a> SessionDatabase<'a> {
    pub(super) fn new(
        session: &'a mut Session,
        codes: &'a mut CodeCache,
        hashes: &'a dyn BlockHashes,
        failure: Arc<OnceLock<InternalError>>,
    ) -> Self {
        Self { session, codes, hashes, failure, writes: TxWrites::default() }
    }

    /// Remembers an error, if it is the first.
    fn noticed<T, E: Into<InternalError>>(&self, result: Result<T, E>) -> Result<T, InternalError> {
        result.map_err(|error| {
            let error = error.into();
            // Only the first one counts.
            let _ = self.failure.set(error.clone());
            error
        })
    }

    fn apply(&mut self, changes: impl Iterator<Item = (Address, EvmAccount)>) {
        self.writes.accounts.clear();
        for (address, account) in changes {
            let Some(change) = account_change(address, &account) else { continue };
            if let (Some((hash, _)), Some(code)) = (&change.code, account.info.code) {
                self.codes.insert(*hash, code);
            }
            self.writes.accounts.push(change);
        }
        if self.writes.accounts.is_empty() || self.failure.get().is_some() {
            return;
        }
        let result = self.session.apply(&self.writes);
        // A commit returns nothing; whoever asked for it looks at `failure`.
        let _ = self.noticed(result);
    }
}

impl fmt::Debug for SessionDatabase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionDatabase").field("failure", &self.failure).finish_non_exhaustive()
    }
}

impl Database for SessionDatabase<'_> {
    type Error = InternalError;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, InternalError> {
        let account = self.session.account(&address);
        let account = self.noticed(account)?;
        Ok(account.map(|account| AccountInfo {
            balance: account.balance,
            nonce: account.nonce,
            code_hash: account.code_hash,
            account_id: None,
            code: None,
        }))
    }

    fn code_by_hash(&mut self, code_hash: B256) -> Result<Bytecode, InternalError> {
        if let Some(code) = self.codes.get(&code_hash) {
            return Ok(code);
        }
        let code = self.session.code(&code_hash);
        let Some(code) = self.noticed(code)? else {
            let missing = StateError::Corrupt(format!("there is no code with the hash {code_hash}"));
            return self.noticed(Err(missing));
        };
        let code = Bytecode::new_raw_checked(code).map_err(|error| {
            StateError::Corrupt(format!("the code with the hash {code_hash} does not decode: {error}"))
        });
        let code = self.noticed(code)?;
        self.codes.insert(code_hash, code.clone());
        Ok(code)
    }

    fn storage(&mut self, address: Address, slot: U256) -> Result<U256, InternalError> {
        let value = self.session.slot(&address, &slot);
        self.noticed(value)
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, InternalError> {
        let hash = self.hashes.block_hash(number).ok_or(InternalError::MissingBlockHash { number });
        self.noticed(hash)
    }
}

impl DatabaseCommit for SessionDatabase<'_> {
    fn commit(&mut self, changes: AddressMap<EvmAccount>) {
        self.apply(changes.into_iter());
    }

    fn commit_iter(&mut self, changes: &mut dyn Iterator<Item = (Address, EvmAccount)>) {
        self.apply(changes);
    }
}

impl StateHook for SessionDatabase<'_> {
    fn hooks_enabled(&self) -> bool {
        self.session.wants_hints()
    }

    fn on_sload(&mut self, address: Address, slot: U256) {
        self.session.hint(Access::SlotRead(address, slot));
    }

    fn on_sstore(&mut self, address: Address, slot: U256) {
        self.session.hint(Access::SlotWrite(address, slot));
    }

    fn has_storage(&mut self, address: Address) -> Result<bool, InternalError> {
        let found = self.session.has_storage(&address);
        self.noticed(found)
    }
}
