//! The undo record of layers with content that follows from the state alone.

use crate::{
    Account, AccountWrite, Result, SlotWrite, StateLayer, WriteSet, corrupt, layer::SlotVisit,
    wiped::Wiped,
};
use alloy_primitives::{B256, U256};
use alloy_rlp::{BufMut, Decodable, Encodable, Header, RlpDecodable, RlpEncodable};
use polytrie_kv::{Read, Store};
use std::ops::ControlFlow;

/// The values that a block overwrote, by hashed key: enough to take it back in a layer that keeps nothing but the
/// state (flat maps, canonical tries). Layers with a commitment that depends on the history have their own records.
///
/// The slots of a wiped account are in the record if they are few, else in separate rows beside it
/// ([`WIPED_TABLE`](crate::WIPED_TABLE)), so that no record grows with the contracts that a block wipes. Such a
/// record is undone in steps ([`UndoSteps`](crate::UndoSteps)).
#[derive(Debug, Clone, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct UndoRecord {
    pub(crate) accounts: Vec<AccountUndo>,
}

#[derive(Debug, Clone, PartialEq, Eq, RlpEncodable, RlpDecodable)]
#[rlp(trailing)]
pub(crate) struct AccountUndo {
    pub(crate) hash: B256,
    /// The account before the block.
    pub(crate) before: Maybe,
    pub(crate) after: Maybe,
    /// Whether undoing the block drops the account's whole storage before `slots` are set.
    pub(crate) wipe: bool,
    pub(crate) slots: Vec<SlotUndo>,
    /// The pieces with the slots that the block wiped, if they are not in `slots`.
    pub(crate) apart: Option<Apart>,
}

/// An account, or none: in RLP a list of one or of none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Maybe(Option<Account>);

impl Encodable for Maybe {
    fn encode(&self, out: &mut dyn BufMut) {
        alloy_rlp::encode_list::<_, Account>(self.0.as_slice(), out);
    }

    fn length(&self) -> usize {
        alloy_rlp::list_length::<_, Account>(self.0.as_slice())
    }
}

impl Decodable for Maybe {
    fn decode(bytes: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let mut list = Header::decode_bytes(bytes, true)?;
        if list.is_empty() {
            return Ok(Self(None));
        }
        let account = Account::decode(&mut list)?;
        if list.is_empty() {
            Ok(Self(Some(account)))
        } else {
            Err(alloy_rlp::Error::UnexpectedLength)
        }
    }
}

/// The reference to the pieces of a wiped account's slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub(crate) struct Apart {
    /// Number of the block that wiped them.
    pub(crate) number: u64,
    pub(crate) slots: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub(crate) struct SlotUndo {
    pub(crate) hash: B256,
    pub(crate) before: U256,
    pub(crate) after: U256,
}

impl UndoRecord {
    /// Builds the record of the block `number`. `slots` visits, by the hash of an account that the block wiped, the
    /// slots that it had before, in the order of their hashes. If they are many, they are written to `store`, which
    /// need not be durable before the block.
    ///
    /// # Errors
    ///
    /// Any error of `slots`, or an error if the store fails.
    pub fn of(
        writes: &WriteSet,
        (store, number): (&Store, u64),
        mut slots: impl FnMut(&B256, &mut SlotVisit<'_>) -> Result<()>,
    ) -> Result<Self> {
        let mut undo = |write: &AccountWrite| -> Result<AccountUndo> {
            let mut apart = None;
            let slots = if write.wipe {
                match Wiped::of(store, number, &write.hash, |visit| slots(&write.hash, visit))? {
                    Wiped::Listed(slots) => slots
                        .into_iter()
                        .map(|(hash, before)| SlotUndo { hash, before, after: U256::ZERO })
                        .collect(),
                    Wiped::Apart(slots) => {
                        apart = Some(Apart { number, slots });
                        Vec::new()
                    }
                }
            } else {
                write
                    .slots
                    .iter()
                    .map(|s| SlotUndo { hash: s.hash, before: s.before, after: s.after })
                    .collect()
            };
            Ok(AccountUndo {
                hash: write.hash,
                before: Maybe(write.before),
                after: Maybe(write.after),
                // The present storage consists of the slots that were set after the wipe, if any.
                wipe: write.wipe && !write.slots.is_empty(),
                slots,
                apart,
            })
        };
        // Collected as results, they would be moved each time the list grows: its length would not be known.
        let mut accounts = Vec::with_capacity(writes.accounts().len());
        for write in writes.accounts() {
            accounts.push(undo(write)?);
        }
        Ok(Self { accounts })
    }

    /// Whether everything that the block overwrote is in the record itself.
    pub fn is_whole(&self) -> bool {
        self.accounts.iter().all(|account| account.apart.is_none())
    }

    /// Encodes the record as RLP of
    /// `[[hash, [before?], [after?], wipe, [[slot hash, before, after]…], [number, slots]?]…]`.
    pub fn encode(&self) -> Vec<u8> {
        // Written first, the accounts give the lengths of the lists around them. To compute those would take as long.
        let room = self.accounts.iter().map(|account| 140 + 70 * account.slots.len()).sum();
        let mut accounts = Vec::with_capacity(room);
        self.accounts.iter().for_each(|account| account.encode(&mut accounts));
        let list = Header { list: true, payload_length: accounts.len() };
        let record = Header { list: true, payload_length: list.length() + accounts.len() };
        let mut out = Vec::with_capacity(record.length() + record.payload_length);
        record.encode(&mut out);
        list.encode(&mut out);
        out.extend_from_slice(&accounts);
        out
    }

    /// Decodes a record.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](crate::StateError::Corrupt) if the bytes are not a record, or one that breaks the promises of a
    /// [`WriteSet`].
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        alloy_rlp::decode_exact(bytes)
            .ok()
            .filter(Self::is_well_formed)
            .ok_or_else(|| corrupt!("an undo record does not decode"))
    }

