//! Invalid Clique blocks, each of which breaks one rule.

use crate::clique_maker::{Maker, address, extra, seal};
use alloy_consensus::Header;
use alloy_primitives::{Address, B64, B256, Bytes, U256};
use polytrie::consensus::clique::NONCE_AUTH;
use polytrie_chainspec::Clique;

/// A chain whose last block is invalid.
pub(super) struct Wrong {
    pub(super) name: &'static str,
    pub(super) blocks: Vec<Bytes>,
    /// A part of the error message of this client.
    pub(super) ours: String,
    /// A part of the error message of geth.
    pub(super) geth: &'static str,
}

const NAMES: &str = "ABC";
const PERIOD: u64 = 5;
const EPOCH: u64 = 4;

/// Returns the common genesis and the chains. They have three signers, and checkpoints at blocks 4
/// and 8.
pub(super) fn all() -> Option<(String, Vec<Wrong>)> {
    let mut maker = Maker::new(NAMES, Clique::new(PERIOD, EPOCH))?;
    maker.push_in_turn(NAMES, 6);
    let mut wrong = ordinary(&maker);
    maker.push_in_turn(NAMES, 1);
    wrong.extend(checkpoints(&maker));
    Some((maker.genesis, wrong))
}

/// A change to a header before it is sealed.
type Change<'a> = &'a dyn Fn(&mut Header);

/// Returns the chains whose block 7 is invalid.
fn ordinary(maker: &Maker) -> Vec<Wrong> {
    let turn = maker.in_turn(NAMES);
    let allowed = maker.allowed(NAMES);
    let other = *allowed.iter().find(|name| **name != turn).unwrap();
    let last = NAMES.chars().find(|name| !allowed.contains(name)).unwrap();
    let parent = maker.parent().timestamp;
    let with = |by: char, change: Change<'_>| {
        let mut header = maker.header(by, None);
        change(&mut header);
        seal(&mut header, by);
        maker.and(header)
    };
    let nothing: Change<'_> = &|_| {};
    // The seal is made invalid by changing it after the header is sealed.
    let unsealed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut header = maker.sealed(turn, None);
        let mut bytes = header.extra_data.to_vec();
        change(&mut bytes);
        header.extra_data = bytes.into();
        maker.and(header)
    };
    let two: Change<'_> = &|header| header.difficulty = U256::from(2);
    let one: Change<'_> = &|header| header.difficulty = U256::from(1);
    let case = |name, blocks, ours: &str, geth| Wrong { name, blocks, ours: ours.to_owned(), geth };
    vec![
        Wrong {
            name: "a signer that nobody voted for",
            blocks: with('D', nothing),
            ours: format!("it is sealed by {}, which is not one of the 3 authorized", address('D')),
            geth: "unauthorized signer",
        },
        Wrong {
            name: "a signer twice in two blocks",
            blocks: with(last, nothing),
            ours: format!(
                "it is sealed by {}, which sealed block 6 as well and may seal the next one from block 8 on",
                address(last)
            ),
            geth: "recently signed",
        },
        Wrong {
            name: "difficulty 1 in turn",
            blocks: with(turn, one),
            ours: format!(
                "difficulty is 1, expected 2: it is the turn of its signer {}",
                address(turn)
            ),
            geth: "wrong difficulty",
        },
        Wrong {
            name: "difficulty 2 out of turn",
            blocks: with(other, two),
            ours: format!(
                "difficulty is 2, expected 1: it is not the turn of its signer {}",
                address(other)
            ),
            geth: "wrong difficulty",
        },
        case(
            "difficulty 3",
            with(turn, &|header| header.difficulty = U256::from(3)),
            "the header's difficulty is 3, expected 2 (its signer has its turn) or 1",
            "invalid difficulty",
        ),
        case(
            "difficulty 0",
            with(turn, &|header| header.difficulty = U256::ZERO),
            "the header's difficulty is 0, expected 2 (its signer has its turn) or 1",
            "extra-data longer than 32 bytes",
        ),
        case(
            "a nonce that is no vote",
            with(turn, &|header| header.nonce = B64::from(1u64)),
            "the header's nonce is 0x0000000000000001, expected 0xffffffffffffffff",
            "vote nonce not 0x00..0 or 0xff..f",
        ),
        case(
            "a mix hash",
            with(turn, &|header| header.mix_hash = B256::with_last_byte(1)),
            "the header's mix hash is 0x0000",
            "non-zero mix digest",
        ),
        case(
            "ommers",
            with(turn, &|header| header.ommers_hash = B256::repeat_byte(1)),
            "the header's ommers hash is 0x0101",
            "non empty uncle hash",
        ),
        Wrong {
            name: "too early",
            blocks: with(turn, &|header| header.timestamp -= 1),
            ours: format!(
                "the header's timestamp is {}, expected at least {}: its parent's and the period of 5 seconds",
                parent + PERIOD - 1,
                parent + PERIOD
            ),
            geth: "invalid timestamp",
        },
        case(
            "a list of signers in an ordinary block",
            with(turn, &|header| header.extra_data = extra(maker.signers.signers())),
            "extra data has 157 bytes, expected 97: only every block whose number is a multiple of the epoch, 4",
            "non-checkpoint block contains extra signer list",
        ),
        case(
            "no room for a seal",
            unsealed(&|extra| extra.truncate(96)),
            "the header's extra data has 96 bytes, expected at least 97",
            "extra-data 65 byte signature suffix missing",
        ),
        case(
            "no room for the vanity",
            unsealed(&|extra| extra.truncate(31)),
            "the header's extra data has 31 bytes, expected at least 97",
            "extra-data 32 byte vanity prefix missing",
        ),
        case(
            "a seal of zeros",
            unsealed(&|extra| extra[32..].fill(0)),
            "is a signature that belongs to no public key",
            "recovery failed",
        ),
        case(
            "a seal that counts from 27 as transactions do",
            unsealed(&|extra| extra[96] += 27),
            "is a signature that belongs to no public key",
            "invalid signature recovery id",
        ),
        case(
            "something changed after it was sealed",
            unsealed(&|extra| extra[0] ^= 1),
            "which is not one of the 3 authorized signers",
            "unauthorized signer",
        ),
    ]
}

