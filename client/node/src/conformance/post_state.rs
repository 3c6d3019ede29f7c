//! The comparison of a layer's state with the one that a test expects.

use crate::state_root::RootBuilder;
use alloy_genesis::GenesisAccount;
use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256, keccak256};
use polytrie_state::{Account, StateError, StateLayer, hash_address};
use std::{collections::BTreeMap, fmt, ops::ControlFlow};

/// First difference between the two states.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Difference {
    Missing { address: Address },
    Unexpected { hash: B256, account: Account },
    Account { address: Address, found: Account, expected: Account },
    Slot { address: Address, slot: Option<U256>, hash: B256, found: U256, expected: U256 },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { address } => write!(f, "the account {address} is missing"),
            Self::Unexpected { hash, account } => {
                write!(f, "there is an account that should not be there: hash {hash}, ")?;
                write_account(f, account)
            }
            Self::Account { address, found, expected } => {
                write!(f, "the account {address} has ")?;
                write_account(f, found)?;
                f.write_str("; expected ")?;
                write_account(f, expected)
            }
            Self::Slot { address, slot: Some(slot), found, expected, .. } => {
                write!(f, "slot {slot:#x} of {address} is {found:#x}, expected {expected:#x}")
            }
            Self::Slot { address, slot: None, hash, found, expected } => {
                write!(
                    f,
                    "the slot of {address} with the hash {hash} is {found:#x}, expected {expected:#x}"
                )
            }
        }
    }
}

fn write_account(f: &mut fmt::Formatter<'_>, account: &Account) -> fmt::Result {
    let Account { nonce, balance, code_hash } = account;
    write!(f, "nonce {nonce}, balance {balance}, code hash {code_hash}")
}

/// Returns the first account or slot that differs from the test; `None` if none does.
pub(super) fn compare(
    layer: &dyn StateLayer,
    expected: &BTreeMap<Address, GenesisAccount>,
) -> Result<Option<Difference>, StateError> {
    let mut left: BTreeMap<B256, _> = expected
        .iter()
        .map(|(address, account)| (hash_address(address), (*address, account)))
        .collect();
    let mut difference = None;
    layer.accounts(B256::ZERO, &mut |hash, found| {
        difference = match left.remove(&hash) {
            None => Some(Difference::Unexpected { hash, account: found }),
            Some((address, account)) => {
                let expected = account_of(account);
                if found == expected {
                    compare_slots(layer, hash, address, account)?
                } else {
                    Some(Difference::Account { address, found, expected })
                }
            }
        };
        Ok(if difference.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    let missing = left.into_values().next().map(|(address, _)| Difference::Missing { address });
    Ok(difference.or(missing))
}

fn account_of(account: &GenesisAccount) -> Account {
    let code = account.code.as_ref().filter(|code| !code.is_empty());
    Account {
        nonce: account.nonce.unwrap_or_default(),
        balance: account.balance,
        code_hash: code.map_or(KECCAK256_EMPTY, keccak256),
    }
}

fn compare_slots(
    layer: &dyn StateLayer,
    hash: B256,
    address: Address,
    account: &GenesisAccount,
) -> Result<Option<Difference>, StateError> {
    let slots = account.storage.iter().flatten().filter(|(_, value)| !value.is_zero());
    let mut left: BTreeMap<B256, (U256, U256)> =
        slots.map(|(slot, value)| (keccak256(slot), ((*slot).into(), (*value).into()))).collect();
    let mut difference = None;
    layer.slots(hash, B256::ZERO, &mut |hash, found| {
        let (slot, expected) = match left.remove(&hash) {
            Some((slot, expected)) => (Some(slot), expected),
            None => (None, U256::ZERO),
        };
        if found == expected {
            return Ok(ControlFlow::Continue(()));
        }
        difference = Some(Difference::Slot { address, slot, hash, found, expected });
        Ok(ControlFlow::Break(()))
    })?;
    let missing = left.into_iter().next().map(|(hash, (slot, expected))| Difference::Slot {
        address,
        slot: Some(slot),
        hash,
        found: U256::ZERO,
        expected,
    });
    Ok(difference.or(missing))
}

/// Computes the state root of the layer's accounts and slots, with another trie than the layer's.
pub(super) fn state_root(layer: &dyn StateLayer) -> Result<B256, StateError> {
    let mut root = RootBuilder::default();
    layer.accounts(B256::ZERO, &mut |hash, account| {
        layer.slots(hash, B256::ZERO, &mut |slot, value| {
            root.slot(slot, &value)?;
            Ok(ControlFlow::Continue(()))
        })?;
        root.account(hash, &account)?;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(root.root())
}
