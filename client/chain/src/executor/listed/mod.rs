//! Execution of a block with an access list that is known before (EIP-7928).
//!
//! The list names all that the block reads and every value that it leaves. So all reads are done at once
//! ([`ListedBlock::read`]), the final values are known ([`ListedBlock::finish`]), and so are the values before each
//! transaction: transactions can run at the same time ([`Transactions`]).
//!
//! ```text
//! this one:  read all ─► take in what the block leaves ─► commitment ─► transactions 5, 7 … ─┐
//! another:          └──► before the transactions ─► 1 ─► 2 ─► 3 ─► … in order, into a session ─► after them
//! others:           └──► transactions 4, 6, 8 …, each on what the list says comes before it ─┘
//! ```
//!
//! Where there is no commitment, this thread and the other one change places ([`Elsewhere`]).
//!
//! The list is first assumed to be right, and then compared with the execution. If all of it agrees, each transaction
//! ran on the right values: the first one did, because only the calls before the transactions precede it; so its
//! results, which are those in the list, are right; so the second one ran on the right values, and so on. If anything
//! differs (or a transaction reads something that is not listed) the result means nothing, and the block must run
//! without its list.
//!
//! All of this is for blocks from Cancun on. Before, a contract with slots could destroy itself, and the list lacks
//! those of its slots that the block did not read.

mod others;
mod transactions;
mod view;

pub(super) use others::Others;
pub(super) use transactions::Transactions;

use super::{CodeCache, codes::ready_to_run};
use alloy_eips::{eip4788::SYSTEM_ADDRESS, eip7928::AccountChanges};
use alloy_primitives::{
    Address, B256, U256, keccak256,
    map::{AddressMap, B256Map, Entry},
};
use polytrie_state::{
    Access, Account, AccountChange, FinishedLater, HasStorage, Known, Session, StateError, TxWrites,
};
use revm::bytecode::Bytecode;
use std::sync::Arc;

/// A block's list, and the state that it names as of before the block.
#[derive(Debug)]
pub struct ListedBlock {
    list: Arc<Vec<AccountChanges>>,
    /// Index of each account in the list.
    places: AddressMap<usize>,
    known: Arc<Known>,
    /// Codes that accounts in the list have, or are given.
    codes: B256Map<Bytecode>,
    /// Hashes of the codes that an account is given, in the order of the list.
    given: AddressMap<Vec<B256>>,
}

/// Options of a block's execution by its list.
#[derive(Clone, Copy)]
pub struct Listed<'a> {
    /// List, and the state that was read.
    pub block: &'a ListedBlock,
    /// How transactions run at the same time; `None` to run them one after the other.
    pub together: Option<Together<'a>>,
}

