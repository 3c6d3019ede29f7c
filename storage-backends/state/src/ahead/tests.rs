#![expect(clippy::unwrap_used, reason = "tests")]

use super::{Announced, ReadAhead, Readers, Reading};
use crate::Access;
use alloy_primitives::Address;
use parking_lot::Mutex;
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::yield_now,
};

/// A way to read that notes each bundle, and waits or panics at the first.
#[derive(Default)]
struct Notes {
    read: Mutex<Vec<usize>>,
    is_held: AtomicBool,
    fails: AtomicBool,
    panics: bool,
}

struct Noting(Arc<Notes>);

impl ReadAhead for Noting {
    type Wanted = usize;

    fn read(&self, wanted: Vec<usize>) -> bool {
        while self.0.is_held.load(Ordering::Relaxed) {
            yield_now();
        }
        assert!(!self.0.panics, "on purpose");
        self.0.read.lock().extend(wanted);
        !self.0.fails.load(Ordering::Relaxed)
    }
}

#[test]
fn all_that_is_wanted_is_read_once() {
    for readers in [Readers::new(3, true), Readers::new(3, false), Readers::new(0, false)] {
        let readers = Arc::new(readers);
        for count in [0, 1, 31, 200] {
            let notes = Arc::<Notes>::default();
            let reading = Reading::new(&readers, Noting(notes.clone()));
            (0..count).for_each(|n| assert!(reading.want(n)));
            reading.wait().unwrap();
            let mut read = notes.read.lock().clone();
            read.sort_unstable();
            assert_eq!(read, (0..count).collect::<Vec<_>>());
        }
    }
}

#[test]
fn what_is_ended_holds_nothing() {
    for is_slow in [false, true] {
        let readers = Arc::new(Readers::new(2, is_slow));
        for is_dropped in [false, true] {
            let notes = Arc::<Notes>::default();
            let mut reading = Reading::new(&readers, Noting(notes.clone()));
            (0..200).for_each(|n| assert!(reading.want(n)));
            assert_eq!((reading.wants().hints, reading.wants().slow), (true, is_slow));
            reading.close();
            assert_eq!((reading.wants().hints, reading.wants().slow), (false, is_slow));
            assert!(!reading.want(200), "it is too late");
            match is_dropped {
                true => drop(reading),
                false => reading.end().unwrap(),
            }
            assert_eq!(Arc::strong_count(&notes), 1);
            let read: BTreeSet<usize> = notes.read.lock().iter().copied().collect();
            assert_eq!(read.len(), notes.read.lock().len());
            assert!(read.iter().all(|n| *n < 200));
        }
    }
}

#[test]
fn little_is_left_alone_where_the_store_is_fast() {
    let notes = Arc::<Notes>::default();
    let reading = Reading::new(&Arc::new(Readers::new(2, false)), Noting(notes.clone()));
    (0..31).for_each(|n| assert!(reading.want(n)));
    reading.end().unwrap();
    assert!(notes.read.lock().is_empty());
}

#[test]
fn no_more_than_so_much_waits() {
    let notes = Arc::new(Notes { is_held: AtomicBool::new(true), ..Notes::default() });
    let reading = Reading::new(&Arc::new(Readers::new(2, true)), Noting(notes.clone()));
    let taken = (0..10_000).filter(|n| reading.want(*n)).count();
    assert!((4_096..4_200).contains(&taken), "{taken}");
    notes.is_held.store(false, Ordering::Relaxed);
    reading.wait().unwrap();
    assert_eq!(notes.read.lock().len(), taken);
}

/// A cluster that is away takes a minute to fail, and a block waits for all that it requested.
#[test]
fn after_a_failure_nothing_else_that_waits_is_read() {
    let notes = Arc::new(Notes { fails: AtomicBool::new(true), ..Notes::default() });
    let reading = Reading::new(&Arc::new(Readers::new(2, false)), Noting(notes.clone()));
    // These are too few for another thread.
    (0..31).for_each(|n| assert!(reading.want(n)));
    reading.wait().unwrap();
    let tried = notes.read.lock().len();
    assert!((1..=8).contains(&tried), "{tried}");
    notes.fails.store(false, Ordering::Relaxed);
    (31..40).for_each(|n| assert!(reading.want(n)));
    reading.wait().unwrap();
    assert_eq!(notes.read.lock().split_off(tried), (31..40).collect::<Vec<_>>());
}

/// The blocks of a group share a session, which would see the hints of all of them.
#[test]
fn no_hints_are_wanted_once_a_block_has_read() {
    let account = |n: u8| Access::Account(Address::repeat_byte(n));
    for is_slow in [true, false] {
        let (readers, read) = (Arc::new(Readers::new(2, is_slow)), Arc::<AtomicUsize>::default());
        let count = Arc::clone(&read);
        let mut ahead = Announced::begin(&readers, move |wanted| {
            count.fetch_add(wanted.len(), Ordering::Relaxed);
            Ok(())
        });
        assert_eq!(ahead.wants().hints, is_slow);
        for n in [1, 2, 1] {
            ahead.want(account(n));
        }
        for n in 3..9 {
            ahead.read(|| ());
            assert!(!ahead.wants().hints);
            ahead.want(account(n));
        }
        ahead.end().unwrap();
        assert_eq!(read.load(Ordering::Relaxed), if is_slow { 2 } else { 0 });
    }
}

#[test]
fn a_panic_is_reported_from_then_on() {
    for is_slow in [false, true] {
        let readers = Arc::new(Readers::new(2, is_slow));
        let notes = Arc::new(Notes { panics: true, ..Notes::default() });
        let reading = Reading::new(&readers, Noting(notes.clone()));
        (0..100).for_each(|n| assert!(reading.want(n)));
        let errors = [reading.wait(), reading.end(), readers.check()];
        for error in errors.map(Result::unwrap_err) {
            assert!(error.to_string().contains("panicked: on purpose"), "{error}");
        }
        assert_eq!(Arc::strong_count(&notes), 1);
    }
}
