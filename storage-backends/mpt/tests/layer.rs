//! The suite that every layer passes.

#![expect(clippy::unwrap_used, reason = "tests")]

use alloy_primitives::{Address, B256, U256};
use polytrie_kv::{Store, Table};
use polytrie_mpt::{MptLayer, MptOptions, verify};
use polytrie_state::{
    Account, AccountChange, BlockRef, CommitmentKind, Session, StateError, StateLayer, TxWrites,
};
use polytrie_testing::{
    layer_suite,
    suite::{self, LayerFactory, Verifier},
};
use std::sync::Arc;

#[derive(Debug, Default)]
struct Mpt(MptOptions);

impl LayerFactory for Mpt {
    fn tables(&self) -> Vec<Table> {
        MptLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        Ok(MptLayer::open(store, self.0)?)
    }

    fn kind(&self) -> CommitmentKind {
        CommitmentKind::StateRoot
    }

    fn verifier(&self) -> Option<Verifier> {
        Some(|of, address, slots, proof| verify(of.digest(), proof)?.answer(address, slots))
    }

    fn variants(&self) -> Vec<Box<dyn LayerFactory>> {
        // Nothing kept between blocks; a little; everything.
        let budgets = [0, 20_000, usize::MAX];
        budgets.map(|cache_bytes| Box::new(Self(MptOptions { cache_bytes })) as _).into()
    }
}

layer_suite!(Mpt::default());

#[test]
fn a_large_contract_is_loaded_in_portions() {
    suite::a_large_contract_is_loaded_in_portions(&Mpt::default());
}

/// A contract of a slot or two takes far more memory than its leaves: the budget counts all of it.
#[test]
fn small_contracts_count_with_all_they_take() {
    const CONTRACTS: u64 = 1_000;
    let store = Store::memory(MptLayer::TABLES).unwrap();
    let layer = MptLayer::open(store.clone(), MptOptions::default()).unwrap();
    let bytes = || layer.figures().iter().find(|(name, _)| *name == "trie_cache_bytes").unwrap().1;
    let run = |number: u64, value: U256| {
        let parent = BlockRef { number, hash: B256::ZERO };
        let mut session = Session::begin(&*layer, parent).unwrap();
        let account = Some(Account { nonce: 1, ..Account::default() });
        let change = |n: u64| AccountChange {
            address: Address::from_word(U256::from(n).into()),
            account,
            wiped: false,
            code: None,
            slots: vec![(U256::ZERO, value)],
        };
        session.apply(&TxWrites { accounts: (0..CONTRACTS).map(change).collect() }).unwrap();
        session.finish().unwrap().outcome.write(&store).unwrap();
        bytes()
    };
    let with_slots = run(0, U256::from(1));
    assert!(with_slots > CONTRACTS * 600, "{with_slots}");
    let without = run(1, U256::ZERO);
    assert!(without < CONTRACTS * 300, "tries that hold nothing are let go of: {without}");
}
