//! Tests of the signers, votes and headers of Clique.

#[path = "../../../tests/common/eip225.rs"]
mod eip225;

use crate::{
    ConsensusError, check_header,
    clique::{
        CliqueError, DIFF_INTURN, DIFF_NOTURN, NONCE_AUTH, Snapshot, coinbase, recover_signer,
        seal_hash,
    },
};
use alloy_consensus::{Header, Sealable, Sealed};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, B64, B256, Bytes, U256, b256, keccak256, uint};
use alloy_signer::SignerSync;
use alloy_signer_local::PrivateKeySigner;
use eip225::{Case, End};
use polytrie_chainspec::{ChainSpec, Clique, Forks};
use polytrie_testing::Seed;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The order of the curve secp256k1.
const SECP256K1N: U256 =
    uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);

fn key(name: char) -> PrivateKeySigner {
    PrivateKeySigner::from_bytes(&keccak256([name as u8])).unwrap()
}

fn address(name: char) -> Address {
    key(name).address()
}

fn extra(signers: &[Address]) -> Vec<u8> {
    let list: Vec<u8> = signers.iter().flat_map(|signer| signer.0).collect();
    [&[0; Clique::VANITY][..], &list, &[0; Clique::SEAL]].concat()
}

fn sorted(names: &str) -> Vec<Address> {
    let mut signers: Vec<Address> = names.chars().map(address).collect();
    signers.sort_unstable();
    signers
}

fn genesis(signers: &str) -> Sealed<Header> {
    let extra_data = extra(&sorted(signers)).into();
    Header { extra_data, difficulty: U256::from(1), gas_limit: 5_000, ..Header::default() }
        .seal_slow()
}

/// Returns the next block, with the difficulty that the signer's place in the round asks for.
fn next(
    parent: &Sealed<Header>,
    signers: &Snapshot,
    by: char,
    vote: Option<(bool, char)>,
) -> Header {
    let number = parent.number + 1;
    let count = signers.signers().len() as u64;
    let turn = signers.signers().iter().position(|signer| *signer == address(by));
    let in_turn = turn.is_some_and(|turn| number % count == turn as u64);
    Header {
        parent_hash: parent.hash(),
        number,
        timestamp: parent.timestamp + 5,
        gas_limit: parent.gas_limit,
        difficulty: if in_turn { DIFF_INTURN } else { DIFF_NOTURN },
        beneficiary: vote.map_or(Address::ZERO, |(_, about)| address(about)),
        nonce: if vote.is_some_and(|(for_it, _)| for_it) { NONCE_AUTH } else { B64::ZERO },
        extra_data: extra(&[]).into(),
        ..Header::default()
    }
}

fn seal(mut header: Header, by: char) -> Sealed<Header> {
    let signature = key(by).sign_hash_sync(&seal_hash(&header)).unwrap();
    let mut extra = header.extra_data.to_vec();
    let at = extra.len() - Clique::SEAL;
    extra[at..].copy_from_slice(&signature.as_bytes());
    *extra.last_mut().unwrap() -= 27;
    header.extra_data = extra.into();
    header.seal_slow()
}

fn run(case: &Case) -> Result<Snapshot, CliqueError> {
    let clique = Clique::new(1, case.epoch);
    let mut parent = genesis(&case.signers);
    let mut signers = Snapshot::genesis(&parent);
    for block in &case.blocks {
        let mut header = next(&parent, &signers, block.by, block.vote);
        if let Some(list) = &block.list {
            header.extra_data = extra(&sorted(list)).into();
        }
        let header = seal(header, block.by);
        let signer = recover_signer(&header)?;
        assert_eq!(signer, address(block.by));
        signers.check(clique, &header, signer)?;
        signers.apply(clique, &header, signer);
        assert_eq!((signers.number(), signers.hash()), (header.number, header.hash()));
        assert_eq!(Snapshot::decode(&signers.encode()).as_ref(), Some(&signers));
        parent = header;
    }
    Ok(signers)
}

#[test]
fn the_cases_of_eip_225() {
    let cases = eip225::cases();
    assert_eq!(cases.len(), 23);
    for case in cases {
        match (run(&case), &case.end) {
            (Ok(signers), End::Signers(names)) => {
                assert_eq!(signers.signers(), sorted(names), "{case:?}");
            }
            (Err(CliqueError::UnauthorizedSigner { signer, authorized: 1 }), End::Unauthorized) => {
                assert_eq!(signer, address('B'));
            }
            (Err(CliqueError::RecentlySigned { last, next, .. }), End::RecentlySigned) => {
                assert_eq!((last, next), (case.blocks.len() as u64 - 1, last + 2));
            }
            (other, _) => panic!("{case:?}: {other:?}"),
        }
    }
}

