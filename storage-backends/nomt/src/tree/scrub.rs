//! The search for damage: the crate's pages and values are compared with the rows.

use super::Session;
use crate::{FLAT, proof::holds};
use alloy_primitives::B256;
use polytrie_kv::Store;
use polytrie_state::{
    CheckReport, Result,
    foreign::{Row, row_words, rows_by_key},
};

/// Checks that every row is in the crate's trie and among its values.
pub(super) fn rows_are_there(
    store: &Store,
    session: &Session,
    root: B256,
    report: &mut CheckReport,
) -> Result<()> {
    let mut rows = rows_by_key(&FLAT, store)?;
    for row in rows.drain()? {
        let Row(key, row) = row?;
        if !holds(session, root, key, &row)? {
            let row = row_words(&FLAT, store, &key)?;
            report.problem(format!("the files of nomt do not hold {row}; remove their directory, and they are made anew"));
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{NomtLayer, NomtOptions, tree::Tree};
    use polytrie_kv::Batch;
    use polytrie_state::{
        Trail,
        foreign::{Foreign, slot_key},
    };

    #[test]
    fn rows_that_the_files_lack_are_named_with_their_tables() {
        let store = Store::memory(NomtLayer::TABLES).unwrap();
        let (account, slot) = (B256::repeat_byte(1), B256::repeat_byte(2));
        let mut batch = Batch::new();
        batch.put(FLAT.accounts, account.as_slice(), b"account");
        batch.put(FLAT.slots, &[account.0, slot.0].concat(), b"slot");
        store.write(batch).unwrap();
        // The trie of an empty trail is empty.
        let (tree, trail) = (Tree::new(NomtOptions::default()), Trail::read(&store).unwrap());
        let session = tree.session(&trail, &store).unwrap();
        let mut report = CheckReport::default();
        rows_are_there(&store, &session, B256::ZERO, &mut report).unwrap();
        let said = report.problems.join("\n");
        let hash = B256::new(slot_key(&account, &slot));
        for words in [
            format!("the row of NomtAccounts with the key {account};"),
            format!("the row of NomtSlots whose key has the hash {hash};"),
        ] {
            assert!(said.contains(&words), "{said}");
        }
    }
}
