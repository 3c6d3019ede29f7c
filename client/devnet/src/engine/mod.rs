//! The chain as a consensus layer drives it: validation of payloads, and the choice of the head.
//!
//! ```text
//!   newPayload ─► on the head?  ── yes ─► Chain::propose: executed, in memory ─┐
//!                     └─ no: on another block that is known?                   ├─► VALID, INVALID
//!                              ├─ yes ─► a fork of the chain, in memory ───────┘
//!                              └─ no ──► kept as it is ────────────────────────► SYNCING
//!   forkchoiceUpdated ─► the head: proposed, on a branch, or a block to go back to ─► a write a block, durable ─► VALID
//!                        with attributes ─► a payload to be asked for: empty at once, of the pool later
//! ```
//!
//! A payload is stored only once it is chosen: after a crash the head is the block that was chosen last. The bytes of
//! other payloads are bounded, and so are those of the payloads that the side chain has executed.

mod attributes;
mod building;
mod error;
#[cfg(test)]
mod tests;
mod tree;

pub use error::EngineError;

use crate::{Node, NodeError, node::Held};
use alloy_primitives::{B256, Bytes};
use alloy_rpc_types_engine::{
    ForkchoiceState, ForkchoiceUpdated, PayloadAttributes, PayloadStatus, PayloadStatusEnum,
};
use building::Jobs;
use parking_lot::Mutex;
use polytrie_chain::{Candidate, Chain, ChainError, InsertError};
use polytrie_chainspec::ChainSpec;
use polytrie_consensus::decode::decode_block;
use polytrie_node::payload::PayloadBlock;
use polytrie_state::WriteSet;
use std::sync::Arc;
use tree::{Kept, Refusal, Tree};

/// Default for the maximum number of bytes of payloads that are kept.
pub const PAYLOAD_BYTES: usize = 256 << 20;

/// A node that a consensus layer drives. Payloads and choices are processed one after the other.
#[derive(Debug)]
pub struct Engine {
    node: Arc<Node>,
    state: Mutex<State>,
    /// The payloads that were started. A request for one does not wait until payloads of other branches are executed.
    jobs: Mutex<Jobs>,
}

/// The data that the engine keeps beside the chain.
#[derive(Debug)]
struct State {
    tree: Tree,
    aside: Option<Aside>,
}

/// A fork of the chain in memory, which executes the blocks of other branches.
#[derive(Debug)]
struct Aside {
    /// Hash of the chain's head when the fork was made. The fork is useless once the chain has another head.
    head: B256,
    chain: Chain,
    /// Total RLP bytes of the payloads that it has executed; its memory grows with them.
    bytes: usize,
}

/// The position of a head relative to the chain.
#[derive(Debug)]
struct Branch {
    /// Number of the last block that the branch shares with the chain.
    fork: u64,
    /// Hashes of the blocks above `fork` up to the head, oldest first; empty if the head is in the chain.
    hashes: Vec<B256>,
    /// Hashes of those blocks of the branch that are not stored.
    new: Vec<B256>,
}

impl Branch {
    /// Whether the branch is one block on top of the head.
    fn is_next(&self, chain: &Chain) -> bool {
        self.fork == chain.head().number() && self.hashes.len() == 1
    }
}

impl Engine {
    /// Creates the engine of a node. It keeps at most `payload_bytes` bytes of payloads that are not in the chain.
    pub fn new(node: Arc<Node>, payload_bytes: usize) -> Self {
        let state = State { tree: Tree::new(payload_bytes), aside: None };
        Self { node, state: Mutex::new(state), jobs: Mutex::default() }
    }

    /// Returns the node.
    pub const fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Validates a payload (`engine_newPayload`) and returns its status.
    ///
    /// # Errors
    ///
    /// If the node is read only or has failed before, or fails now.
    pub fn new_payload(&self, payload: PayloadBlock) -> Result<PayloadStatus, NodeError> {
        self.node.writable()?;
        let mut state = self.state.lock();
        let header = &payload.block.header;
        let (hash, parent, number) = (payload.hash, header.parent_hash, header.number);
        // A known block is answered before its transactions are prepared.
        if let Some(refusal) = state.tree.refusal(&hash) {
            return Ok(refusal.status());
        }
        let is_known = {
            let chain = self.node.chain();
            chain.proposed() == Some(hash) || chain.is_known(number, &hash)?
        };
        if is_known || state.tree.is_valid(&hash) {
            return Ok(valid(hash));
        }
        if let Some(refusal) = state.tree.refusal(&parent) {
            return Ok(state.tree.refuse(hash, refusal.of_child(&parent)));
        }
        let kept = Kept::new(parent, number, payload.rlp.clone());
        if parent != self.node.view().hash() {
            state.tree.keep(hash, kept);
            return self.validate(&mut state, hash, Some(payload));
        }
        let candidate = payload.prepare(self.node.spec());
        self.extend(&mut state, candidate, kept)
    }

