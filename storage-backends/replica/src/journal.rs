//! The rows of the journal: the flat rows of a change that the flat store may not have yet.

use crate::{ACCOUNTS, JOURNAL, SLOTS};
use polytrie_kv::{Batch, KeyRange, Op, Read};
use polytrie_state::{StateError, scan};
use std::ops::ControlFlow;

/// Flat rows as a journal row: for each change the table's number and the kind (a byte each), the lengths of
/// key and value (four bytes each, big-endian), key and value.
pub(crate) fn encode(batch: &Batch) -> Vec<u8> {
    let mut out = Vec::with_capacity(batch.byte_len() + 10 * batch.len());
    for (table, op) in batch.ops() {
        let (kind, key, value) = match op {
            Op::Put { key, value } => (0, key, value),
            Op::Delete { key } => (1, key, &[][..]),
            Op::DeleteRange { from, to: Some(to) } => (2, from, to),
            Op::DeleteRange { from, to: None } => (3, from, &[][..]),
        };
        out.push(table.id);
        out.push(kind);
        out.extend_from_slice(&(key.len() as u32).to_be_bytes());
        out.extend_from_slice(&(value.len() as u32).to_be_bytes());
        out.extend_from_slice(key);
        out.extend_from_slice(value);
    }
    out
}

/// Reads [`encode`]'s bytes.
pub(crate) fn decode(mut bytes: &[u8]) -> Option<Batch> {
    let mut batch = Batch::new();
    while !bytes.is_empty() {
        let ([id, kind], rest) = bytes.split_first_chunk::<2>()?;
        let table = [ACCOUNTS, SLOTS].into_iter().find(|table| table.id == *id)?;
        let (key_len, rest) = rest.split_first_chunk::<4>()?;
        let (value_len, rest) = rest.split_first_chunk::<4>()?;
        let (key, rest) = rest.split_at_checked(u32::from_be_bytes(*key_len) as usize)?;
        let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*value_len) as usize)?;
        match kind {
            0 => batch.put(table, key, value),
            1 => batch.delete(table, key),
            2 => batch.delete_range(table, key, Some(value)),
            3 => batch.delete_range(table, key, None),
            _ => return None,
        }
        bytes = rest;
    }
    Some(batch)
}

/// All rows of the journal, for `db check`.
pub(crate) fn check(main: &dyn Read) -> Result<Vec<String>, StateError> {
    let mut problems = Vec::new();
    scan(main, JOURNAL, KeyRange::ALL, |key, row| {
        if key.len() != 8 || decode(row).is_none() {
            problems.push(format!("a journal row of {} bytes does not decode", row.len()));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(problems)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn journal_rows_come_back() {
        let mut batch = Batch::new();
        batch.put(ACCOUNTS, &[1; 32], b"value");
        batch.delete_range(SLOTS, &[2; 20], Some(&[3; 20]));
        batch.delete_range(SLOTS, &[4; 20], None);
        batch.delete(SLOTS, &[5; 52]);
        let row = encode(&batch);
        assert!(decode(&row).unwrap().ops().eq(batch.ops()));
        for cut in 1..row.len() {
            // A row that ends between two changes is a shorter journal row.
            if let Some(part) = decode(&row[..cut]) {
                assert!(part.len() < batch.len());
            }
        }
        assert!(decode(&[9, 0, 0, 0, 0, 0, 0, 0, 0, 0]).is_none());
    }
}
