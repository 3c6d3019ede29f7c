//! The search for damage: the crate's operations are compared with the rows and the root.

use super::Tree;
use crate::{
    mark::Mark,
    proof::{Way, holds, is_of_nothing},
};
use alloy_primitives::hex;
use polytrie_kv::{Sorter, Store};
use polytrie_state::{
    CheckReport, Mark as _, Result, StateError, Trail,
    foreign::{Foreign, Key, Row},
};
use std::mem;

/// Number of rows whose proofs are made together.
const AT_ONCE: usize = 1_024;

/// The state of a scrub.
pub(super) struct Scrub<'a> {
    pub(super) tree: &'a Tree,
    pub(super) trail: &'a Trail<Mark>,
    pub(super) store: &'a Store,
    pub(super) report: &'a mut CheckReport,
    /// The first key of all, and the successor that the last proof named.
    pub(super) ends: Option<(Key, Key)>,
}

impl Scrub<'_> {
    /// Checks that every row is in the database, and that each names the next one as its successor.
    pub(super) fn all(&mut self, mut rows: Sorter<Row>) -> Result<()> {
        let mut at_once = Vec::new();
        for row in rows.drain()? {
            at_once.push(row?);
            if at_once.len() >= AT_ONCE {
                self.some(mem::take(&mut at_once))?;
            }
        }
        self.some(at_once)?;
        match self.ends {
            // The last row names the first one as its successor.
            Some((first, next)) if next != first => self.wrong(&next),
            Some(_) => {}
            None => {
                let proofs = self.prove(vec![Key::default()])?;
                let root = self.trail.mark().digest();
                if !proofs.iter().all(|Way(proof)| is_of_nothing(root, proof)) {
                    let problem = "the files of qmdb hold rows, and there are none";
                    self.report.problem(problem.to_owned());
                }
            }
        }
        Ok(())
    }

    fn some(&mut self, rows: Vec<Row>) -> Result<()> {
        let keys = rows.iter().map(|Row(key, _)| *key).collect();
        for (Row(key, row), Way(proof)) in rows.into_iter().zip(self.prove(keys)?) {
            let (first, expected) = self.ends.unwrap_or((key, key));
            match holds(self.trail.mark().digest(), key, Some(row), &proof) {
                Ok(Some(next)) => {
                    if expected != key {
                        self.wrong(&expected);
                    }
                    self.ends = Some((first, next));
                }
                _ => {
                    self.wrong(&key);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn prove(&self, keys: Vec<Key>) -> Result<Vec<Way>> {
        let ways = self.tree.prove(self.trail, self.store, keys)?;
        ways.ok_or(StateError::Protocol("a block was accepted while a check was under way"))
    }

    fn wrong(&mut self, key: &Key) {
        let key = hex::encode_prefixed(key);
        self.report
            .problem(format!("the files of qmdb and the rows do not say the same of key {key}"));
    }
}
