//! The layer `raw`: its entry in the list of layers.

use super::kind::{Hooks, LayerKind};
use polytrie_raw::RawLayer;

pub(super) const KIND: LayerKind = LayerKind {
    name: "raw",
    about: "flat key-value state without authentication: the most that the others can reach",
    canonical: false,
    tables: RawLayer::TABLES,
    open: |place, _| Ok(RawLayer::open(place.store)?),
    verify: None,
    hooks: Hooks::NONE,
};
