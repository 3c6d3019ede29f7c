//! Checks that the histories have the documented contents.

use super::*;
use polytrie_state::hash_address;

#[test]
fn the_same_seed_gives_the_same_history() {
    let [a, b, c] = [7, 7, 8].map(|seed| {
        let mut builder = Builder::new(seed);
        adversarial(&mut builder);
        builder.finish()
    });
    assert_eq!(format!("{:?}", a.blocks), format!("{:?}", b.blocks));
    assert_ne!(format!("{:?}", a.blocks), format!("{:?}", c.blocks));
}

#[test]
fn the_states_follow_from_the_blocks() {
    for history in [History::adversarial(1), History::wide(1), History::with_genesis_of(1, 100)] {
        let mut state = Oracle::default();
        state.apply(&history.genesis);
        assert_eq!(state, *history.states[0]);
        for (block, expected) in history.blocks.iter().zip(&history.states[1..]) {
            for tx in &block.txs {
                let addresses: BTreeSet<_> = tx.accounts.iter().map(|a| a.address).collect();
                assert_eq!(addresses.len(), tx.accounts.len(), "an address occurs once");
                state.apply(tx);
            }
            assert_eq!(state, **expected, "{}", block.label);
        }
    }
}

#[test]
fn a_genesis_has_as_many_accounts_as_asked_for() {
    for count in [0, 1, 2, 17, 5_000] {
        let history = History::with_genesis_of(3, count);
        assert_eq!(history.genesis().accounts().len(), count as usize);
    }
    let large = History::with_genesis_of(3, 5_000);
    let slots = large.genesis().accounts().values().filter(|a| !a.slots.is_empty()).count();
    assert!(slots > 1_000, "{slots} accounts with slots");
}

/// Checks that every case the histories are made for occurs.
#[test]
fn the_adversarial_history_is_adversarial() {
    let history = History::adversarial(5);
    let (mut wiped, mut recreated, mut emptied, mut embedded, mut empty_state) = (0, 0, 0, 0, 0);
    for (n, block) in history.blocks.iter().enumerate() {
        let (before, after) = (&history.states[n], &history.states[n + 1]);
        empty_state += usize::from(after.accounts().is_empty());
        for change in block.txs.iter().flat_map(|tx| &tx.accounts) {
            let hash = hash_address(&change.address);
            let had_slots = before.accounts().get(&hash).is_some_and(|a| !a.slots.is_empty());
            let now = after.accounts().get(&hash);
            wiped += usize::from(had_slots && now.is_none());
            recreated += usize::from(had_slots && change.wiped && now.is_some());
            emptied += usize::from(now.is_some_and(|now| now.account.is_empty()));
        }
        for entry in after.accounts().values() {
            let slots: Vec<_> = entry.slots.iter().collect();
            let near = |pair: &&[(&_, &U256)]| {
                let (a, b): (&alloy_primitives::B256, _) = (pair[0].0, pair[1].0);
                a[..4] == b[..4] && *pair[0].1 < U256::from(0x80)
            };
            embedded += slots.windows(2).filter(near).count();
        }
    }
    let counts = [wiped, recreated, emptied, embedded, empty_state];
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    assert!(history.head() > 150, "{} blocks", history.head());
}
