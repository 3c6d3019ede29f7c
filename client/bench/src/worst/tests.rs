//! What the blocks of each case ask of a layer and write to it.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::{Case, WorstSpec, prepare};
use crate::{
    Base, BaseSpec, Cache, PreparedChain, Settings, Subject, fixture::OpenStore,
    mainnet::LONGEST_CODE, run::candidates,
};
use polytrie_chain::{ChainOptions, Inserted};
use polytrie_kv::StoreOptions;
use polytrie_state::SessionCounters;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    sync::Arc,
};

/// Gas of a block: one transaction, of which 900,000 go into the routine of its case.
const GAS: u64 = 1_000_000;
/// Number of contracts with long code, fewer than a block asks for.
const CODES: u64 = 40;
/// Most slots and accounts that a block reads or writes for its transactions as such, and for the system contracts.
const SYSTEM: u64 = 40;

/// Returns the counters of a block of each case, by the name of the case.
fn counted() -> BTreeMap<String, SessionCounters> {
    let spec =
        WorstSpec { seed: 1, size: 1_000, slots: 1_000, codes: CODES, blocks: 1, most_gas: GAS };
    let dir = tempfile::tempdir().unwrap();
    let cache = Arc::new(Cache::open(dir.path()).unwrap());
    let base = Base::new(BaseSpec::Worst(spec), Arc::clone(&cache));
    let tests = prepare(&spec, &Case::all(&spec), &[GAS], 1, &base, &cache).unwrap();
    let subject = Subject::new("raw", "memory");
    let settings = Settings::default();
    let open = OpenStore::open(&subject, dir.path(), &settings, StoreOptions::default()).unwrap();
    open.fill(&base).unwrap();
    let rules = PreparedChain::at(tests[0].chain.clone()).spec().unwrap();
    let mut chain = open.begin(Arc::clone(&rules), ChainOptions::default()).unwrap();
    let mut counted = BTreeMap::new();
    for test in tests {
        for block in candidates(&PreparedChain::at(test.chain), &rules).unwrap() {
            let Inserted::Extended(stats) = chain.insert(block).unwrap() else {
                panic!("a block of {} is not on top of the one before it", test.case)
            };
            counted.insert(test.case.clone(), stats.session);
        }
        chain.unwind_to(0).unwrap();
    }
    counted
}

/// Each case does what its name says, and as often as its gas allows.
#[test]
fn every_case_does_what_it_says() {
    type Count = fn(&SessionCounters) -> u64;
    const READ: Count = |c| c.slots_read.calls;
    const WRITTEN: Count = |c| c.slots_written;
    const DELETED: Count = |c| c.slots_deleted;
    const ACCOUNTS: Count = |c| c.accounts_read.calls;
    const ACCOUNTS_WRITTEN: Count = |c| c.accounts_written;
    const ACCOUNTS_DELETED: Count = |c| c.accounts_deleted;
    // The executor keeps codes from one block to the next.
    const CODES_READ: Count = |c| c.codes_read.calls + c.codes_known;
    const CODE_BYTES: Count = |c| c.code_bytes_read + c.code_bytes_known;
    let least_code = CODES * LONGEST_CODE;
    let none = 0..=SYSTEM;
    let of = |count: u64| count..=count + SYSTEM;
    let expected: [(&str, Count, RangeInclusive<u64>); 24] = [
        ("sload-present-1e3", READ, of(400)),
        ("sload-present-1e3", WRITTEN, none.clone()),
        ("sload-absent-1e3", READ, of(400)),
        ("sload-absent-1e3", WRITTEN, none.clone()),
        ("sstore-set", WRITTEN, of(39)),
        ("sstore-set", DELETED, none.clone()),
        ("sstore-clear", DELETED, of(170)),
        ("sstore-there-and-back", READ, of(165)),
        ("sstore-there-and-back", WRITTEN, none.clone()),
        ("accounts-new", ACCOUNTS_WRITTEN, of(25)),
        ("accounts-new", WRITTEN, none.clone()),
        ("balance-absent", ACCOUNTS, of(330)),
        ("balance-absent", ACCOUNTS_WRITTEN, none.clone()),
        ("extcodesize-24k", CODES_READ, of(CODES)),
        ("extcodesize-24k", CODE_BYTES, least_code..=u64::MAX),
        ("extcodecopy-24k", CODES_READ, of(CODES)),
        ("deep-slots", READ, of(11)),
        ("deep-slots", WRITTEN, none),
        ("deep-accounts", ACCOUNTS, of(15)),
        ("selfdestruct-large", ACCOUNTS_DELETED, 1..=1),
        ("giant-and-small", WRITTEN, of(58)),
        ("giant-and-small", ACCOUNTS_WRITTEN, of(30)),
        ("same-slot", READ, 1..=SYSTEM),
        ("same-slot", WRITTEN, 1..=SYSTEM),
    ];
    let counted = counted();
    for (case, count, range) in &expected {
        let found = count(&counted[*case]);
        assert!(range.contains(&found), "{case}: {found}, not {range:?}: {:?}", counted[*case]);
    }
    let with_counts: BTreeSet<&str> = expected.iter().map(|(case, ..)| *case).collect();
    assert!(counted.keys().all(|case| with_counts.contains(&case[..])), "{:?}", counted.keys());
}
