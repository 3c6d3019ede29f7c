//! The deleted ranges of keys, and the writes that deleted them.

use crate::{KeyRange, Live, Versions};
use std::{collections::BTreeMap, ops::Bound};

/// The deleted ranges of one table.
///
/// They are kept as pieces that do not overlap, so that the piece that covers a key is found by one search, however
/// many there are: some blocks of 2016 destroy thousands of accounts each.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    /// The pieces by their first key.
    pieces: BTreeMap<Box<[u8]>, Piece>,
    bytes: usize,
}

#[derive(Debug, Clone)]
struct Piece {
    /// First key after the piece; `None` for the end of the table.
    to: Option<Box<[u8]>>,
    /// The writes that deleted the piece.
    deleted: Versions<()>,
}

/// The first key of a piece, and the first key after it.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) from: Box<[u8]>,
    pub(super) to: Option<Box<[u8]>>,
}

/// Bytes of memory of a piece beside its keys: two allocations, an entry in the map, a list.
const PIECE_BYTES: usize = 160;

impl Tombstones {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns an estimate of the memory in use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Deletes `from..to` as write `seq`, which must be the newest.
    pub(super) fn insert(&mut self, from: &[u8], to: Option<&[u8]>, seq: u64, live: &Live<'_>) {
        if to.is_some_and(|to| to <= from) {
            return;
        }
        self.split(from);
        if let Some(to) = to {
            self.split(to);
        }
        // Now every piece lies within the range or outside. The gaps between the pieces within it become pieces.
        let upper = to.map_or(Bound::Unbounded, Bound::Excluded);
        let mut gaps = Vec::new();
        let mut reached: Option<Box<[u8]>> = Some(from.into());
        for (start, piece) in self.pieces.range_mut::<[u8], _>((Bound::Included(from), upper)) {
            if let Some(reached) = reached.take()
                && reached < *start
            {
                gaps.push(Span { from: reached, to: Some(start.clone()) });
            }
            piece.deleted.set((), seq, live);
            reached.clone_from(&piece.to);
        }
        if let Some(reached) = reached
            && to.is_none_or(|to| *reached < *to)
        {
            gaps.push(Span { from: reached, to: to.map(Into::into) });
        }
        for Span { from, to } in gaps {
            self.add(from, Piece { to, deleted: Versions::new((), seq) });
        }
    }

    /// Returns the newest write not after `seq` that deleted a range with `key` in it.
    pub(super) fn newest(&self, key: &[u8], seq: u64) -> Option<u64> {
        let (_, piece) =
            self.pieces.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()?;
        if piece.to.as_deref().is_some_and(|to| key >= to) {
            return None;
        }
        piece.at(seq)
    }

    /// Returns the pieces that touch `range` and were deleted not after `seq`, in ascending order.
    pub(super) fn within(&self, range: KeyRange<'_>, seq: u64) -> impl Iterator<Item = Span> {
        // The piece before the range may reach into it.
        let before = (Bound::Unbounded, Bound::Included(range.from));
        let first = self.pieces.range::<[u8], _>(before).next_back().map(|(start, _)| &**start);
        let lower = Bound::Included(first.unwrap_or(range.from));
        let upper = range.to.map_or(Bound::Unbounded, Bound::Excluded);
        // `BTreeMap` panics at bounds out of order.
        let pieces = (!range.is_empty()).then(|| self.pieces.range::<[u8], _>((lower, upper)));
        let pieces = pieces.into_iter().flatten();
        pieces
            .filter(move |(_, piece)| piece.at(seq).is_some())
            .map(|(from, piece)| Span { from: from.clone(), to: piece.to.clone() })
    }

    /// Makes `key` a border: a piece that contains it is cut in two.
    fn split(&mut self, key: &[u8]) {
        let inside = (Bound::Unbounded, Bound::Excluded(key));
        let Some((_, piece)) = self.pieces.range_mut::<[u8], _>(inside).next_back() else { return };
        if piece.to.as_deref().is_some_and(|to| to <= key) {
            return;
        }
        let right = piece.clone();
        piece.to = Some(key.into());
        self.add(key.into(), right);
    }

    fn add(&mut self, start: Box<[u8]>, piece: Piece) {
        self.bytes += start.len() + piece.to.as_ref().map_or(0, |to| to.len()) + PIECE_BYTES;
        self.pieces.insert(start, piece);
    }
}

impl Piece {
    fn at(&self, seq: u64) -> Option<u64> {
        self.deleted.at(seq).map(|(made, ())| made)
    }
}
