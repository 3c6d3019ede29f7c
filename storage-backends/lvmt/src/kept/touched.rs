//! The nodes in which the counted entries of a block count.

use super::{
    bundle::{BundleKey, DEPTHS, bundles, depths, key, tag},
    counts::Counted,
    share::Part,
};
use crate::path::Path;
use polytrie_amt::SLOTS;

/// A bundle with kept nodes, and the counted entries below it.
#[derive(Debug)]
pub(super) struct Touched<'a> {
    path: &'a Path,
    part: Part,
    bundle: u8,
    entries: &'a [Counted],
}

impl<'a> Touched<'a> {
    /// Finds the bundles of a tree. The entries must be sorted.
    pub(super) fn find(
        height: u8,
        path: &'a Path,
        part: Part,
        entries: &'a [Counted],
        found: &mut Vec<Self>,
    ) {
        for bundle in 0..bundles(height) {
            let depth = bundle * DEPTHS;
            let way = |entry: &Counted| entry.way >> (height - depth);
            let runs = entries.chunk_by(|a, b| way(a) == way(b));
            found.extend(
                runs.filter(|run| part.reaches(depth, way(&run[0]))).map(|entries| Self {
                    path,
                    part,
                    bundle,
                    entries,
                }),
            );
        }
    }

    /// Returns the key of the bundle's row.
    pub(super) fn key(&self, height: u8) -> BundleKey {
        let way = self.entries[0].way >> (height - self.bundle * DEPTHS);
        key(height, self.path, self.bundle, way)
    }

    /// Visits the kept nodes, one slot at a time, in the order of their tags: tag, depth, and the increments in the
    /// node's entries.
    pub(super) fn nodes(
        &self,
        height: u8,
        mut visit: impl FnMut(u8, u8, &mut dyn Iterator<Item = &'a Counted>),
    ) {
        for depth in depths(height, self.bundle) {
            let way = |entry: &Counted| entry.way >> (height - depth);
            for run in self.entries.chunk_by(|a, b| way(a) == way(b)) {
                let end = way(&run[0]);
                if !self.part.keeps(depth, end) {
                    continue;
                }
                let used = run.iter().fold(0u8, |used, entry| used | 1 << entry.slot);
                for slot in (0..SLOTS as u8).filter(|slot| used >> slot & 1 == 1) {
                    let mut own = run.iter().filter(|entry| entry.slot == slot);
                    visit(tag(depth, end, slot), depth, &mut own);
                }
            }
        }
    }
}
