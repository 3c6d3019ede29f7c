//! Comparisons of a layer with the oracle.

use super::{Driver, LayerFactory, Row};
use crate::{History, Oracle, OracleAccount};
use alloy_primitives::{B256, keccak256};
use polytrie_state::{Commitment, CommitmentKind, StateError, StateLayer, StateReader};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::{collections::BTreeMap, fmt::Debug, ops::ControlFlow, sync::Arc};

/// Returns a whole state as the layer lists it.
///
/// # Errors
///
/// If the layer fails.
pub fn dump(layer: &dyn StateLayer) -> Result<BTreeMap<B256, OracleAccount>, StateError> {
    let mut state = BTreeMap::new();
    let mut last = None;
    layer.accounts(B256::ZERO, &mut |hash, account| {
        assert!(last < Some(hash), "account {hash} is listed after {last:?}");
        last = Some(hash);
        state.insert(hash, OracleAccount { account, slots: Arc::default() });
        Ok(ControlFlow::Continue(()))
    })?;
    for (hash, entry) in &mut state {
        let (mut last, mut slots) = (None, BTreeMap::new());
        layer.slots(*hash, B256::ZERO, &mut |slot, value| {
            assert!(last < Some(slot), "slot {slot} of {hash} is listed after {last:?}");
            last = Some(slot);
            slots.insert(slot, value);
            Ok(ControlFlow::Continue(()))
        })?;
        entry.slots = Arc::new(slots);
    }
    Ok(state)
}

/// Panics unless the layer has exactly this state.
pub fn assert_state(driver: &Driver<'_>, expected: &Oracle, context: &dyn Debug) {
    let found = dump(&**driver.layer()).unwrap_or_else(|e| panic!("{context:?}: {e}"));
    assert_maps(&found, expected.accounts(), context);
    assert_commitment(driver.factory(), &driver.layer().commitment(), expected, context);
}

/// Panics unless a commitment is of the layer's kind and, where only one value is right, has that value.
pub(super) fn assert_commitment(
    factory: &dyn LayerFactory,
    found: &Commitment,
    expected: &Oracle,
    context: &dyn Debug,
) {
    assert_eq!(found.kind(), factory.kind(), "{context:?}: the kind of the commitment");
    match found.kind() {
        CommitmentKind::StateRoot => {
            assert_eq!(found.digest(), expected.state_root(), "{context:?}: the state root");
        }
        CommitmentKind::None => assert_eq!(*found, Commitment::none(), "{context:?}"),
        CommitmentKind::Own => {}
    }
}

/// Panics at the first account that two states have differently.
pub(super) fn assert_maps(
    found: &BTreeMap<B256, OracleAccount>,
    expected: &BTreeMap<B256, OracleAccount>,
    context: &dyn Debug,
) {
    if found == expected {
        return;
    }
    for hash in found.keys().chain(expected.keys()) {
        assert_eq!(found.get(hash), expected.get(hash), "{context:?}: account {hash}");
    }
}

/// Panics unless the reader answers with this state, for every key of the history and many others.
pub fn assert_reads(
    reader: &dyn StateReader,
    expected: &Oracle,
    history: &History,
    context: &dyn Debug,
) {
    let fail = |e: StateError| -> ! { panic!("{context:?}: {e}") };
    for address in history.addresses() {
        let found = reader.account(&address).unwrap_or_else(|e| fail(e));
        assert_eq!(found, expected.account(&address), "{context:?}: account {address}");
        let found_storage = reader.has_storage(&address).unwrap_or_else(|e| fail(e));
        let has_storage = expected.has_storage(&address);
        assert_eq!(found_storage, has_storage, "{context:?}: whether {address} has storage");
        if let Some(account) = found.filter(|account| account.has_code()) {
            let code = reader.code(&account.code_hash).unwrap_or_else(|e| fail(e));
            let hash = code.map(|code| keccak256(&code));
            assert_eq!(hash, Some(account.code_hash), "{context:?}: the code of {address}");
        }
    }
    for (address, slot) in history.slots() {
        let found = reader.slot(&address, &slot).unwrap_or_else(|e| fail(e));
        let value = expected.slot(&address, &slot);
        assert_eq!(found, value, "{context:?}: slot {slot} of {address}");
    }
    let unknown = reader.code(&B256::repeat_byte(0x77)).unwrap_or_else(|e| fail(e));
    assert_eq!(unknown, None, "{context:?}: code that nobody stored");
}