/// A second, slow implementation of the signer rules. It follows the words of the EIP and goes
/// through the whole chain for every question.
struct Oracle<'a> {
    epoch: u64,
    first: Vec<Address>,
    /// The signer, the vote and the address voted about, of each block from 1 on.
    blocks: &'a [(Address, bool, Address)],
}

impl Oracle<'_> {
    /// Returns the signers after the first `blocks` blocks.
    fn signers(&self, blocks: usize) -> Vec<Address> {
        let mut signers = self.first.clone();
        // Each vote is the voter, the address voted about, and whether the vote is to add it.
        let mut votes: Vec<(Address, Address, bool)> = Vec::new();
        for (number, (by, for_it, about)) in (1u64..).zip(&self.blocks[..blocks]) {
            if number.is_multiple_of(self.epoch) {
                votes.clear();
            }
            // Only the latest vote of a signer about an address is kept.
            votes.retain(|(voter, whom, _)| (voter, whom) != (by, about));
            if signers.contains(about) != *for_it {
                votes.push((*by, *about, *for_it));
            }
            let count = votes.iter().filter(|(_, whom, _)| whom == about).count();
            if count > signers.len() / 2 {
                if signers.contains(about) {
                    signers.retain(|signer| signer != about);
                    votes.retain(|(voter, ..)| voter != about);
                } else {
                    signers.push(*about);
                }
                votes.retain(|(_, whom, _)| whom != about);
            }
        }
        signers.sort_unstable();
        signers
    }

    /// Whether `signer` may seal the block after the first `blocks` blocks.
    fn may_seal(&self, signer: Address, blocks: usize) -> bool {
        let signers = self.signers(blocks);
        let others = signers.len() / 2;
        signers.contains(&signer)
            && self.blocks[..blocks].iter().rev().take(others).all(|(by, ..)| *by != signer)
    }
}

#[test]
fn random_votes_against_the_words_of_the_eip() {
    let seed = Seed::or(225);
    let mut random = ChaCha8Rng::seed_from_u64(seed.value());
    let names: Vec<Address> = (0..7).map(Address::repeat_byte).collect();
    for _ in 0..30 {
        let epoch = random.random_range(1..=12);
        let clique = Clique::new(0, epoch);
        let first: Vec<Address> = names[1..random.random_range(2..6)].to_vec();
        let header = Header { extra_data: extra(&first).into(), ..Header::default() };
        let mut signers = Snapshot::genesis(&header.seal_slow());
        let mut blocks = Vec::new();
        for number in 1..=60u64 {
            let oracle = Oracle { epoch, first: first.clone(), blocks: &blocks };
            let known = oracle.signers(blocks.len());
            assert_eq!(signers.signers(), known);
            let candidates: Vec<Address> =
                names.iter().copied().filter(|name| oracle.may_seal(*name, blocks.len())).collect();
            let count = known.len() as u64;
            for name in &names {
                let turn = known.iter().position(|signer| signer == name);
                let in_turn = turn.is_some_and(|turn| number % count == turn as u64);
                let difficulty = if in_turn { DIFF_INTURN } else { DIFF_NOTURN };
                let list = if number.is_multiple_of(epoch) { &known[..] } else { &[] };
                let header = Header {
                    number,
                    difficulty,
                    extra_data: extra(list).into(),
                    ..Header::default()
                };
                let allowed = signers.check(clique, &header, *name).is_ok();
                assert_eq!(allowed, candidates.contains(name), "block {number}");
            }
            if candidates.is_empty() {
                break;
            }
            let by = candidates[random.random_range(0..candidates.len())];
            let checkpoint = number.is_multiple_of(epoch);
            let (for_it, about) = match checkpoint || random.random_ratio(1, 3) {
                true => (false, Address::ZERO),
                false => (random.random(), names[random.random_range(0..7)]),
            };
            let nonce = if for_it { NONCE_AUTH } else { B64::ZERO };
            let header = Header { number, beneficiary: about, nonce, ..Header::default() };
            signers.apply(clique, &header.seal_slow(), by);
            signers = Snapshot::decode(&signers.encode()).unwrap();
            blocks.push((by, for_it, about));
        }
    }
}

/// A change that makes a header invalid.
type Change<'a> = &'a dyn Fn(&mut Header);

