//! The packed form of genesis accounts. The crate's README.md describes it; `scripts/genesis/derive.mjs` writes it too.
//!
//! Packed bytes never come from outside: either this program carries them, and tests read all of them, or [`Builder`]
//! has just made them. Their form is therefore an invariant, and a panic here is a bug.

use std::{borrow::Cow, collections::BTreeMap, io::Read, sync::Arc};

use alloy_genesis::GenesisAccount;
use alloy_primitives::{Address, B256, Bytes, U256};
use flate2::read::GzDecoder;

use super::Allocation;

/// First bytes of the packed form: a name and the version of the format.
const MAGIC: [u8; 5] = *b"PTGA\x01";

/// Flag in the byte before a balance: nonce, code and storage follow the balance.
const EXTENDED: u8 = 0x40;

const INVARIANT: &str =
    "packed genesis accounts are well formed: they are built in or made by `Builder`";

/// Builder of the packed form from accounts in any order.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    records: Vec<u8>,
    /// Address of every record, and where it starts in `records`.
    index: Vec<(Address, usize)>,
}

impl Builder {
    /// Adds an account.
    pub(crate) fn push(&mut self, address: Address, account: &GenesisAccount) {
        self.index.push((address, self.records.len()));
        let out = &mut self.records;
        out.extend_from_slice(address.as_slice());
        let balance = account.balance.to_be_bytes_trimmed_vec();
        let nonce = account.nonce.unwrap_or_default();
        let code = account.code.as_ref().map_or(&[][..], |code| &code[..]);
        let slots: Vec<_> = account.storage_slots().filter(|(_, value)| !value.is_zero()).collect();
        let extended = nonce != 0 || !code.is_empty() || !slots.is_empty();
        put_trimmed(out, &balance, if extended { EXTENDED } else { 0 });
        if extended {
            put_varint(out, nonce);
            put_varint(out, code.len() as u64);
            out.extend_from_slice(code);
            put_varint(out, slots.len() as u64);
            for (slot, value) in slots {
                put_trimmed(out, &U256::from_be_bytes(slot.0).to_be_bytes_trimmed_vec(), 0);
                put_trimmed(out, &value.to_be_bytes_trimmed_vec(), 0);
            }
        }
    }

    /// Returns the packed accounts, and the addresses that were given more than once. The last record of an address
    /// counts.
    pub(crate) fn finish(mut self) -> (Allocation, Vec<Address>) {
        let mut repeated = Vec::new();
        let in_order = self.index.is_sorted_by(|a, b| a.0 < b.0);
        let end = self.records.len();
        let mut packed = Vec::with_capacity(MAGIC.len() + 10 + end);
        packed.extend_from_slice(&MAGIC);
        if in_order {
            put_varint(&mut packed, self.index.len() as u64);
            packed.append(&mut self.records);
        } else {
            let ends = self.index.iter().skip(1).map(|(_, start)| *start).chain([end]);
            let mut ranges: Vec<_> = self
                .index
                .iter()
                .zip(ends)
                .map(|((address, start), end)| (*address, *start..end))
                .collect();
            // The sort is stable, and a later record replaces its predecessor: so the last of equal addresses stays.
            ranges.sort_by_key(|(address, _)| *address);
            ranges.dedup_by(|later, earlier| {
                let same = later.0 == earlier.0;
                if same {
                    repeated.push(later.0);
                    earlier.1 = later.1.clone();
                }
                same
            });
            put_varint(&mut packed, ranges.len() as u64);
            for (_, range) in ranges {
                packed.extend_from_slice(&self.records[range]);
            }
        }
        (Allocation::Unpacked(Arc::new(packed)), repeated)
    }
}

/// Reader of the packed form, record by record.
#[derive(Debug)]
pub(super) struct Packed<'a> {
    bytes: Cow<'a, [u8]>,
    at: usize,
    left: usize,
}

impl<'a> Packed<'a> {
    pub(super) fn new(bytes: Cow<'a, [u8]>) -> Self {
        let mut packed = Self { bytes, at: 0, left: 0 };
        assert_eq!(packed.read(MAGIC.len()), MAGIC, "{INVARIANT}");
        packed.left = packed.read_length();
        packed
    }

    /// Returns a reader of no accounts.
    pub(super) const fn empty() -> Self {
        Self { bytes: Cow::Borrowed(&[]), at: 0, left: 0 }
    }

    fn read(&mut self, length: usize) -> &[u8] {
        let start = self.at;
        self.at += length;
        self.bytes.get(start..self.at).expect(INVARIANT)
    }

