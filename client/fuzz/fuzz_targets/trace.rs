//! Target for traces of state writes: any bytes as a trace, or as columns of one.

#![no_main]

use libfuzzer_sys::{
    arbitrary::{Result, Unstructured},
    fuzz_target,
};
use polytrie::bench::workload::Trace;
use polytrie_fuzz::files;
use std::fmt::Write;

/// Values of columns.
const WORDS: [&str; 14] = [
    "",
    "0",
    "1",
    "7",
    "ff",
    "-1",
    "B",
    "N",
    "S",
    "b",
    "00000000000000000000000000000000000000aa",
    "0x00000000000000000000000000000000000000bb",
    "18446744073709551616",
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
];

fuzz_target!(|data: &[u8]| {
    read(data);
    _ = columns(&mut Unstructured::new(data)).map(|text| read(text.as_bytes()));
});

fn columns(bytes: &mut Unstructured<'_>) -> Result<String> {
    let mut text = String::new();
    while !bytes.is_empty() {
        let (kind, block, transaction) = (
            bytes.choose(&["B", "N", "S", "s", "X"])?,
            bytes.arbitrary::<u8>()?,
            bytes.arbitrary::<u8>()?,
        );
        let address = bytes.choose(&WORDS[10..12])?;
        let [key, old, new] = [bytes.choose(&WORDS)?, bytes.choose(&WORDS)?, bytes.choose(&WORDS)?];
        // Blocks are mostly in ascending order, as the format demands.
        let block = if bytes.ratio(7, 8)? { text.lines().count() / 3 } else { block.into() };
        _ = writeln!(text, "{kind},{block},{transaction},0,{address},{key},{old},{new}");
    }
    Ok(text)
}

fn read(bytes: &[u8]) {
    let dir = files::directory([("trace", bytes)]);
    match Trace::read(&dir.path().join("trace")) {
        Ok(trace) => {
            let blocks = trace.blocks.iter();
            assert!(blocks.clone().all(|block| !block.is_empty() && block.iter().all(|writes| !writes.is_empty())));
            assert_eq!(trace.transactions() as usize, blocks.clone().flatten().count());
            assert_eq!(trace.writes() as usize, blocks.flatten().flatten().count());
            for account in trace.accounts() {
                assert!(account.slots.count() <= trace.writes() as usize);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
