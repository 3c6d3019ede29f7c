//! Tests of the prefetchers' node without connections.
#![expect(clippy::unwrap_used, reason = "tests")]

use super::{
    FARTHEST, Prefetchers, SPARE,
    connections::{PATIENCE, is_too_slow, serve},
    informing::Informing,
    shared::{AT_A_TIME, Connection, MOST_PREFETCHERS, OUTBOX, Shared, Work},
};
use crate::prefetch::{
    tests::layer,
    wire::{BLOCK_BYTES, Message},
};
use alloy_consensus::Block;
use alloy_primitives::B256;
use crossbeam_channel::{Receiver, bounded};
use polytrie_chain::Candidate;
use polytrie_chainspec::ChainSpec;
use std::{
    net::{TcpListener, TcpStream},
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

fn shared() -> Shared {
    Shared::new(B256::ZERO, layer("rain")).unwrap()
}

/// Adds a prefetcher. Returns the frames that its thread would send.
fn connect(shared: &Shared, number: u64) -> Receiver<Arc<Vec<u8>>> {
    let (outbox, frames) = bounded(OUTBOX);
    assert!(shared.enter(Connection { number, outbox, work: Arc::default() }));
    frames
}

fn work_of(shared: &Shared, place: usize) -> Arc<Work> {
    Arc::clone(&shared.open.lock()[place].work)
}

/// Returns a block with so many bytes as its RLP.
fn block(bytes: usize) -> Candidate {
    let spec = ChainSpec::load("dev").unwrap();
    Candidate::of(&spec, Block::default(), vec![0; bytes].into()).0
}

/// The first prefetcher has no block, as if it had sent its bags without reading a frame.
#[test]
fn a_prefetcher_that_reads_nothing_takes_no_blocks_from_others() {
    let shared = shared();
    let (unread, read) = (connect(&shared, 1), connect(&shared, 2));
    while shared.open.lock()[0].outbox.try_send(Arc::default()).is_ok() {}
    for _ in 0..AT_A_TIME {
        assert!(shared.announce(&block(10)));
    }
    assert_eq!((unread.len(), read.len()), (OUTBOX, AT_A_TIME));
    assert!(!shared.announce(&block(10)));
}

#[test]
fn blocks_are_announced_as_early_as_late_bags_took() {
    let shared = shared();
    assert_eq!(shared.nearest.load(Relaxed), 0);
    let after = |blocks: usize| {
        shared.was_late(blocks);
        shared.nearest.load(Relaxed)
    };
    assert_eq!([0, 1, 20, 3, 19].map(after), [4, 5, 24, 23, 23]);
    assert_eq!(after(1_000), FARTHEST - 1);
    for nearest in (0..FARTHEST - 1).rev() {
        shared.was_in_time();
        assert_eq!(shared.nearest.load(Relaxed), nearest);
    }
    shared.was_in_time();
    assert_eq!(shared.nearest.load(Relaxed), 0);
}

#[test]
fn prefetchers_hear_of_a_newer_state_one_after_the_other() {
    let shared = shared();
    let (one, other) = (connect(&shared, 1), connect(&shared, 2));
    let mut informing = Informing::default();
    let mut after = |blocks: usize| {
        shared.executed.fetch_add(blocks, Relaxed);
        informing.begin(&shared);
        informing.go_on(&shared);
        (one.len(), other.len())
    };
    assert_eq!([SPARE, 1, SPARE, 1].map(&mut after), [(1, 0), (1, 0), (1, 1), (1, 1)]);
    shared.open.lock()[0].work.is_late.store(true, Relaxed);
    assert_eq!([SPARE, FARTHEST].map(after), [(1, 1), (2, 1)]);
}

/// No other one opens a state at that time, however few blocks were executed.
#[test]
fn the_first_prefetcher_hears_of_a_newer_state_at_once() {
    let shared = shared();
    let (one, other) = (connect(&shared, 1), connect(&shared, 2));
    let mut informing = Informing::default();
    informing.begin(&shared);
    informing.go_on(&shared);
    assert_eq!((one.len(), other.len()), (1, 0));
}

#[test]
fn prefetchers_that_have_left_are_not_informed_first() {
    let shared = shared();
    let (_left, other) = (connect(&shared, 1), connect(&shared, 2));
    let mut informing = Informing::default();
    informing.begin(&shared);
    shared.leave(1);
    shared.executed.fetch_add(SPARE, Relaxed);
    informing.go_on(&shared);
    assert_eq!(other.len(), 1);
}

/// A block that waits holds the lock of what has come while it looks at what is on its way.
#[test]
fn a_bag_is_on_its_way_until_it_has_come() {
    let shared = shared();
    let _frames = connect(&shared, 1);
    assert!(shared.announce(&block(10)));
    let work = work_of(&shared, 0);
    let number = work.due.lock()[0].number;
    thread::scope(|scope| {
        let came = shared.came.lock();
        scope.spawn(|| shared.came(&work, number, false));
        assert!((0..1_000).all(|_| {
            thread::yield_now();
            shared.expects(number)
        }));
        drop(came);
    });
    assert!(shared.came.lock().contains(&number) && !shared.expects(number));
}

/// The bag of the one that was late may have come, while the other one has the block and is late.
#[test]
fn a_block_is_announced_again_until_its_bag_has_come() {
    let shared = shared();
    let (_late, other) = (connect(&shared, 1), connect(&shared, 2));
    let block = block(10);
    assert!(shared.announce(&block));
    shared.is_late_with(block.header.number);
    shared.came.lock().insert(block.header.number);
    shared.announce_again(&block);
    assert!(other.is_empty());
    shared.came.lock().clear();
    shared.announce_again(&block);
    assert_eq!(other.len(), 1);
}

/// Only those of which no other one will send a bag.
#[test]
fn blocks_of_a_prefetcher_that_is_gone_are_left_to_others() {
    let shared = shared();
    let (one, other) = (connect(&shared, 1), connect(&shared, 2));
    let block = block(10);
    let number = block.header.number;
    assert!(shared.announce(&block) && !shared.is_abandoned(number));
    shared.is_gone(&work_of(&shared, 0));
    assert!(shared.is_abandoned(number) && !shared.expects(number));
    // It takes no blocks.
    assert!(shared.announce(&block) && !shared.is_abandoned(number));
    assert_eq!((one.len(), other.len()), (1, 1));
    shared.is_back(&work_of(&shared, 0));
    shared.leave(2);
    assert!(!shared.is_abandoned(number) && shared.expects(number), "the first one has it again");
    shared.came.lock().insert(number);
    shared.leave(1);
    assert!(!shared.is_abandoned(number));
    shared.came.lock().clear();
    let _third = connect(&shared, 3);
    assert!(shared.announce(&block));
    shared.leave(3);
    assert!(shared.is_abandoned(number));
    shared.forget_until(number + 1);
    assert!(!shared.is_abandoned(number));
}

/// The machine of the prefetcher answers, so the system does not end the connection.
#[test]
fn a_prefetcher_that_stays_away_gives_its_place_to_another_one() {
    let shared = shared();
    let _first: Vec<_> = (1..MOST_PREFETCHERS as u64).map(|n| connect(&shared, n)).collect();
    let work = work_of(&shared, 0);
    assert!(shared.announce(&block(10)));
    shared.is_gone(&work);
    let long_ago = Instant::now().checked_sub(2 * PATIENCE);
    *work.away.lock() = long_ago;
    // What it says again is no news.
    shared.is_gone(&work);
    assert!(!is_too_slow(&shared, &work));
    let _last = connect(&shared, MOST_PREFETCHERS as u64);
    assert!(is_too_slow(&shared, &work));
    let (outbox, _frames) = bounded(OUTBOX);
    assert!(!shared.enter(Connection { number: 99, outbox, work: Arc::default() }));
    // It may say again and again that it is ready, and then fail to read anything.
    shared.is_back(&work);
    assert!(!is_too_slow(&shared, &work));
    shared.is_gone(&work);
    assert!(is_too_slow(&shared, &work));
    // A bag shows that it is of use.
    shared.is_back(&work);
    shared.came(&work, 1, true);
    shared.is_gone(&work);
    assert!(!is_too_slow(&shared, &work));
    // One that gets no blocks opens each newer state.
    *work.away.lock() = long_ago;
    shared.is_back(&work);
    shared.is_gone(&work);
    assert!(!is_too_slow(&shared, &work));
}

/// The threads of the prefetchers look at the same time, before one of them has left.
#[test]
fn of_prefetchers_that_stay_away_one_gives_its_place_to_another_one() {
    let shared = shared();
    let _frames: Vec<_> = (1..=MOST_PREFETCHERS as u64).map(|n| connect(&shared, n)).collect();
    let works = [(3, 2), (5, 4), (7, 6)].map(|(number, place)| (number, work_of(&shared, place)));
    for ((_, work), times) in works.iter().zip([2_u32, 4, 3]) {
        shared.is_gone(work);
        *work.away.lock() = Instant::now().checked_sub(times * PATIENCE);
    }
    let given_up = || {
        let slow = works.iter().filter(|(_, work)| is_too_slow(&shared, work));
        slow.map(|(number, _)| *number).collect::<Vec<u64>>()
    };
    assert_eq!(given_up(), [5]);
    shared.leave(5);
    assert!(given_up().is_empty(), "there is a place");
    let _another = connect(&shared, 99);
    assert_eq!(given_up(), [7]);
}

#[test]
fn a_prefetcher_cannot_keep_a_block_by_going_away_again_and_again() {
    let shared = shared();
    let _frames = connect(&shared, 1);
    assert!(shared.announce(&block(10)));
    let work = work_of(&shared, 0);
    let long_ago = Instant::now().checked_sub(2 * PATIENCE).unwrap();
    work.due.lock()[0].since = long_ago;
    shared.is_back(&work);
    assert!(is_too_slow(&shared, &work), "it was not away");
    // The time for which it is away is not counted.
    shared.is_gone(&work);
    *work.away.lock() = Some(long_ago);
    assert!(!is_too_slow(&shared, &work));
    shared.is_back(&work);
    assert!(!is_too_slow(&shared, &work));
    work.due.lock()[0].since = long_ago;
    shared.is_gone(&work);
    let began = *work.away.lock();
    shared.is_back(&work);
    let away = began.unwrap().elapsed();
    assert!(work.due.lock()[0].since <= long_ago + away, "what it had waited before is counted");
}

/// The prefetcher opens each newer state, and may fail to read any of them.
#[test]
fn a_prefetcher_that_brings_nothing_is_not_relied_on_because_it_was_away() {
    let listener = Prefetchers::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let mut prefetchers = Prefetchers::of(listener, B256::ZERO, layer("rain"), 0).unwrap();
    let _frames = connect(&prefetchers.shared, 1);
    while prefetchers.read_ahead() {
        prefetchers.count(0);
    }
    let work = work_of(&prefetchers.shared, 0);
    prefetchers.shared.is_gone(&work);
    prefetchers.count(0);
    prefetchers.shared.is_back(&work);
    assert!(!prefetchers.read_ahead());
    // Another one may be better.
    prefetchers.shared.leave(1);
    prefetchers.count(0);
    let _frames = connect(&prefetchers.shared, 2);
    assert!(prefetchers.read_ahead());
}

/// A few of them would take the places of all prefetchers.
#[test]
fn a_stranger_who_says_nothing_is_turned_away() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let silent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, peer) = listener.accept().unwrap();
    let error = serve(&shared(), &stream, (peer, 1), Duration::ZERO).unwrap_err().to_string();
    assert!(error.contains("takes too long"), "{error}");
    drop(silent);
}

/// A prefetcher would end at a frame that is too long.
#[test]
fn a_block_that_is_too_large_is_left_out() {
    let shared = shared();
    let frames = connect(&shared, 1);
    assert!(shared.announce(&block(BLOCK_BYTES)));
    assert!(frames.is_empty() && work_of(&shared, 0).due.lock().is_empty());
    assert!(shared.announce(&block(1_000)));
    let frame = frames.try_recv().unwrap();
    let message = Message::read(&mut &frame[..], BLOCK_BYTES).unwrap();
    assert!(matches!(message, Some(Message::Block(_))), "{message:?}");
}
