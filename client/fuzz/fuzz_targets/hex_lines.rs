//! Target for hex files: any bytes as text with one block in hex per line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polytrie::blocks::Format;

fuzz_target!(|data: &[u8]| polytrie_fuzz::read_all(data, Format::Hex));
