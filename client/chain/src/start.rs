//! A chain that begins with the state at some block, without the blocks before it.
//!
//! ```text
//! genesis            as in any chain
//! 1 … N-257          nothing
//! N-256 … N-1        in CanonicalHeaders, as far as they are known: the hash alone, or the header too; some in Blocks
//! N                  the header; the state is that after it
//! N+1 …              as in any chain
//! ```

use super::{
    Chain,
    db::{ChainDb, put_ancestor, put_head},
    error::{ChainError, Result},
    genesis,
    head::Head,
    recent::BLOCK_HASHES,
    tables::{META, START_KEY},
};
use alloy_consensus::{Header, Sealed};
use alloy_primitives::{B256, Bytes};
use polytrie_chainspec::ChainSpec;
use polytrie_kv::{Batch, Read};
use std::collections::BTreeMap;

/// The block that a chain begins with, and what is known of the blocks before it.
#[derive(Debug)]
pub struct Start {
    /// Block of the state.
    pub head: Head,
    /// RLP of that block, if all of it is known.
    pub block: Option<Bytes>,
    /// Known blocks before it, by number.
    pub ancestors: BTreeMap<u64, StartAncestor>,
}

/// A block before the first one of the chain. `BLOCKHASH` needs its hash, and ommers need the whole block.
#[derive(Debug)]
pub struct StartAncestor {
    /// Hash of the block.
    pub hash: B256,
    /// Header of the block, if it is known.
    pub header: Option<Sealed<Header>>,
    /// RLP of the block, if it is known.
    pub block: Option<Bytes>,
}

impl Start {
    /// Returns the number of blocks before the head, without a gap, whose hashes are known, and the number of those
    /// that `BLOCKHASH` may ask for.
    pub fn known_hashes(&self) -> (u64, u64) {
        let head = self.head.number();
        let wanted = head.min(BLOCK_HASHES as u64);
        let known = (1..=wanted).take_while(|back| self.ancestors.contains_key(&(head - back)));
        (known.count() as u64, wanted)
    }
}

impl ChainDb {
    /// Writes the rows of a chain that begins at `start`; the state layer of the store already holds that state.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    pub fn begin_at(&self, spec: &ChainSpec, start: &Start) -> Result<()> {
        genesis::clear(self)?;
        let mut batch = Batch::new();
        genesis::put_row(&mut batch, spec);
        let (head, number) = (&start.head, start.head.number());
        if number > spec.genesis_header().number {
            let mut total_difficulty = head.total_difficulty;
            let mut child = &head.header;
            let after_genesis = spec.genesis_header().number + 1..number;
            for (number, known) in start.ancestors.range(after_genesis).rev() {
                total_difficulty = total_difficulty.saturating_sub(child.difficulty);
                put_ancestor(&mut batch, *number, known, total_difficulty);
                let Some(header) = &known.header else { continue };
                child = header;
            }
            let known = StartAncestor {
                hash: head.hash(),
                header: Some(head.header.clone()),
                block: start.block.clone(),
            };
            put_ancestor(&mut batch, number, &known, head.total_difficulty);
            put_head(&mut batch, number, &head.hash());
            batch.put(META, START_KEY, &number.to_be_bytes());
        }
        self.store().write(batch)?;
        Ok(self.store().flush()?)
    }
}

impl<R: Read> ChainDb<R> {
    /// Returns the number of the block that the chain begins with, if that is not its genesis block. All later blocks
    /// are here.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or is damaged.
    pub fn start(&self) -> Result<Option<u64>> {
        let Some(row) = self.store().get(META, START_KEY)? else { return Ok(None) };
        let number = row.try_into().map_err(|_| {
            ChainError::Corrupt("the row of the block that the chain begins with is damaged".into())
        })?;
        Ok(Some(u64::from_be_bytes(number)))
    }

