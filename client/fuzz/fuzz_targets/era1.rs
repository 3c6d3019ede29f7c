//! Any bytes as an era1 file, as they are and as the content of records.
//!
//! Records have checksums that random changes hardly ever hit. So the bytes are also taken as a list of
//! records (type, two bytes of length, content), compressed and framed as they should be.

#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use polytrie::blocks::Format;
use snap::write::FrameEncoder;

/// The types of era1; the first one is the version.
const TYPES: [u16; 8] = [0x3265, 0x03, 0x04, 0x05, 0x06, 0x07, 0x3266, 0x01];

fuzz_target!(|data: &[u8]| {
    polytrie_fuzz::read_all(data, Format::Era1);
    polytrie_fuzz::read_all(&framed(data), Format::Era1);
});

fn framed(mut data: &[u8]) -> Vec<u8> {
    let mut file = TYPES[0].to_le_bytes().to_vec();
    file.resize(8, 0);
    while let Some(([kind, low, high], rest)) = data.split_first_chunk() {
        let kind = TYPES[usize::from(*kind) % TYPES.len()];
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (content, rest) = rest.split_at(length);
        data = rest;
        let content = if (0x03..=0x05).contains(&kind) {
            let mut encoder = FrameEncoder::new(Vec::new());
            encoder.write_all(content).expect("memory does not fail");
            encoder.into_inner().expect("memory does not fail")
        } else {
            content.to_vec()
        };
        file.extend(kind.to_le_bytes());
        file.extend((content.len() as u32).to_le_bytes());
        file.extend([0; 2]);
        file.extend(content);
    }
    file
}
