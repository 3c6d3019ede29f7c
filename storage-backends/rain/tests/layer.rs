//! The suite that every layer passes.

use alloy_primitives::{Address, U256};
use polytrie_kv::{Store, Table};
use polytrie_rain::{RainLayer, RainOptions, verify};
use polytrie_state::{
    Account, Commitment, CommitmentKind, Proof, ProofError, StateError, StateLayer,
};
use polytrie_testing::{
    layer_suite,
    suite::{LayerFactory, Proven, Verifier},
};
use std::sync::Arc;

#[derive(Debug, Default)]
struct Rain(RainOptions);

impl LayerFactory for Rain {
    fn tables(&self) -> Vec<Table> {
        RainLayer::TABLES.to_vec()
    }

    fn open(&self, store: Store) -> Result<Arc<dyn StateLayer>, StateError> {
        Ok(RainLayer::open(store, self.0)?)
    }

    fn kind(&self) -> CommitmentKind {
        CommitmentKind::StateRoot
    }

    fn state_decides_rows(&self) -> bool {
        // Where checkpoints and logs stand depends on the changes so far.
        false
    }

    fn verifier(&self) -> Option<Verifier> {
        Some(proven)
    }

    fn variants(&self) -> Vec<Box<dyn LayerFactory>> {
        // Nothing kept but what must be; a little; everything.
        let budgets = [(0, 0), (2, 20_000), (6, usize::MAX)];
        budgets
            .map(|(retain, cache_bytes)| {
                Box::new(Self(RainOptions { retain, cache_bytes, undo: true })) as _
            })
            .into()
    }
}

fn proven(
    commitment: &Commitment,
    address: &Address,
    slots: &[U256],
    proof: &Proof,
) -> Result<Proven, ProofError> {
    let proven = verify(commitment.digest(), proof)?;
    let asked: Vec<_> = proven.slots.iter().map(|(slot, _)| *slot).collect();
    if proven.address != *address || asked != slots {
        return Err(ProofError::Invalid("the proof is about something else".into()));
    }
    let account = proven.exists.then_some(Account {
        nonce: proven.nonce,
        balance: proven.balance,
        code_hash: proven.code_hash,
    });
    Ok((account, proven.slots.into_iter().map(|(_, value)| value).collect()))
}

layer_suite!(Rain::default());
