//! Writing and checking of the genesis block.

use super::{
    db::{BlockRow, ChainDb, put_block},
    error::{ChainError, Result},
    head::Head,
    preimages::put_genesis,
    tables::{self, HEAD_KEY, META},
};
use alloy_consensus::{Block, BlockBody, Header, TxEnvelope};
use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256, keccak256};
use polytrie_chainspec::ChainSpec;
use polytrie_kv::{Batch, Store};
use polytrie_state::{Account, Commitment, GenesisAccount, StateError, StateLayer, hash_address};

/// Removes the row of the head, so that the store holds no chain. The other rows go when the next chain begins.
pub(super) fn end(db: &ChainDb) -> Result<()> {
    let mut batch = Batch::new();
    batch.delete(META, HEAD_KEY);
    db.store().write(batch)?;
    Ok(db.store().flush()?)
}

/// Removes the rows of a chain after [`end`] has removed the row of its head.
pub(super) fn clear(db: &ChainDb) -> Result<()> {
    let mut batch = Batch::new();
    for table in tables::of_blocks() {
        batch.delete_range(table, &[], None);
    }
    Ok(db.store().write(batch)?)
}

/// Fills a store without a head with the genesis state and block. Returns the head.
pub(super) fn write(spec: &ChainSpec, db: &ChainDb, layer: &dyn StateLayer) -> Result<Head> {
    clear(db)?;
    put(spec, db, &load_genesis_state(spec, db.store(), layer)?)
}

/// Writes the genesis block. Its state has this commitment. Returns the head.
pub(super) fn put(spec: &ChainSpec, db: &ChainDb, commitment: &Commitment) -> Result<Head> {
    let header = spec.genesis_header();
    if let Some(found) = commitment.as_state_root()
        && found != header.state_root
    {
        return Err(ChainError::GenesisState {
            name: spec.name().to_owned(),
            found,
            expected: header.state_root,
        });
    }
    let mut batch = Batch::new();
    put_row(&mut batch, spec);
    db.store().write(batch)?;
    db.store().flush()?;
    Ok(Head { header: header.clone(), total_difficulty: header.difficulty })
}

/// Adds the rows of the genesis block, which becomes the head.
pub(super) fn put_row(batch: &mut Batch, spec: &ChainSpec) {
    let header = spec.genesis_header();
    let body = BlockBody::<TxEnvelope, Header> {
        transactions: Vec::new(),
        ommers: Vec::new(),
        withdrawals: header.withdrawals_root.is_some().then(Default::default),
    };
    let block: Block<TxEnvelope> = Block::new(header.inner().clone(), body);
    put_block(
        batch,
        &BlockRow {
            number: header.number,
            hash: header.hash(),
            total_difficulty: header.difficulty,
            header,
            rlp: &alloy_rlp::encode(&block),
            receipts: &[],
            undo: &[],
        },
    );
}

/// Fills an empty layer on `store`, which has the tables of a chain too, with the genesis accounts. Returns the
/// commitment.
///
/// # Errors
///
/// Fails if the specification has no accounts, or the layer or its store fails.
pub fn load_genesis_state(
    spec: &ChainSpec,
    store: &Store,
    layer: &dyn StateLayer,
) -> Result<Commitment> {
    if !spec.has_accounts() {
        return Err(ChainError::NoGenesisAccounts { name: spec.name().to_owned() });
    }
    if layer.needs_preimages() {
        put_genesis(spec, store)?;
    }
    let mut accounts: Vec<GenesisAccount<'_>> = spec
        .genesis_accounts()
        .map(|(address, account)| state_account(&address, account))
        .collect();
    accounts.sort_unstable_by_key(|account| account.hash);
    Ok(layer.load(&mut accounts.into_iter().map(Ok::<_, StateError>))?)
}

/// Checks that the store's first block is this chain's.
pub(super) fn check(spec: &ChainSpec, db: &ChainDb) -> Result<()> {
    let number = spec.genesis_header().number;
    let found = db.canonical(number)?.map(|(hash, _)| hash);
    match found {
        Some(found) if found == spec.genesis_hash() => Ok(()),
        Some(found) => Err(ChainError::Genesis {
            found,
            expected: spec.genesis_hash(),
            name: spec.name().to_owned(),
        }),
        None => Err(ChainError::Corrupt("there is no genesis block".into())),
    }
}

fn state_account(
    address: &Address,
    account: alloy_genesis::GenesisAccount,
) -> GenesisAccount<'static> {
    let code = account.code.filter(|code| !code.is_empty());
    let mut slots: Vec<(B256, U256)> = account
        .storage
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_zero())
        .map(|(slot, value)| (keccak256(slot), value.into()))
        .collect();
    slots.sort_unstable_by_key(|(hash, _)| *hash);
    GenesisAccount {
        hash: hash_address(address),
        account: Account {
            nonce: account.nonce.unwrap_or_default(),
            balance: account.balance,
            code_hash: code.as_ref().map_or(KECCAK256_EMPTY, keccak256),
        },
        code,
        slots: slots.into(),
    }
}
