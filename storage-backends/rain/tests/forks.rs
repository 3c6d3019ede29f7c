//! Forks, as for proofs of earlier blocks, start no threads. This program has no other test, because it looks at the
//! threads of its process.
#![cfg(target_os = "linux")]

use polytrie_kv::Store;
use polytrie_rain::{RainLayer, RainOptions};
use polytrie_state::StateLayer;
use std::{collections::BTreeSet, ffi::OsString, time::Duration};

/// The numbers of the threads of this process. Names do not tell them apart, because a thread has its name only once
/// it runs.
fn threads() -> BTreeSet<OsString> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the threads of this process");
    tasks.map(|task| task.expect("a thread").file_name()).collect()
}

/// The threads, once no more of them end: those that replayed the shards go a moment after the layer was opened, and a
/// list that is read meanwhile may leave others out.
fn settled_threads() -> BTreeSet<OsString> {
    let mut seen = threads();
    loop {
        std::thread::sleep(Duration::from_millis(20));
        let now = threads();
        if now == seen {
            return now;
        }
        seen = now;
    }
}

#[test]
fn forks_start_no_threads() {
    let store = Store::memory(RainLayer::TABLES).expect("a store");
    let layer = RainLayer::open(store, RainOptions::default()).expect("a layer");
    let before = settled_threads();
    let forks: Vec<_> = (0..5).map(|_| layer.fork().expect("a fork")).collect();
    let started: Vec<_> = threads().difference(&before).cloned().collect();
    assert!(started.is_empty(), "threads {started:?}");
    drop(forks);
}
