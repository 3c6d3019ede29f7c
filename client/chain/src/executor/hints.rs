//! Hints about the state that a block will touch, from the block itself.

use alloy_consensus::{Transaction, TxEnvelope};
use alloy_primitives::U256;
use polytrie_state::{Access, Session};
use std::iter;

use super::BlockToExecute;

/// Prepares the session for the senders that are known, and for the recipients.
pub(super) fn expect(session: &mut Session, block: &BlockToExecute<'_>) {
    let known = if block.senders.are_known() { block.senders.count() } else { 0 };
    let senders = (0..known).filter_map(|number| block.senders.get(number).ok());
    session.expect(senders.chain(block.transactions.iter().filter_map(|tx| tx.to())));
}

/// Passes to the layer the accounts and slots that `block` will touch as far as its bytes contain them: receiver of
/// the fees, senders, recipients, access lists, authorities (EIP-7702), withdrawals, ommers; and those that a run
/// ahead has found. Does nothing if the layer wants no hints. Waits for senders that are being recovered if the layer is
/// slow, and leaves them out otherwise.
pub(super) fn announce(session: &mut Session, block: &BlockToExecute<'_>) {
    if !session.wants_hints() {
        return;
    }
    let are_known = block.senders.are_known();
    for (number, tx) in block.transactions.iter().enumerate() {
        if are_known {
            announce_sender(session, block, number);
        }
        accesses_in(tx).for_each(|access| session.hint(access));
    }
    for access in block.accesses {
        session.hint(*access);
    }
    for authority in block.authorities {
        session.hint(Access::Account(*authority));
    }
    session.hint(Access::Account(block.coinbase.unwrap_or(block.header.beneficiary)));
    for ommer in block.ommers {
        session.hint(Access::Account(ommer.beneficiary));
    }
    for withdrawal in block.withdrawals.unwrap_or_default() {
        session.hint(Access::Account(withdrawal.address));
    }
    // Senders that are being recovered come last: all else is read meanwhile. Where reads are fast, the transactions
    // begin without them.
    if !are_known && session.is_slow() {
        (0..block.senders.count()).for_each(|number| announce_sender(session, block, number));
    }
}

fn announce_sender(session: &mut Session, block: &BlockToExecute<'_>, number: usize) {
    // The execution reports a transaction without a sender.
    if let Ok(sender) = block.senders.get(number) {
        session.hint(Access::Account(sender));
    }
}

/// Returns the accounts and slots that the bytes of a transaction contain.
pub(super) fn accesses_in(tx: &TxEnvelope) -> impl Iterator<Item = Access> {
    let items = tx.access_list().into_iter().flat_map(|list| list.iter());
    let listed = items.flat_map(|item| {
        // The list does not say which slots are written; a hint for a write covers a read too.
        let slots = item.storage_keys.iter();
        let slots =
            slots.map(move |slot| Access::SlotWrite(item.address, U256::from_be_bytes(slot.0)));
        iter::once(Access::Account(item.address)).chain(slots)
    });
    tx.to().map(Access::Account).into_iter().chain(listed)
}
