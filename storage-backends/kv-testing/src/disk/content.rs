//! The content of a file on a simulated disk, and the part of it that survives a loss of power.

use crate::Random;

/// Bytes that a disk writes whole or not at all.
const SECTOR: u64 = 512;

/// The content of a file as a process sees it, kept as a list of changes.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// The bytes that are certainly on the disk.
    durable: Vec<u8>,
    /// The changes since, in order.
    changes: Vec<Change>,
}

#[derive(Debug)]
struct Change {
    what: What,
    state: State,
}

#[derive(Debug)]
enum What {
    Write { at: u64, bytes: Vec<u8> },
    Length(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The next sync makes it durable.
    Dirty,
    /// A sync has succeeded; the change is durable.
    Durable,
    /// A sync has failed. The system has then forgotten the change, so no later sync makes it durable.
    Dropped,
}

impl Content {
    /// Creates a file with durable content.
    pub(super) const fn durable(bytes: Vec<u8>) -> Self {
        Self { durable: bytes, changes: Vec::new() }
    }

    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) {
        self.push(What::Write { at, bytes: bytes.to_vec() });
    }

    pub(super) fn set_length(&mut self, length: u64) {
        self.push(What::Length(length));
    }

    fn push(&mut self, what: What) {
        self.changes.push(Change { what, state: State::Dirty });
    }

    pub(super) fn sync(&mut self) {
        self.end_sync(State::Durable);
        // Mostly no change was dropped, so the list can be cleared.
        if self.changes.iter().all(|change| change.state == State::Durable) {
            for change in std::mem::take(&mut self.changes) {
                change.what.apply(&mut self.durable);
            }
        }
    }

    /// Marks all changes that a sync should have written as dropped.
    pub(super) fn fail_sync(&mut self) {
        self.end_sync(State::Dropped);
    }

    fn end_sync(&mut self, state: State) {
        for change in &mut self.changes {
            if change.state == State::Dirty {
                change.state = state;
            }
        }
    }

    /// Returns the bytes that a process reads.
    pub(super) fn seen(&self) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        self.changes.iter().for_each(|change| change.what.apply(&mut bytes));
        bytes
    }

    /// Returns bytes that a loss of power may leave.
    pub(super) fn survivor(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        let mode = random.below(5);
        let last = random.below(self.changes.len() + 1);
        for (index, change) in self.changes.iter().enumerate() {
            match (change.state, mode) {
                (State::Durable, _) | (_, 1) => change.what.apply(&mut bytes),
                (_, 0) => {}
                // The changes survive in order, and the last one is cut off.
                (_, 2) if index < last => change.what.apply(&mut bytes),
                (_, 2) if index > last => {}
                // The changes survive in any order, and torn.
                _ => change.what.apply_torn(&mut bytes, mode == 4, random),
            }
        }
        bytes
    }
}

impl What {
    fn apply(&self, file: &mut Vec<u8>) {
        match self {
            Self::Write { at, bytes } => put(file, *at, bytes),
            Self::Length(length) => file.resize(*length as usize, 0),
        }
    }

    /// Writes some sectors of the change. The file may get its new length without the bytes.
    fn apply_torn(&self, file: &mut Vec<u8>, with_length: bool, random: &mut Random) {
        let Self::Write { at, bytes } = self else {
            if random.one_in(2) {
                self.apply(file);
            }
            return;
        };
        let end = at + bytes.len() as u64;
        if with_length && file.len() < end as usize {
            file.resize(end as usize, 0);
        }
        let mut from = *at;
        while from < end {
            let to = ((from / SECTOR + 1) * SECTOR).min(end);
            if random.one_in(2) {
                put(file, from, &bytes[(from - at) as usize..(to - at) as usize]);
            }
            from = to;
        }
    }
}

fn put(file: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let (at, end) = (at as usize, at as usize + bytes.len());
    if file.len() < end {
        file.resize(end, 0);
    }
    file[at..end].copy_from_slice(bytes);
}
