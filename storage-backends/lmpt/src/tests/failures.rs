//! Tests of reads that fail or take long.

use super::*;
use polytrie_kv::{Engine, KvError};
use polytrie_state::{GenesisAccount, GenesisSlots};
use std::sync::{
    atomic::{AtomicBool, AtomicU64, Ordering},
    mpsc,
};

impl Chain {
    /// Opens a layer on an engine, and loads four accounts.
    fn loaded(engine: impl Engine, options: LmptOptions) -> Self {
        let (engine, tables) = (Arc::new(engine), LmptLayer::TABLES);
        let store = Store::open(engine, tables, StoreOptions::default()).unwrap();
        let layer = LmptLayer::open(store.clone(), options).unwrap();
        let loaded = |n: u64| GenesisAccount {
            hash: hash_address(&address(n)),
            account: Account::default(),
            code: None,
            slots: GenesisSlots::default(),
        };
        let mut accounts: Vec<GenesisAccount<'_>> = (10..14).map(loaded).collect();
        accounts.sort_unstable_by_key(|account| account.hash);
        layer.load(&mut accounts.into_iter().map(Ok)).unwrap();
        Self { store, layer, options, undo: Vec::new() }
    }
}

/// While a block waits for a late slice, the state before it is read and proven.
#[test]
fn only_the_block_waits_for_a_late_slice() {
    let is_held = Arc::new(AtomicBool::new(true));
    let held = is_held.clone();
    let engine = BeforeReads::new(MemoryEngine::new(), move || {
        while thread::current().name() == Some("lmpt-merge") && held.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        Ok(())
    });
    let mut chain = Chain::loaded(engine, every(4));
    // Block 6 takes the first slice with an entry, which needs a row of the loaded state.
    while chain.number() < 5 {
        chain.run(vec![write(chain.number(), Vec::new())]);
    }
    let (layer, digest) = (chain.layer.clone(), chain.layer.commitment().digest());
    let (done, is_done) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| chain.run(Vec::new()));
        scope.spawn(move || {
            // In the course of these the block comes to its slice.
            for _ in 0..1_000 {
                let reader = layer.reader().unwrap();
                assert!(reader.account(&address(10)).unwrap().is_some());
                let proof = layer.prove(&address(10), &[]).unwrap();
                assert!(verify(digest, &proof).unwrap().exists);
            }
            done.send(()).unwrap();
        });
        let all = is_done.recv_timeout(Duration::from_secs(60));
        is_held.store(false, Ordering::SeqCst);
        all.unwrap();
    });
}

/// A read of the merge that fails is an error of the block which needs the slice. The block can be tried again.
#[test]
fn a_merge_that_failed_is_started_again() {
    for (boundary, first_read) in [(Boundary::Slices, 6), (Boundary::Switch, 8)] {
        let fails = Arc::new(AtomicBool::new(true));
        let failing = fails.clone();
        let engine = BeforeReads::new(MemoryEngine::new(), move || {
            if thread::current().name() != Some("lmpt-merge") || !failing.load(Ordering::SeqCst) {
                return Ok(());
            }
            let reason = "on purpose".to_owned();
            Err(KvError::Engine { engine: "fault", action: "reading", reason })
        });
        let options = LmptOptions { boundary, ..every(4) };
        let mut chain = Chain::loaded(engine, options);
        let mut sound = Chain::loaded(MemoryEngine::new(), options);
        for number in 1..=12 {
            let changes = || vec![write(number, numbered(0..2, number))];
            let mut found = chain.try_run(changes());
            if number == first_read {
                let error = found.unwrap_err();
                assert!(matches!(error, StateError::Store(KvError::Engine { .. })), "{error:?}");
                fails.store(false, Ordering::SeqCst);
                found = chain.try_run(changes());
            }
            assert_eq!(found.unwrap(), sound.run(changes()), "{boundary}, block {number}");
        }
        chain.check();
    }
}

/// No block waits for the rows that a proof reads, whichever of them takes long.
#[test]
fn no_block_waits_for_the_rows_of_a_proof() {
    let (is_held, left) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (events, event) = mpsc::channel();
    let (held, counted, reached) = (is_held.clone(), left.clone(), events.clone());
    let engine = BeforeReads::new(MemoryEngine::new(), move || {
        if thread::current().name() == Some("proof") && counted.fetch_sub(1, Ordering::SeqCst) == 1
        {
            reached.send(None).unwrap();
            while held.load(Ordering::SeqCst) {
                thread::yield_now();
            }
        }
        Ok(())
    });
    let mut chain = Chain::loaded(engine, every(4));
    for read in 1.. {
        is_held.store(true, Ordering::SeqCst);
        // After the read that is held, no number of reads comes to this one again.
        left.store(read, Ordering::SeqCst);
        let (layer, before) = (chain.layer.clone(), chain.layer.commitment().digest());
        let (done, is_done) = mpsc::channel();
        let (blocks, events) = (&mut chain, events.clone());
        let (proof, was_held) = thread::scope(|scope| {
            let prove = move || {
                let proof = layer.prove(&address(10), &[U256::ZERO]);
                events.send(Some(proof)).unwrap();
            };
            thread::Builder::new().name("proof".into()).spawn_scoped(scope, prove).unwrap();
            if let Some(proof) = event.recv().unwrap() {
                return (proof, false);
            }
            scope.spawn(move || {
                blocks.run(vec![write(read, Vec::new())]);
                done.send(()).unwrap();
            });
            let run = is_done.recv_timeout(Duration::from_secs(60));
            is_held.store(false, Ordering::SeqCst);
            run.unwrap();
            (event.recv().unwrap().unwrap(), true)
        });
        let (proof, after) = (proof.unwrap(), chain.layer.commitment().digest());
        assert!([before, after].iter().any(|digest| verify(*digest, &proof).is_ok()), "{read}");
        if !was_held {
            assert!(read > 2, "the proof has read no row of the snapshot");
            break;
        }
    }
}

/// A load that fails leaves no head without its rows.
#[test]
fn a_load_that_fails_leaves_an_empty_layer() {
    let mut chain = Chain::new(every(4));
    let empty = chain.layer.commitment();
    while chain.number() < 6 {
        chain.run(vec![write(chain.number(), numbered(0..3, 1))]);
    }
    let broken = Err::<GenesisAccount<'_>, _>(StateError::Protocol("an error of the source"));
    chain.layer.load(&mut std::iter::once(broken)).unwrap_err();
    assert_eq!(chain.layer.commitment(), empty);
    assert!(matches!(chain.layer.reader(), Err(StateError::Corrupt(_))));
    chain.layer.load(&mut std::iter::empty()).unwrap();
    let reader = chain.layer.reader().unwrap();
    for n in 0..6 {
        assert_eq!(reader.account(&address(n)).unwrap(), None);
        assert_eq!(reader.slot(&address(n), &U256::ZERO).unwrap(), U256::ZERO);
    }
}
