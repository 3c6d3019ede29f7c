//! Proofs: each layer's value of a key, from the delta down to the first layer that decides.
//!
//! A layer that has the key, with a value or a tombstone, decides, and the proof ends with it; for a layer that does
//! not, its absence is proven. So a key is absent if the first layer that has it has a tombstone, or if no layer has
//! it.

use crate::{
    NAME, SNAPSHOT_TRIE,
    keys::{Key, Places, SlotKey},
    meta::{Roots, Salted},
    reader::LmptReader,
    value::{Record, Value},
};
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use polytrie_kv::Read;
use polytrie_state::{
    Account, Proof, ProofError, Proven, Result, SlotProof, corrupt, hash_address, hash_slot,
};
use polytrie_trie::{EMPTY_ROOT, Rows, prove_key, verify_key};
use serde::{Deserialize, Serialize};

/// The JSON form of a proof.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Body {
    address: Address,
    snapshot_root: B256,
    intermediate: Salted,
    delta: Salted,
    /// Whether the account exists; if not, the next four fields are those of an empty account.
    exists: bool,
    nonce: U64,
    balance: U256,
    code_hash: B256,
    incarnation: U64,
    account_proof: Layers,
    storage_proof: Vec<SlotProof<Layers>>,
}

/// The nodes of each layer, from its root on. Layers below the deciding one have none, and neither have layers whose
/// trie is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Layers {
    delta: Vec<Bytes>,
    intermediate: Vec<Bytes>,
    snapshot: Vec<Bytes>,
}

/// The question that a proof answers.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    address: &'a Address,
    slots: &'a [U256],
    account: B256,
    /// The account's record. The keys of the slots have its incarnation.
    record: Option<Record>,
}

/// A key, and what the tries in memory show of it.
#[derive(Debug)]
pub(crate) struct Above {
    key: Key,
    decided: Option<Value>,
    layers: Layers,
}

impl<'a> Question<'a> {
    /// Reads which keys the proof is about.
    pub(crate) fn new(
        reader: &LmptReader,
        address: &'a Address,
        slots: &'a [U256],
    ) -> Result<Self> {
        let account = hash_address(address);
        Ok(Self { address, slots, account, record: reader.view.account(&account)? })
    }

    /// Proves the account and its slots in the tries in memory, which must be at the head that the reader sees.
    pub(crate) fn above(&self, reader: &LmptReader) -> Result<(Above, Vec<Above>)> {
        let account = self.account;
        let of_account = Above::of(reader, Key::Account(account))?;
        let Some(Record { incarnation, .. }) = self.record else {
            return Ok((of_account, Vec::new()));
        };
        let of_slots = self.slots.iter().map(|slot| {
            let key = SlotKey { account, incarnation, slot: hash_slot(slot) };
            Above::of(reader, Key::Slot(key))
        });
        Ok((of_account, of_slots.collect::<Result<_>>()?))
    }

    /// Makes the proof of the values that a reader of the head saw when the tries in memory were there.
    pub(crate) fn prove(
        &self,
        reader: &LmptReader,
        roots: &Roots,
        (account, slots): (Above, Vec<Above>),
    ) -> Result<Proof> {
        let (value, account_proof) = account.and_below(reader)?;
        let record = value.and_then(Value::record);
        if record != self.record {
            return Err(corrupt!("tries and flat map differ in account {}", self.address));
        }
        let mut shown = slots.into_iter();
        let storage_proof = self
            .slots
            .iter()
            .map(|slot| {
                // An account that does not exist has no slots.
                let Some(above) = shown.next() else {
                    return Ok(SlotProof {
                        key: *slot,
                        value: U256::ZERO,
                        proof: Layers::default(),
                    });
                };
                let (value, proof) = above.and_below(reader)?;
                let value = value.map_or(U256::ZERO, Value::number);
                Ok(SlotProof { key: *slot, value, proof })
            })
            .collect::<Result<_>>()?;
        let shown = record.map_or_else(Account::default, |record| record.account);
        let body = Body {
            address: *self.address,
            snapshot_root: roots.snapshot,
            intermediate: roots.intermediate,
            delta: roots.delta,
            exists: record.is_some(),
            nonce: U64::from(shown.nonce),
            balance: shown.balance,
            code_hash: shown.code_hash,
            incarnation: U64::from(record.map_or(0, |record| record.incarnation)),
            account_proof,
            storage_proof,
        };
        Proof::of(NAME, &body)
    }
}

