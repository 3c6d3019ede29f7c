//! Proofs, in the form of `eth_getProof` (EIP-1186), and witnesses of past blocks.

use crate::{RainLayer, TRIE, reader::RainReader, touches::Noted};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_kv::Read;
use polytrie_state::{Proof, Result, Touched, WriteSet, hash_address, hash_slot};
use polytrie_trie::{Rows, cow::StateTries};

/// The rows of one trie.
type TrieRows<'r> = Rows<&'r dyn Read>;

/// Makes a proof of what a reader sees.
pub(crate) fn prove(reader: &RainReader, address: &Address, slots: &[U256]) -> Result<Proof> {
    let slot_hashes = slots.iter().map(hash_slot).collect();
    let touched = Touched::from([(hash_address(address), slot_hashes)]);
    let rows = reader.noted();
    tries(reader, &rows, &[], &touched)?.prove(RainLayer::NAME, address, slots)
}

/// Returns the root before a past block, and the nodes that it takes to execute the block without the state: see
/// [`PastWitnesses`](polytrie_state::PastWitnesses).
pub(crate) fn past_witness(
    reader: &RainReader,
    back: &[WriteSet],
    touched: &Touched,
) -> Result<(B256, Vec<Bytes>)> {
    let rows = reader.noted();
    Ok(tries(reader, &rows, back, touched)?.past_witness(back, touched)?)
}

/// Returns the tries that a reader sees. Without room for more nodes they are copies on the paths of what is undone and
/// touched, so that the version keeps none of the nodes that are read.
fn tries<'r>(
    reader: &RainReader,
    rows: &'r Noted<'_>,
    back: &[WriteSet],
    touched: &Touched,
) -> Result<StateTries<impl Fn(Option<B256>) -> TrieRows<'r> + Sync>> {
    let version = &reader.version;
    let rows_of = move |owner| TRIE.rows_of(rows, owner);
    let mut tries = StateTries::new(version.whole(rows)?, rows_of, version.seq);
    if !reader.keeps() {
        tries.unshare(back, touched);
    }
    Ok(tries)
}