polytrie_kv::debug_fields!(Listed['_] {});

/// Options of transactions that run at the same time.
#[derive(Clone, Copy)]
pub struct Together<'a> {
    /// Number of threads that run them. One of them puts their results in order. Another one does `first` before it runs any.
    pub threads: usize,
    /// Work such as the commitment.
    pub first: &'a (dyn Fn() + Sync),
    /// The part that does not belong to the calling thread.
    pub elsewhere: Elsewhere,
}

polytrie_kv::debug_fields!(Together['_] { threads });

/// The part of a block that another thread does. The longer one is better off on the calling thread, which has read the
/// state, and need not wake up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elsewhere {
    /// The run: the calling thread computes the commitment.
    Run,
    /// The commitment: the calling thread runs the block.
    Commitment,
}

/// Returns the accounts and slots of a list, in the order of the list.
pub fn accesses(list: &[AccountChanges]) -> Vec<Access> {
    let slots: usize =
        list.iter().map(|a| 1 + a.storage_changes.len() + a.storage_reads.len()).sum();
    let mut accesses = Vec::with_capacity(slots);
    for account in list {
        let address = account.address;
        accesses.push(Access::Account(address));
        let written = account.storage_changes.iter();
        accesses.extend(written.map(|slot| Access::SlotWrite(address, slot.slot)));
        let read = account.storage_reads.iter();
        accesses.extend(read.map(|slot| Access::SlotRead(address, *slot)));
    }
    accesses
}

impl ListedBlock {
    /// Reads from `session`, in which nothing was written so far, all that a block with this list needs. The fees go to
    /// `coinbase`; `delegations` says whether code can be a delegation (EIP-7702). `below` answers for the state at which the session began.
    /// The list must have passed `check_access_list`.
    ///
    /// # Errors
    ///
    /// Fails if the layer fails.
    pub(super) fn read(
        session: &mut Session,
        codes: &mut CodeCache,
        list: Arc<Vec<AccountChanges>>,
        coinbase: Address,
        delegations: bool,
        below: HasStorage,
    ) -> Result<Self, StateError> {
        let mut wanted = accesses(&list);
        if session.wants_hints() {
            // Others read from the end of the list, and this thread from its beginning, so that no item is read twice.
            for access in wanted.iter().rev() {
                session.hint(*access);
            }
        }
        // The EVM always reads these accounts, even if it does not change them.
        wanted.extend([SYSTEM_ADDRESS, coinbase].map(Access::Account));
        let mut known = Known::read(session, &wanted, below)?;
        let (mut places, mut given) = (AddressMap::default(), AddressMap::default());
        let mut needed = B256Map::default();
        for (place, listed) in list.iter().enumerate() {
            let address = listed.address;
            places.insert(address, place);
            let before = known.account(&address)?;
            if let Some(account) = before.filter(Account::has_code) {
                let hash = account.code_hash;
                if let Entry::Vacant(entry) = needed.entry(hash) {
                    let code = match codes.get(&hash, delegations) {
                        Some(code) => {
                            known.add_code(hash, code.original_bytes());
                            code
                        }
                        None => {
                            let code = ready_to_run(known.read_code(session, hash)?, delegations);
                            codes.insert(hash, code.clone());
                            code
                        }
                    };
                    entry.insert(code);
                }
            }
            if !listed.code_changes.is_empty() {
                let hashes = listed.code_changes.iter().map(|change| {
                    let hash = keccak256(&change.new_code);
                    let code = || ready_to_run(change.new_code.clone(), delegations);
                    needed.entry(hash).or_insert_with(code);
                    hash
                });
                let hashes = hashes.collect();
                given.insert(address, hashes);
            }
            // Where a contract is created, or an account is deleted, the EVM asks whether the account has storage. Only
            // these accounts are looked up: few blocks ask for others, such as those of creations that fail.
            if before.is_some_and(|account| account.nonce == 0 && !account.has_code())
                && (!listed.code_changes.is_empty()
                    || listed.balance_changes.iter().any(|change| change.post_balance.is_zero()))
            {
                known.look_for_storage(session, &address)?;
            }
        }
        Ok(Self { list, places, known: Arc::new(known), codes: needed, given })
    }

    /// Returns the list.
    pub fn list(&self) -> &[AccountChanges] {
        &self.list
    }

    /// Ends the session from which this was read with the values that the block leaves by its list.
    ///
    /// # Errors
    ///
    /// Fails if the layer fails.
    pub fn finish(&self, session: Session) -> Result<FinishedLater, StateError> {
        session.finish_known(&self.known, &self.writes()?)
    }

    /// Returns the changes of the block, as if it were one transaction.
    fn writes(&self) -> Result<TxWrites, StateError> {
        let changed = self.list.iter().filter(|listed| listed.has_changes());
        let accounts = changed.map(|listed| {
            let address = listed.address;
            let before = self.known.account(&address)?;
            let after = self.account_after(listed, before, u64::MAX);
            let code = self.given.get(&address).and_then(|hashes| hashes.last());
            let code = code.zip(listed.code_post_state()).map(|(hash, code)| (*hash, code.clone()));
            Ok(AccountChange {
                address,
                account: after,
                wiped: after.is_none(),
                code: code.filter(|(_, code)| !code.is_empty()),
                slots: listed.storage_post_states().collect(),
            })
        });
        Ok(TxWrites { accounts: accounts.collect::<Result<_, StateError>>()? })
    }

    /// Returns a session on the state that was read.
    pub fn session(&self) -> Session {
        self.known.session()
    }

    /// Returns an account after all changes with an index of at most `index`.
    fn account_after(
        &self,
        listed: &AccountChanges,
        before: Option<Account>,
        index: u64,
    ) -> Option<Account> {
        let nonce =
            last_of(&listed.nonce_changes, index, |c| c.block_access_index.get()).map(|at| {
                let change = &listed.nonce_changes[at];
                change.new_nonce
            });
        let balance = last_of(&listed.balance_changes, index, |c| c.block_access_index.get())
            .map(|at| listed.balance_changes[at].post_balance);
        let code = last_of(&listed.code_changes, index, |c| c.block_access_index.get())
            .and_then(|at| self.given.get(&listed.address)?.get(at).copied());
        if (nonce, balance, code) == (None, None, None) {
            return before;
        }
        let account = before.unwrap_or_default();
        let account = Account {
            nonce: nonce.unwrap_or(account.nonce),
            balance: balance.unwrap_or(account.balance),
            code_hash: code.unwrap_or(account.code_hash),
        };
        Some(account).filter(|account| !account.is_empty())
    }

    /// Returns the value of a slot after all changes with an index of at most `index`; `None` if the list has no such
    /// change.
    fn slot_after(listed: &AccountChanges, slot: &U256, index: u64) -> Option<U256> {
        let at = listed.storage_changes.binary_search_by(|changes| changes.slot.cmp(slot)).ok()?;
        let changes = &listed.storage_changes[at].changes;
        let at = last_of(changes, index, |change| change.block_access_index.get())?;
        Some(changes[at].new_value)
    }
}

/// Returns the position of the last of these ordered changes with an index of at most `index`.
fn last_of<T>(changes: &[T], index: u64, of: impl Fn(&T) -> u64) -> Option<usize> {
    changes.partition_point(|change| of(change) <= index).checked_sub(1)
}