/// Each rule about a header, broken alone, gives its own error sentence.
#[test]
fn headers_that_break_a_rule() {
    let clique = Clique::new(5, 4);
    let mut parent = genesis("AB");
    let spec = ChainSpec::with_forks(
        "test",
        1,
        Forks::up_to(EthereumHardfork::Istanbul),
        parent.inner().clone(),
        [],
    )
    .with_clique(clique);
    let signers = Snapshot::genesis(&parent);
    let check = |parent: &Sealed<Header>, header: &Header| {
        check_header(&spec.rules(header.number, header.timestamp, false), parent, header)
    };
    let good = next(&parent, &signers, 'A', None);
    assert_eq!(check(&parent, &good), Ok(()));
    // Extra data may be longer than on other chains, but not shorter than the seal.
    let sentence = |parent: &Sealed<Header>, change: &dyn Fn(&mut Header)| {
        let mut header = next(parent, &signers, 'A', None);
        change(&mut header);
        check(parent, &header).unwrap_err().to_string()
    };
    let extra_of = |length: usize| Bytes::from(vec![0; length]);
    let wrong: [(Change<'_>, &str); 9] = [
        (
            &|h| h.extra_data = extra_of(96),
            "the header's extra data has 96 bytes, expected at least 97: 32 that",
        ),
        (
            &|h| h.extra_data = extra_of(0),
            "the header's extra data has 0 bytes, expected at least 97",
        ),
        (
            &|h| h.extra_data = extra_of(117),
            "has 117 bytes, expected 97: only every block whose number is a multiple of the epoch, 4,",
        ),
        (
            &|h| h.nonce = B64::from(1u64),
            "the header's nonce is 0x0000000000000001, expected 0xffffffffffffffff",
        ),
        (&|h| h.mix_hash = B256::repeat_byte(1), "the header's mix hash is 0x0101"),
        (&|h| h.ommers_hash = B256::repeat_byte(1), "the header's ommers hash is 0x0101"),
        (
            &|h| h.timestamp = 4,
            "the header's timestamp is 4, expected at least 5: its parent's and the period of 5 seconds",
        ),
        (&|h| h.difficulty = U256::ZERO, "the header's difficulty is 0, expected 2"),
        (&|h| h.difficulty = U256::from(3), "the header's difficulty is 3, expected 2"),
    ];
    for (change, expected) in wrong {
        let message = sentence(&parent, change);
        assert!(message.contains(expected), "{message}");
    }

    let third = Header { number: 3, ..next(&parent, &signers, 'A', None) };
    parent = third.seal_slow();
    let list = extra(signers.signers());
    let checkpoint = |change: &dyn Fn(&mut Header)| {
        sentence(&parent, &|header| {
            header.extra_data = list.clone().into();
            change(header);
        })
    };
    let mut good = next(&parent, &signers, 'A', None);
    good.extra_data = list.clone().into();
    assert_eq!(check(&parent, &good), Ok(()));
    for (message, expected) in [
        (
            checkpoint(&|h| h.nonce = NONCE_AUTH),
            "the header's nonce is 0xffffffffffffffff, expected 0: in a block",
        ),
        (
            checkpoint(&|h| h.beneficiary = address('C')),
            "expected the zero address: in a block whose number is",
        ),
        (
            checkpoint(&|h| h.extra_data = extra_of(138)),
            "the header's list of signers has 41 bytes, expected a multiple of 20",
        ),
    ] {
        assert!(message.contains(expected), "{message}");
    }

    // Whether the list of signers is the right one is checked by the snapshot, not here.
    let listed = |list: &[Address]| {
        let header = Header { extra_data: extra(list).into(), ..good.clone() };
        let before = Snapshot::genesis(&genesis("AB"));
        before.check(clique, &header, address('A')).map_err(|error| error.to_string())
    };
    let [first, second] = signers.signers() else { panic!() };
    assert_eq!(listed(&[]), Err("the header lists 0 signers, expected 2".to_owned()));
    let message = listed(&[*second, *first]).unwrap_err();
    assert!(
        message
            .starts_with(&format!("signer 0 in the header's list is {second}, expected {first}:"))
    );
}

#[test]
fn two_blocks_in_one_second_where_the_period_is_zero() {
    let parent = genesis("A");
    let spec = ChainSpec::with_forks("test", 1, Forks::frontier(), parent.inner().clone(), []);
    let spec = spec.with_clique(Clique::new(0, 0));
    let mut header = next(&parent, &Snapshot::genesis(&parent), 'A', None);
    header.timestamp = parent.timestamp;
    let rules = spec.rules(1, header.timestamp, false);
    assert_eq!(check_header(&rules, &parent, &header), Ok(()));
    let merged = spec.rules(1, header.timestamp, true);
    let refused = check_header(&merged, &parent, &header);
    assert!(matches!(refused, Err(ConsensusError::Timestamp { .. })), "{refused:?}");
}

/// The seal of block 1 of Rinkeby gives its signer.
#[test]
fn a_seal_of_a_public_network() {
    let extra = alloy_primitives::hex!(
        "d783010600846765746887676f312e372e33856c696e75780000000000000000"
        "9f1efa1efa72af138c915966c639544a0255e6288e188c22ce9168c10dbe46da"
        "3d88b4aa065930119fb886210bf01a084fde5d3bc48d8aa38bca92e4fcc5215100"
    );
    let header = Header {
        parent_hash: b256!("6341fd3daf94b748c72ced5a5b26028f2474f5f00d824504e4fa37a75767e177"),
        state_root: b256!("53580584816f617295ea26c0e17641e0120cab2f0a8ffb53a866fd53aa8e8c2d"),
        difficulty: U256::from(2),
        number: 1,
        gas_limit: 4_704_588,
        timestamp: 1_492_010_458,
        extra_data: Bytes::copy_from_slice(&extra),
        ..Header::default()
    };
    let hash = b256!("a7684ac44d48494670b2e0d9085b7750e7341620f0a271db146ed5e70c1db854");
    assert_eq!(header.hash_slow(), hash);
    let signer = "0x7ffc57839b00206d1ad20c69a1981b489f772031".parse::<Address>().unwrap();
    assert_eq!(recover_signer(&header), Ok(signer));
}

#[test]
fn seals_that_belong_to_nobody() {
    let parent = genesis("A");
    let sealed = seal(next(&parent, &Snapshot::genesis(&parent), 'A', None), 'A');
    let with = |change: &dyn Fn(&mut [u8])| {
        let mut extra = sealed.extra_data.to_vec();
        change(&mut extra);
        recover_signer(&Header { extra_data: extra.into(), ..sealed.inner().clone() })
    };
    assert_eq!(with(&|_| {}), Ok(address('A')));
    assert_eq!(with(&|extra| extra[96] += 27), Err(CliqueError::Seal));
    assert_eq!(with(&|extra| extra[32..].fill(0)), Err(CliqueError::Seal));
    assert_eq!(with(&|extra| extra[32..96].fill(0xff)), Err(CliqueError::Seal));
    // The second valid signature of the same key is accepted: `s` may be in the upper half of the
    // order.
    let turned = with(&|extra| {
        let s = U256::from_be_slice(&extra[64..96]);
        extra[64..96].copy_from_slice(&(SECP256K1N - s).to_be_bytes::<32>());
        extra[96] ^= 1;
    });
    assert_eq!(turned, Ok(address('A')));
    // The signature covers the vanity bytes as well.
    assert_ne!(with(&|extra| extra[0] ^= 1), Ok(address('A')));
    let short = Header { extra_data: vec![0; 64].into(), ..Header::default() };
    assert_eq!(recover_signer(&short), Err(CliqueError::ExtraDataTooShort { found: 64, min: 97 }));
}

#[test]
fn fees_go_to_the_signer_until_the_merge() {
    let parent = genesis("A");
    let spec = ChainSpec::with_forks("test", 1, Forks::frontier(), parent.inner().clone(), []);
    let clique = spec.clone().with_clique(Clique::new(0, 0));
    let header = seal(next(&parent, &Snapshot::genesis(&parent), 'A', Some((true, 'B'))), 'A');
    let paid = |spec: &ChainSpec, merged: bool, header: &Header| {
        coinbase(&spec.rules(header.number, header.timestamp, merged), header)
    };
    assert_eq!(paid(&clique, false, &header), Ok(address('A')));
    assert_eq!(paid(&clique, true, &header), Ok(address('B')));
    assert_eq!(paid(&spec, false, &header), Ok(address('B')));
    // The genesis block has no seal.
    assert_eq!(paid(&clique, false, &parent), Ok(Address::ZERO));
}

#[test]
fn rows_that_are_no_snapshot() {
    let bytes = Snapshot::genesis(&genesis("ABC")).encode();
    assert!(Snapshot::decode(&bytes).is_some());
    assert_eq!(Snapshot::decode(&[]), None);
    assert_eq!(Snapshot::decode(&bytes[1..]), None);
    assert_eq!(Snapshot::decode(&bytes[..bytes.len() - 1]), None);
    assert_eq!(Snapshot::decode(&[&bytes[..], &[0]].concat()), None);
}
