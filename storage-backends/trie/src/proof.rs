//! Proofs of existence and absence, in the form of `eth_getProof` (EIP-1186).

use crate::{
    AccountLeaf, EMPTY_ROOT, LeafValue, Nibbles, RowSource, SlotValue, TrieError,
    codec::{self, ChildRef, Node, nibble, path_of},
    row::{self, Row, RowChild},
};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256};
use serde::{Deserialize, Serialize};

/// The nodes from the root to where the key is or would be, each as RLP; nodes that their parent embeds are
/// left out. Together they prove the value of the key or its absence against the root.
pub fn prove_key<V: LeafValue>(
    key: &B256,
    rows: &impl RowSource,
) -> Result<(Option<V>, Vec<Bytes>), TrieError> {
    let mut nodes = Vec::new();
    let leaf = walk::<V>(key, rows, |Met { depth, prefix, children, leaf }| {
        let mut put = |depth: usize, rlp: &[u8]| {
            if depth == 0 || rlp.len() >= 32 {
                nodes.push(Bytes::copy_from_slice(rlp));
            }
        };
        if let Some(children) = children {
            let rlp = branch_rlp(depth + prefix.len(), children);
            if !prefix.is_empty() {
                let mut extension = Vec::new();
                codec::encode_extension(prefix, &ChildRef::to(&rlp), &mut extension);
                put(depth, &extension);
            }
            let end = depth + prefix.len();
            // Where the key leaves the extension, the branch behind it proves nothing.
            if path_of(key, end).slice(depth..) == *prefix {
                put(end, &rlp);
                if let Some((key, value)) = leaf {
                    put(end + 1, &leaf_rlp(key, end + 1, value));
                }
            }
        } else if let Some((key, value)) = leaf {
            put(depth, &leaf_rlp(key, depth, value));
        }
    })?;
    Ok((leaf.filter(|(found, _)| found == key).map(|(_, value)| value), nodes))
}

/// The leaf on the way to `key`, if the way ends at one; its key may be another. Nothing is kept in memory.
pub fn leaf_on_path<V: LeafValue>(
    key: &B256,
    rows: &impl RowSource,
) -> Result<Option<(B256, V)>, TrieError> {
    walk(key, rows, |_| {})
}

/// The root of the trie that `rows` hold.
pub fn stored_root<V: LeafValue>(rows: &impl RowSource) -> Result<B256, TrieError> {
    let path = Nibbles::new();
    let (mut bytes, mut children) = (Vec::new(), Vec::new());
    if !rows.load(&path, &mut bytes)? {
        return Ok(EMPTY_ROOT);
    }
    let row = row::decode::<V>(&path, &bytes, &mut children);
    Ok(match row.map_err(|reason| TrieError::Malformed { path, reason })? {
        Row::Leaf(key, value) => keccak256(leaf_rlp(&key, 0, &value)),
        Row::Branch { prefix } => {
            let rlp = branch_rlp(prefix.len(), &children);
            if prefix.is_empty() {
                return Ok(keccak256(rlp));
            }
            let mut extension = Vec::new();
            codec::encode_extension(&prefix, &ChildRef::to(&rlp), &mut extension);
            keccak256(extension)
        }
    })
}

pub(crate) fn leaf_rlp<V: LeafValue>(key: &B256, depth: usize, value: &V) -> Vec<u8> {
    let mut rlp = Vec::new();
    codec::encode_leaf(key, depth, value, &mut rlp, &mut Vec::new());
    rlp
}

/// The branch at `depth` with these children.
pub(crate) fn branch_rlp<V: LeafValue>(depth: usize, children: &[(u8, RowChild<V>)]) -> Vec<u8> {
    let mut refs = [ChildRef::EMPTY; 16];
    for (nibble, child) in children {
        refs[usize::from(*nibble)] = match child {
            RowChild::Inner(reference) => *reference,
            RowChild::Leaf(key, value) => ChildRef::to(&leaf_rlp(key, depth + 1, value)),
        };
    }
    let mut rlp = Vec::new();
    codec::encode_branch(&refs.each_ref(), &mut rlp);
    rlp
}

