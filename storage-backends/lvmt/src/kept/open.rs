//! The opening of an entry with kept nodes.

use super::{
    bundle::{DEPTHS, Nodes, bundles, depths, key, tag},
    share::reversed,
};
use crate::{WITNESSES, path::Path};
use polytrie_amt::{Opening, SLOTS, Setup, check_raw, identity};
use polytrie_kv::Read;
use polytrie_state::{Result, StateError, corrupt};

/// Opens an entry of a tree with kept nodes.
pub(crate) fn open(store: &dyn Read, setup: &Setup, path: &Path, index: u32) -> Result<Opening> {
    let height = setup.height();
    let way = reversed(index, height);
    let mut nodes = Vec::with_capacity(height.into());
    for bundle in 0..bundles(height) {
        let key = key(height, path, bundle, way >> (height - bundle * DEPTHS));
        let row = store.get(WITNESSES, &key)?.unwrap_or_default();
        let kept = Nodes::read(&row)?;
        for depth in depths(height, bundle) {
            let sibling = (way >> (height - depth)) ^ 1;
            let mut slots = [identity(); SLOTS];
            for (slot, sum) in (0..).zip(&mut slots) {
                if let Some(bytes) = kept.get(tag(depth, sibling, slot)) {
                    *sum = check_raw(bytes).ok_or_else(damaged)?;
                }
            }
            nodes.push(slots);
        }
    }
    Ok(Opening::of_nodes(setup, index, &nodes))
}

fn damaged() -> StateError {
    corrupt!(
        "a kept node is no point of the curve, so nothing can be proven with it; see `polytrie db check`"
    )
}
