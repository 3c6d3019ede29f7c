//! Target for streams of block RLP: any bytes, also as gzip or another format that is detected.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polytrie::blocks::Format;

fuzz_target!(|data: &[u8]| polytrie_fuzz::read_all(data, Format::Rlp));
