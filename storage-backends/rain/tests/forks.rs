//! Forks, as for proofs of earlier blocks, start no threads. This program has no other test, because it counts the
//! threads of its process.
#![cfg(target_os = "linux")]

use polytrie_kv::Store;
use polytrie_rain::{RainLayer, RainOptions};
use polytrie_state::StateLayer;

#[test]
fn forks_start_no_threads() {
    // Threads are counted and not named, because a thread has its name only once it runs.
    let threads =
        || std::fs::read_dir("/proc/self/task").expect("the threads of this process").count();
    let store = Store::memory(RainLayer::TABLES).expect("a store");
    let layer = RainLayer::open(store, RainOptions::default()).expect("a layer");
    let before = threads();
    let forks: Vec<_> = (0..5).map(|_| layer.fork().expect("a fork")).collect();
    assert_eq!(threads(), before);
    drop(forks);
}
