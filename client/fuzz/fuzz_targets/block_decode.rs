//! Any bytes as the RLP of one block, and as that of its receipts.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    polytrie_fuzz::check_block(data);
    polytrie_fuzz::check_receipts(data);
    polytrie_fuzz::check_slim_receipts(data);
});