    /// Executes a payload on the head.
    fn extend(
        &self,
        state: &mut State,
        mut candidate: Candidate,
        kept: Kept,
    ) -> Result<PayloadStatus, NodeError> {
        let (hash, parent) = (candidate.header.hash(), kept.parent);
        // An impersonated transaction is refused before its sender matters.
        let senders = self.node.pool().senders_of(&candidate.block.body.transactions);
        if let Some(senders) = senders {
            candidate.set_senders(senders);
        }
        let mut chain = self.node.chain();
        if parent != chain.head().hash() {
            // Another request has changed the chain meanwhile.
            drop(chain);
            state.tree.keep(hash, kept);
            return self.validate(state, hash, None);
        }
        match chain.propose(candidate) {
            Ok(_) => {
                state.tree.keep(hash, kept.valid());
                Ok(valid(hash))
            }
            Err(InsertError::Invalid(block)) => {
                self.node.keep_bad_block(kept.rlp);
                let refusal = Refusal::new(last_valid(&chain, parent)?, &block.reason);
                Ok(state.tree.refuse(hash, refusal))
            }
            Err(InsertError::Broken(error)) => Err(error.into()),
        }
    }

    /// Executes the kept payloads up to `tip` that were not executed before, on a fork of the chain. `payload` is the
    /// decoded payload of `tip`, if the caller has it.
    fn validate(
        &self,
        state: &mut State,
        tip: B256,
        mut payload: Option<PayloadBlock>,
    ) -> Result<PayloadStatus, NodeError> {
        let State { tree, aside } = state;
        let Some((base, branch)) = tree.branch_to(&tip) else {
            // The payload was too large to keep.
            return Ok(PayloadStatus::from_status(PayloadStatusEnum::Syncing));
        };
        // On an error the fork stays taken, and the next call makes another one.
        let begun = aside.take().filter(|begun| begun.head == self.node.view().hash());
        let is_new = begun.is_none();
        let mut begun = match begun {
            Some(begun) => begun,
            None => {
                let mut chain = self.node.chain();
                if chain.branch_to(base)?.is_none() {
                    return Ok(PayloadStatus::from_status(PayloadStatusEnum::Syncing));
                }
                Aside { head: chain.head().hash(), chain: chain.fork()?, bytes: 0 }
            }
        };
        let mut status = valid(tip);
        if begun.chain.branch_to(base)?.is_none() {
            *aside = Some(begun);
            return Ok(PayloadStatus::from_status(PayloadStatusEnum::Syncing));
        }
        for (at, hash) in branch.iter().enumerate() {
            let Some(kept) = tree.get(hash) else { break };
            let (number, parent, rlp) = (kept.number, kept.parent, kept.rlp.clone());
            let chain = &mut begun.chain;
            if !chain.is_known(number, hash)? {
                begun.bytes += rlp.len();
                let candidate = match payload.take_if(|payload| payload.hash == *hash) {
                    Some(payload) => payload.prepare(chain.spec()),
                    None => prepared(chain.spec(), *hash, rlp.clone())?,
                };
                match take_in(chain, candidate) {
                    Ok(()) => {}
                    Err(InsertError::Invalid(block)) => {
                        self.node.keep_bad_block(rlp);
                        let refusal = Refusal::new(last_valid(chain, parent)?, &block.reason);
                        status = tree.refuse(*hash, refusal.clone());
                        for above in &branch[at + 1..] {
                            status = tree.refuse(*above, refusal.of_child(hash));
                        }
                        break;
                    }
                    Err(InsertError::Broken(ChainError::TooDeep { .. })) if !is_new => {
                        // Earlier branches have led the fork further than the chain, and so it cannot go back as far.
                        drop(begun);
                        return self.validate(state, tip, payload);
                    }
                    Err(InsertError::Broken(ChainError::TooDeep { .. })) => {
                        status = PayloadStatus::from_status(PayloadStatusEnum::Accepted);
                        break;
                    }
                    Err(InsertError::Broken(error)) => return Err(error.into()),
                }
            }
            tree.set_valid(hash);
        }
        // A fork that has executed more bytes than the tree may keep is dropped; the next call makes another one.
        *aside = Some(begun).filter(|begun| begun.bytes <= tree.most());
        Ok(status)
    }

