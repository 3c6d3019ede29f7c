//! Target for the decoders of a block and its receipts: any bytes as RLP.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    polytrie_fuzz::check_block(data);
    polytrie_fuzz::check_receipts(data);
    polytrie_fuzz::check_slim_receipts(data);
});
