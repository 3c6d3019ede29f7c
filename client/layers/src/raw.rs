//! `raw`.

use super::kind::{Hooks, LayerKind};
use polytrie_raw::RawLayer;

pub(super) const KIND: LayerKind = LayerKind {
    name: "raw",
    about: "flat key-value state without authentication: the ceiling",
    canonical: false,
    tables: RawLayer::TABLES,
    open: |store, _| Ok(RawLayer::open(store)?),
    verify: None,
    hooks: Hooks::NONE,
};