    /// Makes a block the head (`engine_forkchoiceUpdated`), and starts a payload on it if there are attributes.
    /// Attributes that do not parse are reported once the head has moved. The new head is durable when this returns.
    ///
    /// # Errors
    ///
    /// If the choice contradicts itself or goes back further than undo records are kept, or the attributes are not for
    /// this version or this head; the head has moved in the last case. If the node is read only or has failed before,
    /// or fails now.
    pub fn forkchoice_updated(
        &self,
        version: u8,
        choice: ForkchoiceState,
        attributes: Option<Result<PayloadAttributes, EngineError>>,
    ) -> Result<ForkchoiceUpdated, EngineError> {
        self.node.writable()?;
        let head = choice.head_block_hash;
        if head.is_zero() {
            return Err(EngineError::Forkchoice("headBlockHash is zero".to_owned()));
        }
        let mut state = self.state.lock();
        if let Some(refusal) = state.tree.refusal(&head) {
            return Ok(ForkchoiceUpdated::new(refusal.status()));
        }
        let mut chain = self.node.chain();
        let syncing = || Ok(ForkchoiceUpdated::from_status(PayloadStatusEnum::Syncing));
        let Some(mut branch) = branch_to(&chain, &state, head)? else { return syncing() };
        let is_valid = |hash: &B256| chain.proposed() == Some(*hash) || state.tree.is_valid(hash);
        if !branch.new.iter().all(is_valid) {
            let next = state.tree.get(&head).filter(|_| branch.is_next(&chain)).cloned();
            drop(chain);
            let status = match next {
                Some(kept) => {
                    let candidate = prepared(self.node.spec(), head, kept.rlp.clone());
                    self.extend(&mut state, candidate.map_err(NodeError::from)?, kept)?
                }
                None => self.validate(&mut state, head, None)?,
            };
            match status.status {
                PayloadStatusEnum::Valid => {}
                PayloadStatusEnum::Accepted => return Err(EngineError::TooDeep),
                _ => return Ok(ForkchoiceUpdated::new(status)),
            }
            chain = self.node.chain();
            // Another request may have changed the chain meanwhile.
            let Some(found) = branch_to(&chain, &state, head)? else { return syncing() };
            branch = found;
        }
        let updated = ForkchoiceUpdated::new(valid(head));
        // Blocks below the finalized block are never chosen again, and no payload is started on them.
        let finalized = self.node.named_marks().finalized;
        if branch.hashes.is_empty() && finalized.is_some_and(|finalized| branch.fork < finalized) {
            return Ok(updated);
        }
        let marks = self.marks(&choice, &branch)?;
        if let Some(not_chosen) = self.choose(chain, &mut state, head, &branch)? {
            return Ok(ForkchoiceUpdated::new(not_chosen));
        }
        let view = self.node.view();
        // Another request may have changed the chain since.
        if view.hash() != head {
            return Ok(updated);
        }
        self.node.set_marks(marks);
        let Some(attributes) = attributes else { return Ok(updated) };
        let next = attributes::next_block(&self.node, &view, version, attributes?)?;
        Ok(match self.jobs.lock().begin(&self.node, version, head, next)? {
            Some(id) => updated.with_payload_id(id),
            None => updated,
        })
    }

    /// Makes a block the head: the end of another branch, or a block of the chain. Returns the status of an invalid
    /// block that prevents it.
    fn choose(
        &self,
        mut chain: Held<'_>,
        state: &mut State,
        head: B256,
        branch: &Branch,
    ) -> Result<Option<PayloadStatus>, EngineError> {
        if chain.head().hash() == head {
            drop(chain);
            // The call that made it the head may have failed before the flush.
            self.node.flush()?;
            return Ok(None);
        }
        let former = self.node.view();
        let chosen = choose_on(&mut chain, state, head, branch);
        // The head may have moved part of the branch before an error.
        if chain.head().hash() != former.hash() {
            state.aside = None;
            let writes = chosen.as_ref().ok().and_then(Option::as_deref);
            self.node.moved(&chain, &former, writes)?;
        }
        match chosen {
            Ok(_) => {}
            Err(InsertError::Invalid(block)) => {
                let at = branch.hashes.iter().position(|hash| *hash == block.hash);
                let before = at.and_then(|at| at.checked_sub(1)).map(|at| branch.hashes[at]);
                let parent = match before {
                    Some(before) => before,
                    None => chain.db().block_head(branch.fork).map_err(NodeError::from)?.hash(),
                };
                let refusal = Refusal::new(last_valid(&chain, parent)?, &block.reason);
                let status = state.tree.refuse(block.hash, refusal);
                return Ok(Some(
                    state.tree.refusal(&head).map_or(status, |of_head| of_head.status()),
                ));
            }
            Err(InsertError::Broken(ChainError::TooDeep { .. })) => {
                return Err(EngineError::TooDeep);
            }
            Err(InsertError::Broken(error)) => return Err(NodeError::from(error).into()),
        }
        drop(chain);
        for hash in &branch.new {
            state.tree.forget(hash);
        }
        self.node.flush()?;
        Ok(None)
    }

