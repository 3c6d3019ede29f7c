//! Target for directories of blocks with what they touch: one file of any bytes, or valid files with changes by the
//! fuzzer's bytes. Blocks that are read are executed.

#![no_main]

use libfuzzer_sys::{
    arbitrary::{Result, Unstructured},
    fuzz_target,
};
use polytrie::{
    chain::{Candidate, ChainOptions},
    datadir::DataDir,
    layers,
    prestate::Prestate,
    witness::WitnessFile,
};
use polytrie_fuzz::{
    change::change,
    files,
    sample::{GENESIS, options, sample},
};
use serde_json::{Value, json};
use std::{
    path::Path,
    sync::{LazyLock, Mutex, atomic::AtomicBool},
};

const BLOCKS: usize = 12;
/// Number of files in a directory.
const FILES: usize = 3;

/// Files of each block, in three forms: a witness, accounts with all that is touched, and the answer of a tracer.
static BLOCK_FILES: LazyLock<Mutex<Vec<[Value; 3]>>> = LazyLock::new(|| {
    let layer = layers::stateless().expect("the layer is in the build").name;
    let witnessed = ChainOptions { witness_levels: Some(0), ..ChainOptions::default() };
    let alloc =
        serde_json::from_slice::<Value>(GENESIS).expect("the sample is JSON")["alloc"].take();
    let mut files = Vec::new();
    sample(layer, witnessed, BLOCKS, |chain| {
        let spec = chain.spec().clone();
        for block in chain.take_witnesses() {
            let (rlp, parent) = (block.rlp.clone(), block.ancestors.first().cloned());
            let witness =
                serde_json::to_value(WitnessFile::new(&spec, block)).expect("a witness is JSON");
            let touched = json!({ "block": rlp, "parent": parent, "pre": alloc });
            let traced = json!({ "block": rlp, "parent": parent, "prestate": { "result": [{ "result": alloc }] } });
            files.push([witness, touched, traced]);
        }
    });
    Mutex::new(files)
});

fuzz_target!(|data: &[u8]| {
    if data.first() == Some(&b'{') {
        return read(files::directory([("1.json", data)]).path());
    }
    let good = BLOCK_FILES.lock().expect("a panic ends the process");
    _ = run(&good, &mut Unstructured::new(data));
});

fn run(good: &[[Value; 3]], bytes: &mut Unstructured<'_>) -> Result<()> {
    let first = bytes.choose_index(good.len())?;
    let dir = files::directory([]);
    for forms in good[first..].iter().take(bytes.int_in_range(1..=FILES)?) {
        let mut value = bytes.choose(forms)?.clone();
        if bytes.arbitrary()? {
            change(&mut value, forms, bytes)?;
        }
        let number = dir.path().read_dir().map_or(0, Iterator::count);
        files::put(dir.path(), &format!("{number}.json"), value.to_string().as_bytes());
    }
    read(dir.path());
    Ok(())
}

fn read(dir: &Path) {
    let directory = DataDir::create_with(&options("mpt"), GENESIS).expect("memory does not fail");
    let spec = directory.spec().expect("it was made of one");
    let prestate = match Prestate::read(dir, &spec) {
        Ok(prestate) => prestate,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let never = AtomicBool::new(false);
    let mut chain = match prestate.begin(&directory, 0, &never, &mut |_| {}) {
        Ok(chain) => chain,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let stream = prestate.stream();
    let mut rest = stream.as_slice();
    while !rest.is_empty() {
        let before = rest;
        alloy_rlp::Header::decode_bytes(&mut rest, true).expect("it was read as a block");
        let block = before[..before.len() - rest.len()].to_vec();
        let candidate = Candidate::prepare(&spec, block.into()).expect("it was read as a block");
        if let Err(error) = chain.insert(candidate) {
            return assert!(!error.to_string().is_empty());
        }
    }
}
