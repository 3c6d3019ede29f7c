//! Reading beside a store that writes.

use super::{A, B, Journaled, open, put};
use polytrie_kv::{Engine, KvError, MemoryEngine, Read, Store, StoreOptions, View};
use polytrie_kv_testing::Wrapped;
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// A reader beside another store, whose writer acts each time after a view of the engine was taken.
#[derive(Debug)]
struct Beside {
    inner: Journaled,
    writer: Store,
    /// Whether the writer writes to the engine directly.
    directly: bool,
    /// Number of times that the writer will still act.
    left: AtomicU64,
}

polytrie_kv_testing::wrapped!(Beside);

impl Wrapped for Beside {
    fn inner(&self) -> &dyn Engine {
        &self.inner
    }
    fn on_view(&self) -> Result<Box<dyn View>, KvError> {
        let view = self.inner.view()?;
        if self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
            let moves = put(B, "moves", "on");
            if self.directly {
                self.writer.engine_write(&moves)?;
            } else {
                self.writer.write(moves)?;
                self.writer.checkpoint()?;
            }
            self.writer.write(put(A, "x", "later"))?;
        }
        Ok(view)
    }
    fn takes_nothing(&self) -> bool {
        true
    }
    fn journal(&self) -> Option<PathBuf> {
        self.inner.journal()
    }
}

/// The state that is read is one that the writer had, however often it flushes or writes to the engine meanwhile; and
/// the writer's files stay.
#[test]
fn reading_beside_a_writer_mixes_no_states() {
    for (directly, flushes) in (0..24).map(|n| (n >= 12, n % 12)) {
        let (engine, dir) = (Arc::new(MemoryEngine::new()), tempfile::tempdir().unwrap());
        let writer = open(&engine, dir.path()).unwrap();
        writer.write(put(A, "x", "first")).unwrap();
        writer.write(put(B, "y", "second")).unwrap();
        if directly {
            // Nothing is left for the flush that comes before a direct write.
            writer.checkpoint().unwrap();
        }
        let inner = Journaled { inner: engine.clone(), dir: dir.path().to_owned() };
        let left = AtomicU64::new(flushes);
        let beside = Beside { inner, writer: writer.clone(), directly, left };
        let store = Store::open(Arc::new(beside), &[A, B], StoreOptions::default()).unwrap();
        let row = |table, key: &[u8]| store.get(table, key).unwrap();
        let context = format!("{flushes}, directly: {directly}");
        assert_eq!(row(B, b"y"), Some(b"second".to_vec()), "{context}");
        let (moved, x) = (row(B, b"moves").is_some(), row(A, b"x").unwrap());
        assert!(x == b"first" || (moved && x == b"later"), "{context}");
        assert_eq!(moved, flushes > 0, "{context}");
        drop(store);
        drop(writer);
        let again = open(&engine, dir.path()).unwrap();
        assert_eq!(again.get(B, b"y").unwrap(), Some(b"second".to_vec()), "{context}");
    }
}
