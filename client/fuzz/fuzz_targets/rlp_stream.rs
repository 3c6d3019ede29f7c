//! Any bytes as a stream of block RLP; also gzip and whatever else detection makes of them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polytrie::blocks::Format;

fuzz_target!(|data: &[u8]| polytrie_fuzz::read_all(data, Format::Rlp));