/// Returns the chains whose block 8, a checkpoint, is invalid.
fn checkpoints(maker: &Maker) -> Vec<Wrong> {
    let turn = maker.in_turn(NAMES);
    let with = |change: Change<'_>| {
        let mut header = maker.header(turn, None);
        change(&mut header);
        seal(&mut header, turn);
        maker.and(header)
    };
    let signers = maker.signers.signers();
    let [first, second, third] = signers else { panic!("{signers:?}") };
    let listing = |list: &[Address]| with(&|header| header.extra_data = extra(list));
    let case = |name, blocks, ours: &str, geth| Wrong { name, blocks, ours: ours.to_owned(), geth };
    let mismatch = "mismatching signer list on checkpoint block";
    vec![
        case(
            "a vote in a checkpoint",
            with(&|header| header.nonce = NONCE_AUTH),
            "the header's nonce is 0xffffffffffffffff, expected 0: in a block whose number is a multiple of the epoch",
            "vote nonce in checkpoint block non-zero",
        ),
        Wrong {
            name: "somebody to vote about in a checkpoint",
            blocks: with(&|header| header.beneficiary = address('D')),
            ours: format!(
                "the header's beneficiary is {}, expected the zero address",
                address('D')
            ),
            geth: "beneficiary in checkpoint block non-zero",
        },
        case(
            "a checkpoint without its list",
            listing(&[]),
            "the header lists 0 signers, expected 3",
            mismatch,
        ),
        case(
            "a checkpoint without one of the signers",
            listing(&[*first, *third]),
            "the header lists 2 signers, expected 3",
            mismatch,
        ),
        Wrong {
            name: "a checkpoint with a signer too many",
            blocks: listing(&[*first, *second, *third, address('D')]),
            ours: "the header lists 4 signers, expected 3".to_owned(),
            geth: mismatch,
        },
        Wrong {
            name: "a checkpoint in another order",
            blocks: listing(&[*first, *third, *second]),
            ours: format!("signer 1 in the header's list is {third}, expected {second}"),
            geth: mismatch,
        },
        case(
            "a list that ends within an address",
            with(&|header| {
                let list = [first.as_slice(), second.as_slice(), third.as_slice(), &[0]].concat();
                let ends = (vec![0; Clique::VANITY], vec![0; Clique::SEAL]);
                header.extra_data = [ends.0, list, ends.1].concat().into();
            }),
            "the header's list of signers has 61 bytes, expected a multiple of 20",
            "invalid signer list on checkpoint block",
        ),
    ]
}
