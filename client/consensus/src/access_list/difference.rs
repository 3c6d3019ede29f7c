//! The first difference between a block access list and the execution of its block.

use alloy_eips::eip7928::{AccountChanges, BlockAccessIndex, BlockAccessPhase};
use alloy_primitives::{Address, Bytes, U256};
use std::{cmp::Ordering, fmt};

/// The first difference between a list and the execution of the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessListDifference {
    /// An account that is in the list or in the execution, but not in both.
    Account {
        /// Address of the account.
        address: Address,
        /// Whether the list has the account; otherwise the execution has it.
        listed: bool,
    },
    /// A slot that either the list or the execution has among the slots that are read and not changed.
    Read {
        /// Address of the account.
        address: Address,
        /// Slot in the account's storage.
        slot: U256,
        /// Whether the list has the slot; otherwise the execution has it.
        listed: bool,
    },
    /// A value of an account that differs after a place of the block.
    Change {
        /// Address of the account.
        address: Address,
        /// Value of the account that differs.
        what: Changed,
        /// Place in the block after which the values differ.
        place: Place,
        /// Value in the list; `None` if the list has no such change.
        listed: Option<ChangedValue>,
        /// Value after the execution; `None` if nothing changed there.
        executed: Option<ChangedValue>,
    },
}

/// A value of an account that can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Value of this slot.
    Slot(U256),
    /// Balance, in wei.
    Balance,
    /// Nonce.
    Nonce,
    /// Code.
    Code,
}

/// Value after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangedValue {
    /// Value of a slot, a balance or a nonce.
    Number(U256),
    /// Bytes of a code.
    Code(Bytes),
}

/// A place in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index in the list.
    pub index: BlockAccessIndex,
    /// Number of transactions in the block.
    pub transactions: usize,
}

/// Returns the first difference between the list of a block with this number of transactions and the execution, in the
/// order of the list; `None` if there is none. Both must be in the order that
/// [`check_access_list`](super::check_access_list) checks.
pub fn first_difference(
    listed: &[AccountChanges],
    executed: &[AccountChanges],
    transactions: usize,
) -> Option<AccessListDifference> {
    side_by_side(listed, executed, |account| account.address).find_map(|(address, pair)| match pair
    {
        (Some(listed), Some(executed)) => in_account(listed, executed, transactions),
        (listed, _) => Some(AccessListDifference::Account { address, listed: listed.is_some() }),
    })
}

fn in_account(
    listed: &AccountChanges,
    executed: &AccountChanges,
    transactions: usize,
) -> Option<AccessListDifference> {
    let address = listed.address;
    let change = |what, found: FirstChange| {
        let (index, listed, executed) = found;
        let place = Place { index, transactions };
        AccessListDifference::Change { address, what, place, listed, executed }
    };
    let number = |value: U256| ChangedValue::Number(value);
    let slots = || {
        let mut slots =
            side_by_side(&listed.storage_changes, &executed.storage_changes, |slot| slot.slot);
        slots.find_map(|(slot, (listed, executed))| {
            let listed = listed.map_or(&[][..], |slot| &slot.changes[..]);
            let executed = executed.map_or(&[][..], |slot| &slot.changes[..]);
            let found = first_change(
                listed,
                executed,
                |change| change.block_access_index,
                |change| number(change.new_value),
            );
            found.map(|found| change(Changed::Slot(slot), found))
        })
    };
    let reads = || {
        let mut reads = side_by_side(&listed.storage_reads, &executed.storage_reads, |slot| *slot);
        reads.find_map(|(slot, (listed, executed))| {
            let differs = listed.is_none() || executed.is_none();
            let listed = listed.is_some();
            differs.then_some(AccessListDifference::Read { address, slot, listed })
        })
    };
    let balances = || {
        let found = first_change(
            &listed.balance_changes,
            &executed.balance_changes,
            |change| change.block_access_index,
            |change| number(change.post_balance),
        );
        found.map(|found| change(Changed::Balance, found))
    };
    let nonces = || {
        let found = first_change(
            &listed.nonce_changes,
            &executed.nonce_changes,
            |change| change.block_access_index,
            |change| number(U256::from(change.new_nonce)),
        );
        found.map(|found| change(Changed::Nonce, found))
    };
    let codes = || {
        let found = first_change(
            &listed.code_changes,
            &executed.code_changes,
            |change| change.block_access_index,
            |change| ChangedValue::Code(change.new_code.clone()),
        );
        found.map(|found| change(Changed::Code, found))
    };
    slots().or_else(reads).or_else(balances).or_else(nonces).or_else(codes)
}

