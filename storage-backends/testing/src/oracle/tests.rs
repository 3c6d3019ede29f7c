//! Tests of the oracle with real states.

use super::*;
use crate::fixture;
use alloy_primitives::{b256, keccak256};
use alloy_trie::EMPTY_ROOT_HASH;
use serde_json::Value;
use std::fs;

/// Reads a JSON file of the fixtures.
fn json(path: &str) -> Option<Value> {
    let bytes = fs::read(fixture(path)?).unwrap();
    Some(serde_json::from_slice(&bytes).unwrap())
}

fn number(value: Option<&Value>) -> U256 {
    match value {
        Some(Value::String(text)) => text.parse().unwrap(),
        Some(Value::Number(number)) => U256::from(number.as_u64().unwrap()),
        _ => U256::ZERO,
    }
}

/// Reads the accounts of a genesis file, or of a dump of a state.
fn state_of(accounts: &Value) -> Oracle {
    let mut state = Oracle::default();
    for (address, account) in accounts.as_object().unwrap() {
        let code: Option<Bytes> =
            account.get("code").map(|code| code.as_str().unwrap().parse().unwrap());
        let code_hash = code.as_ref().map_or(Account::default().code_hash, keccak256);
        let slots = account.get("storage").and_then(Value::as_object).into_iter().flatten();
        let mut slots: Vec<(B256, U256)> = slots
            .map(|(slot, value)| {
                let digits = value.as_str().unwrap().trim_start_matches("0x");
                (hash_slot(&slot.parse().unwrap()), U256::from_str_radix(digits, 16).unwrap())
            })
            .collect();
        slots.sort_unstable();
        let account = GenesisAccount {
            hash: hash_address(&address.parse().unwrap()),
            account: Account {
                nonce: number(account.get("nonce")).to(),
                balance: number(account.get("balance")),
                code_hash,
            },
            code,
            slots: slots.into(),
        };
        state.insert(account).unwrap();
    }
    state
}

#[test]
fn the_empty_state_has_the_empty_root() {
    assert_eq!(Oracle::default().state_root(), EMPTY_ROOT_HASH);
}

#[test]
fn the_root_of_the_mainnet_genesis() {
    let Some(genesis) = json("genesis/mainnet.json") else { return };
    let state = state_of(&genesis["alloc"]);
    assert_eq!(state.accounts().len(), 8_893);
    let root = b256!("d7f8974fb5ac78d9ac099b9ad5018bedc2ce0a72dad1827a1709da30580f0544");
    assert_eq!(state.state_root(), root);
}

#[test]
fn the_root_of_a_state_with_code_and_slots() {
    let Some(dump) = json("chains/ethtest/headstate.json") else { return };
    let state = state_of(&dump["accounts"]);
    assert_eq!(state.state_root(), dump["root"].as_str().unwrap().parse::<B256>().unwrap());
    for (address, account) in dump["accounts"].as_object().unwrap() {
        let entry = &state.accounts()[&hash_address(&address.parse().unwrap())];
        let root: B256 = account["root"].as_str().unwrap().parse().unwrap();
        assert_eq!(entry.storage_root(), root, "{address}");
    }
}
