//! A state that reads from some block and keeps its writes in memory.

use super::precompiles::SandboxPrecompiles;
use crate::executor::database::account_info;
use crate::{
    Overlay,
    executor::{
        BlockHashes, InternalError, access_list::AccessListBuilder, changes::account_change,
        codes::ready_to_run,
    },
};
use alloy_eips::eip7928::AccountChanges;
use alloy_evm::overrides::OverrideBlockHashes;
use alloy_primitives::{
    Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256,
    map::{AddressMap, HashMap},
};
use polytrie_state::{Account, AccountChange, StateError, StateReader, TxWrites};
use revm::{
    Database, DatabaseCommit, DatabaseRef,
    bytecode::Bytecode,
    primitives::hardfork::SpecId,
    state::{Account as EvmAccount, AccountInfo},
};
use revm_state_hooks::StateHook;
use std::{collections::BTreeMap, fmt, sync::Arc, time::Instant};

/// Hashes of earlier blocks that a sandbox can share.
pub(super) type SharedHashes = Arc<dyn BlockHashes + Send + Sync>;

/// State at some block, with changes in memory that end with the sandbox.
pub struct Sandbox {
    state: Overlay,
    hashes: SharedHashes,
    /// Hashes of simulated blocks, and those that the caller overrides; they take precedence over `hashes`.
    own_hashes: HashMap<u64, B256>,
    /// Whether code can be a delegation (EIP-7702).
    delegations: bool,
    /// Precompiles that were moved, each with its address and its new one; `None` if the account was overridden.
    pub(super) moved_precompiles: Vec<(Address, Option<Address>)>,
    /// Recorded changes, if they are recorded.
    recorded: Option<TxWrites>,
    /// Access list of the transactions so far, if one is made.
    access_list: Option<AccessListBuilder>,
    /// Deadline of runs.
    deadline: Option<Instant>,
}

impl Sandbox {
    /// Returns a sandbox on the state of `base`.
    pub fn new(base: Arc<dyn StateReader>, hashes: Arc<dyn BlockHashes + Send + Sync>) -> Self {
        Self {
            state: Overlay::new(base),
            hashes,
            own_hashes: HashMap::default(),
            delegations: true,
            moved_precompiles: Vec::new(),
            recorded: None,
            access_list: None,
            deadline: None,
        }
    }

    /// Sets the deadline of runs on the sandbox.
    #[must_use]
    pub const fn until(mut self, deadline: Option<Instant>) -> Self {
        self.deadline = deadline;
        self
    }

    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    pub(super) const fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    /// Sets whether code can be a delegation, as it can from Prague on.
    pub(crate) const fn set_delegations(&mut self, delegations: bool) {
        self.delegations = delegations;
    }

    /// Starts to record changes for [`Self::take_recorded`].
    pub fn record(&mut self) {
        self.recorded = Some(TxWrites::default());
    }

    /// Returns the changes since the recording started or since the last call, in order; an account may occur more than
    /// once.
    pub fn take_recorded(&mut self) -> Vec<AccountChange> {
        self.recorded
            .as_mut()
            .map(|writes| std::mem::take(&mut writes.accounts))
            .unwrap_or_default()
    }

    /// Starts an access list (EIP-7928), as at the start of a block.
    pub fn begin_access_list(&mut self) {
        self.access_list = Some(AccessListBuilder::default());
    }

    /// Moves to the place in the access list after this number of transactions.
    pub(super) const fn go_on_after(&mut self, transactions: usize) {
        if let Some(list) = &mut self.access_list {
            list.go_on_after(transactions);
        }
    }

    /// Returns the list since [`Self::begin_access_list`].
    pub fn end_access_list(&mut self) -> Option<Vec<AccountChanges>> {
        self.access_list.take().map(AccessListBuilder::finish)
    }

    /// Moves the precompiles back to their addresses.
    pub fn restore_precompiles(&mut self) {
        self.moved_precompiles.clear();
    }

