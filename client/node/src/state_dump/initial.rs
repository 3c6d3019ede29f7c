//! Fills a layer with accounts by address, in any order and any number.

use super::{
    StateDumpError, Step,
    gather::{Collected, Named},
    go_on,
    preimages::PreimageRows,
    sorted::Filled,
};
use alloy_primitives::{KECCAK256_EMPTY, keccak256};
use polytrie_chainspec::InitialAccount;
use polytrie_kv::Store;
use polytrie_state::{Account, StateLayer, hash_address, hash_slot};
use std::sync::atomic::AtomicBool;

/// Fills an empty layer on `store`. Memory does not depend on the number of accounts and slots, nor on the number of
/// slots of one account: what does not fit is sorted on disk beside the store's files.
///
/// # Errors
///
/// Fails if an account or slot comes twice, if the disk or the layer fails, or if `interrupt` is set.
pub fn fill<'a>(
    store: &Store,
    layer: &dyn StateLayer,
    accounts: impl Iterator<Item = InitialAccount<'a>>,
    interrupt: &AtomicBool,
    progress: &mut dyn FnMut(Step),
) -> Result<Filled, StateDumpError> {
    let mut preimages = PreimageRows::new(store, layer.needs_preimages());
    let mut collected = Collected::new(store.scratch().clone());
    let mut step = Step { what: "making the accounts", accounts: 0, slots: 0, percent: None };
    for InitialAccount { address, nonce, balance, code, slots } in accounts {
        go_on(interrupt)?;
        progress(step);
        step.accounts += 1;
        let account = hash_address(&address);
        preimages.add_address(&account, &address)?;
        let code_hash = if code.is_empty() { KECCAK256_EMPTY } else { keccak256(&code) };
        if !code.is_empty() {
            collected.codes.add(code_hash, &code)?;
        }
        let state = Account { nonce, balance, code_hash };
        collected.add_account(account, Named::new(state))?;
        for (slot, value) in slots {
            // One account may have most of the slots.
            go_on(interrupt)?;
            step.slots += 1;
            let hash = hash_slot(&slot);
            preimages.add_slot(&hash, &slot)?;
            collected.add_slot(account, hash, value)?;
        }
    }
    preimages.finish()?;
    collected.fill(layer, interrupt, progress)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_primitives::{Address, Bytes, U256};
    use polytrie_kv::{MemoryEngine, StoreOptions};
    use polytrie_layers::{LAYERS, LayerOptions};
    use std::sync::Arc;

    fn accounts() -> impl Iterator<Item = InitialAccount<'static>> {
        (1..=50_u8).rev().map(|number| InitialAccount {
            slots: Box::new((1..=u64::from(number)).map(|n| (U256::from(n), U256::from(n + 1)))),
            balance: U256::from(number),
            ..InitialAccount::contract(Address::repeat_byte(number), code(number))
        })
    }

    /// Returns the code of an account, which others have too.
    fn code(number: u8) -> Bytes {
        vec![number % 7; 9].into()
    }

    #[test]
    fn every_layer_is_filled_in_any_order_and_gives_what_it_was_filled_with() {
        let mut roots = Vec::new();
        for kind in LAYERS {
            let engine = Arc::new(MemoryEngine::new());
            let tables = [kind.tables, polytrie_chain::TABLES].concat();
            let store = Store::open(engine, &tables, StoreOptions::default()).unwrap();
            let mut settings = LayerOptions::for_tests();
            kind.settle_parameters(&mut settings, None).unwrap();
            let layer = (kind.open)(store.clone().into(), &settings).unwrap();
            let never = AtomicBool::new(false);
            let filled = fill(&store, &*layer, accounts(), &never, &mut |_| {}).unwrap();
            assert_eq!((filled.accounts, filled.slots), (50, 50 * 51 / 2), "{}", kind.name);
            if let Some(root) = filled.commitment.as_state_root() {
                assert_eq!(root, filled.root, "{}", kind.name);
            }
            roots.push(filled.root);
            let reader = layer.reader().unwrap();
            let slot = reader.slot(&Address::repeat_byte(7), &U256::from(5)).unwrap();
            assert_eq!(slot, U256::from(6), "{}", kind.name);
            for number in [3, 10, 17] {
                let account = reader.account(&Address::repeat_byte(number)).unwrap().unwrap();
                let found = reader.code(&account.code_hash).unwrap();
                assert_eq!(found, Some(code(number)), "{}", kind.name);
            }
        }
        assert!(roots.windows(2).all(|two| two[0] == two[1]), "{roots:?}");
    }
}
