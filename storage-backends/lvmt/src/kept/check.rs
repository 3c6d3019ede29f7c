//! The search for damage: the nodes are summed again from the versions, tree by tree.

use super::{
    bundle::{BundleKey, Nodes},
    counts::Counted,
    share::{Part, Share, reversed},
    touched::Touched,
};
use crate::{
    TREES, WITNESSES,
    path::Path,
    prove::{entries, no_tables},
    trees::LvmtHead,
};
use polytrie_amt::{Entry, NodeSum, SLOTS, Setup, sum_nodes};
use polytrie_kv::{KeyRange, Read, prefix_end};
use polytrie_state::{CheckReport, Result, corrupt, each_row};

/// Number of bundles that are summed at a time.
const PORTION: usize = 1024;

/// Compares all rows of kept nodes with those that the versions give.
pub(crate) fn check(
    store: &dyn Read,
    setup: &Setup,
    head: &LvmtHead,
    share: Option<Share>,
    report: &mut CheckReport,
) -> Result<()> {
    let mut expected = 0;
    if let Some(share) = share {
        let height = setup.height();
        each_row(store, TREES, KeyRange::ALL, |key, _| {
            let path = Path::from_row_key(height, key)?;
            let Some(part) = share.part(height, &path) else { return Ok(()) };
            let entries = match path.level {
                0 => root_entries(head),
                _ => entries(store, height, &path)?,
            };
            let rows = rows(setup, &path, part, &entries)?;
            expected += rows.len() as u64;
            if rows != stored(store, height, &path)? {
                report.problem(format!("the kept nodes of {path:?} are not what its versions say"));
            }
            Ok(())
        })?;
    }
    report.nodes += expected;
    report.expect_rows(store, WITNESSES, expected)
}

fn root_entries(head: &LvmtHead) -> Vec<Entry> {
    let entry = |(index, version)| Entry { index, versions: [version, 0, 0, 0, 0, 0] };
    (0..).zip(head.first.iter().map(|tree| tree.version)).map(entry).collect()
}

type Rows = Vec<(BundleKey, Vec<u8>)>;

/// Computes the rows that a tree should have, in order.
fn rows(setup: &Setup, path: &Path, part: Part, entries: &[Entry]) -> Result<Rows> {
    let height = setup.height();
    let mut counted = Vec::new();
    for Entry { index, versions } in entries {
        let way = reversed(*index, height);
        // There are six slots.
        let slots = (0..SLOTS as u8).zip(versions).filter(|(_, version)| **version > 0);
        counted.extend(slots.map(|(slot, times)| Counted { way, slot, times: *times }));
    }
    counted.sort_unstable();
    let mut touched = Vec::new();
    Touched::find(height, path, part, &counted, &mut touched);
    let mut rows = Vec::with_capacity(touched.len());
    for portion in touched.chunks(PORTION) {
        let (mut nodes, mut tags, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for touched in portion {
            touched.nodes(height, |tag, depth, entries| {
                let versions = entries.map(|entry| (reversed(entry.way, height), entry.times));
                nodes.push(NodeSum { depth, versions: versions.collect() });
                tags.push(tag);
            });
            ends.push(tags.len());
        }
        let sums = sum_nodes(setup, &nodes).ok_or_else(no_tables)?;
        let sums: Vec<_> = tags.into_iter().zip(sums).collect();
        let mut from = 0;
        for (touched, to) in portion.iter().zip(ends) {
            if to > from {
                rows.push((touched.key(height), Nodes::NONE.with(&sums[from..to])));
            }
            from = to;
        }
    }
    rows.sort_unstable();
    Ok(rows)
}

/// Reads the stored rows of a tree.
fn stored(store: &dyn Read, height: u8, path: &Path) -> Result<Rows> {
    let from = path.row_key(height);
    let to = prefix_end(&from);
    let range = KeyRange { from: &from, to: to.as_deref(), reverse: false };
    let mut rows = Vec::new();
    each_row(store, WITNESSES, range, |key, row| {
        let key =
            BundleKey::try_from(key).map_err(|_| corrupt!("a key of kept nodes is too long"))?;
        rows.push((key, row.to_vec()));
        Ok(())
    })?;
    Ok(rows)
}