    /// Sets the hash of a simulated block.
    pub fn set_block_hash(&mut self, number: u64, hash: B256) {
        self.own_hashes.insert(number, hash);
    }

    /// Returns an account with the changes so far.
    ///
    /// # Errors
    ///
    /// Fails if the state cannot be read.
    pub fn account(&self, address: &Address) -> Result<Option<Account>, StateError> {
        self.state.account(address)
    }

    /// Returns a slot with the changes so far.
    ///
    /// # Errors
    ///
    /// Fails if the state cannot be read.
    pub fn slot(&self, address: &Address, slot: &U256) -> Result<U256, StateError> {
        self.state.slot(address, slot)
    }

    /// Returns the code of an account with this code hash.
    ///
    /// # Errors
    ///
    /// Fails if the state cannot be read, or lacks the code.
    pub fn code(&self, hash: &B256) -> Result<Bytes, StateError> {
        if *hash == KECCAK256_EMPTY {
            return Ok(Bytes::new());
        }
        let missing = || StateError::Corrupt(format!("there is no code with the hash {hash}"));
        self.state.code(hash)?.ok_or_else(missing)
    }

    /// Changes an account.
    pub fn apply(&mut self, change: AccountChange) {
        self.state.apply(&change);
        if let Some(recorded) = &mut self.recorded {
            recorded.accounts.push(change);
        }
    }

    /// Returns the precompiles of a revision, with the moved ones at their new addresses.
    pub(super) fn precompiles(&self, spec: SpecId) -> SandboxPrecompiles {
        SandboxPrecompiles::new(spec, &self.moved_precompiles)
    }

    fn commit_account(&mut self, address: Address, account: &EvmAccount) {
        if let Some(list) = &mut self.access_list {
            list.add(address, account);
        }
        let Some(change) = account_change(address, account) else { return };
        // Code that is not new is in the state under its hash.
        self.apply(change);
    }
}

impl OverrideBlockHashes for Sandbox {
    fn override_block_hashes(&mut self, block_hashes: BTreeMap<u64, B256>) {
        self.own_hashes.extend(block_hashes);
    }
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox").field("changed", &self.state.changed()).finish_non_exhaustive()
    }
}

impl DatabaseRef for Sandbox {
    type Error = InternalError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, InternalError> {
        Ok(self.account(&address)?.map(account_info))
    }

    fn code_by_hash_ref(&self, code_hash: B256) -> Result<Bytecode, InternalError> {
        Ok(ready_to_run(self.code(&code_hash)?, self.delegations))
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, InternalError> {
        Ok(self.slot(&address, &slot)?)
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, InternalError> {
        Ok(match self.own_hashes.get(&number) {
            Some(hash) => *hash,
            // An overridden block number may be above all known blocks.
            None => self.hashes.block_hash(number)?.unwrap_or_default(),
        })
    }
}

impl Database for Sandbox {
    type Error = InternalError;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, InternalError> {
        self.basic_ref(address)
    }

    fn code_by_hash(&mut self, code_hash: B256) -> Result<Bytecode, InternalError> {
        self.code_by_hash_ref(code_hash)
    }

    fn storage(&mut self, address: Address, slot: U256) -> Result<U256, InternalError> {
        self.storage_ref(address, slot)
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, InternalError> {
        self.block_hash_ref(number)
    }
}

impl DatabaseCommit for Sandbox {
    fn commit(&mut self, changes: AddressMap<EvmAccount>) {
        for (address, account) in &changes {
            self.commit_account(*address, account);
        }
    }

    fn commit_iter(&mut self, changes: &mut dyn Iterator<Item = (Address, EvmAccount)>) {
        for (address, account) in changes {
            self.commit_account(address, &account);
        }
    }
}

impl StateHook for Sandbox {
    fn has_storage(&mut self, address: Address) -> Result<bool, InternalError> {
        Ok(self.state.has_storage(&address)?)
    }
}

/// Returns code with its hash, as a change contains it.
pub(super) fn hashed(code: Bytes) -> (B256, Bytes) {
    (keccak256(&code), code)
}