/// Panics unless the lists of accounts and slots can start at any key and stop at any time.
pub(super) fn assert_lists(driver: &Driver<'_>, expected: &Oracle, seed: u64, context: &dyn Debug) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let layer = driver.layer();
    let fail = |e: StateError| -> ! { panic!("{context:?}: {e}") };
    for _ in 0..4 {
        let from = start(&mut rng, expected.accounts().keys());
        let limit = rng.random_range(1..4);
        let mut found = Vec::new();
        layer
            .accounts(from, &mut |hash, account| {
                found.push((hash, account));
                let is_full = found.len() == limit;
                Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })
            .unwrap_or_else(|e| fail(e));
        let range = expected.accounts().range(from..).take(limit);
        let wanted: Vec<_> = range.map(|(hash, entry)| (*hash, entry.account)).collect();
        assert_eq!(found, wanted, "{context:?}: the accounts from {from}");

        let account = start(&mut rng, expected.accounts().keys());
        let slots = expected.accounts().get(&account).map(|entry| &*entry.slots);
        let from = start(&mut rng, slots.into_iter().flat_map(BTreeMap::keys));
        let mut found = Vec::new();
        layer
            .slots(account, from, &mut |hash, value| {
                found.push((hash, value));
                let is_full = found.len() == limit;
                Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })
            .unwrap_or_else(|e| fail(e));
        let range = slots.into_iter().flat_map(|slots| slots.range(from..)).take(limit);
        let wanted: Vec<_> = range.map(|(hash, value)| (*hash, *value)).collect();
        assert_eq!(found, wanted, "{context:?}: the slots of {account} from {from}");
    }
    // An error of the visitor is returned unchanged.
    if !expected.accounts().is_empty() {
        let mine = StateError::Protocol("an error of the visitor");
        let found = layer.accounts(B256::ZERO, &mut |_, _| Err(mine.clone()));
        let Err(found) = found else { panic!("{context:?}: the visitor's error was swallowed") };
        assert_eq!(found.to_string(), mine.to_string(), "{context:?}");
    }
}

/// Returns a hash that is present, one just after it, or any other.
fn start<'a>(rng: &mut ChaCha8Rng, known: impl Iterator<Item = &'a B256>) -> B256 {
    let known: Vec<&B256> = known.collect();
    let any = B256::from(rng.random::<[u8; 32]>());
    if known.is_empty() {
        return any;
    }
    let one = *known[rng.random_range(0..known.len())];
    match rng.random_range(0..4) {
        0 => any,
        1 => {
            let mut next = one;
            next.0[31] = next.0[31].saturating_add(1);
            next
        }
        _ => one,
    }
}

/// Panics at the first difference between two lists of rows.
pub(super) fn assert_rows(found: &[Row], expected: &[Row], context: &dyn Debug) {
    if found == expected {
        return;
    }
    let (mut f, mut e) = (found.iter().peekable(), expected.iter().peekable());
    while f.peek() == e.peek() {
        f.next();
        e.next();
    }
    let show = |row: Option<&&Row>| {
        row.map(|(table, key, value)| {
            let hex = alloy_primitives::hex::encode;
            format!("{table} {} -> {}", hex(key), hex(value))
        })
    };
    panic!(
        "{context:?}: the rows differ ({} found, {} expected); the first difference:\n found {:?}\n expected {:?}",
        found.len(),
        expected.len(),
        show(f.peek()),
        show(e.peek()),
    );
}
