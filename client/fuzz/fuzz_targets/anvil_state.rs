//! Target for state files of anvil: any bytes, or valid files with changes by the fuzzer's bytes, compressed or not.
//!
//! A state that is loaded and written again must give the same accounts when it is loaded once more.

#![no_main]

use flate2::{Compression, write::GzEncoder};
use libfuzzer_sys::{
    arbitrary::{Result, Unstructured},
    fuzz_target,
};
use polytrie_fuzz::{change::change, devnet::Devnet};
use serde_json::{Value, json};
use std::{
    io::Write,
    sync::{LazyLock, Mutex},
};

static WORLD: LazyLock<Mutex<(Devnet, Value)>> = LazyLock::new(|| {
    let devnet = Devnet::new();
    let state = devnet.state();
    Mutex::new((devnet, state))
});

fuzz_target!(|data: &[u8]| {
    let mut world = WORLD.lock().expect("a panic ends the process");
    let (devnet, good) = &mut *world;
    match data.first() {
        Some(b'{') => load(devnet, data),
        Some(0x1f) => _ = devnet.load(data),
        _ => _ = run(devnet, good, &mut Unstructured::new(data)),
    }
    devnet.go_back();
});

fn run(devnet: &Devnet, good: &Value, bytes: &mut Unstructured<'_>) -> Result<()> {
    let mut value = good.clone();
    change(&mut value, std::slice::from_ref(good), bytes)?;
    let mut text = value.to_string().into_bytes();
    if bytes.ratio(1, 4)? {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&text).expect("memory does not fail");
        text = packed.finish().expect("memory does not fail");
        if bytes.ratio(1, 4)? {
            text.truncate(bytes.choose_index(text.len())?);
        }
        if names_many_blocks(&value) {
            return Ok(());
        }
        _ = devnet.load(&text);
        return Ok(());
    }
    load(devnet, &text);
    Ok(())
}

fn load(devnet: &Devnet, text: &[u8]) {
    let value = serde_json::from_slice(text).unwrap_or(Value::Null);
    if names_many_blocks(&value) || !devnet.load(text) {
        return;
    }
    let written = devnet.state();
    assert!(devnet.load(written.to_string().as_bytes()), "what was written is taken in");
    let again = devnet.state();
    assert_eq!(written["accounts"], again["accounts"]);
}

/// Whether the file names a block number so large that making the empty blocks up to it takes long.
fn names_many_blocks(state: &Value) -> bool {
    [&state["best_block_number"], &state["block"]["number"]].into_iter().any(
        |number| match number {
            Value::Number(number) => number.as_u64().is_none_or(|number| number > 64),
            Value::String(text) => text.len() > 4,
            number => *number != json!(null),
        },
    )
}
