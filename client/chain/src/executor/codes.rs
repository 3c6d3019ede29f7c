//! A cache of analysed contract code, kept from block to block.

use alloy_primitives::{B256, Bytes, map::B256HashMap};
use revm::bytecode::{Bytecode, eip7702::EIP7702_MAGIC_BYTES};

/// Bytes of an entry beside its code: keys, table, reference counts.
const ENTRY_OVERHEAD: usize = 160;

/// Cache of codes by hash, with their jump destinations, which otherwise every block would have to find again.
///
/// The cache holds about `limit` bytes: the entries used last, in two generations. When the young generation is full it
/// becomes the old one, and the former old one is dropped with every entry that was not used since. With a limit of 0
/// the cache holds nothing.
#[derive(Debug)]
pub struct CodeCache {
    young: B256HashMap<Bytecode>,
    old: B256HashMap<Bytecode>,
    young_bytes: usize,
    limit: usize,
}

impl CodeCache {
    /// Returns an empty cache that holds about `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { young: B256HashMap::default(), old: B256HashMap::default(), young_bytes: 0, limit }
    }

    /// Returns the code with this hash, if the cache has it. `delegations` says whether code can be a delegation
    /// (EIP-7702): one from a block of Prague is plain code in a block before, to which a change of branch may lead.
    pub fn get(&mut self, hash: &B256, delegations: bool) -> Option<Bytecode> {
        let usable = |code: &Bytecode| delegations || !code.is_eip7702();
        if let Some(code) = self.young.get(hash) {
            return Some(code.clone()).filter(usable);
        }
        let code = self.old.remove(hash)?;
        self.insert(*hash, code.clone());
        Some(code).filter(usable)
    }

    /// Adds the code with this hash.
    pub fn insert(&mut self, hash: B256, code: Bytecode) {
        // The meaning of such bytes depends on the fork: they are a delegation from Prague on, plain code before. So
        // they are not cached.
        if code.is_legacy() && code.original_byte_slice().starts_with(EIP7702_MAGIC_BYTES) {
            return;
        }
        let bytes = size(&code);
        if self.limit == 0 {
            return;
        }
        if self.young_bytes + bytes > self.limit / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        if self.young.insert(hash, code).is_none() {
            self.young_bytes += bytes;
        }
    }

    /// Returns the approximate size of the cache in bytes.
    pub fn bytes(&self) -> usize {
        self.young_bytes + self.old.values().map(size).sum::<usize>()
    }
}

/// Analyses code. Bytes that look like a delegation (EIP-7702) are one only if `delegations` is set and their length is
/// right; a contract from before London may begin with such bytes.
pub(super) fn ready_to_run(code: Bytes, delegations: bool) -> Bytecode {
    match delegations.then(|| Bytecode::new_eip7702_raw(code.clone())) {
        Some(Ok(delegation)) => delegation,
        _ => Bytecode::new_legacy(code),
    }
}

/// Returns the bytes of the code, of one bit per byte for the jump destinations, and of the overhead.
fn size(code: &Bytecode) -> usize {
    let length = code.original_byte_slice().len();
    length + length / 8 + ENTRY_OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::keccak256;

    fn code(index: u16) -> (B256, Bytecode) {
        let mut bytes = vec![0x5b; 1000];
        bytes[..2].copy_from_slice(&index.to_be_bytes());
        (keccak256(&bytes), Bytecode::new_legacy(Bytes::from(bytes)))
    }

    #[test]
    fn never_holds_more_than_its_limit() {
        let mut cache = CodeCache::new(100_000);
        for index in 0..1000 {
            let (hash, code) = code(index);
            cache.insert(hash, code);
            assert!(cache.bytes() <= 100_000);
        }
    }

    #[test]
    fn keeps_what_is_used() {
        let mut cache = CodeCache::new(100_000);
        let (hot, hot_code) = code(0);
        cache.insert(hot, hot_code.clone());
        for index in 1..1000 {
            let (hash, code) = code(index);
            cache.insert(hash, code);
            assert_eq!(cache.get(&hot, true), Some(hot_code.clone()));
        }
        let (cold, _) = code(1);
        assert_eq!(cache.get(&cold, true), None);
    }

    #[test]
    fn the_same_code_counts_once() {
        let mut cache = CodeCache::new(100_000);
        let (hash, code) = code(0);
        for _ in 0..1000 {
            cache.insert(hash, code.clone());
        }
        assert_eq!(cache.bytes(), size(&code));
    }

    #[test]
    fn a_limit_of_zero_keeps_nothing() {
        let mut cache = CodeCache::new(0);
        for index in 0..10 {
            let (hash, code) = code(index);
            cache.insert(hash, code);
            assert_eq!(cache.get(&hash, true), None);
        }
        assert_eq!(cache.bytes(), 0);
    }
}
