//! `raw`.

use super::kind::LayerKind;
use polytrie_raw::RawLayer;

pub(super) const KIND: LayerKind = LayerKind {
    name: "raw",
    about: "flat key-value state without authentication: the ceiling",
    canonical: false,
    tables: RawLayer::TABLES,
    open: |store, _| Ok(RawLayer::open(store)?),
    verify: None,
    keeps_flat: false,
    settle: None,
};
