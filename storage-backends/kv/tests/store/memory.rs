//! The engine in memory passes the suites.

use polytrie_kv::MemoryEngine;
use polytrie_kv_testing::{engine_suite, store_suite};
use std::sync::Arc;

#[test]
fn passes_the_engine_suite() {
    let engine = Arc::new(MemoryEngine::new());
    engine_suite(|| engine.clone());
}

#[test]
fn passes_the_store_suite() {
    let engine = Arc::new(MemoryEngine::new());
    store_suite(|| engine.clone());
}
