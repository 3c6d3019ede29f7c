//! Reading ahead of flat rows.

use super::FlatTables;
use crate::{
    Access,
    ahead::{Announced, ReadAhead, Readers},
};
use polytrie_kv::Store;
use std::{sync::Arc, time::Instant};

/// A reader of the flat rows that a block announces. The block then finds them in a cache: that of the store, of the
/// engine or of the system.
#[derive(Debug)]
pub struct FlatAhead {
    tables: FlatTables,
    store: Store,
    readers: Arc<Readers>,
}

impl FlatAhead {
    /// Begins a block that reads `tables` of `store`, and whose announcements `readers` read ahead if the store is
    /// slow.
    pub fn begin(tables: FlatTables, store: &Store, readers: &Arc<Readers>) -> Announced<Self> {
        Announced::begin(readers, || Self {
            tables,
            store: store.clone(),
            readers: Arc::clone(readers),
        })
    }
}

impl ReadAhead for FlatAhead {
    type Wanted = Access;

    fn read(&self, wanted: Vec<Access>) -> bool {
        let start = Instant::now();
        let looked = self.tables.look_at(&self.store, &wanted);
        self.readers.took(start.elapsed(), wanted.len());
        looked.is_ok()
    }
}
