//! Engines that fail or act on request, are slow, or have their rows cached by the store.

use crate::Wrapped;
use polytrie_kv::{Changes, Engine, KeyRange, KvError, Read, Table, View, Visit};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// The way in which a write fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing of the batch is applied.
    Before,
    /// All of the batch is applied, and then an error is returned, as if the process were killed between the two.
    After,
    /// Nothing of the batch is applied, and the engine panics.
    Panic,
}

/// An engine with writes that take a few milliseconds, so that other threads can act while one runs.
#[derive(Debug)]
pub struct SlowEngine(pub Arc<dyn Engine>);

crate::wrapped!(SlowEngine);

impl Wrapped for SlowEngine {
    fn inner(&self) -> &dyn Engine {
        &*self.0
    }

    fn on_write(&self, changes: &dyn Changes) -> Result<(), KvError> {
        std::thread::sleep(Duration::from_millis(changes.size_hint().0 as u64 % 8));
        self.0.write(changes)
    }
}

/// An engine that calls a function before each read of a key, which waits, counts, fails or panics. Many keys are read one
/// by one.
pub struct BeforeReads<T> {
    inner: T,
    act: Arc<Act>,
}

type Act = dyn Fn() -> Result<(), KvError> + Send + Sync;

polytrie_kv::debug_fields!([T] BeforeReads[T] {});

impl<T: Engine> BeforeReads<T> {
    /// Wraps an engine.
    pub fn new(inner: T, act: impl Fn() -> Result<(), KvError> + Send + Sync + 'static) -> Self {
        Self { inner, act: Arc::new(act) }
    }

    /// Wraps an engine, and makes its reads take longer than memory ever does, like those of a disk.
    pub fn slow(inner: T) -> Self {
        Self::new(inner, || {
            std::thread::sleep(Duration::from_micros(50));
            Ok(())
        })
    }
}

crate::wrapped!(BeforeReads<T>, T: Engine);

impl<T: Engine> Wrapped for BeforeReads<T> {
    fn inner(&self) -> &dyn Engine {
        &self.inner
    }

    fn on_view(&self) -> Result<Box<dyn View>, KvError> {
        Ok(Box::new(BeforeReads { inner: self.inner.view()?, act: Arc::clone(&self.act) }))
    }
}

impl Read for BeforeReads<Box<dyn View>> {
    fn get_into(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool, KvError> {
        (self.act)()?;
        self.inner.get_into(table, key, out)
    }

    fn scan(
        &self,
        table: Table,
        range: KeyRange<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<(), KvError> {
        self.inner.scan(table, range, visit)
    }
}

/// An engine with rows that the store caches, up to this many bytes.
#[derive(Debug)]
pub struct KeepsRows<T>(pub T, pub usize);

crate::wrapped!(KeepsRows<T>, T: Engine);

impl<T: Engine> Wrapped for KeepsRows<T> {
    fn inner(&self) -> &dyn Engine {
        &self.0
    }

    fn kept_rows(&self) -> usize {
        self.1
    }
}

/// An engine that says that its rows are on other machines ([`Engine::is_remote`]).
#[derive(Debug)]
pub struct Remote<T>(pub T);

crate::wrapped!(Remote<T>, T: Engine);

impl<T: Engine> Wrapped for Remote<T> {
    fn inner(&self) -> &dyn Engine {
        &self.0
    }

    fn is_elsewhere(&self) -> bool {
        true
    }
}

/// An engine that passes everything on to another one, until the write of a given number; that write and all later
/// ones fail. A test that runs with the numbers 1, 2, 3, … until [`fired`](Self::fired) is false has crashed at every
/// write.
#[derive(Debug)]
pub struct FaultEngine {
    inner: Arc<dyn Engine>,
    fault: Fault,
    at: u64,
    writes: AtomicU64,
}

impl FaultEngine {
    /// Creates an engine that fails at write number `at`, counted from 1; 0 never fails.
    pub const fn new(inner: Arc<dyn Engine>, fault: Fault, at: u64) -> Self {
        Self { inner, fault, at, writes: AtomicU64::new(0) }
    }

    /// Returns the number of attempted writes.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::SeqCst)
    }

    /// Whether the fault has happened.
    pub fn fired(&self) -> bool {
        self.at != 0 && self.writes() >= self.at
    }
}

crate::wrapped!(FaultEngine);

impl Wrapped for FaultEngine {
    fn inner(&self) -> &dyn Engine {
        &*self.inner
    }

    fn on_write(&self, changes: &dyn Changes) -> Result<(), KvError> {
        let number = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        if self.at == 0 || number < self.at {
            return self.inner.write(changes);
        }
        if number == self.at {
            match self.fault {
                Fault::Before => {}
                Fault::After => self.inner.write(changes)?,
                Fault::Panic => panic!("a fault was injected at write {number}"),
            }
        }
        Err(KvError::Engine {
            engine: "fault",
            action: "writing",
            reason: format!("a fault was injected at write {}", self.at),
        })
    }
}
