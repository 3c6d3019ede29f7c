//! Target for ere files: any bytes, as they are and as the content of records.
//!
//! Random changes hardly ever hit the checksums of records. So the bytes are also read as a list of records (type,
//! two bytes of length, content), which are compressed and framed correctly, with an index at the end.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polytrie::blocks::Format;
use polytrie_fuzz::e2store::{file, put};

/// Types of which each block has a record, in the order of their offsets in the index.
const OF_BLOCKS: [u16; 5] = [0x03, 0x04, 0x0a, 0x06, 0x0b];
/// All types of ere except the index, one that no format has, and one of the consensus layer.
const TYPES: [u16; 9] = [0x3265, 0x03, 0x04, 0x0a, 0x06, 0x0b, 0x07, 0x4242, 0x01];

fuzz_target!(|data: &[u8]| {
    for file in [data, &indexed(data)] {
        polytrie_fuzz::read_all(file, Format::Ere);
        polytrie_fuzz::read_end(file);
    }
});

fn indexed(data: &[u8]) -> Vec<u8> {
    let (mut file, places) = file(data, &TYPES);
    let at = file.len() as u64;
    let columns: Vec<Vec<u64>> = OF_BLOCKS
        .iter()
        .map(|kind| places.iter().filter(|(found, _)| found == kind).map(|(_, at)| *at).collect())
        .filter(|column: &Vec<u64>| !column.is_empty())
        .collect();
    let blocks = columns.first().map_or(0, Vec::len);
    let mut index = 0u64.to_le_bytes().to_vec();
    for block in 0..blocks {
        for column in &columns {
            let place = column.get(block).copied().unwrap_or_default();
            index.extend(place.wrapping_sub(at).to_le_bytes());
        }
    }
    index.extend((columns.len() as u64).to_le_bytes());
    index.extend((blocks as u64).to_le_bytes());
    put(&mut file, 0x3267, &index);
    file
}
