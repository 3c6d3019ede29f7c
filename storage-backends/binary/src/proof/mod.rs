//! Proofs of accounts and slots, present or absent.
//!
//! A proof holds its claims, and for each stem that these need, in the order in which the claims name them, the path
//! from the root to the stem and an opening of its leaves. Zero hashes are left out: a bit for each hash says whether
//! it is there.
//!
//! The claims of a valid proof are true, if no two inputs have hashes with the same first 31 bytes, and no known
//! input has a hash that begins with 12 zeros. Each node then has one pair of halves, and from the root on a path
//! meets the nodes of the tree.
//!
//! - A path does not continue through a stem: see `inner.rs`.
//! - If the path ends where the tree has no node, or a stem, the proof says so: a stem's left half names the stem.
//! - If the path ends at an inner node, that cannot be shown as an empty place or as another stem: see `opening.rs`. Nor
//!   can it be shown as the requested stem. Its left half would be the hash of a key, and the halves of the left child
//!   would be that key, which begins with 12 zeros and an address. Only an empty subtree has a hash that begins with 12
//!   zeros, so the address would be zero. For the address zero all leaves of its slots' stems are opened: a level of
//!   hashes of 32 bytes, 8 below an inner node's right child, where there must be one of 64.

mod form;
mod inner;
mod opening;
mod verify;

pub use form::{BinaryProof, End, Hashes, InnerProof, StemProof};
pub use verify::verify;

use crate::{
    Stem, TreeKey,
    key::{AccountKeys, BALANCE_REST, BASIC_DATA, CODE_HASH},
    reader::BinaryReader,
    state::account_in,
    stem::Leaves,
};
use alloy_primitives::{Address, B256, U256, map::HashMap};
use polytrie_state::{Proof, Result, SlotClaim};

/// The sub-indices of the leaves that prove an account.
const ACCOUNT: [u8; 3] = [BASIC_DATA, CODE_HASH, BALANCE_REST];

/// A stem, and the sub-indices of its requested leaves, in order.
pub(crate) type Asked = (Stem, Vec<u8>);

/// Returns the stems and leaves that a proof of an account and slots opens, the account's own stem first. Stops when
/// there is one stem more than `most`.
pub(crate) fn asked(
    keys: &AccountKeys,
    slots: impl Iterator<Item = TreeKey>,
    most: usize,
) -> Vec<Asked> {
    let mut stems: Vec<Asked> = vec![(keys.header, ACCOUNT.to_vec())];
    let mut places: HashMap<Stem, usize> = HashMap::default();
    places.insert(keys.header, 0);
    for TreeKey { stem, sub } in slots {
        if stems.len() > most {
            break;
        }
        let place = *places.entry(stem).or_insert(stems.len());
        match stems.get_mut(place) {
            Some((_, subs)) => subs.push(sub),
            None => stems.push((stem, vec![sub])),
        }
    }
    for (_, subs) in &mut stems {
        subs.sort_unstable();
        subs.dedup();
    }
    if keys.are_of_zero() {
        // The keys of this account could be hashes of nodes. All leaves together could not be the nodes below one.
        for (_, subs) in stems.iter_mut().skip(1) {
            *subs = (0..=u8::MAX).collect();
        }
    }
    stems
}

/// Proves an account and some of its slots.
///
/// # Errors
///
/// If the store fails or is damaged.
pub(crate) fn prove(state: &BinaryReader, address: &Address, slots: &[U256]) -> Result<Proof> {
    let keys = AccountKeys::new(*address);
    let mut stems = Vec::new();
    let mut opened: HashMap<Stem, Leaves> = HashMap::default();
    for (stem, subs) in asked(&keys, slots.iter().map(|slot| keys.slot(slot)), usize::MAX) {
        let (proof, leaves) = prove_stem(state, &stem, &subs)?;
        stems.push(proof);
        opened.insert(stem, leaves);
    }
    let leaf = |key: TreeKey| {
        let leaves = opened.get(&key.stem);
        leaves.and_then(|leaves| leaves.get(key.sub)).copied()
    };
    let account = account_in(&opened[&keys.header], address)?;
    let claimed = account.unwrap_or_default();
    let slot = |slot: &U256| {
        let value = leaf(keys.slot(slot)).map_or(U256::ZERO, Into::into);
        SlotClaim { key: *slot, value }
    };
    let proof = BinaryProof {
        address: *address,
        exists: account.is_some(),
        nonce: U256::from(claimed.nonce),
        balance: claimed.balance,
        code_hash: claimed.code_hash,
        slots: slots.iter().map(slot).collect(),
        stems,
    };
    Proof::of(crate::layer::NAME, &proof)
}

/// Returns the path to a stem with an opening of the requested leaves, and all its leaves; none if the stem does not
/// exist.
fn prove_stem(state: &BinaryReader, stem: &Stem, subs: &[u8]) -> Result<(StemProof, Leaves)> {
    let tree = state.tree();
    let way = tree.way(&state.root, stem)?;
    let (end, leaves) = match way.end {
        None => (End::Nothing, Leaves::default()),
        Some((found, _)) if found == *stem => {
            let leaves = tree.row(stem)?;
            let (values, siblings) = opening::open(&leaves, subs);
            (End::Stem { values, siblings }, leaves)
        }
        Some((other, _)) => {
            let (sub, value, left) = opening::open_last(&tree.row(&other)?);
            (End::Other { stem: other.0.into(), sub, value, left }, Leaves::default())
        }
    };
    let hash = way.end.map_or(B256::ZERO, |(_, hash)| hash);
    let mut inner = Vec::new();
    for node in inner::fold(stem, &way.siblings, hash).1 {
        inner.push(inner::prove(tree, &state.root, stem, node.depth)?);
    }
    Ok((StemProof { way: Hashes::pack(&way.siblings), inner, end }, leaves))
}

/// The value of a leaf; `None` if the leaf is missing.
pub(crate) type Value = Option<B256>;
