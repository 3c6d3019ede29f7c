//! A store at one moment.

use crate::{
    KeyRange, KvError, Read, Table, View, Visit,
    flush::Shared,
    live::Ticket,
    overlay::{Found, Layers, hash, scan},
};
use std::sync::Arc;

/// A consistent view of a store at one moment, unflushed writes included. Clones share it.
///
/// It stays valid, and readable, after the store is gone.
#[derive(Debug, Clone)]
pub struct Snapshot {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    layers: Layers,
    view: Arc<dyn View>,
    /// Keeps the versions that are seen here.
    ticket: Ticket,
}

impl Snapshot {
    pub(crate) fn take(shared: &Arc<Shared>) -> Self {
        // Under the lock, so that no write discards a version before the ticket is there to keep it.
        let head = shared.head.read();
        let inner = Inner {
            layers: head.layers.clone(),
            // Perhaps newer than the layers; what it has more is what the frozen layer has.
            view: shared.view.read().clone(),
            ticket: shared.live.enter(head.seq),
            shared: shared.clone(),
        };
        Self { inner: Arc::new(inner) }
    }
}

impl Read for Snapshot {
    fn get_into(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool, KvError> {
        let Inner { shared, layers, view, ticket } = &*self.inner;
        let position = shared.tables.key_position(table, key)?;
        if !layers.is_empty() {
            let before = out.len();
            let found = layers.find(position, (key, hash(&shared.hasher, key)), ticket.seq(), out);
            if found != Found::Nothing {
                if let Some(counters) = &shared.counters {
                    counters.overlay_get(out.len() - before);
                }
                return Ok(found == Found::Value);
            }
        }
        shared.engine_get(&**view, table, key, out)
    }

    fn scan(
        &self,
        table: Table,
        range: KeyRange<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<(), KvError> {
        let Inner { shared, layers, view, ticket } = &*self.inner;
        let position = shared.tables.range_position(table, range)?;
        if range.is_empty() {
            return Ok(());
        }
        let (mut entries, mut bytes) = (0, 0);
        let mut counted = |key: &[u8], value: &[u8]| {
            entries += 1;
            bytes += key.len() + value.len();
            visit(key, value)
        };
        let result = if layers.is_empty() {
            view.scan(table, range, &mut counted)
        } else {
            let table = (table, position);
            scan(layers, &**view, &shared.hasher, table, range, ticket.seq(), &mut counted)
        };
        if let Some(counters) = &shared.counters {
            counters.scan(entries, bytes);
        }
        result
    }
}

impl Shared {
    /// Reads the engine, counting.
    pub(crate) fn engine_get(
        &self,
        view: &dyn View,
        table: Table,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, KvError> {
        let Some(counters) = &self.counters else { return view.get_into(table, key, out) };
        let before = out.len();
        let started = counters.engine_get();
        let found = view.get_into(table, key, out)?;
        counters.engine_got(started, out.len() - before);
        Ok(found)
    }
}
