//! Forks, as for proofs of earlier blocks, start no threads. The only test of its program: it counts those of the process.
#![cfg(target_os = "linux")]

use polytrie_kv::Store;
use polytrie_rain::{RainLayer, RainOptions};
use polytrie_state::StateLayer;

#[test]
fn forks_start_no_threads() {
    // Their number, as a thread bears its name only once it runs.
    let threads =
        || std::fs::read_dir("/proc/self/task").expect("the threads of this process").count();
    let store = Store::memory(RainLayer::TABLES).expect("a store");
    let layer = RainLayer::open(store, RainOptions::default()).expect("a layer");
    let before = threads();
    let forks: Vec<_> = (0..5).map(|_| layer.fork().expect("a fork")).collect();
    assert_eq!(threads(), before);
    drop(forks);
}
