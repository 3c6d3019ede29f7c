//! Execution of a block with its witness alone.

use super::WitnessFile;
use crate::words::counted;
use alloy_consensus::{Header, Sealed};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{
    B256, U256, keccak256,
    map::{B256Map, HashMap},
};
use alloy_rlp::Decodable;
use polytrie_chain::executor::{Executor, InternalError};
use polytrie_chain::{BlockStats, Candidate, ChainError, Execution, InsertError};
use polytrie_chainspec::ChainSpec;
use polytrie_consensus::{check_header, check_ommer_list, check_state_root};
use polytrie_layers::{self as layers, Stateless};
use polytrie_state::{BlockRef, Session, StateError, StateLayer, Witness};
use serde::Serialize;
use thiserror::Error;

/// Number of top levels of the account trie for which the holder's own nodes are used.
const HELD_LEVELS: u8 = 4;

/// Result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Number of the block.
    pub number: u64,
    /// Hash of the block.
    pub hash: B256,
    /// State root after the block.
    pub state_root: B256,
    /// Whether the receipts root was compared; before Byzantium receipts hold state roots, so it is not.
    pub receipts: bool,
    /// Number of bytes of nodes and codes.
    pub bytes: usize,
}

/// Error of a verification.
#[derive(Debug, Error)]
pub enum WitnessError {
    /// A file that is no witness.
    #[error("it holds no witness: {0}")]
    Malformed(String),
    /// An invalid block.
    #[error("block {number} is invalid: {reason}")]
    Invalid {
        /// Number of the block.
        number: u64,
        /// Rule that the block breaks, with the found and the expected value.
        reason: String,
    },
    /// A witness without something that the block needs.
    #[error("the witness of block {number} is not enough: {reason}")]
    Insufficient {
        /// Number of the block.
        number: u64,
        /// Description of the missing part.
        reason: String,
    },
    /// A holder of another state than that of the witness.
    #[error(
        "block {number} needs the state {expected}, the data directory is at {found}, and what the witness holds has changed between the two; make a new one"
    )]
    Outdated {
        /// Number of the block.
        number: u64,
        /// State root before the block.
        expected: B256,
        /// State root at the holder's head.
        found: B256,
    },
    /// A failure of this machine.
    #[error(transparent)]
    Broken(Box<ChainError>),
}

/// Executes the block of a witness file on the layer `stateless` and compares everything that its header commits to:
/// the header with its parent, the body, the receipts root and the state root. Nodes that the witness leaves out come
/// from `holder`. If the holder is at another state than that before the block, nothing in the witness may differ
/// between the two; the block then runs on the holder's state, and its state root is not compared but returned.
///
/// Ommers are counted but not checked, because there is no chain. The signer of a block of Clique is not checked
/// either: the fees go to the address that sealed it.
///
/// # Errors
///
/// Fails if the block is invalid, the file is no witness or an incomplete one, or this machine fails.
pub fn verify(
    spec: &ChainSpec,
    file: &WitnessFile,
    stateless: &Stateless,
    holder: Option<&dyn StateLayer>,
) -> Result<Verified, WitnessError> {
    let candidate = Candidate::prepare_without_senders(spec, file.block.clone())
        .map_err(|error| WitnessError::Malformed(format!("the block: {error}")))?;
    let header = &candidate.header;
    let (number, hash) = (header.number, header.hash());
    if hash != file.hash {
        let reason = format!("the block has the hash {hash}, the file says {}", file.hash);
        return Err(WitnessError::Malformed(reason));
    }
    let invalid = |reason: String| WitnessError::Invalid { number, reason };
    let insufficient = |reason: String| WitnessError::Insufficient { number, reason };
    let (parent, hashes) = ancestors(file, header)?;
    let parent =
        parent.ok_or_else(|| insufficient("the header of its parent is missing".into()))?;
    let rules = spec.rules(number, header.timestamp, is_merged(spec, &parent, header));
    check_header(&rules, &parent, header).map_err(|error| invalid(error.to_string()))?;
    candidate.body.clone().map_err(|error| invalid(error.to_string()))?;
    check_ommer_list(&rules, &candidate.block.body.ommers)
        .map_err(|error| invalid(error.to_string()))?;

    let nodes = file.state.iter().chain(&file.state_post).cloned().collect();
    let (root, codes) = (parent.state_root, file.codes.clone());
    let mut witness = Witness { root, levels: file.levels, nodes, codes };
    let bytes = witness.byte_len();
    if let Some(holder) = holder
        && holder.commitment().digest() != root
    {
        let found = holder.commitment().digest();
        witness = layers::stateless_on(holder)
            .and_then(|holder| holder.revise(&witness, HELD_LEVELS))
            .map_err(|error| lacking(number, error))?
            .ok_or(WitnessError::Outdated { number, expected: root, found })?;
    }
    let layer = match holder {
        None => (stateless.on_witness)(&witness),
        Some(holder) => layers::stateless_on(holder).and_then(|holder| holder.on_witness(&witness)),
    };
    let layer = layer.map_err(|error| match holder {
        None if file.levels > 0 => insufficient(format!(
            "it leaves out the top {} of the trie; name a data directory of the layer `{}` that holds them with --datadir",
            counted(file.levels, "level"),
            stateless.name
        )),
        _ => lacking(number, error),
    })?;
    let parent_ref = BlockRef { number: number - 1, hash: header.parent_hash };
    let mut session =
        Session::begin(&*layer, parent_ref).map_err(|error| lacking(number, error))?;
    if !rules.is(EthereumHardfork::Byzantium) {
        session = session.with_intermediate_roots();
    }
    let ancestor_hash = |number: u64| hashes.get(&number).copied();
    let mut stats = BlockStats::default();
    let receipts_root = witness.root == root;
    candidate
        .execute(
            &mut Executor::new(0),
            &rules,
            &mut session,
            &ancestor_hash,
            Execution { receipts_root, ..Execution::default() },
            &mut stats,
        )
        .map_err(|error| match error {
            InsertError::Invalid(block) => invalid(block.reason.to_string()),
            InsertError::Broken(ChainError::Execution(InternalError::State(error))) => {
                lacking(number, error)
            }
            InsertError::Broken(ChainError::Execution(
                error @ InternalError::MissingBlockHash { .. },
            )) => insufficient(error.to_string()),
            InsertError::Broken(error) => WitnessError::Broken(Box::new(error)),
        })?;
    let finished = session.finish().map_err(|error| lacking(number, error))?;
    let state_root = finished.outcome.commitment.digest();
    if witness.root == root {
        check_state_root(header, state_root).map_err(|error| invalid(error.to_string()))?;
    }
    Ok(Verified { number, hash, state_root, receipts: stats.receipts_checked, bytes })
}