    /// Reverts to block `number` of the chain (`debug_setHead`). The blocks above it are dropped.
    ///
    /// # Errors
    ///
    /// If the block is above the head, its undo records are not kept any more, or the node fails.
    pub fn set_head(&self, number: u64) -> Result<(), NodeError> {
        self.node.writable()?;
        let mut state = self.state.lock();
        let mut chain = self.node.chain();
        let former = self.node.view();
        let unwound = chain.unwind_to(number);
        if chain.head().hash() != former.hash() {
            state.aside = None;
            self.node.moved(&chain, &former, None)?;
        }
        drop(chain);
        unwound?;
        self.node.flush()
    }
}

/// Returns the position of a block relative to the chain; `None` if its ancestors do not lead to the chain.
fn branch_to(chain: &Chain, state: &State, tip: B256) -> Result<Option<Branch>, NodeError> {
    if chain.proposed() == Some(tip) {
        // The proposed block counts even if the tree had no room to keep it.
        return Ok(Some(Branch { fork: chain.head().number(), hashes: vec![tip], new: vec![tip] }));
    }
    if chain.db().number_of(&tip)?.is_none()
        && let Some((base, new)) = state.tree.branch_to(&tip)
    {
        let Some((fork, mut hashes)) = chain.branch_to(base)? else { return Ok(None) };
        hashes.extend(&new);
        return Ok(Some(Branch { fork, hashes, new }));
    }
    let found = chain.branch_to(tip)?;
    Ok(found.map(|(fork, hashes)| Branch { fork, hashes, new: Vec::new() }))
}

/// Returns the last valid block for the answer to an invalid child of `parent`: zero if the parent is a block of
/// proof of work.
fn last_valid(chain: &Chain, parent: B256) -> Result<B256, NodeError> {
    // A parent that is a payload has no proof of work.
    let Some(number) = chain.db().number_of(&parent)? else { return Ok(parent) };
    let head = chain.db().block_head(number)?;
    Ok(if head.header.difficulty.is_zero() { parent } else { B256::ZERO })
}

/// Moves the head to the end of a branch whose blocks were found valid, or back to a block of the chain. Returns the
/// write set if the head moved forward by one block.
fn choose_on(
    chain: &mut Chain,
    state: &State,
    head: B256,
    branch: &Branch,
) -> Result<Option<Arc<WriteSet>>, InsertError> {
    if chain.proposed() != Some(head) {
        let kept = branch.new.iter().filter_map(|hash| Some(state.tree.get(hash)?.rlp.clone()));
        let blocks: Vec<_> = kept.collect();
        let ([rlp], true) = (&blocks[..], branch.is_next(chain)) else {
            chain.choose(head, &blocks)?;
            return Ok(None);
        };
        let candidate = prepared(chain.spec(), head, rlp.clone())?;
        chain.propose(candidate)?;
    }
    let writes = chain.proposed_writes();
    chain.choose_proposed()?;
    Ok(writes)
}

/// Executes a block on a fork of the chain.
fn take_in(chain: &mut Chain, candidate: Candidate) -> Result<(), InsertError> {
    chain.insert(candidate)?;
    chain.settle()?;
    // The store of a fork is never flushed in the background.
    let store = chain.db().store();
    if store.is_full() {
        store.begin_flush()?;
    }
    Ok(())
}

/// Prepares a payload that was decoded and hashed successfully before, so that the roots in its header are those of its
/// body.
fn prepared(spec: &ChainSpec, hash: B256, rlp: Bytes) -> Result<Candidate, ChainError> {
    let block = decode_block(&rlp).map_err(|error| {
        ChainError::Corrupt(format!(
            "a payload that decoded when it came does not decode now: {error}"
        ))
    })?;
    Ok(Candidate::of_payload(spec, hash, block, rlp))
}

const fn valid(hash: B256) -> PayloadStatus {
    PayloadStatus::new(PayloadStatusEnum::Valid, Some(hash))
}
