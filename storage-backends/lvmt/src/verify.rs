//! The verification of proofs, without a layer.
//!
//! The trusted digest binds the body of the commitment, and the body binds the setup, the root tree's commitment and
//! the root of the history. From there:
//!
//! - every opened entry is verified against the commitment of its tree, all in one batch of pairings;
//! - the commitment of a tree below the root comes from a tuple whose version is the one in slot 0 of the entry
//!   above it, which has to be opened, too;
//! - the value of a key comes from a tuple that names the key, the level and the slot, and whose version is the
//!   one in that slot of the opened entry on the key's own path;
//! - every tuple leads to the root of its epoch, and every epoch to the root of the history;
//! - nothing is shown that the claims do not need, so that a proof from which a claim was taken away, or in which
//!   one was replaced, does not pass for a proof of what is left.

use crate::{
    account::AccountState,
    commitment::Body,
    key::Key,
    log::epoch_root,
    merkle::{self, IN_EPOCH, IN_HISTORY},
    path::{Path, entry_index},
    record::{Place, Position, Value, key_leaf},
    trees::tree_leaf,
    witness::{EntryWitness, Witness},
};
use alloy_primitives::{Address, B256, Bytes, U256};
use polytrie_amt::{Claim, SLOTS, VerifyingKey, verify as verify_openings};
use polytrie_state::{
    Account, Commitment, Proof, ProofError, SlotClaim, flat::parse_number, hash_address, hash_slot,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

type Result<T, E = ProofError> = std::result::Result<T, E>;

/// The JSON form of a proof of this layer: its claims, and the witness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct LvmtProof {
    /// The name of the setup.
    pub(crate) setup: B256,
    /// Whether the setup is one for development, with which anybody can forge proofs.
    pub(crate) insecure: bool,
    pub(crate) address: Address,
    /// The proof that covers the account, if this one does not: then this is a part of a proof, of slots alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) elsewhere: Option<Elsewhere>,
    /// The claimed account; `null` if it does not exist, or is not proven here.
    pub(crate) account: Option<ClaimedAccount>,
    pub(crate) slots: Vec<SlotClaim>,
    /// The encoded witness, see `witness.rs`.
    pub(crate) witness: Bytes,
    /// The parts in which other clients proved slots of this account.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) parts: Vec<Part>,
}

/// The reference from a part of a proof, which shows slots only, to the proof of their account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Elsewhere {
    /// The shard that the account belongs to.
    pub(crate) shard: String,
    /// The incarnation for which the slots are proven.
    pub(crate) incarnation: u32,
}

/// Slots, and the witness that leads from them to the commitment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Part {
    pub(crate) slots: Vec<SlotClaim>,
    pub(crate) witness: Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ClaimedAccount {
    pub(crate) nonce: u64,
    pub(crate) balance: U256,
    pub(crate) code_hash: B256,
    pub(crate) incarnation: u32,
}

/// The facts that a proof of this layer proves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Proven {
    /// The proven account and slots.
    #[serde(flatten)]
    pub state: polytrie_state::Proven,
    /// The name of the setup that the proof depends on.
    pub setup: B256,
    /// Whether the setup is one for development: then the proof convinces only those who trust the prover anyway.
    pub insecure: bool,
}

/// Checks a proof of this layer against a commitment with a trusted digest.
///
/// # Errors
///
/// If it is not a proof, belongs to another setup than `key`, or does not hold.
pub fn verify(key: &VerifyingKey, commitment: &Commitment, proof: &Proof) -> Result<Proven> {
    let proof: LvmtProof = proof.form()?;
    let body = Body::read(commitment)?;
    if (body.setup, proof.setup, proof.insecure) != (key.id(), key.id(), key.is_insecure()) {
        return Err(ProofError::Invalid(format!(
            "the commitment is of setup {}, the proof of {}, and the verifying key of {}; all three must be the same",
            body.setup,
            proof.setup,
            key.id()
        )));
    }
    if let Some(Elsewhere { shard, .. }) = &proof.elsewhere {
        return Err(ProofError::Invalid(format!(
            "it is a part of a proof, of slots of an account that is proven by a node of shard {shard}; give the proof of the account, too"
        )));
    }
    expect_once(&proof)?;
    let mut proven = verify_witness(key, &body, &proof, &decoded(key, &proof.witness)?)?;
    for Part { slots, witness } in &proof.parts {
        let Some(account) = &proof.account else {
            return invalid("there is no account, and slots of it are shown");
        };
        let witness = decoded(key, witness)?;
        let mut verified = Verified::new(key, &body, &witness)?;
        for slot in slots {
            verified.slot(&hash_address(&proof.address), account.incarnation, slot)?;
        }
        verified.finish()?;
        proven.state.slots.extend(slots.iter().map(|slot| (slot.key, slot.value)));
    }
    Ok(proven)
}

