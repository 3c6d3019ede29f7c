//! An arena for the keys and values of one generation: memory is given out piece by piece and freed all at once.

/// Bytes of the first chunk. Each further one is twice as large, up to [`CHUNK`].
const FIRST_CHUNK: usize = 16 << 10;
/// Bytes of a chunk once there are several.
const CHUNK: usize = 1 << 20;

/// A range of bytes within an [`Arena`]. Using it with another arena returns other bytes or panics, and is never
/// undefined behaviour.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slice {
    chunk: u32,
    start: u32,
    len: u32,
}

impl Slice {
    /// Number of bytes.
    pub(super) fn len(self) -> usize {
        self.len as usize
    }

    /// Returns the first `len` bytes of the slice, or all if it is shorter.
    pub(super) fn prefix(self, len: usize) -> Self {
        Self { len: self.len.min(len as u32), ..self }
    }
}

/// A bump allocator. Tens of thousands of small rows a block would otherwise be as many allocations, and as
/// many deallocations after the flush.
#[derive(Debug, Default)]
pub(super) struct Arena {
    chunks: Vec<Vec<u8>>,
    /// Unused chunks of [`CHUNK`] bytes, taken before new ones are allocated.
    spare: Vec<Vec<u8>>,
    bytes: usize,
}

impl Arena {
    /// Bytes of memory in use.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies `bytes` into a slice of at least `capacity` bytes.
    pub(super) fn add(&mut self, bytes: &[u8], capacity: usize) -> Slice {
        let size = capacity.max(bytes.len());
        let fits = self.chunks.last().is_some_and(|chunk| chunk.capacity() - chunk.len() >= size);
        if !fits {
            let chunk = FIRST_CHUNK << self.chunks.len().min(6);
            let chunk = chunk.min(CHUNK).max(size);
            self.bytes += chunk;
            let spare = if chunk == CHUNK { self.spare.pop() } else { None };
            self.chunks.push(spare.unwrap_or_else(|| Vec::with_capacity(chunk)));
        }
        let number = self.chunks.len() - 1;
        let chunk = &mut self.chunks[number];
        let start = chunk.len();
        chunk.extend_from_slice(bytes);
        chunk.resize(start + size, 0);
        // Lengths in a batch fit 32 bits, and a chunk is larger than `CHUNK` only for a single slice.
        Slice { chunk: number as u32, start: start as u32, len: size as u32 }
    }

    /// Frees all slices, and keeps the full-size chunks for reuse.
    pub(super) fn clear(&mut self) {
        self.bytes = 0;
        for mut chunk in self.chunks.drain(..).filter(|chunk| chunk.capacity() == CHUNK) {
            chunk.clear();
            self.spare.push(chunk);
        }
    }

    pub(super) fn get(&self, slice: Slice) -> &[u8] {
        &self.chunks[slice.chunk as usize][slice.start as usize..][..slice.len as usize]
    }

    /// Overwrites the first bytes of `slice`.
    pub(super) fn set(&mut self, slice: Slice, bytes: &[u8]) {
        let start = slice.start as usize;
        self.chunks[slice.chunk as usize][start..start + bytes.len()].copy_from_slice(bytes);
    }
}
