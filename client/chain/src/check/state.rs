//! The check of the state against the chain.

use crate::{
    db::ChainDb,
    error::{ChainError, Result},
};
use polytrie_state::{StateError, StateLayer};

/// Checks the commitment against the header of the head, and the state after the head's undo record against the header
/// before it. Nothing is changed. Returns the problems.
///
/// # Errors
///
/// Fails if the store or the layer fails.
pub fn check_state(db: &ChainDb, layer: &dyn StateLayer) -> Result<Vec<String>> {
    let head = match db.head() {
        Ok(Some(head)) => head,
        // The check of the chain reports this problem.
        Ok(None) | Err(ChainError::Corrupt(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let number = head.number();
    let mut problems = Vec::new();
    if db.way_back()?.is_some() {
        // The state is that of no block until the parent is the head.
        return Ok(problems);
    }
    if let Some(found) = layer.commitment().as_state_root()
        && found != head.header.state_root
    {
        let expected = head.header.state_root;
        problems
            .push(format!("the state has root {found}, block {number} at the head has {expected}"));
    }
    let Some(record) = db.undo(number)? else { return Ok(problems) };
    let parent = match db.block_head(number.saturating_sub(1)) {
        Ok(parent) => parent,
        Err(ChainError::Corrupt(_)) => return Ok(problems),
        Err(error) => return Err(error),
    };
    // If the undo takes several steps, only the presence of the rows that they need is checked: to do the steps would
    // change what is stored.
    let undone = layer.undo_records().steps(&record, db.store()).and_then(|mut steps| {
        let first = steps.next(db.store())?.unwrap_or_default();
        match steps.next(db.store())? {
            Some(_) => Ok(None),
            None => layer.undo(&first).map(Some),
        }
    });
    match undone {
        Ok(None) => return Ok(problems),
        Ok(Some(outcome)) => {
            let found = outcome.commitment.as_state_root();
            outcome.discard()?;
            if let Some(found) = found.filter(|found| *found != parent.header.state_root) {
                let expected = parent.header.state_root;
                problems.push(format!(
                    "taking back block {number} leads to the state root {found}, block {} has {expected}",
                    parent.number()
                ));
            }
        }
        Err(StateError::Corrupt(text)) => {
            problems.push(format!("block {number} cannot be taken back: {text}"));
            return Ok(problems);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(problems)
}
