//! Target for proofs of every layer that makes some: arbitrary JSON, or valid proofs with changes by
//! the fuzzer's bytes.
//!
//! A proof that is verified against the commitment of the chain must be true of the chain. Proofs of canonical layers
//! are also verified against the root of their changed nodes, so that nodes below the first hash are read as well.

#![no_main]

use alloy_primitives::{Address, B256, U256};
use libfuzzer_sys::{
    arbitrary::{Result, Unstructured},
    fuzz_target,
};
use polytrie::{
    chain::ChainOptions,
    layers::{self, LAYERS, LayerNeeds, VerifyError, testsetup},
};
use polytrie_fuzz::{
    change::change,
    sample::{Sample, sample},
};
use polytrie_state::{Commitment, CommitmentKind, Proof};
use serde::Deserialize;
use serde_json::Value;
use std::sync::{LazyLock, Mutex};

/// Number of blocks in the chain.
const BLOCKS: usize = 24;
/// Number of slots in a proof.
const SLOTS: usize = 3;

struct World {
    sample: Sample,
    commitment: Commitment,
    /// Valid proofs, as JSON.
    proofs: Vec<Value>,
}

static WORLDS: LazyLock<Mutex<Vec<World>>> = LazyLock::new(|| {
    let kinds = LAYERS.iter().filter(|kind| kind.verify.is_some());
    Mutex::new(kinds.map(|kind| World::new(kind.name)).collect())
});

impl World {
    fn new(layer: &str) -> Self {
        let sample = sample(layer, ChainOptions::default(), BLOCKS, |_| {});
        let commitment = sample.dir.layer.commitment();
        let mut asked: Vec<(Address, Vec<U256>)> =
            sample.written.iter().map(|(address, slots)| (*address, slots.clone())).collect();
        asked.sort_by_key(|(_, slots)| std::cmp::Reverse(slots.len()));
        asked.truncate(12);
        let absent = Address::repeat_byte(0x77);
        asked.push((absent, vec![U256::ONE]));
        let mut world = Self { sample, commitment, proofs: Vec::new() };
        for (address, mut slots) in asked {
            slots.truncate(SLOTS - 1);
            slots.push(U256::MAX);
            let proof = world.prove(&address, &slots);
            world.verify(&proof, &world.commitment).expect("what was proven holds");
            world.proofs.push(serde_json::to_value(proof).expect("a proof is JSON"));
        }
        world
    }

    fn prove(&self, address: &Address, slots: &[U256]) -> Proof {
        let prover = layers::proofs(&*self.sample.dir.layer).expect("it makes proofs");
        prover.prove(address, slots).expect("memory does not fail")
    }

    fn verify(
        &self,
        proof: &Proof,
        commitment: &Commitment,
    ) -> std::result::Result<Value, VerifyError> {
        let mut needs = LayerNeeds::default();
        needs.lvmt.setup = Some(testsetup::dir());
        let verify = self.sample.dir.kind.verify.expect("it makes proofs");
        verify(&needs, commitment, proof)
    }

    /// Verifies a proof against the chain. If it holds, the chain's own proof must give the same values for the
    /// account and slots.
    fn check(&self, proof: &Proof) {
        #[derive(Deserialize)]
        struct Asked {
            address: Address,
            slots: Vec<(U256, Value)>,
        }
        match self.verify(proof, &self.commitment) {
            Ok(proven) => {
                let Asked { address, slots } =
                    Asked::deserialize(&proven).expect("it says what it proves");
                let slots: Vec<U256> = slots.into_iter().map(|(slot, _)| slot).collect();
                let expected = self.verify(&self.prove(&address, &slots), &self.commitment);
                assert_eq!(expected.expect("what was proven holds"), proven, "{proof:?}");
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let worlds = WORLDS.lock().expect("a panic ends the process");
    if data.first() == Some(&b'{') {
        let Ok(proof) = serde_json::from_slice::<Proof>(data) else { return };
        for world in worlds.iter() {
            world.check(&proof);
        }
        return;
    }
    _ = run(&worlds, &mut Unstructured::new(data));
});

fn run(worlds: &[World], bytes: &mut Unstructured<'_>) -> Result<()> {
    let world = bytes.choose(worlds)?;
    let mut value = bytes.choose(&world.proofs)?.clone();
    let replaced = change(&mut value, &world.proofs, bytes)?;
    let Ok(proof) = serde_json::from_value::<Proof>(value) else { return Ok(()) };
    world.check(&proof);
    if world.commitment.kind() != CommitmentKind::StateRoot {
        return Ok(());
    }
    let root = replaced.iter().fold(world.commitment.digest(), follow);
    if let Err(error) = world.verify(&proof, &Commitment::state_root(root)) {
        assert!(!error.to_string().is_empty());
    }
    Ok(())
}

fn follow(hash: B256, (from, to): &(B256, B256)) -> B256 {
    if hash == *from { *to } else { hash }
}