/// Converts an error of the layer on a witness: damage means that the witness lacks something.
fn lacking(number: u64, error: StateError) -> WitnessError {
    match error {
        StateError::Corrupt(reason) => WitnessError::Insufficient { number, reason },
        error => WitnessError::Broken(Box::new(error.into())),
    }
}

/// Hashes of blocks by number.
type Hashes = HashMap<u64, B256>;

/// Returns the parent's header, and the hashes of the ancestors back from it.
fn ancestors(
    file: &WitnessFile,
    header: &Header,
) -> Result<(Option<Sealed<Header>>, Hashes), WitnessError> {
    let mut headers: B256Map<Sealed<Header>> = B256Map::default();
    for rlp in &file.ancestors {
        let found = Header::decode(&mut &rlp[..]).map_err(|error| {
            WitnessError::Malformed(format!("a header before the block: {error}"))
        })?;
        let hash = keccak256(rlp);
        headers.insert(hash, Sealed::new_unchecked(found, hash));
    }
    let parent = headers.get(&header.parent_hash).cloned();
    let mut hashes = Hashes::default();
    let (mut number, mut hash) = (header.number, header.parent_hash);
    while let Some(found) = headers.remove(&hash) {
        if found.number.checked_add(1) != Some(number) {
            break;
        }
        number = found.number;
        hashes.insert(number, hash);
        hash = found.parent_hash;
    }
    Ok((parent, hashes))
}

/// Whether a block is past the merge. Its total difficulty is not known, but on a chain that never merges, or is merged
/// from genesis, it does not matter; and after the merge every parent has the difficulty 0.
fn is_merged(spec: &ChainSpec, parent: &Header, header: &Header) -> bool {
    let genesis = spec.genesis_header().number;
    if spec.is_merged_after(U256::ZERO) || !spec.is_merged_after(U256::MAX) {
        return spec.is_merged_after(U256::ZERO);
    }
    (parent.difficulty.is_zero() && parent.number > genesis) || header.difficulty.is_zero()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use polytrie_chainspec::Forks;

    /// The block's own difficulty decides only if nothing else can.
    #[test]
    fn the_merge_is_not_a_matter_of_the_block_alone() {
        let spec = |forks: Forks| ChainSpec::with_forks("test", 1, forks, Header::default(), []);
        let header = |number, difficulty: u64| Header {
            number,
            difficulty: U256::from(difficulty),
            ..Header::default()
        };
        let merged = spec(Forks::up_to(EthereumHardfork::Paris));
        let never = spec(Forks::up_to(EthereumHardfork::London));
        for difficulty in [0, 7] {
            assert!(is_merged(&merged, &header(4, 7), &header(5, difficulty)));
            assert!(!is_merged(&never, &header(4, 0), &header(5, difficulty)));
        }
        let mainnet = ChainSpec::load("mainnet").unwrap();
        assert!(is_merged(&mainnet, &header(4, 0), &header(5, 7)));
        assert!(is_merged(&mainnet, &header(4, 7), &header(5, 0)));
        assert!(!is_merged(&mainnet, &header(4, 7), &header(5, 7)));
    }
}