/// A row on the way to a key.
#[derive(Debug)]
struct Met<'a, V> {
    /// Where it begins.
    depth: usize,
    prefix: &'a Nibbles,
    /// The children of its branch; `None` if it is a leaf.
    children: Option<&'a [(u8, RowChild<V>)]>,
    /// The leaf in it that is on the way.
    leaf: Option<(&'a B256, &'a V)>,
}

fn walk<V: LeafValue>(
    key: &B256,
    rows: &impl RowSource,
    mut visit: impl FnMut(Met<'_, V>),
) -> Result<Option<(B256, V)>, TrieError> {
    let mut depth = 0;
    let (mut bytes, mut children) = (Vec::new(), Vec::new());
    loop {
        let path = path_of(key, depth);
        bytes.clear();
        if !rows.load(&path, &mut bytes)? {
            // Only a trie without keys has no root.
            return if depth == 0 { Ok(None) } else { Err(TrieError::Missing { path }) };
        }
        let row = row::decode::<V>(&path, &bytes, &mut children);
        match row.map_err(|reason| TrieError::Malformed { path, reason })? {
            Row::Leaf(found, value) => {
                let leaf = Some((&found, &value));
                visit(Met { depth, prefix: &Nibbles::new(), children: None, leaf });
                return Ok(Some((found, value)));
            }
            Row::Branch { prefix } => {
                let end = depth + prefix.len();
                let follows = path_of(key, end).slice(depth..) == prefix;
                let n = nibble(key, end);
                let child = children
                    .iter()
                    .find(|(nibble, _)| follows && *nibble == n)
                    .map(|(_, child)| child);
                let leaf = match child {
                    Some(RowChild::Leaf(key, value)) => Some((key, value)),
                    _ => None,
                };
                visit(Met { depth, prefix: &prefix, children: Some(&children), leaf });
                match child {
                    None => return Ok(None),
                    Some(RowChild::Leaf(key, value)) => return Ok(Some((*key, value.clone()))),
                    Some(RowChild::Inner(_)) => depth = end + 1,
                }
            }
        }
    }
}

/// The code hash of accounts without code.
pub const EMPTY_CODE_HASH: B256 = KECCAK256_EMPTY;

/// A proof of an account and some of its slots, as `eth_getProof` returns it. An absent account shows nonce
/// and balance zero, [`EMPTY_ROOT`] and [`EMPTY_CODE_HASH`]; an absent slot has the value zero.
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
/// The error is a sentence about what does not hold.
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
/// The error is a sentence about what does not hold.
pub fn verify_key<V: LeafValue>(
    root: B256,
    key: &B256,
    nodes: &[Bytes],
) -> Result<Option<V>, String> {
    if root == EMPTY_ROOT && nodes.is_empty() {
        return Ok(None);
    }
    let mut rest = nodes.iter();
    let mut reference = None;
    let mut depth = 0;
    let value = loop {
        let embedded = match &reference {
            Some(codec::Reference::Embedded(rlp)) => Some(rlp.clone()),
            _ => None,
        };
        let rlp = match embedded {
            Some(rlp) => rlp,
            None => {
                let rlp = rest.next().ok_or("a node is missing")?.to_vec();
                let expected = match &reference {
                    Some(codec::Reference::Hash(hash)) => *hash,
                    _ => root,
                };
                if keccak256(&rlp) != expected {
                    return Err(format!("the node at depth {depth} does not have hash {expected}"));
                }
                rlp
            }
        };
        let path = path_of(key, depth);
        match codec::decode_node::<V>(&rlp)? {
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
                reference = child.reference();
            }
            Node::Branch { refs } => {
                if depth >= 64 {
                    return Err("a branch stands below the keys".into());
                }
                reference = refs[nibble(key, depth) as usize].reference();
                depth += 1;
                if reference.is_none() {
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