/// Index of a change, its value in the list, and its value after the execution.
type FirstChange = (BlockAccessIndex, Option<ChangedValue>, Option<ChangedValue>);

fn first_change<T: PartialEq>(
    listed: &[T],
    executed: &[T],
    index: fn(&T) -> BlockAccessIndex,
    value: impl Fn(&T) -> ChangedValue,
) -> Option<FirstChange> {
    let mut changes = side_by_side(listed, executed, index);
    let (index, (listed, executed)) = changes.find(|(_, (listed, executed))| listed != executed)?;
    Some((index, listed.map(&value), executed.map(&value)))
}

/// Returns the entries of two sorted lists in pairs by key; an entry without a partner comes alone.
fn side_by_side<'a, T, K: Ord>(
    listed: &'a [T],
    executed: &'a [T],
    key: fn(&T) -> K,
) -> impl Iterator<Item = (K, (Option<&'a T>, Option<&'a T>))> {
    let (mut listed, mut executed) = (listed.iter().peekable(), executed.iter().peekable());
    std::iter::from_fn(move || {
        let order = match (listed.peek(), executed.peek()) {
            (Some(listed), Some(executed)) => key(listed).cmp(&key(executed)),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        let listed = listed.next_if(|_| order.is_le());
        let executed = executed.next_if(|_| order.is_ge());
        Some((key(listed.or(executed)?), (listed, executed)))
    })
}

impl fmt::Display for AccessListDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Account { address, listed: true } => {
                write!(f, "it names the account {address}, which the block does not touch")
            }
            Self::Account { address, listed: false } => {
                write!(f, "it does not name the account {address}, which the block touches")
            }
            Self::Read { address, slot, listed: true } => write!(
                f,
                "it names slot {slot:#x} of {address} as read, expected it not to be there: the block does not read it, or changes it"
            ),
            Self::Read { address, slot, listed: false } => write!(
                f,
                "it does not name slot {slot:#x} of {address} as read, which the block reads and does not change"
            ),
            Self::Change { address, what, place, listed, executed } => {
                write!(f, "at {place} it has ")?;
                match listed {
                    Some(value) => write!(f, "the value {value}")?,
                    None => f.write_str("no change")?,
                }
                write!(f, " for {what} of {address}, but running the block ")?;
                match executed {
                    Some(value) => write!(f, "left {value}"),
                    None => f.write_str("changed nothing there"),
                }
            }
        }
    }
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot(slot) => write!(f, "slot {slot:#x}"),
            Self::Balance => f.write_str("the balance"),
            Self::Nonce => f.write_str("the nonce"),
            Self::Code => f.write_str("the code"),
        }
    }
}

impl fmt::Display for ChangedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number:#x}"),
            Self::Code(code) if code.is_empty() => f.write_str("(no code)"),
            // The whole code would fill a screen.
            Self::Code(code) => {
                write!(f, "(code of {} bytes, {})", code.len(), alloy_primitives::keccak256(code))
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, transactions } = self;
        match index.phase(*transactions) {
            Some(BlockAccessPhase::PreExecution) => {
                write!(f, "index {index} (before the transactions)")
            }
            Some(BlockAccessPhase::Transaction(transaction)) => {
                write!(f, "index {index} (transaction {transaction})")
            }
            Some(BlockAccessPhase::PostExecution) => {
                write!(f, "index {index} (after the transactions)")
            }
            None => write!(f, "index {index} (which the block does not have)"),
        }
    }
}
