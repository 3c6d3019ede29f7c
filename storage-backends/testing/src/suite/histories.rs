//! Tests of whole histories, compared with the oracle after every block.

use super::{
    Driver, LayerFactory,
    compare::{assert_lists, assert_reads, assert_state},
};
use crate::{History, Oracle, Seed};
use polytrie_state::{CommitmentKind, StateError};

/// Runs all known difficult cases.
pub fn adversarial_history(factory: &dyn LayerFactory) {
    let seed = Seed::or(1);
    follow(factory, &History::adversarial(seed.value()));
}

/// Runs random blocks from several seeds.
pub fn random_histories(factory: &dyn LayerFactory) {
    let seed = Seed::or(2);
    for n in 0..4 {
        follow(factory, &History::random(seed.value().wrapping_add(n), 40));
    }
}

/// Runs blocks of thousands of writes.
pub fn wide_history(factory: &dyn LayerFactory) {
    let seed = Seed::or(3);
    follow(factory, &History::wide(seed.value()));
}

/// Runs two instances side by side. The commitment must be that of the oracle or, if it is the layer's own, the same
/// in both; and it must change exactly when the state does.
fn follow(factory: &dyn LayerFactory, history: &History) {
    let mut driver = Driver::in_memory(factory, history.genesis());
    let mut second = Driver::in_memory(factory, history.genesis());
    assert_state(&driver, history.genesis(), &"genesis");
    for (n, block) in history.blocks.iter().enumerate() {
        let (parent, state) = (&history.states[n], &history.states[n + 1]);
        let context = format!("block {} ({}), seed {}", n + 1, block.label, history.seed);
        let fail = |e: StateError| -> ! { panic!("{context}: {e}") };

        let before = driver.layer().commitment();
        session_reads(&driver, block, parent, &context).unwrap_or_else(|e| fail(e));
        let found = driver.run(block).unwrap_or_else(|e| fail(e));
        assert_eq!(found, driver.layer().commitment(), "{context}");
        assert_eq!(found, second.run(block).unwrap_or_else(|e| fail(e)), "{context}");
        if factory.kind() == CommitmentKind::Own && parent.accounts() != state.accounts() {
            assert_ne!(found, before, "{context}: another state, the same commitment");
        }

        assert_state(&driver, state, &context);
        assert_lists(&driver, state, history.seed ^ n as u64, &context);
        let reader = driver.layer().reader().unwrap_or_else(|e| fail(e));
        assert_reads(&*reader, state, history, &context);
    }
}

/// Checks the answers of a session at the start of the block, for the keys that the block writes.
fn session_reads(
    driver: &Driver<'_>,
    block: &crate::Block,
    parent: &Oracle,
    context: &str,
) -> Result<(), StateError> {
    let mut session = driver.begin()?;
    for change in block.txs.iter().flat_map(|tx| &tx.accounts) {
        let address = &change.address;
        assert_eq!(session.account(address)?, parent.account(address), "{context}: {address}");
        for (slot, _) in &change.slots {
            let found = session.slot(address, slot)?;
            assert_eq!(found, parent.slot(address, slot), "{context}: {slot} of {address}");
        }
        let found = session.has_storage(address)?;
        assert_eq!(found, parent.has_storage(address), "{context}: storage of {address}");
    }
    Ok(())
}
