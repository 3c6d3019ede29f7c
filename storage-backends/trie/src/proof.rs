//! Proofs of existence and absence, in the form of `eth_getProof` (EIP-1186).

use crate::{
    AccountLeaf, EMPTY_ROOT, LeafValue, RowSource, SlotValue, TrieError,
    codec::{self, ChildRef, Node, nibble, path_of},
    cow::CowTrie,
    row::{self, Row, RowChild, RowChildren},
};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use serde::{Deserialize, Serialize};

/// The nodes from the root to where the key is or would be, each as RLP; nodes that their parent embeds are
/// left out. Together they prove the value of the key or its absence against the root.
///
/// # Errors
///
/// If a row on the way is missing or damaged, or cannot be read.
pub fn prove_key<V: LeafValue>(
    key: &B256,
    rows: &impl RowSource,
) -> Result<(Option<V>, Vec<Bytes>), TrieError> {
    let trie = CowTrie::<V>::of_rows(rows)?;
    let (value, nodes) = trie.prove(key, rows, 0)?;
    Ok((value.cloned(), nodes))
}

/// The root of the trie that `rows` hold.
///
/// # Errors
///
/// If the row of the root is damaged or cannot be read.
pub fn stored_root<V: LeafValue>(rows: &impl RowSource) -> Result<B256, TrieError> {
    Ok(CowTrie::<V>::of_rows(rows)?.root())
}

/// The leaf on the way to `key`, if the way ends at one; its key may be another. Nothing is kept in memory.
///
/// # Errors
///
/// As [`prove_key`].
pub fn leaf_on_path<V: LeafValue>(
    key: &B256,
    rows: &impl RowSource,
) -> Result<Option<(B256, V)>, TrieError> {
    let mut depth = 0;
    let (mut bytes, mut children) = (Vec::new(), RowChildren::new());
    loop {
        let path = path_of(key, depth);
        bytes.clear();
        if !rows.load(&path, &mut bytes)? {
            // Only a trie without keys has no root.
            return if depth == 0 { Ok(None) } else { Err(TrieError::Missing { path }) };
        }
        let row = row::decode::<V>(&path, &bytes, &mut children);
        let prefix = match row.map_err(|reason| TrieError::Malformed { path, reason })? {
            Row::Leaf(found, value) => return Ok(Some((found, value))),
            Row::Branch { prefix } => prefix,
        };
        let end = depth + prefix.len();
        if path_of(key, end).slice(depth..) != prefix {
            return Ok(None);
        }
        let n = nibble(key, end);
        match children.drain(..).find(|(nibble, _)| *nibble == n) {
            None => return Ok(None),
            Some((_, RowChild::Leaf(key, value))) => return Ok(Some((key, value))),
            Some((_, RowChild::Inner(_))) => depth = end + 1,
        }
    }
}

/// A proof of an account and some of its slots, as `eth_getProof` returns it. An absent account shows nonce
/// and balance zero, [`EMPTY_ROOT`] and [`KECCAK256_EMPTY`](alloy_primitives::KECCAK256_EMPTY); an absent slot has the value zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AccountProof {
    /// The account.
    pub address: Address,
    /// Nodes of the state trie from the root to the account.
    pub account_proof: Vec<Bytes>,
    /// Balance in wei.
    pub balance: U256,
    /// Keccak-256 of the code.
    pub code_hash: B256,
    /// Nonce.
    #[serde(with = "quantity")]
    pub nonce: u64,
    /// Root of the account's storage trie.
    pub storage_hash: B256,
    /// The slots asked for.
    pub storage_proof: Vec<SlotProof>,
}

/// A proof of one slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotProof {
    /// The slot.
    pub key: U256,
    /// Its value; zero where there is none.
    pub value: U256,
    /// Nodes of the storage trie from the root to the slot.
    pub proof: Vec<Bytes>,
}

/// Checks a proof against a state root: every node is used, leads to the next, and says what is claimed.
/// Returns the account, `None` if it is proven absent (an empty account, as there were before EIP-161, shows
/// the same fields).
///
/// # Errors
///
/// A sentence about what does not hold.
pub fn verify_account_proof(
    root: B256,
    proof: &AccountProof,
) -> Result<Option<AccountLeaf>, String> {
    let account = verify_key::<AccountLeaf>(root, &keccak256(proof.address), &proof.account_proof)
        .map_err(|e| format!("account {}: {e}", proof.address))?;
    let claimed = AccountLeaf {
        nonce: proof.nonce,
        balance: proof.balance,
        storage_root: proof.storage_hash,
        code_hash: proof.code_hash,
    };
    if account.unwrap_or_default() != claimed {
        return Err(format!(
            "account {}: the proof shows another account than claimed",
            proof.address
        ));
    }
    for slot in &proof.storage_proof {
        let key = keccak256(slot.key.to_be_bytes::<32>());
        let value = verify_key::<SlotValue>(proof.storage_hash, &key, &slot.proof)
            .map_err(|e| format!("slot {:#x}: {e}", slot.key))?;
        let value = value.map_or(U256::ZERO, |value| value.0);
        if value != slot.value {
            return Err(format!(
                "slot {:#x}: the proof shows {value:#x}, claimed is {:#x}",
                slot.key, slot.value
            ));
        }
    }
    Ok(account)
}

/// Follows a key through the nodes of a proof as [`prove_key`] makes it: the value of the key, or `None` if it
/// is proven absent. Every node must be needed.
///
/// # Errors
///
/// A sentence about what does not hold.
pub fn verify_key<V: LeafValue>(
    root: B256,
    key: &B256,
    nodes: &[Bytes],
) -> Result<Option<V>, String> {
    if root == EMPTY_ROOT && nodes.is_empty() {
        return Ok(None);
    }
    let mut rest = nodes.iter();
    let mut reference = ChildRef::hashed(root);
    let mut depth = 0;
    let value = loop {
        let rlp = match reference.as_hash() {
            None => reference.bytes(),
            Some(expected) => {
                let rlp = &rest.next().ok_or("a node is missing")?[..];
                if keccak256(rlp) != expected {
                    return Err(format!("the node at depth {depth} does not have hash {expected}"));
                }
                rlp
            }
        };
        let path = path_of(key, depth);
        match codec::decode_node::<V>(rlp)? {
            Node::Leaf { suffix, value } => {
                let found = codec::full_key(&path, &suffix)?;
                break (found == *key).then_some(value);
            }
            Node::Extension { prefix, child } => {
                let end = depth + prefix.len();
                if end >= 64 {
                    return Err("an extension leads beyond the keys".into());
                }
                if path_of(key, end).slice(depth..) != prefix {
                    break None;
                }
                depth = end;
                reference = child;
            }
            Node::Branch { refs } => {
                if depth >= 64 {
                    return Err("a branch stands below the keys".into());
                }
                reference = refs[nibble(key, depth) as usize];
                depth += 1;
                if reference.is_empty() {
                    break None;
                }
            }
        }
    };
    match rest.next() {
        None => Ok(value),
        Some(_) => Err("there are more nodes than the key needs".into()),
    }
}

/// `0x`-prefixed hexadecimal quantities, as JSON-RPC writes them.
mod quantity {
    use alloy_primitives::U64;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        U64::from(*value).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        U64::deserialize(deserializer).map(|value| value.to())
    }
}
