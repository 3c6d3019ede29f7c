//! Changes that a user of a development node made by hand before a block. Any later execution of the block needs
//! them.

use super::{
    ChainDb,
    error::{ChainError, Result},
    tables::BY_HAND,
};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256, map::B256HashSet};
use alloy_rlp::{Decodable, RlpDecodable, RlpEncodable};
use polytrie_kv::{KeyRange, Read};
use polytrie_state::{Account, AccountChange, CommitmentKind, Outcome, TxWrites};
use std::ops::ControlFlow;

#[derive(Debug, RlpEncodable, RlpDecodable)]
struct Row {
    accounts: Vec<AccountRow>,
}

#[derive(Debug, RlpEncodable, RlpDecodable)]
struct AccountRow {
    address: Address,
    /// The account afterwards, unless it was removed: at most one entry, since RLP has no optional value.
    account: Vec<AccountFields>,
    wiped: bool,
    /// Code that may be new to the store: at most one entry.
    code: Vec<Bytes>,
    slots: Vec<SlotRow>,
}

#[derive(Debug, RlpEncodable, RlpDecodable)]
struct AccountFields {
    nonce: u64,
    balance: U256,
    code_hash: B256,
}

#[derive(Debug, RlpEncodable, RlpDecodable)]
struct SlotRow {
    slot: U256,
    value: U256,
}

impl<R: Read> ChainDb<R> {
    /// Returns the changes that were made by hand before the block with this hash.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or is damaged.
    pub fn by_hand(&self, hash: &B256) -> Result<TxWrites> {
        let Some(row) = self.store().get(BY_HAND, hash.as_slice())? else {
            return Ok(TxWrites::default());
        };
        let row = Row::decode(&mut row.as_slice()).map_err(|error| {
            ChainError::Corrupt(format!(
                "what was changed ahead of block {hash} is damaged: {error}"
            ))
        })?;
        Ok(TxWrites { accounts: row.accounts.into_iter().map(AccountRow::change).collect() })
    }
}

impl<R: Read> ChainDb<R> {
    /// Returns the numbers of the chain's blocks from `from` to `to`, both included, before which the state was
    /// changed by hand.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or is damaged.
    pub fn changed_by_hand(&self, (from, to): (u64, u64)) -> Result<Vec<u64>> {
        let mut hashes = B256HashSet::default();
        self.store().scan(BY_HAND, KeyRange::ALL, &mut |hash, _| {
            hashes.extend(B256::try_from(hash));
            Ok(ControlFlow::Continue(()))
        })?;
        let mut changed = Vec::new();
        if hashes.is_empty() {
            return Ok(changed);
        }
        for number in from..=to {
            if self.canonical(number)?.is_some_and(|(hash, _)| hashes.contains(&hash)) {
                changed.push(number);
            }
        }
        Ok(changed)
    }
}

/// Adds the row of changes by hand before a block, if there are any, to the batch of the block.
pub(super) fn put_by_hand(outcome: &mut Outcome, hash: &B256, writes: &TxWrites) {
    if !writes.accounts.is_empty() {
        let row = Row { accounts: writes.accounts.iter().map(AccountRow::new).collect() };
        outcome.batch.put(BY_HAND, hash.as_slice(), &alloy_rlp::encode(row));
    } else if outcome.commitment.kind() == CommitmentKind::None {
        // Without a commitment, a block that was taken back and had changes may have had this hash.
        outcome.batch.delete(BY_HAND, hash.as_slice());
    }
}

impl AccountRow {
    fn new(change: &AccountChange) -> Self {
        let fields = |account: Account| AccountFields {
            nonce: account.nonce,
            balance: account.balance,
            code_hash: account.code_hash,
        };
        Self {
            address: change.address,
            account: change.account.map(fields).into_iter().collect(),
            wiped: change.wiped,
            code: change.code.iter().map(|(_, code)| code.clone()).collect(),
            slots: change
                .slots
                .iter()
                .map(|(slot, value)| SlotRow { slot: *slot, value: *value })
                .collect(),
        }
    }

    fn change(self) -> AccountChange {
        let account = self.account.into_iter().next().map(|fields| Account {
            nonce: fields.nonce,
            balance: fields.balance,
            code_hash: fields.code_hash,
        });
        AccountChange {
            address: self.address,
            account,
            wiped: self.wiped,
            code: self.code.into_iter().next().map(|code| (keccak256(&code), code)),
            slots: self.slots.into_iter().map(|row| (row.slot, row.value)).collect(),
        }
    }
}
