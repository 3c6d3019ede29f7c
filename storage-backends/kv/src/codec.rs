//! The encoding of a batch as bytes.
//!
//! ```text
//! change   kind (1), table (1), length of the key (2), length of the value (4), key, value      integers big-endian
//!          kind: 0 put, 1 delete, 2 delete the range from key to value, 3 delete from key on
//!          table: its place in a list that writer and reader agree on
//! ```

use crate::{Batch, Op, Table};

/// Bytes of a change before its key.
const HEAD: usize = 8;

impl Batch {
    /// Number of bytes that [`Self::encode`] appends.
    pub fn encoded_len(&self) -> usize {
        self.byte_len() + HEAD * self.len()
    }

    /// Appends the changes as bytes. Each change must belong to one of `tables`, and no key or value may be longer
    /// than a store accepts.
    pub fn encode(&self, tables: &[Table], out: &mut Vec<u8>) {
        out.reserve(self.encoded_len());
        for (table, op) in self.ops() {
            let (kind, key, value) = match op {
                Op::Put { key, value } => (0, key, value),
                Op::Delete { key } => (1, key, &[][..]),
                Op::DeleteRange { from, to: Some(to) } => (2, from, to),
                Op::DeleteRange { from, to: None } => (3, from, &[][..]),
            };
            // A number without a table does not decode.
            let place = tables.iter().position(|other| other.id == table.id);
            out.extend_from_slice(&[kind, place.unwrap_or(usize::MAX) as u8]);
            out.extend_from_slice(&(key.len() as u16).to_be_bytes());
            out.extend_from_slice(&(value.len() as u32).to_be_bytes());
            out.extend_from_slice(key);
            out.extend_from_slice(value);
        }
    }

    /// Decodes the changes; `None` if the bytes do not decode, or name a table that is not in `tables`.
    pub fn decode(mut bytes: &[u8], tables: &[Table]) -> Option<Self> {
        let mut batch = Self::with_capacity(bytes.len() / 64, bytes.len());
        while !bytes.is_empty() {
            let ([kind, table], rest) = bytes.split_first_chunk()?;
            let (key_len, rest) = rest.split_first_chunk()?;
            let (value_len, rest) = rest.split_first_chunk()?;
            let (key, rest) = rest.split_at_checked(u16::from_be_bytes(*key_len).into())?;
            let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*value_len) as usize)?;
            let table = *tables.get(usize::from(*table))?;
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
}

/// Takes the next `N` bytes off `rest`; `None` if fewer are left.
pub fn take_array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*taken)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn changes_come_back_and_half_of_one_does_not() {
        let tables = [9, 4].map(|id| Table::new(id, ["nine", "four"][usize::from(id == 4)], 64));
        let [nine, four] = tables;
        let mut batch = Batch::new();
        batch.put(nine, &[1; 32], b"value");
        batch.delete_range(four, &[2; 20], Some(&[3; 20]));
        batch.delete_range(four, &[4; 20], None);
        batch.delete(four, &[5; 52]);
        let mut bytes = Vec::new();
        batch.encode(&tables, &mut bytes);
        assert_eq!(bytes.len(), batch.encoded_len());
        assert!(Batch::decode(&bytes, &tables).unwrap().ops().eq(batch.ops()));
        for cut in 1..bytes.len() {
            // A prefix that ends between two changes decodes to a shorter batch.
            if let Some(part) = Batch::decode(&bytes[..cut], &tables) {
                assert!(part.len() < batch.len());
            }
        }
        assert!(Batch::decode(&bytes, &tables[..1]).is_none(), "a table that is not known");
        assert!(Batch::decode(&[4, 0, 0, 0, 0, 0, 0, 0], &tables).is_none(), "a kind that is none");
        let mut bytes = Vec::new();
        batch.encode(&tables[..1], &mut bytes);
        assert!(Batch::decode(&bytes, &tables).is_none());
    }
}
