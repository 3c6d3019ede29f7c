//! Tests of internals: forged proofs, garbage collection, other heights, other setups.
#![expect(clippy::unwrap_used, reason = "tests")]

mod attacks;
mod branches;
mod collecting;
mod heights;
mod kept;
mod setups;
mod tampering;

use crate::{LvmtLayer, LvmtOptions, Proofs, Proven, verify};
use alloy_primitives::{Address, U256};
use polytrie_amt::{PowersOfTau, Setup};
use polytrie_kv::Store;
use polytrie_state::{Account, AccountChange, Outcome, Proof, ProofError, Prove, StateLayer};
use polytrie_testing::suite::finished;
use std::sync::Arc;

pub(super) fn setup(height: u8, seed: &str) -> Arc<Setup> {
    let powers = PowersOfTau::insecure_dev(height, seed).unwrap();
    Arc::new(Setup::derive(&powers, true, &mut |_| {}))
}

/// A layer in memory, with the undo records of its blocks.
pub(super) struct Chain {
    pub(super) store: Store,
    pub(super) setup: Arc<Setup>,
    pub(super) layer: Arc<LvmtLayer>,
    pub(super) undo: Vec<Vec<u8>>,
}

impl Chain {
    pub(super) fn new(setup: Arc<Setup>) -> Self {
        Self::with(setup, Proofs::OnRequest)
    }

    pub(super) fn with(setup: Arc<Setup>, proofs: Proofs) -> Self {
        let store = Store::memory(LvmtLayer::TABLES).unwrap();
        let options = LvmtOptions { proofs, ..LvmtOptions::default() };
        let layer = LvmtLayer::open(store.clone(), setup.clone(), options).unwrap();
        Self { store, setup, layer, undo: Vec::new() }
    }

    /// Finishes a block, without writing or accepting it.
    pub(super) fn finish(&self, accounts: Vec<AccountChange>) -> Outcome {
        finished(&*self.layer, self.undo.len() as u64, accounts)
    }

    pub(super) fn block(&mut self, accounts: Vec<AccountChange>) {
        let outcome = self.finish(accounts);
        self.undo.push(outcome.undo.clone());
        outcome.write(&self.store).unwrap();
    }

    pub(super) fn undo(&mut self) {
        let outcome = self.layer.undo(&self.undo.pop().unwrap()).unwrap();
        outcome.write(&self.store).unwrap();
    }

    pub(super) fn prove(&self, n: u64, slots: &[u64]) -> Proof {
        let slots: Vec<U256> = slots.iter().copied().map(U256::from).collect();
        self.layer.prove(&address(n), &slots).unwrap()
    }

    pub(super) fn verify(&self, proof: &Proof) -> Result<Proven, ProofError> {
        verify(self.setup.key(), &self.layer.commitment(), proof)
    }

    /// Checks that the proofs of these accounts agree with a reader.
    pub(super) fn check_proofs(&self, accounts: std::ops::Range<u64>) {
        let reader = self.layer.reader().unwrap();
        for n in accounts {
            let proven = self.verify(&self.prove(n, &[1, 7])).unwrap();
            let account = reader.account(&address(n)).unwrap();
            assert_eq!(proven.state.exists, account.is_some());
            assert_eq!(proven.state.balance, account.unwrap_or_default().balance);
            for (slot, value) in proven.state.slots {
                assert_eq!(value, reader.slot(&address(n), &slot).unwrap());
            }
        }
    }

    pub(super) fn assert_clean(&self) {
        let report = self.layer.check(&mut |_| {}).unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
    }
}

pub(super) fn address(n: u64) -> Address {
    Address::left_padding_from(&n.to_be_bytes())
}

/// Returns the change to an account with this balance and these slots.
pub(super) fn account(n: u64, balance: u64, slots: &[(u64, u64)]) -> AccountChange {
    let number = |n: u64| U256::from(n);
    AccountChange {
        address: address(n),
        account: Some(Account { nonce: 1, balance: number(balance), ..Account::default() }),
        wiped: false,
        code: None,
        slots: slots.iter().map(|(slot, value)| (number(*slot), number(*value))).collect(),
    }
}

/// Returns the destruction of an account.
pub(super) fn destroyed(n: u64) -> AccountChange {
    AccountChange { account: None, wiped: true, ..account(n, 0, &[]) }
}
