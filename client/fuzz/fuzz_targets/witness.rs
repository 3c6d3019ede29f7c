//! Target for witness files: arbitrary JSON, or valid files with changes by the fuzzer's bytes.
//!
//! After each change the hashes are recomputed up to that of the block, so that the block is executed with the
//! changed data. A witness may be invalid, insufficient, or lead to the state root of its block. It must never cause
//! a failure of the machine.

#![no_main]

use libfuzzer_sys::{
    arbitrary::{Result, Unstructured},
    fuzz_target,
};
use polytrie::{
    chain::ChainOptions,
    consensus::decode::decode_block,
    layers,
    witness::{WitnessError, WitnessFile, verify},
};
use polytrie_chainspec::ChainSpec;
use polytrie_fuzz::{
    change::change,
    sample::{Sample, sample},
};
use polytrie_state::StateLayer;
use serde_json::Value;
use std::sync::{LazyLock, Mutex};

const BLOCKS: usize = 24;
/// Levels that partial witnesses leave out, since the holder has them.
const LEVELS: u8 = 2;

struct World {
    /// The sample chain after all blocks, which holds the left-out levels.
    holder: Sample,
    whole: Vec<Value>,
    /// Witnesses without the levels that the holder has.
    partial: Vec<Value>,
}

static WORLD: LazyLock<Mutex<World>> = LazyLock::new(|| {
    let (_, whole) = witnesses(0);
    let (holder, partial) = witnesses(LEVELS);
    Mutex::new(World { holder, whole, partial })
});

fn witnesses(levels: u8) -> (Sample, Vec<Value>) {
    let mut files = Vec::new();
    let options = ChainOptions { witness_levels: Some(levels), ..ChainOptions::default() };
    let layer = layers::stateless().expect("the layer is in the build").name;
    let sample = sample(layer, options, BLOCKS, |chain| {
        let spec = chain.spec().clone();
        let made = chain.take_witnesses().into_iter().map(|block| WitnessFile::new(&spec, block));
        files.extend(made.map(|file| serde_json::to_value(file).expect("a witness is JSON")));
    });
    assert_eq!(files.len(), BLOCKS);
    (sample, files)
}

fuzz_target!(|data: &[u8]| {
    let world = WORLD.lock().expect("a panic ends the process");
    let spec = world.holder.chain.spec();
    let holder = &*world.holder.dir.layer;
    if data.first() == Some(&b'{') {
        let Ok(file) = serde_json::from_slice::<WitnessFile>(data) else { return };
        check(spec, &file, None);
        check(spec, &file, Some(holder));
        return;
    }
    _ = run(&world, &mut Unstructured::new(data));
});

fn run(world: &World, bytes: &mut Unstructured<'_>) -> Result<()> {
    let held = bytes.arbitrary()?;
    let files = if held { &world.partial } else { &world.whole };
    let mut value = bytes.choose(files)?.clone();
    change(&mut value, files, bytes)?;
    let Ok(mut file) = serde_json::from_value::<WitnessFile>(value) else { return Ok(()) };
    if bytes.ratio(7, 8)?
        && let Ok(block) = decode_block(&file.block)
    {
        file.hash = block.header.hash_slow();
    }
    check(world.holder.chain.spec(), &file, held.then_some(&*world.holder.dir.layer));
    Ok(())
}

fn check(spec: &ChainSpec, file: &WitnessFile, holder: Option<&dyn StateLayer>) {
    let stateless = layers::stateless().expect("the layer is in the build");
    match verify(spec, file, &stateless, holder) {
        Ok(verified) => {
            let header = decode_block(&file.block).expect("it was executed").header;
            assert_eq!((verified.number, verified.hash), (header.number, header.hash_slow()));
            assert!(holder.is_some() || verified.state_root == header.state_root);
        }
        Err(WitnessError::Broken(error)) => panic!("no witness makes the machine fail: {error}"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