/// Checks that no two parts show the same slot, and that each shows one. A repeated part would cost a batch of
/// pairings each time.
fn expect_once(proof: &LvmtProof) -> Result<()> {
    let keys = |slots: &[SlotClaim]| slots.iter().map(|slot| slot.key).collect::<BTreeSet<_>>();
    let mut shown = keys(&proof.slots);
    for part in &proof.parts {
        let mut own = keys(&part.slots);
        if own.is_empty() {
            return invalid("one of its parts shows no slot");
        }
        if !shown.is_disjoint(&own) {
            return invalid("two of its parts show the same slot; give each part once");
        }
        shown.append(&mut own);
    }
    Ok(())
}

fn decoded(key: &VerifyingKey, witness: &[u8]) -> Result<Witness> {
    Witness::decode(key.height(), witness)
        .ok_or_else(|| ProofError::Malformed("the witness does not decode".into()))
}

/// Joins proofs from clients of several shards for one account at one block: one proof of the account, and parts that
/// show slots of it.
///
/// # Errors
///
/// If they do not belong together.
pub fn join(proofs: &[Proof]) -> Result<Proof> {
    let proofs: Vec<LvmtProof> = proofs.iter().map(Proof::form).collect::<Result<_, _>>()?;
    let (parts, wholes): (Vec<_>, Vec<_>) =
        proofs.into_iter().partition(|proof| proof.elsewhere.is_some());
    let [mut whole] = <[LvmtProof; 1]>::try_from(wholes).map_err(|wholes| {
        ProofError::Invalid(format!(
            "{} of the proofs are of an account, expected one, and parts that show slots of it",
            wholes.len()
        ))
    })?;
    let incarnation = whole.account.as_ref().map(|account| account.incarnation);
    for part in parts {
        let found = part.elsewhere.map(|elsewhere| elsewhere.incarnation);
        if (part.address, part.setup, found) != (whole.address, whole.setup, incarnation) {
            return invalid(
                "a part is of another account, setup or block than the proof of the account",
            );
        }
        whole.parts.push(Part { slots: part.slots, witness: part.witness });
    }
    let proof = serde_json::to_value(whole).map_err(|e| ProofError::Malformed(e.to_string()))?;
    Ok(Proof { layer: crate::NAME.to_owned(), proof })
}

/// Checks the claims with a decoded witness.
pub(crate) fn verify_witness(
    key: &VerifyingKey,
    body: &Body,
    proof: &LvmtProof,
    witness: &Witness,
) -> Result<Proven> {
    let mut verified = Verified::new(key, body, witness)?;
    let proven = claims(&mut verified, proof)?;
    verified.finish()?;
    Ok(proven)
}

/// Compares the claims with the values of the witness.
fn claims(verified: &mut Verified<'_>, proof: &LvmtProof) -> Result<Proven> {
    let hash = hash_address(&proof.address);
    let state = match verified.value(&hash)? {
        Some(value) => AccountState::parse(value)
            .ok_or_else(|| ProofError::Invalid("the value of the account is no account".into()))?,
        None => AccountState::default(),
    };
    let claimed = proof.account.as_ref().map(|claimed| {
        let ClaimedAccount { nonce, balance, code_hash, incarnation } = *claimed;
        (Account { nonce, balance, code_hash }, incarnation)
    });
    if claimed != state.account.map(|account| (account, state.incarnation)) {
        return Err(ProofError::Invalid("the account is not as claimed".into()));
    }
    for slot in &proof.slots {
        if state.account.is_some() {
            verified.slot(&hash, state.incarnation, slot)?;
        } else if !slot.value.is_zero() {
            // Without an account there is no storage.
            return not_as_claimed(slot);
        }
    }
    let (address, exists) = (proof.address, state.account.is_some());
    let Account { nonce, balance, code_hash } = state.account.unwrap_or_default();
    let slots = proof.slots.iter().map(|slot| (slot.key, slot.value)).collect();
    let proven = polytrie_state::Proven { address, exists, nonce, balance, code_hash, slots };
    Ok(Proven { state: proven, setup: proof.setup, insecure: proof.insecure })
}

