//! Scans that merge the overlay with the engine.

use super::{Found, Layers, hash, tombstones::Span};
use crate::{KeyRange, Result, Table, View, Visit};
use hashbrown::DefaultHashBuilder;
use std::ops::ControlFlow;

/// Number of overlay rows merged in the first step; later steps take more.
const FIRST: usize = 16;
const LARGEST: usize = 4_096;

/// Visits a range of the engine as the layers above it have changed it up to write `seq`.
///
/// The scan proceeds in steps: some rows of the overlay, and the engine's rows up to the last of them. So a scan that
/// ends early costs little, however large the overlay is.
pub(crate) fn scan(
    layers: &Layers,
    view: &dyn View,
    hasher: &DefaultHashBuilder,
    (table, position): (Table, usize),
    range: KeyRange<'_>,
    seq: u64,
    visit: &mut Visit<'_>,
) -> Result<()> {
    let mut limit = FIRST;
    // The border of the visited part: the first key after it (or, in reverse, the last visited key).
    let mut border: Option<Vec<u8>> = None;
    loop {
        let rest = match &border {
            None => range,
            Some(border) if range.reverse => KeyRange { to: Some(border), ..range },
            Some(border) => KeyRange { from: border, ..range },
        };
        if rest.is_empty() {
            return Ok(());
        }
        let (keys, end) = overlay_keys(layers, position, rest, seq, limit);
        let part = match &end {
            None => rest,
            Some(end) if range.reverse => KeyRange { from: end, ..rest },
            Some(end) => KeyRange { to: Some(end), ..rest },
        };
        let mut merge = Merge {
            rows: Rows { layers, hasher, position, seq, keys: keys.into_iter().peekable() },
            deleted: Deleted::new(layers, position, part, seq),
            reverse: range.reverse,
            visit,
            ended: false,
        };
        view.scan(table, part, &mut |key, value| merge.engine_entry(key, value))?;
        if merge.ended || merge.rows_up_to(None)?.is_break() {
            return Ok(());
        }
        match end {
            None => return Ok(()),
            Some(end) => border = Some(end),
        }
        limit = (limit * 4).min(LARGEST);
    }
}

/// Returns the overlay's first keys within a range, in the order of the range, and the end of the part of the range
/// in which these are all (as a `to`, or as a `from` in reverse); `None` if they are all keys of the whole range.
fn overlay_keys(
    layers: &Layers,
    table: usize,
    range: KeyRange<'_>,
    seq: u64,
    limit: usize,
) -> (Vec<Vec<u8>>, Option<Vec<u8>>) {
    let mut keys = Vec::new();
    let mut end: Option<Vec<u8>> = None;
    for generation in layers.iter() {
        let before = keys.len();
        if generation.keys(table, range, seq, limit, &mut keys)
            && let Some(last) = keys[before..].last()
        {
            let mut last = last.clone();
            if !range.reverse {
                last.push(0);
            }
            let nearer = |end: &Vec<u8>| if range.reverse { last > *end } else { last < *end };
            if end.as_ref().is_none_or(nearer) {
                end = Some(last);
            }
        }
    }
    if let Some(end) = &end {
        keys.retain(|key| if range.reverse { key >= end } else { key < end });
    }
    keys.sort_unstable();
    keys.dedup();
    if range.reverse {
        keys.reverse();
    }
    (keys, end)
}

/// The overlay rows that a step has yet to visit.
struct Rows<'a> {
    layers: &'a Layers,
    hasher: &'a DefaultHashBuilder,
    position: usize,
    seq: u64,
    keys: std::iter::Peekable<std::vec::IntoIter<Vec<u8>>>,
}

struct Merge<'a, 'v> {
    rows: Rows<'a>,
    deleted: Deleted,
    reverse: bool,
    visit: &'a mut Visit<'v>,
    /// Whether the visitor has ended the scan.
    ended: bool,
}

impl Merge<'_, '_> {
    fn engine_entry(&mut self, key: &[u8], value: &[u8]) -> Result<ControlFlow<()>> {
        if self.rows_up_to(Some(key))?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        // The overlay has its own version of this key.
        let hidden = self.rows.keys.peek().is_some_and(|next| next == key);
        if hidden || self.deleted.contains(key) {
            return Ok(ControlFlow::Continue(()));
        }
        let flow = (self.visit)(key, value)?;
        self.ended = flow.is_break();
        Ok(flow)
    }

    /// Visits the overlay rows before `key`, or all that are left if there is no key.
    fn rows_up_to(&mut self, key: Option<&[u8]>) -> Result<ControlFlow<()>> {
        let reverse = self.reverse;
        let before = |row: &Vec<u8>| {
            key.is_none_or(|key| if reverse { row.as_slice() > key } else { row.as_slice() < key })
        };
        let mut value = Vec::new();
        while let Some(row) = self.rows.keys.next_if(before) {
            value.clear();
            let Rows { layers, hasher, position, seq, .. } = &self.rows;
            let found = layers.find(*position, (&row, hash(hasher, &row)), *seq, &mut value);
            if found == Found::Value && (self.visit)(&row, &value)?.is_break() {
                self.ended = true;
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// The ranges deleted from the engine's content within one step, layer by layer.
struct Deleted(Vec<Vec<Span>>);

impl Deleted {
    fn new(layers: &Layers, table: usize, range: KeyRange<'_>, seq: u64) -> Self {
        let pieces = layers.iter().map(|generation| generation.deleted(table, range, seq));
        Self(pieces.filter(|pieces| !pieces.is_empty()).collect())
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.0.iter().any(|pieces| {
            let after = pieces.partition_point(|piece| *piece.from <= *key);
            let piece = after.checked_sub(1).map(|i| &pieces[i]);
            piece.is_some_and(|piece| piece.to.as_ref().is_none_or(|to| *key < **to))
        })
    }
}
