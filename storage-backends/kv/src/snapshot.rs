//! Snapshots: a store at one moment.

use crate::{
    KeyRange, Read, Result, Table, Ticket, Values, Visit,
    counters::Counters,
    flush::StoreState,
    overlay::{Found, Layers, hash, scan},
    recent::EngineView,
};
use std::{sync::Arc, time::Instant};

/// A consistent view of a store at one moment, unflushed writes included. Clones share it.
///
/// It stays valid, and readable, after the store is dropped.
#[derive(Debug, Clone)]
pub struct Snapshot {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<StoreState>,
    layers: Layers,
    view: Arc<EngineView>,
    /// The ticket that keeps the versions which this snapshot sees.
    ticket: Ticket,
}

impl Snapshot {
    pub(crate) fn take(shared: &Arc<StoreState>) -> Self {
        // The lock is held, so that no write discards a version before the ticket keeps it.
        let head = shared.head.read();
        let inner = Inner {
            layers: head.layers.clone(),
            // The view may be newer than the layers; it then includes what the frozen layer has.
            view: shared.view.read().clone(),
            ticket: shared.live.enter(head.seq),
            shared: shared.clone(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Takes a snapshot of the engine's content, without the changes written since.
    pub(crate) fn take_flushed(shared: &Arc<StoreState>) -> Self {
        let ticket = shared.live.enter(shared.head.read().seq);
        let (layers, view) = (Layers::default(), shared.view.read().clone());
        Self { inner: Arc::new(Inner { shared: shared.clone(), layers, view, ticket }) }
    }

    /// Whether the engine's rows are on other machines ([`Engine::is_remote`](crate::Engine::is_remote)).
    pub fn is_remote(&self) -> bool {
        self.inner.shared.engine.is_remote()
    }

    /// Whether rows that are needed soon should be read together: they are on other machines, and what the engine has
    /// answered is kept ([`Engine::keeps_rows`](crate::Engine::keeps_rows)).
    pub fn gathers(&self) -> bool {
        self.is_remote() && self.keeps_rows()
    }

    /// Whether a row that was read is kept on this machine ([`Engine::keeps_rows`](crate::Engine::keeps_rows)).
    pub(crate) fn keeps_rows(&self) -> bool {
        self.inner.shared.engine.keeps_rows()
    }
}

impl Read for Snapshot {
    fn get_into(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let Inner { shared, layers, view, ticket } = &*self.inner;
        let position = shared.tables.key_position(table, key)?;
        let known = shared.overlay_get(layers, (position, key), ticket.seq(), out);
        known.map_or_else(|| shared.engine_get(view, table, key, out), Ok)
    }

    fn read_many(&self, table: Table, keys: &[&[u8]], is_doubted: bool) -> Result<Values> {
        let Inner { shared, layers, view, ticket } = &*self.inner;
        let mut values = vec![None; keys.len()];
        // Indices of the keys that no layer knows and the engine must look up.
        let mut rest = Vec::new();
        for (place, key) in keys.iter().enumerate() {
            let position = shared.tables.key_position(table, key)?;
            let mut value = Vec::new();
            let known = shared
                .overlay_get(layers, (position, key), ticket.seq(), &mut value)
                .or_else(|| shared.recent_get(view, table, key, &mut value));
            match known {
                Some(found) => values[place] = found.then_some(value),
                None => rest.push(place),
            }
        }
        let wanted: Vec<&[u8]> = rest.iter().map(|place| keys[*place]).collect();
        let found = shared.engine_get_many(view, table, &wanted, is_doubted)?;
        for (place, value) in rest.into_iter().zip(found) {
            values[place] = value;
        }
        Ok(values)
    }

    fn scan(&self, table: Table, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<()> {
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
            view.view.scan(table, range, &mut counted)
        } else {
            let table = (table, position);
            scan(layers, &*view.view, &shared.hasher, table, range, ticket.seq(), &mut counted)
        };
        shared.count(|counters| counters.scan(entries, bytes));
        result
    }
}

impl StoreState {
    /// Appends the row that the overlay has to `out`, and returns whether there is one; `None` if the overlay does not
    /// know the key.
    #[inline]
    pub(crate) fn overlay_get(
        &self,
        layers: &Layers,
        (position, key): (usize, &[u8]),
        seq: u64,
        out: &mut Vec<u8>,
    ) -> Option<bool> {
        if layers.is_empty() {
            return None;
        }
        let found = layers.find(position, (key, hash(&self.hasher, key)), seq, out);
        if found == Found::Nothing {
            return None;
        }
        self.count(Counters::overlay_get);
        Some(found == Found::Value)
    }

    /// Reads a key from the engine, and counts the read.
    pub(crate) fn engine_get(
        &self,
        view: &EngineView,
        table: Table,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        if let Some(found) = self.recent_get(view, table, key, out) {
            return Ok(found);
        }
        let before = out.len();
        let found = self.ask_engine(view, table, key, out)?;
        self.keep(view, table, key, found.then_some(&out[before..]));
        Ok(found)
    }

    /// Reads a key from the cache of the engine's recent answers, and counts the read; `None` if it is not cached.
    fn recent_get(
        &self,
        view: &EngineView,
        table: Table,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<bool> {
        let found = view.recent.as_ref()?.get(table, (key, hash(&self.hasher, key)), out)?;
        self.count(Counters::recent_get);
        Some(found)
    }

    /// Caches an answer of the engine, if the engine has a cache.
    fn keep(&self, view: &EngineView, table: Table, key: &[u8], row: Option<&[u8]>) {
        if let Some(recent) = &view.recent {
            recent.put(table, (key, hash(&self.hasher, key)), row);
        }
    }

    /// Reads many keys from the engine in one call, and counts the reads. Doubted answers are not cached.
    fn engine_get_many(
        &self,
        view: &EngineView,
        table: Table,
        keys: &[&[u8]],
        is_doubted: bool,
    ) -> Result<Values> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let started = self.counters.as_ref().map(|_| Instant::now());
        let found = view.view.read_many(table, keys, is_doubted)?;
        if let (Some(counters), Some(started)) = (&self.counters, started) {
            let bytes = found.iter().flatten().map(Vec::len).sum();
            let is_remote = self.engine.is_remote();
            counters.engine_got_many(keys.len(), started.elapsed(), bytes, is_remote);
        }
        for (key, row) in keys.iter().zip(&found).filter(|_| !is_doubted) {
            self.keep(view, table, key, row.as_deref());
        }
        Ok(found)
    }

    fn ask_engine(
        &self,
        view: &EngineView,
        table: Table,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let Some(counters) = &self.counters else { return view.view.get_into(table, key, out) };
        let before = out.len();
        let started = counters.engine_get();
        let found = view.view.get_into(table, key, out)?;
        counters.engine_got(started, out.len() - before);
        Ok(found)
    }
}
