//! Records: the row of a key.
//!
//! ```text
//! level and slot   1 byte: five bits and three
//! version          5 bytes
//! epoch, leaf      5 and 4 bytes: where the tuple of this version is
//! value            the rest; of a slot: the number without leading zeros, nothing where it is zero now
//! ```

use alloy_primitives::{B256, U256, keccak256};
use arrayvec::ArrayVec;
use polytrie_amt::{SLOTS, VERSION_LIMIT};
use polytrie_kv::Sortable;
use polytrie_state::{Result, StateError, corrupt, flat::parse_number};

/// The value of a key: at most the 77 bytes of an account.
pub(crate) type Value = ArrayVec<u8, 77>;

/// The record of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyRecord {
    pub(crate) place: Place,
    /// Number of times that the key was written; at least 1.
    pub(crate) version: u64,
    pub(crate) at: Position,
    pub(crate) value: Value,
}

/// The place where the version of a key is counted: the level of the tree and the slot of the entry. Tree and entry
/// follow from the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) level: u8,
    /// The slot, from 1; slot 0 belongs to the tree below the entry.
    pub(crate) slot: u8,
}

/// The position of a tuple.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Position {
    pub(crate) epoch: u64,
    pub(crate) leaf: u32,
}

/// Bytes of a version, and of an epoch number.
pub(crate) const WIDE: usize = 5;

impl Position {
    pub(crate) const BYTES: usize = WIDE + 4;

    /// Number of epochs that five bytes can count.
    pub(crate) const MAX_EPOCHS: u64 = 1 << 40;

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.key());
    }

    pub(crate) fn read(bytes: &[u8; Self::BYTES]) -> Self {
        let [epoch @ .., a, b, c, d] = bytes;
        Self { epoch: from_wide(epoch), leaf: u32::from_be_bytes([*a, *b, *c, *d]) }
    }
}

impl Sortable for Position {
    type Key = [u8; Self::BYTES];

    fn key(&self) -> Self::Key {
        let mut key = [0; Self::BYTES];
        key[..WIDE].copy_from_slice(&wide(self.epoch));
        key[WIDE..].copy_from_slice(&self.leaf.to_be_bytes());
        key
    }

    fn value(&self) -> Vec<u8> {
        Vec::new()
    }

    fn from_row(key: &[u8], _: &[u8]) -> Option<Self> {
        Some(Self::read(key.try_into().ok()?))
    }
}

/// Encodes a number below 2^40 in five bytes.
pub(crate) fn wide(number: u64) -> [u8; WIDE] {
    let mut out = [0; WIDE];
    out.copy_from_slice(&number.to_be_bytes()[3..]);
    out
}

/// Decodes the bytes of [`wide`].
pub(crate) fn from_wide(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Returns the next version.
pub(crate) fn next_version(version: u64) -> Result<u64> {
    let next = version + 1;
    if next < VERSION_LIMIT {
        return Ok(next);
    }
    Err(crate::unsupported(format!(
        "counts to 2^40 versions of a key, and one has reached {version}"
    )))
}

impl KeyRecord {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(self.place.level << 3 | self.place.slot);
        out.extend_from_slice(&wide(self.version));
        self.at.write(out);
        out.extend_from_slice(&self.value);
    }

    /// Decodes the bytes of [`Self::write`].
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        let RecordRef { place, version, at, value } = RecordRef::read(bytes)?;
        let value = value.try_into().map_err(|_| no_record(bytes))?;
        Ok(Self { place, version, at, value })
    }

    /// Appends the bytes of the tuple: key, place, version and value.
    pub(crate) fn write_tuple(&self, position: &B256, out: &mut Vec<u8>) {
        write_key_tuple(position, self.place, self.version, &self.value, out);
    }

    /// Returns the hash of the tuple.
    pub(crate) fn leaf(&self, position: &B256) -> B256 {
        key_leaf(position, self.place, self.version, &self.value)
    }
}

/// A record with a value that is borrowed from its row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordRef<'a> {
    pub(crate) place: Place,
    pub(crate) version: u64,
    pub(crate) at: Position,
    pub(crate) value: &'a [u8],
}

impl<'a> RecordRef<'a> {
    /// Decodes the bytes of [`KeyRecord::write`].
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self> {
        Self::parse(bytes).ok_or_else(|| no_record(bytes))
    }

    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (place, rest) = bytes.split_first()?;
        let (version, rest) = rest.split_at_checked(WIDE)?;
        let (at, value) = rest.split_first_chunk::<{ Position::BYTES }>()?;
        let place = Place { level: place >> 3, slot: place & 7 };
        let known = place.level >= 1 && (1..SLOTS).contains(&usize::from(place.slot));
        let version = from_wide(version);
        (known && version > 0).then(|| Self { place, version, at: Position::read(at), value })
    }
}

fn no_record(bytes: &[u8]) -> StateError {
    corrupt!("a row of {} bytes is no record of a key", bytes.len())
}

/// Returns the hash of a key's tuple.
pub(crate) fn key_leaf(position: &B256, place: Place, version: u64, value: &[u8]) -> B256 {
    let mut bytes = Vec::with_capacity(117);
    write_key_tuple(position, place, version, value, &mut bytes);
    keccak256(bytes)
}

/// Appends a key's tuple: `0x00 ‖ position ‖ level ‖ slot ‖ version ‖ value`.
fn write_key_tuple(position: &B256, place: Place, version: u64, value: &[u8], out: &mut Vec<u8>) {
    out.push(0);
    out.extend_from_slice(position.as_slice());
    out.extend_from_slice(&[place.level, place.slot]);
    out.extend_from_slice(&wide(version));
    out.extend_from_slice(value);
}

/// Encodes the value of a slot.
pub(crate) fn slot_value(number: &U256) -> Value {
    let bytes = number.to_be_bytes::<32>();
    let mut value = Value::new();
    // The array has room for 77 bytes.
    let _ = value.try_extend_from_slice(&bytes[number.leading_zeros() / 8..]);
    value
}

/// Decodes the number in a slot's record.
pub(crate) fn read_slot_value(bytes: &[u8]) -> Result<U256> {
    parse_number(bytes).ok_or_else(|| corrupt!("the value of a slot is no number"))
}
