//! Reads of the state after a chain, when the clock has stopped: what accounts hold, and their proofs.

use super::{BenchError, Result};
use crate::{
    fixture::OpenStore,
    measure::{Percentiles, Proofs},
};
use alloy_consensus::Transaction;
use alloy_primitives::{Address, B256, Keccak256};
use polytrie_chain::Candidate;
use polytrie_layers::VerifyError;
use polytrie_state::{StateError, StateLayer, hash_address};
use serde_json::Value;
use std::{collections::BTreeSet, ops::ControlFlow, time::Instant};

/// Most accounts that are read.
const ACCOUNTS: usize = 4_096;
/// Most slots of an account that are read.
const SLOTS: u64 = 1_024;
/// Most accounts whose proofs are measured.
const PROVEN: usize = 64;

/// The accounts that the last blocks of a chain name.
#[derive(Debug, Default)]
pub(super) struct LastAccounts(BTreeSet<Address>);

impl LastAccounts {
    /// Number of last blocks whose accounts are taken.
    pub(super) const BLOCKS: u64 = 16;

    /// Adds the accounts that a block pays or calls, and those that send, unless these are still to be recovered.
    pub(super) fn add(&mut self, block: &Candidate, has_senders: bool) {
        let called = block.block.body.transactions.iter().filter_map(Transaction::to);
        let senders: &[Address] =
            if has_senders { block.senders().unwrap_or_default() } else { &[] };
        let named =
            called.chain(senders.iter().copied()).chain(block.coinbase.as_ref().ok().copied());
        self.0.extend(named.take(ACCOUNTS - self.0.len()));
    }

    /// Returns a hash of what the accounts hold, and of their first slots. Many layers have no root that could be
    /// compared with that of another, and receipts say nothing of balances.
    pub(super) fn held(&self, layer: &dyn StateLayer) -> Result<B256> {
        let reader = layer.reader()?;
        let mut hasher = Keccak256::new();
        for address in &self.0 {
            hasher.update(address);
            let Some(account) = reader.account(address)? else { continue };
            hasher.update(account.nonce.to_be_bytes());
            hasher.update(account.balance.to_be_bytes::<32>());
            hasher.update(account.code_hash);
            let mut left = SLOTS;
            layer.slots(hash_address(address), B256::ZERO, &mut |slot, value| {
                hasher.update(slot);
                hasher.update(value.to_be_bytes::<32>());
                left -= 1;
                Ok(if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            })?;
        }
        Ok(hasher.finalize())
    }

    /// Proves some of the accounts, one after the other, and verifies each proof. `None` if the layer, with its
    /// settings, makes no proofs.
    pub(super) fn proofs(&self, open: &OpenStore) -> Result<Option<Proofs>> {
        let layer = &*open.layer;
        let verify = polytrie_layers::layer(layer.name()).ok().and_then(|kind| kind.verify);
        let (Some(prover), Some(verify)) = (layer.proofs(), verify) else { return Ok(None) };
        let commitment = layer.commitment();
        let (mut seconds, mut bytes) = (Vec::new(), 0);
        for (number, address) in self.0.iter().take(PROVEN + 1).enumerate() {
            let start = Instant::now();
            let proof = match prover.prove(address, &[]) {
                // Some layers make proofs with certain settings only.
                Err(StateError::Unsupported { .. }) => return Ok(None),
                proof => proof?,
            };
            let time = start.elapsed().as_secs_f64();
            verify(&open.needs, &commitment, &proof).map_err(|error| match error {
                VerifyError::Unable(error) => BenchError::from(error),
                VerifyError::Proof(error) => BenchError::Wrong(format!(
                    "with the layer `{}`, the proof of {address} is refused: {error}",
                    layer.name()
                )),
            })?;
            // The first proof may wait for work that the layer has put off, such as a commit to files of its own.
            if number > 0 {
                seconds.push(time);
                bytes += content(&proof.proof);
            }
        }
        let count = seconds.len() as u64;
        Ok((count > 0).then(|| Proofs {
            count,
            bytes: bytes as f64 / count as f64,
            seconds: Percentiles::of(&seconds),
        }))
    }
}

/// Returns the bytes of all that stands in hexadecimal in the JSON of a proof: nodes, hashes, points and values. A binary
/// form would have as many, while names and brackets differ from layer to layer.
fn content(json: &Value) -> u64 {
    match json {
        Value::String(text) => text.strip_prefix("0x").map_or(0, |digits| digits.len() as u64 / 2),
        Value::Array(values) => values.iter().map(content).sum(),
        Value::Object(fields) => fields.values().map(content).sum(),
        _ => 0,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{Base, BaseSpec, Cache, Settings, SlotKeys, Subject};
    use polytrie_kv::StoreOptions;
    use polytrie_layers::{LAYERS, LayerOptions};
    use std::sync::Arc;

    /// Runs `work` on a layer in memory with one contract, whose slots follow from a seed.
    fn with<T>(state: &str, seed: u64, work: impl FnOnce(LastAccounts, &OpenStore) -> T) -> T {
        let dir = tempfile::tempdir().unwrap();
        let cache = Arc::new(Cache::open(dir.path()).unwrap());
        let settings = Settings { layer: LayerOptions::for_tests(), ..Settings::default() };
        let subject = Subject::new(state, "memory");
        let options = StoreOptions::default();
        let open = OpenStore::open(&subject, dir.path(), &settings, options).unwrap();
        open.fill(&Base::new(BaseSpec::Slots(SlotKeys { seed, keys: 9 }), cache)).unwrap();
        let accounts = [SlotKeys::ADDRESS, Address::ZERO, Address::with_last_byte(1)];
        work(LastAccounts(accounts.into()), &open)
    }

    /// A layer that lost or changed a value is noticed, although its commitment is compared with no other.
    #[test]
    fn what_accounts_hold_is_compared_between_all_layers() {
        let held = |state: &str, seed| {
            with(state, seed, |accounts, open| accounts.held(&*open.layer).unwrap())
        };
        let expected = held("raw", 1);
        for layer in LAYERS {
            assert_eq!(held(layer.name, 1), expected, "{}", layer.name);
            assert_ne!(held(layer.name, 2), expected, "{}", layer.name);
        }
    }

    #[test]
    fn layers_that_make_proofs_have_figures_of_them() {
        for layer in LAYERS {
            let found = with(layer.name, 1, |accounts, open| accounts.proofs(open).unwrap());
            // `lvmt` makes proofs with --lvmt.proofs only.
            assert_eq!(found.is_some(), !["raw", "lvmt"].contains(&layer.name), "{}", layer.name);
            let Some(Proofs { count, bytes, .. }) = found else { continue };
            // The first of three proofs does not count. Each has the address, and more.
            assert_eq!(count, 2, "{}", layer.name);
            assert!(bytes > 20.0, "{}: {bytes}", layer.name);
        }
    }

    #[test]
    fn what_is_in_hexadecimal_counts() {
        let json =
            serde_json::json!({ "a": "0x0102", "b": ["0x", "0x1", "x", 7, { "c": "0xffffff" }] });
        assert_eq!(content(&json), 5);
    }
}
