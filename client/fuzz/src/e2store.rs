//! Files in e2store format, with valid framing, whose records the fuzzer chooses.

use std::io::Write;

use snap::write::FrameEncoder;

/// Makes a file of a version record and the records in `data`, each of a type (an index into `types`), two bytes of
/// length and content. Contents that the format compresses, such as headers and receipts, are compressed. Returns the
/// file, and the type and offset of each record.
pub fn file(mut data: &[u8], types: &[u16]) -> (Vec<u8>, Vec<(u16, u64)>) {
    let (mut file, mut places) = (Vec::new(), Vec::new());
    put(&mut file, 0x3265, &[]);
    while let Some(([kind, low, high], rest)) = data.split_first_chunk() {
        let kind = types[usize::from(*kind) % types.len()];
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (content, rest) = rest.split_at(length);
        data = rest;
        places.push((kind, file.len() as u64));
        if matches!(kind, 0x03..=0x05 | 0x0a | 0x0b) {
            let mut encoder = FrameEncoder::new(Vec::new());
            encoder.write_all(content).expect("memory does not fail");
            put(&mut file, kind, &encoder.into_inner().expect("memory does not fail"));
        } else {
            put(&mut file, kind, content);
        }
    }
    (file, places)
}

/// Appends a record of this type.
pub fn put(file: &mut Vec<u8>, kind: u16, content: &[u8]) {
    file.extend(kind.to_le_bytes());
    file.extend((content.len() as u32).to_le_bytes());
    file.extend([0; 2]);
    file.extend(content);
}
