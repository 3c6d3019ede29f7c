//! Any bytes as an era1 file, as they are and as the content of records.
//!
//! Records have checksums that random changes hardly ever hit. So the bytes are also taken as a list of
//! records (type, two bytes of length, content), compressed and framed as they should be.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polytrie::blocks::Format;
use polytrie_fuzz::e2store::file;

/// The types of era1, an unknown one, and one of the consensus layer.
const TYPES: [u16; 9] = [0x3265, 0x03, 0x04, 0x05, 0x06, 0x07, 0x3266, 0x4242, 0x01];

fuzz_target!(|data: &[u8]| {
    polytrie_fuzz::read_all(data, Format::Era1);
    polytrie_fuzz::read_all(&file(data, &TYPES).0, Format::Era1);
});