impl Above {
    fn of(reader: &LmptReader, key: Key) -> Result<Self> {
        let mut layers = Layers::default();
        let mut decided;
        (decided, layers.delta) = reader.view.delta.prove(&key)?;
        if decided.is_none() {
            (decided, layers.intermediate) = reader.view.intermediate.prove(&key)?;
        }
        Ok(Self { key, decided, layers })
    }

    /// Adds what the snapshot shows, unless a trie above it decides. Returns the value of the key.
    fn and_below(self, reader: &LmptReader) -> Result<(Option<Value>, Layers)> {
        let Self { key, mut decided, mut layers } = self;
        if decided.is_none() {
            let rows = Rows::new(&reader.view.flat as &dyn Read, SNAPSHOT_TRIE);
            let place = Places::snapshot().of(&key);
            (decided, layers.snapshot) = prove_key(&place, &rows)?;
        }
        Ok((decided.and_then(Value::present), layers))
    }
}

/// Checks a proof of this layer against the digest of a commitment; no layer is needed.
///
/// # Errors
///
/// If it is not a proof of this layer, or does not hold.
pub fn verify(digest: B256, proof: &Proof) -> Result<Proven, ProofError> {
    let body: Body = proof.form()?;
    let invalid = ProofError::Invalid;
    let Body { snapshot_root: snapshot, intermediate, delta, .. } = body;
    let roots = Roots { snapshot, intermediate, delta };
    if roots.digest() != digest {
        return Err(invalid(format!(
            "its roots make the commitment {}, expected {digest}",
            roots.digest()
        )));
    }
    let account = hash_address(&body.address);
    let shown = verify_layers(&roots, &Key::Account(account), &body.account_proof)
        .map_err(|e| invalid(format!("account {}: {e}", body.address)))?;
    let record = Record {
        account: Account {
            nonce: body.nonce.to(),
            balance: body.balance,
            code_hash: body.code_hash,
        },
        incarnation: body.incarnation.to(),
    };
    let blank = Record { account: Account::default(), incarnation: 0 };
    let claimed = body.exists.then_some(Value::Account(record));
    if shown != claimed || (!body.exists && record != blank) {
        return Err(invalid(format!(
            "account {}: the proof shows another account than claimed",
            body.address
        )));
    }
    for slot in &body.storage_proof {
        let shown = if body.exists {
            let incarnation = body.incarnation.to();
            let key = SlotKey { account, incarnation, slot: hash_slot(&slot.key) };
            verify_layers(&roots, &Key::Slot(key), &slot.proof)
        } else if slot.proof == Layers::default() {
            Ok(None)
        } else {
            Err("there are more nodes than the key needs".to_owned())
        };
        let shown = shown.map_err(|e| invalid(format!("slot {:#x}: {e}", slot.key)))?;
        if shown != Value::of_slot(slot.value).present() {
            return Err(invalid(format!(
                "slot {:#x}: the proof shows another value than the {:#x} claimed",
                slot.key, slot.value
            )));
        }
    }
    Ok(Proven {
        address: body.address,
        exists: body.exists,
        nonce: body.nonce.to(),
        balance: body.balance,
        code_hash: body.code_hash,
        slots: body.storage_proof.iter().map(|slot| (slot.key, slot.value)).collect(),
    })
}

/// Returns the value of a key that the layers prove. The error is a sentence that says why they do not hold.
fn verify_layers(roots: &Roots, key: &Key, layers: &Layers) -> Result<Option<Value>, String> {
    let tries = [
        ("delta", Places::salted(roots.delta.salt), roots.delta.root, &layers.delta),
        (
            "intermediate",
            Places::salted(roots.intermediate.salt),
            roots.intermediate.root,
            &layers.intermediate,
        ),
        ("snapshot", Places::snapshot(), roots.snapshot, &layers.snapshot),
    ];
    let mut decided: Option<Value> = None;
    for (name, places, root, nodes) in tries {
        if decided.is_some() {
            if !nodes.is_empty() {
                return Err(format!("{name}: there are nodes below the layer that decides"));
            }
            continue;
        }
        if root == EMPTY_ROOT && !nodes.is_empty() {
            return Err(format!("{name}: there are nodes of an empty trie"));
        }
        decided = verify_key(root, &places.of(key), nodes).map_err(|e| format!("{name}: {e}"))?;
    }
    let value = decided.and_then(Value::present);
    match (key, value) {
        (_, None) | (Key::Account(_), Some(Value::Account(_))) => Ok(value),
        (Key::Slot(_), Some(Value::Slot(_))) => Ok(value),
        _ => Err("the leaf holds a value of another kind".into()),
    }
}
