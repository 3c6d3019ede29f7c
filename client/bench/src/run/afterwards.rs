//! Reads of the state after a chain, when the clock has stopped: what accounts hold, and their proofs.

use super::{BenchError, Result};
use crate::{
    fixture::OpenStore,
    measure::{Percentiles, Proofs},
};
use alloy_consensus::{Transaction, TxEnvelope};
use alloy_primitives::{Address, B256, Keccak256};
use polytrie_chain::{Candidate, executor::recover_senders};
use polytrie_layers::VerifyError;
use polytrie_state::{StateError, StateLayer, hash_address};
use serde_json::Value;
use std::{collections::BTreeSet, ops::ControlFlow, time::Instant};

/// Number of last blocks whose accounts are read.
const LAST: u64 = 16;
/// Most transactions that are taken of each of them.
const TRANSACTIONS: usize = 256;
/// Most slots of an account that are read.
const SLOTS: u64 = 1_024;
/// Most blocks of which an account is proven.
const PROVEN: u64 = 65;
/// Least number of accounts to prove. A chain with fewer blocks gives several accounts of each block.
const LEAST_PROVEN: u64 = 9;

/// Transactions whose accounts are read in the end. Their senders are recovered then, as they may not be known before.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// Those of the last blocks.
    last: Vec<TxEnvelope>,
    /// Accounts that receive the fees of the last blocks.
    coinbases: BTreeSet<Address>,
    /// The first ones of some blocks all over the chain: a layer may have the accounts of the last blocks in another place,
    /// from which their proofs are shorter.
    spread: Vec<TxEnvelope>,
}

impl Sample {
    /// Takes what it needs of the block with this number, of so many blocks.
    pub(super) fn add(&mut self, block: &Candidate, number: u64, blocks: u64) {
        let transactions = &block.block.body.transactions;
        if number.is_multiple_of(blocks.div_ceil(PROVEN)) {
            let each = LEAST_PROVEN.div_ceil(blocks) as usize;
            self.spread.extend(transactions.iter().take(each).cloned());
        }
        if blocks - number < LAST {
            self.last.extend(transactions.iter().take(TRANSACTIONS).cloned());
            self.coinbases.extend(block.coinbase.as_ref().ok());
        }
    }

    /// Returns a hash of what the accounts hold now that the last blocks name.
    pub(super) fn held(&self, open: &OpenStore) -> Result<B256> {
        let mut accounts = self.coinbases.clone();
        accounts.extend(senders(&self.last));
        accounts.extend(self.last.iter().filter_map(Transaction::to));
        held(&*open.layer, &accounts)
    }

    /// Proves accounts that sent transactions, one after the other, and verifies each proof. `None` if the layer, with
    /// its settings, makes no proofs.
    pub(super) fn proofs(&self, open: &OpenStore) -> Result<Option<Proofs>> {
        proofs(open, &senders(&self.spread).into_iter().collect())
    }
}

/// Returns the senders of transactions of valid blocks, which can always be recovered.
fn senders(transactions: &[TxEnvelope]) -> Vec<Address> {
    recover_senders(transactions).unwrap_or_default()
}

