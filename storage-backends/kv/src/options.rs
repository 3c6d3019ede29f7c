//! The options of a store.

/// The moment at which a write becomes durable, so that no failure of the machine can undo it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// Durable before [`write`](crate::Store::write) returns: in the journal where the engine has one, else in the
    /// engine.
    EveryWrite,
    /// Durable with the next flush into the engine. A flush begins when enough is unflushed
    /// ([`StoreOptions::flush_every`], [`StoreOptions::overlay_bytes`]) or when [`flush`](crate::Store::flush) is
    /// called. After a crash the last writes may be missing.
    #[default]
    Deferred,
    /// Durable with the next flush, which no write begins: the caller checks [`is_full`](crate::Store::is_full),
    /// writes what must be durable before, and calls [`begin_flush`](crate::Store::begin_flush).
    ByHand,
}

/// The options of a store.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The moment at which a write becomes durable.
    pub durability: Durability,
    /// Number of batches (blocks) after which they are flushed into the engine; at least 1.
    pub flush_every: u64,
    /// Bytes of memory of unflushed changes, or of their records in the journal, after which they are flushed into
    /// the engine. As much again may be in use while that flush runs.
    pub overlay_bytes: usize,
    /// Whether flushes run on a separate thread. If not, the write that fills the overlay returns after the flush.
    pub background: bool,
    /// Whether reads and writes are counted.
    pub counters: bool,
}

impl StoreOptions {
    /// The default of [`Self::flush_every`]. Mostly the limit of bytes is reached first: this many blocks are few
    /// bytes only where the blocks are small, and then executing them again after a crash takes seconds.
    pub const FLUSH_EVERY: u64 = 4096;
    /// The default of [`Self::overlay_bytes`]. A flush rewrites each page that holds a change; the more changes it
    /// has, the more of them share a page. But nothing overlaps with the last flush of a run.
    pub const OVERLAY_BYTES: usize = 128 << 20;
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            durability: Durability::Deferred,
            flush_every: Self::FLUSH_EVERY,
            overlay_bytes: Self::OVERLAY_BYTES,
            background: true,
            counters: true,
        }
    }
}
