//! Clique, which is proof of authority (EIP-225).

use alloy_primitives::Address;

/// Number of blocks from one checkpoint to the next if the genesis names none.
const DEFAULT_EPOCH: u64 = 30_000;

/// The settings of a chain whose blocks are sealed by authorized signers (EIP-225), until its terminal total difficulty
/// if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clique {
    /// The least number of seconds between a block and its parent.
    pub period: u64,
    /// Number of blocks from one checkpoint to the next; never 0. The header of a checkpoint lists the signers, and
    /// earlier votes are void from there on.
    epoch: u64,
}

impl Clique {
    /// Number of bytes at the beginning of the extra data that a signer fills as it likes.
    pub const VANITY: usize = 32;

    /// Number of bytes at the end of the extra data that hold the signature.
    pub const SEAL: usize = 65;

    /// Returns Clique with this period (seconds) and epoch (blocks). An epoch of 0 stands for the usual one, 30,000
    /// blocks.
    pub const fn new(period: u64, epoch: u64) -> Self {
        Self { period, epoch: if epoch == 0 { DEFAULT_EPOCH } else { epoch } }
    }

    /// Returns the number of blocks from one checkpoint to the next.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether the block of this number is a checkpoint. The genesis block is one.
    pub const fn is_checkpoint(&self, number: u64) -> bool {
        number.is_multiple_of(self.epoch)
    }

    /// Returns the signers that the extra data of a checkpoint lists, in the order of the list. `None` if the bytes
    /// between vanity and seal are no list of addresses.
    pub fn listed_signers(extra_data: &[u8]) -> Option<Vec<Address>> {
        let list = extra_data.len().checked_sub(Self::SEAL)?;
        let list = extra_data.get(Self::VANITY..list)?;
        let (addresses, rest) = list.as_chunks::<{ Address::len_bytes() }>();
        rest.is_empty().then(|| addresses.iter().map(Address::from).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signers_stand_between_vanity_and_seal() {
        let [one, two] = [1, 2].map(Address::repeat_byte);
        let extra = |list: &[u8]| [&[7; Clique::VANITY][..], list, &[8; Clique::SEAL]].concat();
        let both = [one.as_slice(), two.as_slice()].concat();
        assert_eq!(Clique::listed_signers(&extra(&both)), Some(vec![one, two]));
        assert_eq!(Clique::listed_signers(&extra(&[])), Some(Vec::new()));
        assert_eq!(Clique::listed_signers(&extra(&both[1..])), None);
        assert_eq!(Clique::listed_signers(&extra(&[])[1..]), None);
        assert_eq!(Clique::listed_signers(&[]), None);
    }

    #[test]
    fn an_epoch_is_never_zero() {
        assert_eq!(Clique::new(15, 0).epoch(), 30_000);
        let clique = Clique::new(0, 3);
        assert_eq!(
            [0, 1, 2, 3, 6].map(|number| clique.is_checkpoint(number)),
            [true, false, false, true, true]
        );
    }
}
