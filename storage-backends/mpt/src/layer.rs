//! The layer: its head, and how it moves.

use crate::{
    ACCOUNT_TRIE, STORAGE_TRIE,
    error::{Detour, state_error},
    load, reader::MptReader,
    scrub,
    session::MptSession,
    tries::{Tries, account_of, account_rows, storage_rows},
};
use alloy_primitives::{Address, B256, U256, keccak256};
use parking_lot::{Mutex, RwLock};
use polytrie_kv::{Batch, Read, Store, Table};
use polytrie_state::{
    AccountVisit, BlockRef, CheckReport, Commitment, GenesisAccount, LayerSession,
    Outcome, Proof, ProofError, SlotVisit, StateError, StateLayer, StateReader, UndoRecord,
    hash_address, hash_slot,
};
use polytrie_trie::{
    AccountLeaf, AccountProof, EMPTY_ROOT, Nibbles, RowSource, SlotProof, SlotValue, prove_key,
    verify_account_proof,
};
use std::{collections::BTreeMap, sync::Arc};

/// What the layer lets a user set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MptOptions {
    /// Bytes of trie nodes to keep in memory between blocks.
    pub cache_bytes: usize,
}

impl Default for MptOptions {
    /// 1 GiB.
    fn default() -> Self {
        Self { cache_bytes: 1 << 30 }
    }
}

/// The canonical trie as a state layer.
#[derive(Debug)]
pub struct MptLayer {
    store: Store,
    options: MptOptions,
    /// The root at the head.
    root: RwLock<B256>,
    head: Arc<Mutex<Head>>,
}

/// The tries in memory, and how far they are from the head.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) tries: Tries,
    pub(crate) progress: Progress,
}

#[derive(Debug)]
pub(crate) enum Progress {
    /// The tries are those of the head.
    Clean,
    /// A block is under way and has changed them.
    Ahead,
    /// A block has ended with this root, but was not accepted yet.
    Finished(B256),
    /// Something failed half-way.
    Poisoned(StateError),
}

impl MptLayer {
    /// The layer's name.
    pub const NAME: &'static str = "mpt";

    /// The tables it keeps its state in, besides the one for code that all layers share.
    pub const TABLES: &'static [Table] = &[ACCOUNT_TRIE, STORAGE_TRIE];

    /// Opens the layer on what the store holds; an empty store is the empty state.
    pub fn open(store: Store, options: MptOptions) -> Result<Arc<Self>, StateError> {
        let root = stored_root(&store)?;
        let tries = Tries::stored(store.clone(), root);
        let head = Arc::new(Mutex::new(Head { tries, progress: Progress::Clean }));
        Ok(Arc::new(Self { store, options, root: RwLock::new(root), head }))
    }

    fn lock_clean(&self) -> Result<parking_lot::ArcMutexGuard<parking_lot::RawMutex, Head>, StateError> {
        let head = self
            .head
            .try_lock_arc()
            .ok_or(StateError::Protocol("a block is under way in this layer already"))?;
        match &head.progress {
            Progress::Clean => Ok(head),
            Progress::Ahead | Progress::Finished(_) => Err(StateError::Protocol(
                "the last block must be accepted or discarded before the next one begins",
            )),
            Progress::Poisoned(error) => Err(StateError::Poisoned(Box::new(error.clone()))),
        }
    }
}

/// The root of the trie in the store.
fn stored_root(store: &dyn Read) -> Result<B256, StateError> {
    let mut rlp = Vec::new();
    let found = account_rows(store).load(&Nibbles::new(), &mut rlp).map_err(state_error)?;
    Ok(if found { keccak256(&rlp) } else { EMPTY_ROOT })
}

impl StateLayer for MptLayer {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn commitment(&self) -> Commitment {
        Commitment::state_root(*self.root.read())
    }

    fn reader(&self) -> Result<Arc<dyn StateReader>, StateError> {
        Ok(Arc::new(MptReader::new(self.store.snapshot())))
    }

    fn load(
        &self,
        accounts: &mut dyn Iterator<Item = Result<GenesisAccount, StateError>>,
    ) -> Result<Commitment, StateError> {
        let mut head = self.lock_clean()?;
        let root = load::load(&self.store, accounts)?;
        head.tries.reset(root);
        *self.root.write() = root;
        Ok(Commitment::state_root(root))
    }

