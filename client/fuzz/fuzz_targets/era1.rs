//! Target for era1 files: any bytes, as they are and as the content of records.
//!
//! Random changes hardly ever hit the checksums of records. So the bytes are also read as a list of records (type,
//! two bytes of length, content), which are compressed and framed correctly.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polytrie::blocks::Format;
use polytrie_fuzz::e2store::file;

/// The types of era1, an unknown one, and one of the consensus layer.
const TYPES: [u16; 9] = [0x3265, 0x03, 0x04, 0x05, 0x06, 0x07, 0x3266, 0x4242, 0x01];

fuzz_target!(|data: &[u8]| {
    for file in [data, &file(data, &TYPES).0] {
        polytrie_fuzz::read_all(file, Format::Era1);
        polytrie_fuzz::read_end(file);
    }
});