/// Returns a hash of what the accounts hold, and of their first slots. Many layers have no root that could be compared
/// with that of another, and receipts say nothing of balances.
fn held(layer: &dyn StateLayer, accounts: &BTreeSet<Address>) -> Result<B256> {
    let reader = layer.reader()?;
    let mut hasher = Keccak256::new();
    for address in accounts {
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

fn proofs(open: &OpenStore, accounts: &BTreeSet<Address>) -> Result<Option<Proofs>> {
    let layer = &*open.layer;
    let verify = polytrie_layers::layer(layer.name()).ok().and_then(|kind| kind.verify);
    let (Some(prover), Some(verify)) = (layer.proofs(), verify) else { return Ok(None) };
    let commitment = layer.commitment();
    let mut figures = Vec::new();
    for address in accounts {
        let start = Instant::now();
        let proof = match prover.prove(address, &[]) {
            // With some settings a layer proves no accounts, or a share of them.
            Err(StateError::Unsupported { .. }) => continue,
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
        figures.push((time, content(&proof.proof)));
    }
    // The first proof may wait for work that the layer has put off, such as a commit to files of its own.
    let (seconds, bytes): (Vec<f64>, Vec<u64>) = figures.into_iter().skip(1).unzip();
    let count = seconds.len() as u64;
    Ok((count > 0).then(|| Proofs {
        count,
        bytes: bytes.iter().sum::<u64>() as f64 / count as f64,
        seconds: Percentiles::of(&seconds),
    }))
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
    use alloy_consensus::{Block, BlockBody, Header, SignableTransaction, TxLegacy};
    use alloy_primitives::{Bytes, Signature};
    use polytrie_chainspec::ChainSpec;
    use polytrie_kv::StoreOptions;
    use polytrie_layers::{LAYERS, LayerOptions};
    use std::sync::Arc;

    /// Runs `work` on a layer in memory with one contract, whose slots follow from a seed.
    fn with<T>(
        state: &str,
        layer: LayerOptions,
        seed: u64,
        work: impl FnOnce(&OpenStore, &BTreeSet<Address>) -> T,
    ) -> T {
        let dir = tempfile::tempdir().unwrap();
        let cache = Arc::new(Cache::open(dir.path()).unwrap());
        let settings = Settings { layer, ..Settings::default() };
        let subject = Subject::new(state, "memory");
        let options = StoreOptions::default();
        let open = OpenStore::open(&subject, dir.path(), &settings, options).unwrap();
        open.fill(&Base::new(BaseSpec::Slots(SlotKeys { seed, keys: 9 }), cache)).unwrap();
        let accounts = [SlotKeys::ADDRESS, Address::ZERO, Address::with_last_byte(1)];
        work(&open, &accounts.into())
    }

    /// Each of the last blocks has its part, however large the blocks are.
    #[test]
    fn large_blocks_leave_room_for_later_ones() {
        let (spec, mut sample) = (ChainSpec::dev(1337, []), Sample::default());
        for number in 1..=20 {
            let transaction = |nonce| {
                let transaction = TxLegacy { nonce, gas_limit: number, ..TxLegacy::default() };
                TxEnvelope::Legacy(transaction.into_signed(Signature::test_signature()))
            };
            let transactions = (0..TRANSACTIONS as u64 + 1).map(transaction).collect();
            let body = BlockBody { transactions, ..BlockBody::default() };
            let block = Block { header: Header { number, ..Header::default() }, body };
            let (block, _) = Candidate::with_senders(&spec, block, Bytes::new(), Some(Vec::new()));
            sample.add(&block, number, 20);
        }
        for number in 1..=20 {
            let limits = sample.last.iter().map(Transaction::gas_limit);
            let of_block = limits.filter(|limit| *limit == number).count();
            assert_eq!(of_block, if number < 5 { 0 } else { TRANSACTIONS }, "{number}");
        }
    }

    /// A layer that lost or changed a value is noticed, although its commitment is compared with no other.
    #[test]
    fn what_accounts_hold_is_compared_between_all_layers() {
        let held_by = |state: &str, seed| {
            let options = LayerOptions::for_tests();
            with(state, options, seed, |open, accounts| held(&*open.layer, accounts).unwrap())
        };
        let expected = held_by("raw", 1);
        for layer in LAYERS {
            assert_eq!(held_by(layer.name, 1), expected, "{}", layer.name);
            assert_ne!(held_by(layer.name, 2), expected, "{}", layer.name);
        }
    }

    #[test]
    fn layers_that_make_proofs_have_figures_of_them() {
        for layer in LAYERS {
            let options = LayerOptions::for_tests();
            let found =
                with(layer.name, options, 1, |open, accounts| proofs(open, accounts).unwrap());
            // `lvmt` makes proofs with --lvmt.proofs only.
            assert_eq!(found.is_some(), !["raw", "lvmt"].contains(&layer.name), "{}", layer.name);
            let Some(Proofs { count, bytes, .. }) = found else { continue };
            // The first of three proofs does not count. Each has the address, and more.
            assert_eq!(count, 2, "{}", layer.name);
            assert!(bytes > 20.0, "{}: {bytes}", layer.name);
        }
    }

    /// A node that keeps the witnesses of a share of the accounts proves these.
    #[test]
    fn a_share_of_the_accounts_is_proven() {
        let accounts: BTreeSet<_> = (0..8).map(Address::with_last_byte).collect();
        let proven = |share: &str| {
            let mut options = LayerOptions::for_tests();
            options.lvmt.proofs = Some(share.parse().unwrap());
            let found = with("lvmt", options, 1, |open, _| proofs(open, &accounts).unwrap());
            found.map_or(0, |proofs| proofs.count)
        };
        // The first proof of each does not count.
        assert_eq!(proven("on-request"), 7);
        assert_eq!(proven("1/2") + proven("2/2"), 6);
    }

    #[test]
    fn what_is_in_hexadecimal_counts() {
        let json =
            serde_json::json!({ "a": "0x0102", "b": ["0x", "0x1", "x", 7, { "c": "0xffffff" }] });
        assert_eq!(content(&json), 5);
    }
}
