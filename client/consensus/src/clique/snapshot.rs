//! The signers after a block, and the votes about them.

use super::{CliqueError, DIFF_INTURN, DIFF_NOTURN, NONCE_AUTH};
use alloy_consensus::{Header, Sealed};
use alloy_primitives::{Address, B256};
use alloy_rlp::{Decodable, Encodable, RlpDecodable, RlpEncodable};
use polytrie_chainspec::Clique;
use std::collections::{BTreeSet, VecDeque};

/// Signers that may seal the block after a given one, and the votes that are not decided yet.
///
/// A snapshot follows from the headers up to that block alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    hash: B256,
    number: u64,
    /// Authorized signers in ascending order.
    signers: Vec<Address>,
    /// Signers of the last blocks, newest first: as many as there are signers.
    recent: VecDeque<Address>,
    /// Undecided votes. Each is for a change: for an address that is no signer, or against one that is.
    votes: BTreeSet<Vote>,
}

/// A vote. Votes about one address are neighbours in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, RlpEncodable, RlpDecodable)]
struct Vote {
    about: Address,
    voter: Address,
}

/// Snapshot in the form in which it is stored.
#[derive(RlpEncodable, RlpDecodable)]
struct Stored {
    hash: B256,
    number: u64,
    signers: Vec<Address>,
    recent: Vec<Address>,
    votes: Vec<Vote>,
}

impl Snapshot {
    /// Returns the snapshot of the genesis block, which has no vote and no seal. There are no signers if the block
    /// lists none.
    pub fn genesis(header: &Sealed<Header>) -> Self {
        let mut signers = Clique::listed_signers(&header.extra_data).unwrap_or_default();
        signers.sort_unstable();
        signers.dedup();
        let (recent, votes) = (VecDeque::new(), BTreeSet::new());
        Self { hash: header.hash(), number: header.number, signers, recent, votes }
    }

    /// Returns the hash of the block.
    pub const fn hash(&self) -> B256 {
        self.hash
    }

    /// Returns the number of the block.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Returns the authorized signers, in ascending order.
    pub fn signers(&self) -> &[Address] {
        &self.signers
    }

    /// Checks the signer of the block after this one. `header` must have passed [`check_header`](crate::check_header),
    /// and `signer` must be the result of [`recover_signer`](super::recover_signer) for it.
    ///
    /// # Errors
    ///
    /// Fails with the first rule that the block breaks.
    pub fn check(
        &self,
        clique: Clique,
        header: &Header,
        signer: Address,
    ) -> Result<(), CliqueError> {
        if clique.is_checkpoint(header.number) {
            self.check_list(header)?;
        }
        let Ok(index) = self.signers.binary_search(&signer) else {
            let authorized = self.signers.len();
            return Err(CliqueError::UnauthorizedSigner { signer, authorized });
        };
        // A signer seals at most one of this number of consecutive blocks.
        let limit = self.signers.len() / 2 + 1;
        if let Some(back) = self.recent.iter().take(limit - 1).position(|recent| *recent == signer)
        {
            let last = self.number - back as u64;
            return Err(CliqueError::RecentlySigned { signer, last, next: last + limit as u64 });
        }
        let in_turn = header.number % self.signers.len() as u64 == index as u64;
        let expected = if in_turn { DIFF_INTURN } else { DIFF_NOTURN };
        if header.difficulty != expected {
            return Err(CliqueError::Turn { signer, found: header.difficulty, expected });
        }
        Ok(())
    }

    fn check_list(&self, header: &Header) -> Result<(), CliqueError> {
        let listed = Clique::listed_signers(&header.extra_data).unwrap_or_default();
        let (found, expected) = (listed.len(), self.signers.len());
        if found != expected {
            return Err(CliqueError::SignerCount { found, expected });
        }
        let mut pairs = listed.into_iter().zip(&self.signers).enumerate();
        match pairs.find(|(_, (found, expected))| found != *expected) {
            Some((index, (found, expected))) => {
                Err(CliqueError::ListedSigner { index, found, expected: *expected })
            }
            None => Ok(()),
        }
    }

    /// Turns this snapshot into that of the next block, which must have passed [`Self::check`], by counting its vote.
    pub fn apply(&mut self, clique: Clique, header: &Sealed<Header>, signer: Address) {
        if clique.is_checkpoint(header.number) {
            self.votes.clear();
        }
        let about = header.beneficiary;
        let vote = Vote { about, voter: signer };
        self.votes.remove(&vote);
        let index = self.signers.binary_search(&about);
        if (header.nonce == NONCE_AUTH) == index.is_err() {
            self.votes.insert(vote);
        }
        // Only votes about this block's address are counted. For another address the number of votes that it needs may
        // have shrunk with the number of signers, but that takes effect only at the next vote about it.
        if self.votes_about(about) > self.signers.len() / 2 {
            match index {
                Ok(index) => {
                    self.signers.remove(index);
                    self.votes.retain(|vote| vote.voter != about);
                }
                Err(index) => self.signers.insert(index, about),
            }
            self.votes.retain(|vote| vote.about != about);
        }
        self.recent.push_front(signer);
        self.recent.truncate(self.signers.len());
        (self.number, self.hash) = (header.number, header.hash());
    }

    fn votes_about(&self, about: Address) -> usize {
        let [first, last] =
            [Address::ZERO, Address::repeat_byte(0xff)].map(|voter| Vote { about, voter });
        self.votes.range(first..=last).count()
    }

    /// Returns the bytes that [`Self::decode`] reads. Equal snapshots have equal bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let Self { hash, number, signers, recent, votes } = self.clone();
        let (recent, votes) = (recent.into(), votes.into_iter().collect());
        Stored { hash, number, signers, recent, votes }.encode(&mut bytes);
        bytes
    }

    /// Reads the bytes of [`Self::encode`]; `None` if they are something else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let Stored { hash, number, signers, recent, votes } = Stored::decode(&mut rest).ok()?;
        let is_sorted = signers.is_sorted_by(|a, b| a < b) && votes.is_sorted_by(|a, b| a < b);
        (rest.is_empty() && is_sorted).then(|| Self {
            hash,
            number,
            signers,
            recent: recent.into(),
            votes: votes.into_iter().collect(),
        })
    }
}
