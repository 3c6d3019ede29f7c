//! Traces of state writes: the values that real transactions read and wrote, without their contracts.

use crate::CacheError;
use alloy_primitives::{Address, B256, U256, keccak256};
use flate2::read::MultiGzDecoder;
use polytrie_chainspec::InitialAccount;
use std::{collections::BTreeMap, fs, io::Read, path::Path};

/// First bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A trace in memory.
///
/// A file of lines `kind,block,txindex,ordinal,address,key,old,new`; lines that begin with `#` are comments. The kind is
/// `B` (balance, hexadecimal), `N` (nonce, decimal) or `S` (slot, `key` and values hexadecimal); in lower case the
/// write was reverted and is left out. An empty value is zero. Lines come in the order of the chain. May be gzipped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// keccak256 of the file, decompressed.
    pub hash: B256,
    /// Blocks in order, each with its transactions, each with its writes.
    pub blocks: Vec<Vec<Vec<TraceWrite>>>,
}

/// A write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceWrite {
    /// Account of the value.
    pub address: Address,
    /// Value of the account that is written.
    pub field: Field,
    /// Value before the write.
    pub old: U256,
    /// Value after the write.
    pub new: U256,
}

/// A value of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// Balance of the account.
    Balance,
    /// Nonce of the account.
    Nonce,
    /// Value of this slot.
    Slot(U256),
}

impl Trace {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or is no trace.
    pub fn read(path: &Path) -> Result<Self, CacheError> {
        let bytes = fs::read(path).map_err(CacheError::at("read", path))?;
        let mut text = String::new();
        let unpacked = match bytes.starts_with(&GZIP) {
            true => MultiGzDecoder::new(&*bytes).read_to_string(&mut text),
            false => (&*bytes).read_to_string(&mut text),
        };
        let invalid = |reason: String| CacheError::Invalid { path: path.to_owned(), reason };
        // The bytes are in memory, so an error is one of their content.
        unpacked.map_err(|error| {
            invalid(format!("it is no text, gzipped or not ({error}); get the trace again"))
        })?;
        Self::parse(&text).map_err(invalid)
    }

    /// Reads a file again, whose content had this hash before.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::read`] does, and if the content has another hash.
    pub fn read_again(path: &Path, hash: B256) -> Result<Self, CacheError> {
        let trace = Self::read(path)?;
        if trace.hash == hash {
            return Ok(trace);
        }
        let reason = "it has changed while it was measured; leave it as it is, and measure again";
        Err(CacheError::Invalid { path: path.to_owned(), reason: reason.to_owned() })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut trace = Self { hash: keccak256(text), blocks: Vec::new() };
        let mut last = None;
        for (index, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (write, block, transaction) =
                parse_line(line).map_err(|reason| format!("line {}: {reason}", index + 1))?;
            let Some(write) = write else { continue };
            let place = Some((block, transaction));
            if place < last {
                return Err(format!(
                    "line {}: its block or transaction comes before that of the line above",
                    index + 1
                ));
            }
            match (trace.blocks.last_mut(), last) {
                (Some(transactions), Some((number, of))) if number == block => {
                    match transactions.last_mut().filter(|_| of == transaction) {
                        Some(writes) => writes.push(write),
                        None => transactions.push(vec![write]),
                    }
                }
                _ => trace.blocks.push(vec![vec![write]]),
            }
            last = place;
        }
        match trace.blocks.is_empty() {
            true => Err("it has no writes".into()),
            false => Ok(trace),
        }
    }

    /// Returns the accounts before the first block, each with its values before their first write. An account with
    /// slots exists, so its nonce is 1 if the trace has none.
    pub fn accounts(&self) -> impl Iterator<Item = InitialAccount<'static>> {
        let mut accounts: BTreeMap<Address, BTreeMap<Field, U256>> = BTreeMap::new();
        for write in self.blocks.iter().flatten().flatten() {
            let before = accounts.entry(write.address).or_default();
            before.entry(write.field).or_insert(write.old);
        }
        accounts.into_iter().filter_map(|(address, mut before)| {
            let balance = before.remove(&Field::Balance).unwrap_or_default();
            let nonce = before.remove(&Field::Nonce).unwrap_or_default();
            let has_slots = !before.is_empty();
            let nonce = if has_slots { nonce.max(U256::ONE) } else { nonce };
            if nonce.is_zero() && balance.is_zero() {
                return None;
            }
            let slot = |(field, value)| match field {
                Field::Slot(slot) if value != U256::ZERO => Some((slot, value)),
                _ => None,
            };
            Some(InitialAccount {
                nonce: nonce.saturating_to(),
                slots: Box::new(before.into_iter().filter_map(slot)),
                ..InitialAccount::funded(address, balance)
            })
        })
    }

    /// Returns the number of transactions.
    pub fn transactions(&self) -> u64 {
        self.blocks.iter().map(|block| block.len() as u64).sum()
    }

    /// Returns the number of writes.
    pub fn writes(&self) -> u64 {
        self.blocks.iter().flatten().map(|writes| writes.len() as u64).sum()
    }
}

