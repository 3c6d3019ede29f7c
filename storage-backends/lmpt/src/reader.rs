//! Reads at one block, unaffected by later blocks.

use crate::{keys::SlotKey, value::Record, view::View};
use alloy_primitives::{Address, B256, U256};
use parking_lot::Mutex;
use polytrie_kv::{Snapshot, Ticket};
use polytrie_state::{Access, Account, Result, StateReader, hash_address, hash_slot};

#[derive(Debug)]
pub(crate) struct LmptReader {
    pub(crate) view: View<Snapshot>,
    /// The ticket that keeps the versions which this reader sees.
    pub(crate) ticket: Ticket,
}

impl LmptReader {
    /// Returns the hash and the record of an account.
    fn record(&self, address: &Address) -> Result<(B256, Option<Record>)> {
        let hash = hash_address(address);
        Ok((hash, self.view.account(&hash)?))
    }
}

impl StateReader for LmptReader {
    polytrie_state::code_from!(view.flat);

    fn account(&self, address: &Address) -> Result<Option<Account>> {
        Ok(self.record(address)?.1.map(|record| record.account))
    }

    fn slot(&self, address: &Address, slot: &U256) -> Result<U256> {
        let (account, Some(Record { incarnation, .. })) = self.record(address)? else {
            return Ok(U256::ZERO);
        };
        self.view.slot(&SlotKey { account, incarnation, slot: hash_slot(slot) })
    }

    fn has_storage(&self, address: &Address) -> Result<bool> {
        match self.record(address)? {
            (account, Some(record)) => self.view.has_slots(account, record.incarnation),
            (_, None) => Ok(false),
        }
    }

    fn gathers(&self) -> bool {
        self.view.flat.gathers()
    }

    fn gather(&self, accesses: &[Access]) -> Result<()> {
        self.view.look_at(accesses, &Mutex::default())
    }
}