    fn read_byte(&mut self) -> u8 {
        self.read(1)[0]
    }

    fn read_varint(&mut self) -> u64 {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.read_byte();
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return value;
            }
        }
        unreachable!("{INVARIANT}")
    }

    fn read_length(&mut self) -> usize {
        usize::try_from(self.read_varint()).expect(INVARIANT)
    }

    /// Reads a number of up to 32 bytes and the flags of its first byte.
    fn read_trimmed(&mut self) -> (U256, u8) {
        let head = self.read_byte();
        let length = usize::from(head & !EXTENDED);
        (U256::try_from_be_slice(self.read(length)).expect(INVARIANT), head & EXTENDED)
    }
}

impl Iterator for Packed<'_> {
    type Item = (Address, GenesisAccount);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let address = Address::from_slice(self.read(Address::len_bytes()));
        let (balance, extended) = self.read_trimmed();
        let mut account = GenesisAccount { balance, ..Default::default() };
        if extended != 0 {
            account.nonce = Some(self.read_varint()).filter(|nonce| *nonce != 0);
            let length = self.read_length();
            account.code =
                Some(Bytes::copy_from_slice(self.read(length))).filter(|code| !code.is_empty());
            let slots = self.read_length();
            let storage: BTreeMap<B256, B256> = (0..slots)
                .map(|_| (B256::from(self.read_trimmed().0), B256::from(self.read_trimmed().0)))
                .collect();
            account.storage = Some(storage).filter(|storage| !storage.is_empty());
        }
        Some((address, account))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

/// Undoes the gzip compression of a built-in allocation.
pub(super) fn decompress(compressed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(compressed).read_to_end(&mut bytes).expect(INVARIANT);
    bytes
}

fn put_trimmed(out: &mut Vec<u8>, number: &[u8], flags: u8) {
    // A trimmed 256-bit number has at most 32 bytes, so the length leaves the upper two bits free.
    out.push(number.len() as u8 | flags);
    out.extend_from_slice(number);
}

/// Writes a number with seven bits per byte, the lowest first; the upper bit says that more bytes follow.
fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn plain(balance: u64) -> GenesisAccount {
        GenesisAccount { balance: U256::from(balance), ..Default::default() }
    }

    #[test]
    fn accounts_come_back_in_order() {
        let rich = GenesisAccount {
            nonce: Some(u64::MAX),
            balance: U256::MAX,
            code: Some(Bytes::from(vec![0x5b; 300])),
            storage: Some(BTreeMap::from([
                (B256::ZERO, B256::repeat_byte(0xff)),
                (B256::with_last_byte(1), B256::with_last_byte(0x80)),
                (B256::repeat_byte(0xee), B256::with_last_byte(1)),
            ])),
            private_key: None,
        };
        let accounts = vec![
            (Address::ZERO, plain(0)),
            (Address::with_last_byte(1), rich),
            (Address::with_last_byte(2), GenesisAccount { nonce: Some(1), ..Default::default() }),
            (Address::repeat_byte(0xff), plain(1)),
        ];
        let packed = Allocation::from_accounts(accounts.clone());
        assert_eq!(packed.accounts().len(), 4);
        assert_eq!(packed.accounts().collect::<Vec<_>>(), accounts);
        let reversed = Allocation::from_accounts(accounts.iter().rev().cloned());
        assert_eq!(reversed.accounts().collect::<Vec<_>>(), accounts);
    }

    #[test]
    fn what_says_nothing_is_dropped() {
        let account = GenesisAccount {
            nonce: Some(0),
            code: Some(Bytes::new()),
            storage: Some(BTreeMap::from([(B256::with_last_byte(9), B256::ZERO)])),
            ..plain(7)
        };
        let packed = Allocation::from_accounts([(Address::ZERO, account)]);
        assert_eq!(packed.accounts().next().unwrap(), (Address::ZERO, plain(7)));
    }

    #[test]
    fn the_last_of_equal_addresses_wins() {
        let mut builder = Builder::default();
        for (last_byte, balance) in [(2, 20), (1, 10), (2, 21), (2, 22)] {
            builder.push(Address::with_last_byte(last_byte), &plain(balance));
        }
        let (packed, repeated) = builder.finish();
        assert_eq!(repeated, [Address::with_last_byte(2); 2]);
        let expected =
            [(Address::with_last_byte(1), plain(10)), (Address::with_last_byte(2), plain(22))];
        assert_eq!(packed.accounts().collect::<Vec<_>>(), expected);
    }
}
