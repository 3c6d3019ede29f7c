//! A session as the database under revm.

use std::sync::{Arc, OnceLock};

use alloy_primitives::{Address, B256, U256, map::AddressMap};
use polytrie_state::{Access, Account, Session, StateError, TxWrites};
use revm::{
    Database, DatabaseCommit,
    bytecode::Bytecode,
    state::{Account as EvmAccount, AccountInfo},
};
use revm_state_hooks::StateHook;

use super::{
    BlockHashes, CodeCache, InternalError, access_list::AccessListBuilder, changes::account_change,
    codes::ready_to_run,
};

/// State of a session, in the form in which revm reads and writes it.
pub(super) struct SessionDatabase<'a> {
    pub(super) session: &'a mut Session,
    codes: &'a mut CodeCache,
    hashes: &'a dyn BlockHashes,
    /// Whether code can be a delegation (EIP-7702).
    delegations: bool,
    /// First error. It is shared with the caller, because alloy-evm drops the database with its own
    /// error, and because a commit cannot return an error.
    failure: Arc<OnceLock<InternalError>>,
    /// Buffer that is kept between transactions for its allocation.
    writes: TxWrites,
    /// Access list of the block so far, if one is made.
    pub(super) access_list: Option<AccessListBuilder>,
}

impl<'a> SessionDatabase<'a> {
    pub(super) fn new(
        session: &'a mut Session,
        codes: &'a mut CodeCache,
        hashes: &'a dyn BlockHashes,
        delegations: bool,
        failure: Arc<OnceLock<InternalError>>,
    ) -> Self {
        let writes = TxWrites::default();
        Self { session, codes, hashes, delegations, failure, writes, access_list: None }
    }

    /// Stores an error if it is the first.
    fn noticed<T, E: Into<InternalError>>(&self, result: Result<T, E>) -> Result<T, InternalError> {
        result.map_err(|error| {
            let error = error.into();
            // Only the first error counts.
            let _ = self.failure.set(error.clone());
            error
        })
    }

    /// Adds the change of an account to the next writes.
    fn add(&mut self, address: Address, account: &EvmAccount) {
        if let Some(list) = &mut self.access_list {
            list.add(address, account);
        }
        let Some(change) = account_change(address, account) else { return };
        if let (Some((hash, _)), Some(code)) = (&change.code, &account.info.code) {
            self.codes.insert(*hash, code.clone());
        }
        self.writes.accounts.push(change);
    }

    fn apply(&mut self) {
        if !self.writes.accounts.is_empty() && self.failure.get().is_none() {
            let result = self.session.apply(&self.writes);
            // A commit returns nothing; the caller checks `failure`.
            let _ = self.noticed(result);
        }
        self.writes.accounts.clear();
    }
}

polytrie_kv::debug_fields!(SessionDatabase['_] { failure });

/// Returns an account in revm's form. revm loads the code by its hash.
pub(super) const fn account_info(account: Account) -> AccountInfo {
    AccountInfo {
        balance: account.balance,
        nonce: account.nonce,
        code_hash: account.code_hash,
        account_id: None,
        code: None,
    }
}

impl Database for SessionDatabase<'_> {
    type Error = InternalError;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, InternalError> {
        let account = self.session.account(&address);
        let account = self.noticed(account)?;
        Ok(account.map(account_info))
    }

    fn code_by_hash(&mut self, code_hash: B256) -> Result<Bytecode, InternalError> {
        if let Some(code) = self.codes.get(&code_hash, self.delegations) {
            self.session.count_known_code(&code_hash, code.original_byte_slice().len());
            return Ok(code);
        }
        let code = self.session.code(&code_hash);
        let Some(code) = self.noticed(code)? else {
            let missing =
                StateError::Corrupt(format!("there is no code with the hash {code_hash}"));
            return self.noticed(Err(missing));
        };
        let code = ready_to_run(code, self.delegations);
        self.codes.insert(code_hash, code.clone());
        Ok(code)
    }

    fn storage(&mut self, address: Address, slot: U256) -> Result<U256, InternalError> {
        let value = self.session.slot(&address, &slot);
        self.noticed(value)
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, InternalError> {
        let hash = self.hashes.block_hash(number);
        let hash = self.noticed(hash)?.ok_or(InternalError::MissingBlockHash { number });
        self.noticed(hash)
    }
}

impl DatabaseCommit for SessionDatabase<'_> {
    fn commit(&mut self, changes: AddressMap<EvmAccount>) {
        for (address, account) in &changes {
            self.add(*address, account);
        }
        self.apply();
    }

    fn commit_iter(&mut self, changes: &mut dyn Iterator<Item = (Address, EvmAccount)>) {
        for (address, account) in changes {
            self.add(address, &account);
        }
        self.apply();
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
