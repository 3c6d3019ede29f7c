//! The verification of a proof against a root.

use super::{BinaryProof, End, StemProof, Value, asked, inner, opening};
use crate::{
    Stem, TreeKey,
    account::account_of,
    hash::hash_stem,
    key::{AccountKeys, BALANCE_REST, BASIC_DATA, CODE_HASH, STEM_BITS},
};
use alloy_primitives::{B256, U256, map::HashMap};
use polytrie_state::{Account, Proof, ProofError, Proven, SlotClaim};

/// Checks a proof against a root; no layer is needed.
///
/// # Errors
///
/// If it has another form, does not lead to the root, or its claims differ from its leaves.
pub fn verify(root: B256, proof: &Proof) -> Result<Proven, ProofError> {
    if proof.layer != crate::layer::NAME {
        let reason = format!("it is one of `{}`, not of `binary`", proof.layer);
        return Err(ProofError::Malformed(reason));
    }
    let proof: BinaryProof = proof.form()?;
    check(root, &proof).map_err(ProofError::Invalid)?;
    let BinaryProof { address, exists, nonce, balance, code_hash, slots, .. } = proof;
    // The nonce was compared with that of the account.
    let nonce = nonce.saturating_to();
    let slots = slots.into_iter().map(|SlotClaim { key, value }| (key, value)).collect();
    Ok(Proven { address, exists, nonce, balance, code_hash, slots })
}

fn check(root: B256, proof: &BinaryProof) -> Result<(), String> {
    let keys = AccountKeys::new(proof.address);
    let found = proof.stems.len();
    let asked = asked(&keys, proof.slots.iter().map(|claim| keys.slot(&claim.key)), found);
    if asked.len() != found {
        let expected = if asked.len() > found { "more" } else { "fewer" };
        return Err(format!("it has {found} stems, what it claims takes {expected}"));
    }
    let mut leaves: HashMap<TreeKey, Value> = HashMap::default();
    for ((stem, subs), proof) in asked.iter().zip(&proof.stems) {
        let found = check_stem(root, stem, subs, proof).map_err(|e| format!("stem {stem}: {e}"))?;
        leaves.extend(subs.iter().map(|sub| TreeKey { stem: *stem, sub: *sub }).zip(found));
    }
    let leaf = |key: TreeKey| leaves.get(&key).copied().flatten();
    let header = |sub| leaf(keys.in_header(sub));
    let account = match (header(BASIC_DATA), header(CODE_HASH)) {
        (None, None) => None,
        (Some(basic), Some(code_hash)) => {
            account_of(&basic, &code_hash, header(BALANCE_REST).as_ref())
                .map(Some)
                .ok_or("the leaves are no account")?
        }
        _ => return Err("an account has some of its leaves only".to_owned()),
    };
    let claimed = Account {
        nonce: u64::try_from(proof.nonce).map_err(|_| "the nonce is too large")?,
        balance: proof.balance,
        code_hash: proof.code_hash,
    };
    if account.is_some() != proof.exists || account.unwrap_or_default() != claimed {
        return Err(format!("the leaves say {account:?}, it claims {claimed:?}"));
    }
    for SlotClaim { key, value } in &proof.slots {
        let found = leaf(keys.slot(key)).map_or(U256::ZERO, Into::into);
        if found != *value {
            return Err(format!("slot {key} is {found}, it claims {value}"));
        }
    }
    Ok(())
}

/// Returns the requested leaves of a stem, if the proof leads to the root.
fn check_stem(
    root: B256,
    stem: &Stem,
    subs: &[u8],
    proof: &StemProof,
) -> Result<Vec<Value>, &'static str> {
    let way = proof.way.unpack().filter(|way| way.len() <= STEM_BITS);
    let way = way.ok_or("the way to it is malformed")?;
    let not_opened = "its leaves are not opened as they should be";
    let (hash, values) = match &proof.end {
        End::Nothing => (B256::ZERO, vec![None; subs.len()]),
        End::Other { stem: other, sub, value, left } => {
            let other = Stem(other.0);
            if other == *stem || !other.shares(stem, way.len()) {
                return Err("the other stem does not stand on the way to it");
            }
            let leaves = opening::root_over_last(*sub, value, left).ok_or(not_opened)?;
            (hash_stem(&other, &leaves), vec![None; subs.len()])
        }
        End::Stem { values, siblings } => {
            let leaves = opening::root(subs, values, siblings).ok_or(not_opened)?;
            if leaves.is_zero() {
                return Err("a stem without leaves is not there");
            }
            (hash_stem(stem, &leaves), values.clone())
        }
    };
    let (found, doubtful) = inner::fold(stem, &way, hash);
    if found != root {
        return Err("it does not lead to the root");
    }
    let mut shown = doubtful.iter().zip(&proof.inner);
    if doubtful.len() != proof.inner.len()
        || !shown.all(|(node, proof)| inner::holds(proof, &node.right))
    {
        return Err("a node on the way could be a stem, and nothing shows that it is none");
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, KECCAK256_EMPTY};

    /// The proof has many claims, and none of the stems that they need.
    #[test]
    fn more_stems_than_there_are_is_an_error() {
        let claim = |n: u64| SlotClaim { key: U256::from(n) << 8, value: U256::ZERO };
        let proof = BinaryProof {
            address: Address::repeat_byte(1),
            exists: false,
            nonce: U256::ZERO,
            balance: U256::ZERO,
            code_hash: KECCAK256_EMPTY,
            slots: (0..200_000).map(claim).collect(),
            stems: Vec::new(),
        };
        assert!(check(B256::ZERO, &proof).is_err());
    }
}