/// A witness with tuples that lead to the commitment. The openings are still to be verified.
struct Verified<'a> {
    key: &'a VerifyingKey,
    body: &'a Body,
    witness: &'a Witness,
    /// The entries (with slot 0) and the owners of their slots on which the claims depend.
    needed: BTreeSet<(Path, u32, u8)>,
}

impl<'a> Verified<'a> {
    fn new(key: &'a VerifyingKey, body: &'a Body, witness: &'a Witness) -> Result<Self> {
        let verified = Self { key, body, witness, needed: BTreeSet::new() };
        let mut tuples = Tuples::default();
        for (path, tree) in &witness.trees {
            if *path != Path::ROOT {
                let above = Path::of(key.height(), path.level - 1, &path.prefix);
                let version = verified.entry(&above, &path.prefix)?.versions[0];
                if version == 0 {
                    return invalid("a tree is shown that the entry above it does not count");
                }
                tuples.add(tree.at, tree_leaf(path, version, &tree.commitment))?;
            }
            for (index, entry) in &tree.entries {
                verified.add_owners(path, *index, entry, &mut tuples)?;
            }
        }
        verified.verify_tuples(tuples)?;
        Ok(verified)
    }

    /// Returns the opened entry of a tree on the path of a key.
    fn entry(&self, path: &Path, position: &B256) -> Result<&'a EntryWitness> {
        let index = entry_index(self.key.height(), path.level, position);
        let tree = self.witness.trees.get(path);
        tree.and_then(|tree| tree.entries.get(&index)).ok_or_else(|| {
            ProofError::Invalid(format!("an entry of level {} is not opened", path.level))
        })
    }

    fn add_owners(
        &self,
        path: &Path,
        index: u32,
        entry: &EntryWitness,
        tuples: &mut Tuples,
    ) -> Result<()> {
        let height = self.key.height();
        for (slot, owner) in &entry.owners {
            let version = entry.versions.get(usize::from(*slot)).copied().unwrap_or(0);
            let on_path = Path::of(height, path.level, &owner.position) == *path
                && entry_index(height, path.level, &owner.position) == index;
            // Slot 0 belongs to no key, and the root has no keys.
            if version == 0 || *slot == 0 || path.level == 0 || !on_path {
                return invalid("a key is shown in a slot that cannot be its own");
            }
            let place = Place { level: path.level, slot: *slot };
            tuples.add(owner.at, key_leaf(&owner.position, place, version, &owner.value))?;
        }
        Ok(())
    }

    /// Checks that every tuple leads to the root of the history, and that no other nodes are there.
    fn verify_tuples(&self, tuples: Tuples) -> Result<()> {
        if !tuples.0.keys().eq(self.witness.epochs.keys()) {
            return invalid("the epochs shown are not those of the tuples");
        }
        let mut roots = Vec::new();
        for ((number, leaves), epoch) in tuples.0.iter().zip(self.witness.epochs.values()) {
            let leaves: Vec<(u64, B256)> =
                leaves.iter().map(|(leaf, hash)| (u64::from(*leaf), *hash)).collect();
            let root = merkle::verify(IN_EPOCH, &leaves, epoch.count.into(), &epoch.nodes);
            let Some(root) = root else {
                return invalid("the nodes of an epoch do not fit its tuples");
            };
            roots.push((*number, epoch_root(epoch.count, &root)));
        }
        if roots.is_empty() {
            return if self.witness.history.is_empty() {
                Ok(())
            } else {
                invalid("there are nodes of the history that lead nowhere")
            };
        }
        let root = merkle::verify(IN_HISTORY, &roots, self.body.epochs, &self.witness.history);
        if root != Some(self.body.history) {
            return invalid("a tuple is not in the history of the commitment");
        }
        Ok(())
    }

    /// Returns the latest value of a key; `None` if it was never written.
    fn value(&mut self, position: &B256) -> Result<Option<&'a Value>> {
        let height = self.key.height();
        // The slots passed so far that are shown to belong to other keys, and whether all are.
        let mut passed = Vec::new();
        let mut excluded = true;
        for level in 0..=crate::path::MAX_LEVEL {
            let path = Path::of(height, level, position);
            let index = entry_index(height, level, position);
            let entry = self.entry(&path, position)?;
            self.needed.insert((path, index, 0));
            let mut free = false;
            for slot in (1..SLOTS as u8).take_while(|_| level > 0) {
                match entry.owners.get(&slot) {
                    Some(owner) if owner.position == *position => {
                        self.needed.insert((path, index, slot));
                        return Ok(Some(&owner.value));
                    }
                    Some(_) => passed.push((path, index, slot)),
                    None if entry.versions[usize::from(slot)] != 0 => excluded = false,
                    // Slots are given out in order: the key would have got this one.
                    None => {
                        free = true;
                        break;
                    }
                }
            }
            if free || entry.versions[0] == 0 {
                if excluded {
                    self.needed.extend(passed);
                    return Ok(None);
                }
                return invalid("it is not shown who has a slot that the key could have");
            }
        }
        invalid("no key lies as deep as that")
    }

    /// Checks that a slot has the claimed value.
    fn slot(&mut self, account: &B256, incarnation: u32, claimed: &SlotClaim) -> Result<()> {
        let slot = hash_slot(&claimed.key);
        let key = Key::Slot { account: *account, incarnation, slot };
        let found = self
            .value(&key.position())?
            .map_or(Some(U256::ZERO), |value| parse_number(value))
            .ok_or_else(|| ProofError::Invalid("the value of a slot is no number".into()))?;
        if found == claimed.value { Ok(()) } else { not_as_claimed(claimed) }
    }

    /// Ends the verification, after all claims were compared with the witness.
    fn finish(self) -> Result<()> {
        self.nothing_left_over()?;
        // The expensive part comes last.
        self.verify_openings()
    }

    /// Checks that everything shown is needed.
    fn nothing_left_over(&self) -> Result<()> {
        let mut shown = 0;
        for tree in self.witness.trees.values() {
            if tree.entries.is_empty() {
                return invalid("a tree is shown of which no entry is opened");
            }
            shown += tree.entries.values().map(|entry| 1 + entry.owners.len()).sum::<usize>();
        }
        // Everything needed is shown, or the claims would have failed.
        if shown == self.needed.len() {
            return Ok(());
        }
        invalid(
            "entries or keys are shown that nothing claimed needs: something was asked that is not answered",
        )
    }

    fn verify_openings(&self) -> Result<()> {
        let mut claims = Vec::new();
        for (path, tree) in &self.witness.trees {
            let commitment = if *path == Path::ROOT { self.body.root } else { tree.commitment };
            for (index, entry) in &tree.entries {
                let EntryWitness { versions, opening, .. } = entry;
                claims.push(Claim { commitment, index: *index, versions: *versions, opening });
            }
        }
        if verify_openings(self.key, &claims) {
            return Ok(());
        }
        invalid("an opening of an entry does not hold")
    }
}

fn not_as_claimed<T>(slot: &SlotClaim) -> Result<T> {
    Err(ProofError::Invalid(format!("slot {} is not as claimed", slot.key)))
}

fn invalid<T>(reason: &str) -> Result<T> {
    Err(ProofError::Invalid(reason.into()))
}

/// The hashes of tuples by epoch and leaf.
#[derive(Debug, Default)]
struct Tuples(BTreeMap<u64, BTreeMap<u32, B256>>);

impl Tuples {
    fn add(&mut self, at: Position, hash: B256) -> Result<()> {
        match self.0.entry(at.epoch).or_default().insert(at.leaf, hash) {
            Some(other) if other != hash => invalid("two tuples are shown at one place"),
            _ => Ok(()),
        }
    }
}