    /// Whether the promises of a [`WriteSet`] hold, so that a damaged record is refused here and not by a layer that
    /// relies on them.
    fn is_well_formed(&self) -> bool {
        self.accounts.is_sorted_by(|a, b| a.hash < b.hash)
            && self.accounts.iter().all(|account| {
                account.slots.is_sorted_by(|a, b| a.hash < b.hash)
                    && account.slots.iter().all(|slot| slot.before != slot.after)
                    // Only an account that existed can have been wiped.
                    && account
                        .apart
                        .is_none_or(|a| a.slots > 0 && account.before.0.is_some() && account.slots.is_empty())
            })
    }

    /// Returns the write set that undoes the block, without the slots in pieces beside the record.
    pub fn into_writes(self) -> WriteSet {
        let apart = self.accounts.iter().filter_map(|a| Some((a.hash, a.apart?.number))).collect();
        let accounts = self
            .accounts
            .into_iter()
            .map(|a| AccountWrite {
                hash: a.hash,
                address: None,
                before: a.after.0,
                after: a.before.0,
                wipe: a.wipe,
                slots: a
                    .slots
                    .into_iter()
                    .map(|s| SlotWrite::hashed(s.hash, s.after, s.before))
                    .collect(),
            })
            .collect();
        WriteSet { accounts, codes: Vec::new(), apart }
    }
}

/// Returns [`UndoRecords::writes`](crate::UndoRecords::writes) with every slot listed, however many there are: for
/// callers that need a wiped account's whole storage in memory, such as a witness.
///
/// # Errors
///
/// Those of [`UndoRecords::writes`](crate::UndoRecords::writes) and
/// [`UndoRecords::slots_apart`](crate::UndoRecords::slots_apart).
pub fn undo_writes_in_full(
    layer: &dyn StateLayer,
    record: &[u8],
    rows: &dyn Read,
) -> Result<WriteSet> {
    let records = layer.undo_records();
    let mut writes = records.writes(record, rows)?;
    for (account, number) in std::mem::take(&mut writes.apart) {
        let position = writes.accounts.binary_search_by(|write| write.hash.cmp(&account));
        let Ok(position) = position else { continue };
        let slots = &mut writes.accounts[position].slots;
        records.slots_apart(rows, (number, &account), &B256::ZERO, &mut |hash, after| {
            slots.push(SlotWrite::hashed(hash, U256::ZERO, after));
            Ok(ControlFlow::Continue(()))
        })?;
        if !slots.is_sorted_by(|a, b| a.hash < b.hash) {
            return Err(corrupt!("an undo record is not in order"));
        }
    }
    Ok(writes)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn its_bytes_are_those_of_the_lists_in_it() {
        let slot = |n: u8| SlotUndo {
            hash: B256::repeat_byte(n),
            before: U256::ZERO,
            after: U256::from(n) << 200,
        };
        let account = |n: u8| AccountUndo {
            hash: B256::repeat_byte(n),
            before: Maybe((!n.is_multiple_of(3)).then(Account::default)),
            after: Maybe(
                (!n.is_multiple_of(2)).then(|| Account { nonce: n.into(), ..Account::default() }),
            ),
            wipe: n.is_multiple_of(5),
            slots: (1..n % 4).map(slot).collect(),
            apart: (n % 12 == 1).then_some(Apart { number: 7, slots: 9 }),
        };
        for count in [0, 1, 2, 60] {
            let record = UndoRecord { accounts: (0..count).map(account).collect() };
            assert_eq!(record.encode(), alloy_rlp::encode(&record), "{count} accounts");
            assert_eq!(UndoRecord::decode(&record.encode()).unwrap(), record);
        }
    }

    #[test]
    fn an_account_is_once_there_or_not_at_all() {
        let account = Account::default();
        let list = |accounts: Vec<Account>| alloy_rlp::encode(accounts);
        for maybe in [None, Some(account)] {
            let bytes = alloy_rlp::encode(Maybe(maybe));
            assert_eq!(bytes, list(maybe.into_iter().collect()));
            assert_eq!(bytes.len(), Maybe(maybe).length());
            assert_eq!(alloy_rlp::decode_exact::<Maybe>(&bytes), Ok(Maybe(maybe)));
        }
        assert!(alloy_rlp::decode_exact::<Maybe>(list(vec![account; 2])).is_err());
    }
}
