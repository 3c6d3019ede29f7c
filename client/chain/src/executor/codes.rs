//! Contract code that is ready to run, kept from block to block.

use alloy_primitives::{B256, Bytes, map::B256HashMap};
use revm::bytecode::{Bytecode, eip7702::EIP7702_MAGIC_BYTES};

/// What an entry costs beside its bytes: keys, table, reference counts.
const ENTRY_OVERHEAD: usize = 160;

/// Code by its hash with its jump destinations found, so that this is not done again in every
/// block.
///
/// Holds about `limit` bytes: the entries used most recently, in two generations. When the young
/// one is full it becomes the old one, and the old one is dropped with all that was not used since. With a limit of 0 it
/// holds nothing.
#[derive(Debug)]
pub struct CodeCache {
    young: B256HashMap<Bytecode>,
    old: B256HashMap<Bytecode>,
    young_bytes: usize,
    limit: usize,
}

impl CodeCache {
    /// An empty cache that holds about `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { young: B256HashMap::default(), old: B256HashMap::default(), young_bytes: 0, limit }
    }

    /// The code with this hash, if it is here.
    pub fn get(&mut self, hash: &B256) -> Option<Bytecode> {
        if let Some(code) = self.young.get(hash) {
            return Some(code.clone());
        }
        let code = self.old.remove(hash)?;
        self.insert(*hash, code.clone());
        Some(code)
    }

    /// Keeps code that has this hash.
    pub fn insert(&mut self, hash: B256, code: Bytecode) {
        // What it means depends on the fork: a delegation from Prague on, plain bytes before.
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

    /// Bytes held, roughly.
    pub fn bytes(&self) -> usize {
        self.young_bytes + self.old.values().map(size).sum::<usize>()
    }
}

/// Makes code ready to run. What looks like a delegation (EIP-7702) is one only where there are such, as `delegations`
/// says, and only if it has the right length; a contract from before London may begin as it likes.
pub(super) fn ready_to_run(code: Bytes, delegations: bool) -> Bytecode {
    match delegations.then(|| Bytecode::new_eip7702_raw(code.clone())) {
        Some(Ok(delegation)) => delegation,
        _ => Bytecode::new_legacy(code),
    }
}

/// The code itself, one bit a byte for the jump destinations, and the overhead.
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
            assert_eq!(cache.get(&hot), Some(hot_code.clone()));
        }
        let (cold, _) = code(1);
        assert_eq!(cache.get(&cold), None);
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
            assert_eq!(cache.get(&hash), None);
        }
        assert_eq!(cache.bytes(), 0);
    }
}