    fn begin(&self, parent: BlockRef) -> Result<Box<dyn LayerSession>, StateError> {
        let mut head = self.lock_clean()?;
        head.tries.begin_block(parent.number.wrapping_add(1));
        Ok(Box::new(MptSession { head, wiped: BTreeMap::new() }))
    }

    fn accept(&self) -> Result<(), StateError> {
        let mut head = self.head.lock();
        match &head.progress {
            Progress::Finished(root) => {
                *self.root.write() = *root;
                head.progress = Progress::Clean;
                head.tries.shrink_to(self.options.cache_bytes);
                Ok(())
            }
            Progress::Poisoned(error) => Err(StateError::Poisoned(Box::new(error.clone()))),
            Progress::Clean | Progress::Ahead => {
                Err(StateError::Protocol("no finished block waits to be accepted"))
            }
        }
    }

    fn discard(&self) -> Result<(), StateError> {
        let mut head = self.head.lock();
        match &head.progress {
            Progress::Clean => Ok(()),
            Progress::Ahead | Progress::Finished(_) => {
                head.tries.reset(*self.root.read());
                head.progress = Progress::Clean;
                Ok(())
            }
            Progress::Poisoned(error) => Err(StateError::Poisoned(Box::new(error.clone()))),
        }
    }

    fn undo(&self, record: &[u8]) -> Result<Outcome, StateError> {
        let mut head = self.lock_clean()?;
        let writes = UndoRecord::decode(record)?.into_writes();
        let mut batch = Batch::new();
        match head.tries.apply(&writes, Some(&mut batch)) {
            Ok(root) => {
                head.progress = Progress::Finished(root);
                Ok(Outcome { commitment: Commitment::state_root(root), batch, undo: Vec::new() })
            }
            Err(error) => {
                head.progress = Progress::Poisoned(error.clone());
                Err(error)
            }
        }
    }

    fn prove(&self, address: &Address, slots: &[U256]) -> Result<Proof, StateError> {
        let snapshot = self.store.snapshot();
        let account = hash_address(address);
        let (leaf, account_proof) =
            prove_key::<AccountLeaf>(&account, &account_rows(&snapshot)).map_err(state_error)?;
        let leaf = leaf.unwrap_or_default();
        let storage_proof = slots
            .iter()
            .map(|slot| {
                let rows = storage_rows(&snapshot, account);
                let (value, proof) = prove_key::<SlotValue>(&hash_slot(slot), &rows)?;
                Ok(SlotProof { key: *slot, value: value.map_or(U256::ZERO, |v| v.0), proof })
            })
            .collect::<Result<_, _>>()
            .map_err(state_error)?;
        let proof = AccountProof {
            address: *address,
            account_proof,
            balance: leaf.balance,
            code_hash: leaf.code_hash,
            nonce: leaf.nonce,
            storage_hash: leaf.storage_root,
            storage_proof,
        };
        let proof = serde_json::to_value(proof)
            .map_err(|e| StateError::Corrupt(format!("a proof does not serialise: {e}")))?;
        Ok(Proof { layer: Self::NAME.to_owned(), proof })
    }

    fn accounts(&self, from: B256, visit: &mut AccountVisit<'_>) -> Result<(), StateError> {
        let mut detour = Detour::default();
        let result = account_rows(&self.store.snapshot())
            .leaves::<AccountLeaf>(&from, &mut |hash, leaf| {
                visit(hash, account_of(&leaf)).map_err(|error| detour.take(error))
            });
        detour.resolve(result)
    }

    fn slots(
        &self,
        account: B256,
        from: B256,
        visit: &mut SlotVisit<'_>,
    ) -> Result<(), StateError> {
        let mut detour = Detour::default();
        let result = storage_rows(&self.store.snapshot(), account)
            .leaves::<SlotValue>(&from, &mut |hash, value| {
                visit(hash, value.0).map_err(|error| detour.take(error))
            });
        detour.resolve(result)
    }

    fn check(&self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport, StateError> {
        scrub::check(&self.store, *self.root.read(), progress)
    }
}

/// Checks a proof of this layer against a state root.
pub fn verify(root: B256, proof: &Proof) -> Result<AccountProof, ProofError> {
    let account: AccountProof = serde_json::from_value(proof.proof.clone())
        .map_err(|error| ProofError::Malformed(error.to_string()))?;
    verify_account_proof(root, &account).map_err(ProofError::Invalid)?;
    Ok(account)
}