    /// Whether total difficulties are known. Those of a chain that begins with a block whose own was not given count from
    /// that block on.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or is damaged.
    pub fn knows_difficulty(&self) -> Result<bool> {
        let Some(start) = self.start()?.filter(|start| *start > 0) else { return Ok(true) };
        let Head { header, total_difficulty } = self.block_head(start)?;
        Ok(header.difficulty.is_zero() || total_difficulty != header.difficulty)
    }
}

impl Chain {
    /// Whether the total difficulties in files can be compared with those of the chain. After the merge that of the
    /// merge stands for one that was not given, and the last block before the merge may have more.
    pub(super) fn compares_difficulty(&mut self) -> Result<bool> {
        let Some(start) = self.start else { return Ok(true) };
        if let Some(known) = self.compares_difficulty {
            return Ok(known);
        }
        let Head { header, total_difficulty } = self.db.block_head(start)?;
        let is_that_of_the_merge = header.difficulty.is_zero()
            && self.spec.terminal_total_difficulty() == Some(total_difficulty);
        let compares = !is_that_of_the_merge && self.db.knows_difficulty()?;
        self.compares_difficulty = Some(compares);
        Ok(compares)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{Candidate, ChainOptions, InsertError, TABLES, load_genesis_state, testing};
    use alloy_primitives::U256;
    use polytrie_kv::Store;
    use polytrie_layers::LayerKind;
    use polytrie_state::StateLayer;
    use std::sync::Arc;

    /// Number of the block that the chains begin with, unless they begin with the genesis block.
    const START: u64 = 10;

    /// Returns a chain whose every block calls the contract of EIP-4788, which here asks for the hash of the fifth
    /// block before it.
    fn spec() -> Arc<ChainSpec> {
        let forks = [
            "homestead",
            "eip150",
            "eip155",
            "eip158",
            "byzantium",
            "constantinople",
            "petersburg",
            "istanbul",
            "berlin",
            "london",
        ];
        let forks: String = forks.iter().map(|fork| format!("\"{fork}Block\":0,")).collect();
        let genesis = format!(
            r#"{{"config":{{{forks}"chainId":7,"terminalTotalDifficulty":0,"shanghaiTime":0,"cancunTime":0}},
                "difficulty":"0x0","gasLimit":"0x1c9c380","alloc":{{
                "0x000f3df6d732807ef1319fb7b8bb8522d0beac02":{{"balance":"0x0","code":"0x60054303405000"}}}}}}"#
        );
        Arc::new(ChainSpec::parse("asking", genesis.as_bytes()).unwrap())
    }

    fn store(layer: &str) -> (Store, Arc<dyn StateLayer>) {
        let kind: &LayerKind = polytrie_layers::layer(layer).unwrap();
        let store = Store::memory(&[kind.tables, TABLES].concat()).unwrap();
        let layer = testing::open_layer(kind, &store);
        (store, layer)
    }

    /// Builds the chain from its genesis block on. Returns the first headers, and the blocks after the genesis block.
    fn made(spec: &Arc<ChainSpec>) -> (Vec<Head>, Vec<Bytes>) {
        let (from, layer) = store("mpt");
        let mut chain =
            Chain::open(Arc::clone(spec), from, layer, ChainOptions::default()).unwrap();
        let mut blocks = Vec::new();
        for _ in 0..START + 6 {
            testing::extend(&mut chain, 0);
            blocks.push(chain.db().block_rlp(chain.head().number()).unwrap().unwrap());
        }
        let headers = (0..=START).map(|n| chain.db().block_head(n).unwrap()).collect();
        (headers, blocks)
    }

    /// Returns a chain that begins with block [`START`] and has the hashes of `known` blocks before it.
    fn begun(
        spec: &Arc<ChainSpec>,
        headers: &[Head],
        known: u64,
        layer: &str,
        options: ChainOptions,
    ) -> Chain {
        let (into, layer) = store(layer);
        // No block changes the state.
        load_genesis_state(spec, &into, &*layer).unwrap();
        let ancestor = |number: u64| {
            let hash = headers[number as usize].hash();
            (number, StartAncestor { hash, header: None, block: None })
        };
        let ancestors = (START - known..START).map(ancestor).collect();
        let start = Start { head: headers[START as usize].clone(), block: None, ancestors };
        assert_eq!(start.known_hashes(), (known, START));
        let db = ChainDb::new(into.clone());
        db.begin_at(spec, &start).unwrap();
        assert_eq!(db.start().unwrap(), Some(START));
        let chain = Chain::open(Arc::clone(spec), into, layer, options).unwrap();
        assert_eq!(chain.head().number(), START);
        chain
    }

    #[test]
    fn a_hash_from_before_the_start_is_known_or_asked_for_by_name() {
        let spec = spec();
        let (headers, blocks) = made(&spec);
        for known in [1, 3, 5] {
            let mut chain = begun(&spec, &headers, known, "mpt", ChainOptions::default());
            for rlp in &blocks[START as usize..] {
                let candidate = Candidate::prepare(&spec, rlp.clone()).unwrap();
                let (number, inserted) = (candidate.number(), chain.insert(candidate));
                // Block 11 asks for the hash of block 6, which needs four blocks before block 10.
                match known {
                    5 => drop(inserted.unwrap()),
                    _ => {
                        let error = inserted.unwrap_err();
                        let text = error.to_string();
                        assert!(matches!(error, InsertError::Broken(_)), "{text}");
                        let asked =
                            format!("block {number} asks for the hash of block {}", number - 5);
                        assert!(text.contains(&asked) && text.contains("--header"), "{text}");
                        break;
                    }
                }
            }
        }
    }

    /// A chain that begins after the merge may have the total difficulty of the merge in place of its own.
    #[test]
    fn total_difficulties_in_files_are_not_compared_with_that_of_the_merge() {
        let spec = spec();
        let (headers, blocks) = made(&spec);
        let insert = |total: u64, found: u64| {
            let mut headers = headers.clone();
            headers[START as usize].total_difficulty = U256::from(total);
            let mut chain = begun(&spec, &headers, 5, "mpt", ChainOptions::default());
            let rlp = blocks[START as usize].clone();
            let mut candidate = Candidate::prepare(&spec, rlp).unwrap();
            candidate.total_difficulty = Some(U256::from(found));
            chain.insert(candidate).map(drop)
        };
        assert_eq!(spec.terminal_total_difficulty(), Some(U256::ZERO));
        insert(0, 7).unwrap();
        insert(7, 7).unwrap();
        let text = insert(7, 8).unwrap_err().to_string();
        assert!(text.contains("the total difficulty 8, expected 7"), "{text}");
    }

    /// Each block of an archive has one, and the store may be on another machine.
    #[test]
    fn whether_total_difficulties_can_be_compared_is_read_once() {
        let spec = spec();
        let (mut headers, _) = made(&spec);
        for (total, expected) in [(7, true), (0, false)] {
            headers[START as usize].total_difficulty = U256::from(total);
            let mut chain = begun(&spec, &headers, 5, "mpt", ChainOptions::default());
            let mut look = || {
                let before = chain.db().store().counters();
                let compares = chain.compares_difficulty().unwrap();
                (compares, (chain.db().store().counters() - before).gets)
            };
            let (compares, gets) = look();
            assert!(compares == expected && gets > 0, "{compares} {gets}");
            assert_eq!(look(), (expected, 0));
        }
    }

    /// Otherwise the block would be stored without its witness, and would not be executed again.
    #[test]
    fn a_block_whose_witness_lacks_a_header_is_not_written() {
        let spec = spec();
        let (headers, blocks) = made(&spec);
        let options = ChainOptions { witness_levels: Some(0), ..ChainOptions::default() };
        let mut chain = begun(&spec, &headers, 5, "rain", options);
        let candidate = Candidate::prepare(&spec, blocks[START as usize].clone()).unwrap();
        let text = chain.insert(candidate).unwrap_err().to_string();
        assert!(text.contains("the header of block 9") && text.contains("--header"), "{text}");
        assert_eq!(chain.db().head().unwrap(), Some(headers[START as usize].clone()));
        assert!(chain.take_witnesses().is_empty());
    }
}
