//! The update of kept nodes by a block, and the undo of it.

use super::{
    bundle::{BundleKey, Nodes},
    counts::Counts,
    share::{Share, reversed},
    touched::Touched,
};
use crate::{WITNESSES, prove::no_tables, undo::Undo};
use polytrie_amt::{Direction, NodeCounting, Setup, decode_raw, identity};
use polytrie_kv::{Batch, Read};
use polytrie_state::Result;
use rayon::prelude::*;

/// Number of bundles that one thread takes at a time: some ten thousand additions.
const PORTION: usize = 1024;

/// A bundle's key and row; the row is empty if it is to be removed.
type Row = (BundleKey, Vec<u8>);

/// The changed rows of kept nodes, with their new content.
#[derive(Debug, Default)]
pub(crate) struct KeptRows(Vec<Vec<Row>>);

impl KeptRows {
    pub(crate) fn write(&self, batch: &mut Batch) {
        for (key, row) in self.0.iter().flatten() {
            match row.is_empty() {
                true => batch.delete(WITNESSES, key),
                false => batch.put(WITNESSES, key, row),
            }
        }
    }
}

/// Computes the nodes after the increments, in the direction of the block or back.
pub(crate) fn update(
    store: &dyn Read,
    setup: &Setup,
    mut counts: Counts,
    direction: Direction,
) -> Result<KeptRows> {
    let height = setup.height();
    let share = counts.share();
    counts.trees.sort_unstable_by_key(|(path, _)| *path);
    counts.trees.par_iter_mut().for_each(|(_, entries)| entries.par_sort_unstable());
    let mut touched = Vec::new();
    for (path, entries) in &counts.trees {
        if let Some(part) = share.part(height, path) {
            Touched::find(height, path, part, entries, &mut touched);
        }
    }
    let portions = touched.par_chunks(PORTION);
    let rows = portions.map(|portion| count(store, setup, portion, direction));
    Ok(KeptRows(rows.collect::<Result<_, _>>()?))
}

/// Computes the nodes before a block, given its undo record. `store` is the store after the block.
pub(crate) fn take_back(
    store: &dyn Read,
    setup: &Setup,
    share: Share,
    undo: &Undo<'_>,
) -> Result<KeptRows> {
    let counts = Counts::of_undo(store, setup.height(), share, undo)?;
    update(store, setup, counts, Direction::Back)
}

fn count(
    store: &dyn Read,
    setup: &Setup,
    portion: &[Touched<'_>],
    direction: Direction,
) -> Result<Vec<Row>> {
    let height = setup.height();
    let mut counting = NodeCounting::new(setup, direction).ok_or_else(no_tables)?;
    let mut old_rows = Vec::with_capacity(portion.len());
    let mut tags = Vec::new();
    let keys: Vec<BundleKey> = portion.iter().map(|touched| touched.key(height)).collect();
    let wanted: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let found = store.get_many(WITNESSES, &wanted)?;
    for ((touched, key), row) in portion.iter().zip(keys).zip(found) {
        let row = row.unwrap_or_default();
        let old = Nodes::read(&row)?;
        touched.nodes(height, |tag, depth, entries| {
            let before = old.get(tag).map_or_else(identity, decode_raw);
            counting.node(before, depth, entries.map(|entry| reversed(entry.way, height)));
            tags.push(tag);
        });
        old_rows.push((key, row, tags.len()));
    }
    let sums: Vec<_> = tags.into_iter().zip(counting.finish()).collect();
    let mut from = 0;
    let mut rows = Vec::with_capacity(portion.len());
    for (key, row, to) in old_rows {
        // On the path to a shard a bundle may have no kept nodes.
        if to > from {
            rows.push((key, Nodes::read(&row)?.with(&sums[from..to])));
        }
        from = to;
    }
    Ok(rows)
}
