//! The suite that every layer passes.
//!
//! - `bags.rs`: nodes that other processes have read,
//! - `witness.rs`: blocks executed from their witnesses alone.

#![expect(clippy::unwrap_used, reason = "tests")]

mod bags;
mod witness;

use alloy_primitives::Address;
use polytrie_kv::{KeyRange, Store, Table};
use polytrie_kv_testing::{entries, set_row};
use polytrie_rain::{RainLayer, RainOptions, verify};
use polytrie_state::{Account, AccountChange, StateError, StateLayer};
use polytrie_testing::{
    layer_suite,
    suite::{self, LayerFactory, Verifier, finished},
};
use std::sync::Arc;

#[derive(Debug, Default)]
struct Rain(RainOptions);

impl LayerFactory for Rain {
    fn tables(&self) -> Vec<Table> {
        RainLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        Ok(RainLayer::open(store, self.0)?)
    }

    fn state_decides_rows(&self) -> bool {
        // Changes so far decide where checkpoints and logs stand.
        false
    }

    fn verifier(&self) -> Option<Verifier> {
        Some(|of, address, slots, proof| verify(of.digest(), proof)?.answer(address, slots))
    }

    fn variants(&self) -> Vec<Box<dyn LayerFactory>> {
        // The cache keeps only the nodes that it must; a few; all of them.
        let budgets = [(0, 0, true), (2, 20_000, true), (6, usize::MAX, false)];
        budgets
            .map(|(retain, cache_bytes, verify)| {
                Box::new(Self(RainOptions { retain, cache_bytes, undo: true, verify })) as _
            })
            .into()
    }
}

layer_suite!(Rain::default());

#[test]
fn a_large_contract_is_loaded_in_portions() {
    suite::a_large_contract_is_loaded_in_portions(&Rain::default());
}

#[test]
fn gathered_state_is_read_once() {
    suite::gathered_state_is_read_once(&Rain::default());
}

#[test]
fn a_block_is_undone_with_few_requests() {
    suite::a_block_is_undone_with_few_requests(&Rain::default(), 20);
}

/// The state is the same without the log row of a change that a later change overwrites, but its loss is noticed.
#[test]
fn a_lost_row_of_the_log_is_noticed() {
    let store = Store::memory(RainLayer::TABLES).unwrap();
    let open = || RainLayer::open(store.clone(), RainOptions::default()).unwrap();
    let layer = open();
    layer.load(&mut std::iter::empty()).unwrap();
    for number in 0..3 {
        let account = Some(Account { nonce: number + 1, ..Account::default() });
        let (address, slots) = (Address::ZERO, Vec::new());
        let change = AccountChange { address, account, wiped: false, code: None, slots };
        finished(&*layer, number, vec![change]).write(&store).unwrap();
    }
    drop(layer);
    let log = RainLayer::TABLES.iter().find(|table| table.name == "RainLog").unwrap();
    let rows = entries(&store, *log, KeyRange::ALL);
    assert_eq!(rows.len(), 3);
    for (key, value) in rows {
        set_row(&store, *log, &key, None);
        assert_ne!(open().check(&mut |_| {}).unwrap().problems, Vec::<String>::new());
        set_row(&store, *log, &key, Some(&value));
        assert_eq!(open().check(&mut |_| {}).unwrap().problems, Vec::<String>::new());
    }
}