type Parsed = (Option<TraceWrite>, u64, u64);

fn parse_line(line: &str) -> Result<Parsed, String> {
    let columns: Vec<&str> = line.split(',').collect();
    let [kind, block, transaction, _, address, key, old, new] = columns[..] else {
        return Err(format!(
            "found {} columns, expected kind,block,txindex,ordinal,address,key,old,new",
            columns.len()
        ));
    };
    let whole = |text: &str| text.parse().map_err(|_| format!("`{text}` is not a whole number"));
    let (block, transaction) = (whole(block)?, whole(transaction)?);
    let radix = if kind == "N" { 10 } else { 16 };
    let value = |text: &str, radix| match text {
        "" => Ok(U256::ZERO),
        _ => U256::from_str_radix(text, radix).map_err(|_| format!("`{text}` is not a value")),
    };
    let field = match kind {
        "B" => Field::Balance,
        "N" => Field::Nonce,
        "S" => Field::Slot(value(key, 16)?),
        "b" | "n" | "s" => return Ok((None, block, transaction)),
        _ => return Err(format!("`{kind}` is no kind of write, expected B, N or S")),
    };
    let address = address.parse().map_err(|_| format!("`{address}` is not an address"))?;
    let write = TraceWrite { address, field, old: value(old, radix)?, new: value(new, radix)? };
    Ok((Some(write), block, transaction))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use alloy_primitives::address;

    const A: Address = address!("00000000000000000000000000000000000000aa");
    const TEXT: &str = "#kind,block,txindex,ordinal,address,key,old,new
B,7,0,1,00000000000000000000000000000000000000aa,,ff,fe
N,7,0,2,00000000000000000000000000000000000000aa,,9,10
s,7,1,3,00000000000000000000000000000000000000aa,01,00,01
S,7,2,4,00000000000000000000000000000000000000aa,01,,05
S,8,0,5,00000000000000000000000000000000000000aa,01,05,00
B,8,0,6,00000000000000000000000000000000000000bb,,,01
";

    #[test]
    fn lines_become_blocks_and_transactions() {
        let trace = Trace::parse(TEXT).unwrap();
        let lengths: Vec<Vec<usize>> =
            trace.blocks.iter().map(|block| block.iter().map(Vec::len).collect()).collect();
        assert_eq!(lengths, [vec![2, 1], vec![2]]);
        assert_eq!((trace.transactions(), trace.writes()), (3, 5));
        let write = trace.blocks[0][0][1];
        assert_eq!(
            (write.field, write.old, write.new),
            (Field::Nonce, U256::from(9), U256::from(10))
        );
        // The second account does not exist before it is written.
        let accounts: Vec<_> = trace.accounts().collect();
        assert_eq!(accounts.len(), 1);
        assert_eq!(
            (accounts[0].address, accounts[0].nonce, accounts[0].balance),
            (A, 9, U256::from(255))
        );
    }

    /// Only a file that cannot be read is a failure of the machine.
    #[test]
    fn content_that_is_no_text_is_invalid() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        for content in [&b"\xff\xfe"[..], b"\x1f\x8b\x08 and no more"] {
            fs::write(&path, content).unwrap();
            let error = Trace::read(&path).unwrap_err();
            assert!(matches!(error, CacheError::Invalid { .. }), "{error}");
        }
        let missing = Trace::read(&dir.path().join("missing")).unwrap_err();
        assert!(matches!(missing, CacheError::Io { .. }), "{missing}");
    }

    /// All runs of a comparison replay the same trace, and a store in the cache has the values of the one that it is named
    /// after.
    #[test]
    fn a_trace_that_changes_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        fs::write(&path, TEXT).unwrap();
        let trace = Trace::read(&path).unwrap();
        assert_eq!(Trace::read_again(&path, trace.hash).unwrap(), trace);
        fs::write(&path, TEXT.replace("fe", "fd")).unwrap();
        let error = Trace::read_again(&path, trace.hash).unwrap_err();
        assert!(error.to_string().contains("it has changed"), "{error}");
    }

    #[test]
    fn what_is_not_a_trace() {
        let cases = [
            ("", "no writes"),
            ("B,1,2", "line 1: found 3 columns"),
            ("X,1,0,0,00000000000000000000000000000000000000aa,,1,2", "`X` is no kind"),
            ("B,1,0,0,zz,,1,2", "`zz` is not an address"),
            ("B,x,0,0,00000000000000000000000000000000000000aa,,1,2", "`x` is not a whole number"),
        ];
        for (text, words) in cases {
            let reason = Trace::parse(text).unwrap_err();
            assert!(reason.contains(words), "{reason}");
        }
        let turned = format!("{TEXT}B,7,0,1,00000000000000000000000000000000000000aa,,ff,fe");
        assert!(Trace::parse(&turned).unwrap_err().contains("line 8"));
    }
}
