//! Engines and readers that count what is asked of them.

use crate::Wrapped;
use polytrie_kv::{Engine, KeyRange, KvError, Read, Table, Values, View, Visit};
use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

/// The requests that were made, on all threads.
#[derive(Debug, Default)]
pub struct Made {
    single: AtomicUsize,
    many: AtomicUsize,
    ranges: AtomicUsize,
    most_keys: AtomicUsize,
}

impl Made {
    /// Returns the number of requests for one key.
    pub fn single(&self) -> usize {
        self.single.load(SeqCst)
    }

    /// Returns the number of requests for many keys together, without those for no key.
    pub fn many(&self) -> usize {
        self.many.load(SeqCst)
    }

    /// Returns the number of all requests: for a key, for many keys, or for a range.
    pub fn all(&self) -> usize {
        self.single() + self.many() + self.ranges.load(SeqCst)
    }

    /// Returns the most keys that were asked for together.
    pub fn most_keys(&self) -> usize {
        self.most_keys.load(SeqCst)
    }

    fn of_many(&self, keys: &[&[u8]]) {
        self.many.fetch_add(usize::from(!keys.is_empty()), SeqCst);
        self.most_keys.fetch_max(keys.len(), SeqCst);
    }
}

/// An engine that counts the requests of its readers, or a pointer to a reader that counts those to it.
#[derive(Debug)]
pub struct Requests<T> {
    /// What is asked.
    pub inner: T,
    made: Arc<Made>,
}

impl<T> Requests<T> {
    /// Wraps an engine, or a pointer to a reader.
    pub fn new(inner: T) -> Self {
        Self { inner, made: Arc::default() }
    }

    /// Returns the requests, with those that are still to come.
    pub fn made(&self) -> Arc<Made> {
        Arc::clone(&self.made)
    }
}

crate::wrapped!(Requests<T>, T: Engine);

impl<T: Engine> Wrapped for Requests<T> {
    fn inner(&self) -> &dyn Engine {
        &self.inner
    }

    fn on_view(&self) -> Result<Box<dyn View>, KvError> {
        Ok(Box::new(Requests { inner: self.inner.view()?, made: self.made() }))
    }
}

impl<T: Deref<Target: Read> + Send + Sync> Read for Requests<T> {
    fn get_into(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool, KvError> {
        self.made.single.fetch_add(1, SeqCst);
        self.inner.get_into(table, key, out)
    }

    fn read_many(&self, table: Table, keys: &[&[u8]], is_doubted: bool) -> Result<Values, KvError> {
        self.made.of_many(keys);
        self.inner.read_many(table, keys, is_doubted)
    }

    fn scan(
        &self,
        table: Table,
        range: KeyRange<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<(), KvError> {
        self.made.ranges.fetch_add(1, SeqCst);
        self.inner.scan(table, range, visit)
    }
}
