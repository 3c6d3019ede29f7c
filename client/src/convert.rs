//! One layer's state into another's: the same chain, the same head, another data directory.
//!
//! Both are walked in hash order, an account at a time, so memory is that of one page of accounts and of the slots
//! of one contract. Undo records are not carried over: they are the layer's own. What follows the head can be taken
//! back again.

use crate::{
    chain::{ChainDb, ChainError},
    datadir::{DataDir, OpenError},
};
use alloy_primitives::{B256, U256};
use polytrie_state::{Account, GenesisAccount, StateError, StateLayer, StateReader};
use std::{collections::HashSet, collections::VecDeque, ops::ControlFlow};
use thiserror::Error;

/// Accounts that are read at once.
const PAGE: usize = 4_096;

/// A conversion did not come to its end.
#[derive(Debug, Error)]
pub enum ConvertError {
    /// The new directory cannot be made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A layer failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The rows of the chain cannot be read or written.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// There is nothing to convert.
    #[error("there is no block in the data directory yet; import some first")]
    NoHead,
    /// The new state has another root than its block.
    #[error(
        "the converted state has the root {found}, block {number} at the head has {expected}; check the source with `polytrie db check`"
    )]
    Root {
        /// Number of the head.
        number: u64,
        /// Computed.
        found: B256,
        /// In the header.
        expected: B256,
    },
    /// The two states differ.
    #[error("the converted state differs from its source at {0}; please report this")]
    Different(String),
}

/// What was converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Converted {
    /// Number of the head.
    pub number: u64,
    /// Hash of the head.
    pub hash: B256,
    /// Accounts.
    pub accounts: u64,
    /// Slots.
    pub slots: u64,
    /// The new layer's commitment.
    pub commitment: B256,
}

/// Fills `target`, which holds nothing, with the chain and state of `source`, and compares the two. The head's row
/// is written last: until then the target is no chain. `progress` receives what is being done and how many accounts
/// are.
///
/// # Errors
///
/// If a store or a layer fails, or the states differ in the end.
pub fn convert(
    source: &DataDir,
    target: &DataDir,
    progress: &mut dyn FnMut(&'static str, u64),
) -> Result<Converted, ConvertError> {
    let head = source.chain_db().head()?.ok_or(ConvertError::NoHead)?;
    let from = &*source.layer;
    let mut codes = HashSet::new();
    let (mut accounts, mut slots) = (0, 0);
    let mut failed = None;
    let mut pages = Pages::new(from)?;
    let mut next = || -> Result<Option<GenesisAccount<'_>>, StateError> {
        let Some((hash, account)) = pages.next()? else { return Ok(None) };
        let code = match account.has_code() && codes.insert(account.code_hash) {
            true => Some(pages.reader.code(&account.code_hash)?.ok_or_else(|| {
                StateError::Corrupt(format!("the code of account {hash} is missing"))
            })?),
            false => None,
        };
        let found = all_slots(from, hash)?;
        accounts += 1;
        slots += found.len() as u64;
        progress("converting the state", accounts);
        Ok(Some(GenesisAccount { hash, account, code, slots: found.into() }))
    };
    let mut source_accounts = std::iter::from_fn(|| match next() {
        Ok(account) => account.map(Ok),
        Err(error) => {
            failed = Some(error.clone());
            Some(Err(error))
        }
    });
    let loaded = target.layer.load(&mut source_accounts);
    if let Some(error) = failed {
        return Err(error.into());
    }
    let commitment = loaded?;
    let expected = head.header.state_root;
    if let Some(found) = commitment.as_state_root().filter(|found| *found != expected) {
        return Err(ConvertError::Root { number: head.number(), found, expected });
    }
    compare(from, &*target.layer, progress)?;
    progress("copying blocks", accounts);
    let (source, target) = (source.chain_db(), ChainDb::new(target.store.clone()));
    source.copy_to(&target)?;
    Ok(Converted {
        number: head.number(),
        hash: head.hash(),
        accounts,
        slots,
        commitment: commitment.digest(),
    })
}

/// The accounts of a layer, page by page.
struct Pages<'a> {
    layer: &'a dyn StateLayer,
    reader: std::sync::Arc<dyn StateReader>,
    page: VecDeque<(B256, Account)>,
    /// Where the next page begins; `None` after the last.
    from: Option<B256>,
}

impl<'a> Pages<'a> {
    fn new(layer: &'a dyn StateLayer) -> Result<Self, StateError> {
        let reader = layer.reader()?;
        Ok(Self { layer, reader, page: VecDeque::new(), from: Some(B256::ZERO) })
    }

    fn next(&mut self) -> Result<Option<(B256, Account)>, StateError> {
        if self.page.is_empty()
            && let Some(from) = self.from.take()
        {
            let page = &mut self.page;
            self.layer.accounts(from, &mut |hash, account| {
                page.push_back((hash, account));
                Ok(if page.len() < PAGE {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                })
            })?;
            self.from = self.page.get(PAGE - 1).and_then(|(last, _)| after(last));
        }
        Ok(self.page.pop_front())
    }
}

/// The hash that follows; `None` after the last one.
fn after(hash: &B256) -> Option<B256> {
    U256::from_be_bytes(hash.0).checked_add(U256::from(1)).map(B256::from)
}

fn all_slots(layer: &dyn StateLayer, account: B256) -> Result<Vec<(B256, U256)>, StateError> {
    let mut slots = Vec::new();
    layer.slots(account, B256::ZERO, &mut |slot, value| {
        slots.push((slot, value));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(slots)
}

/// Walks both states side by side.
fn compare(
    source: &dyn StateLayer,
    target: &dyn StateLayer,
    progress: &mut dyn FnMut(&'static str, u64),
) -> Result<(), ConvertError> {
    let (mut left, mut right) = (Pages::new(source)?, Pages::new(target)?);
    let mut codes = HashSet::new();
    for done in 1.. {
        let (expected, found) = (left.next()?, right.next()?);
        if expected != found {
            let hash = expected.or(found).map_or(B256::ZERO, |(hash, _)| hash);
            return Err(ConvertError::Different(format!("account {hash}")));
        }
        let Some((hash, account)) = expected else { break };
        if all_slots(source, hash)? != all_slots(target, hash)? {
            return Err(ConvertError::Different(format!("the slots of account {hash}")));
        }
        if account.has_code()
            && codes.insert(account.code_hash)
            && right.reader.code(&account.code_hash)? != left.reader.code(&account.code_hash)?
        {
            return Err(ConvertError::Different(format!("the code of account {hash}")));
        }
        progress("comparing the states", done);
    }
    Ok(())
}
