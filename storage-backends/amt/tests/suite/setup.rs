//! Tests of setups: read, checked, derived, written, opened, and refused with a reason.

#![expect(clippy::unwrap_used, reason = "tests")]

use crate::files::{write_gnark, write_ptau};
use polytrie_amt::{
    Entry, PowersError, PowersOfTau, SLOTS, Setup, SetupError, VerifyingKey, commit, open, verify,
};
use polytrie_testing::fixture;
use std::{
    fs,
    path::{Path, PathBuf},
};

fn dev(height: u8, seed: &str, proofs: bool) -> Setup {
    Setup::derive(&PowersOfTau::insecure_dev(height, seed).unwrap(), proofs, &mut |_| {})
}

#[test]
fn a_setup_is_opened_as_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    for proofs in [true, false] {
        let setup = dev(6, "write", proofs);
        setup.write(dir.path()).unwrap();
        let opened = Setup::open(dir.path(), proofs).unwrap();
        assert_eq!(opened.id(), setup.id());
        assert_eq!(opened.can_prove(), proofs);
        assert!(opened.is_insecure());
        assert_eq!(opened.table_bytes(), setup.table_bytes());
        for (slot, index) in (0..SLOTS).flat_map(|s| (0..64).map(move |i| (s, i))) {
            assert_eq!(opened.point(slot, index), setup.point(slot, index));
        }
        let entries = [Entry { index: 9, versions: [1, 2, 3, 4, 5, 6] }];
        assert_eq!(commit(&opened, &entries), commit(&setup, &entries));
        assert_eq!(open(&opened, &entries, 8), open(&setup, &entries, 8));
        let key = VerifyingKey::open(dir.path()).unwrap();
        assert_eq!(key.id(), setup.id());
        assert_eq!(VerifyingKey::decode(&key.encode()).unwrap().id(), key.id());
    }
    let found = Setup::open(dir.path(), true);
    assert!(matches!(found, Err(SetupError::NoProofs { .. })), "{found:?}");
}

#[test]
fn damaged_setups_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let found = Setup::open(dir.path(), false);
    assert!(matches!(found, Err(SetupError::Missing { .. })), "{found:?}");
    dev(4, "damage", true).write(dir.path()).unwrap();
    for name in ["verifying-key", "slots", "quotients"] {
        let path = dir.path().join(name);
        let good = fs::read(&path).unwrap();
        for at in [0, 16, 17, 40, 64, 100, good.len() / 2, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 0x40;
            refused(dir.path(), &path, &bad);
        }
        for bad in [&good[..good.len() - 1], &good[..90], &[], &[&good[..], &[0]].concat()] {
            refused(dir.path(), &path, bad);
        }
        fs::write(&path, &good).unwrap();
        Setup::open(dir.path(), true).unwrap();
    }
    // A whole file comes from another setup, and its checksum matches.
    let other = tempfile::tempdir().unwrap();
    dev(4, "another", true).write(other.path()).unwrap();
    for name in ["slots", "quotients"] {
        let good = fs::read(dir.path().join(name)).unwrap();
        fs::copy(other.path().join(name), dir.path().join(name)).unwrap();
        let found = Setup::open(dir.path(), true);
        assert!(matches!(found, Err(SetupError::Mixed { .. })), "{found:?}");
        fs::write(dir.path().join(name), good).unwrap();
    }
    fs::copy(dir.path().join("slots"), dir.path().join("quotients")).unwrap();
    assert!(Setup::open(dir.path(), true).is_err());
    fs::remove_file(dir.path().join("slots")).unwrap();
    let found = Setup::open(dir.path(), false).unwrap_err();
    assert!(found.to_string().contains("missing"), "{found}");
}

fn refused(dir: &Path, path: &PathBuf, bad: &[u8]) {
    fs::write(path, bad).unwrap();
    let found = Setup::open(dir, true);
    assert!(matches!(found, Err(SetupError::Damaged { .. })), "{found:?}");
}

#[test]
fn powers_are_read_from_both_kinds_of_files() {
    let dir = tempfile::tempdir().unwrap();
    let dev = dev(5, "files", true);
    let (g1, g2) = write_gnark(dir.path(), 5, "files");
    let ptau = write_ptau(dir.path(), 5, "files");
    let gnark = PowersOfTau::read_gnark(5, &g1, &g2).unwrap();
    let ptau = PowersOfTau::read_ptau(5, &ptau).unwrap();
    for powers in [gnark, ptau] {
        assert!(!powers.is_insecure());
        let setup = Setup::derive(&powers, true, &mut |_| {});
        assert_ne!(setup.id(), dev.id(), "what comes from a file has no known tau");
        for index in 0..32 {
            assert_eq!(setup.point(3, index), dev.point(3, index));
        }
        let entries = [Entry { index: 1, versions: [7; 6] }];
        let commitment = commit(&setup, &entries);
        let opening = open(&setup, &entries, 30).unwrap();
        let claim =
            polytrie_amt::Claim { commitment, index: 30, versions: [0; 6], opening: &opening };
        assert!(verify(setup.key(), &[claim]));
    }
    // A smaller setup can be read from the same files, and a larger one cannot.
    PowersOfTau::read_gnark(4, &g1, &g2).unwrap();
    let found = PowersOfTau::read_gnark(6, &g1, &g2);
    assert!(matches!(found, Err(PowersError::TooFew { .. })), "{found:?}");
    assert!(matches!(PowersOfTau::insecure_dev(0, ""), Err(PowersError::Height(0))));
    assert!(matches!(PowersOfTau::insecure_dev(21, ""), Err(PowersError::Height(21))));
}

#[test]
fn wrong_powers_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (g1, g2) = write_gnark(dir.path(), 5, "wrong");
    let other = tempfile::tempdir().unwrap();
    let (other_g1, other_g2) = write_gnark(other.path(), 5, "of another ceremony");
    let read = |g1: &Path, g2: &Path| PowersOfTau::read_gnark(5, g1, g2);
    read(&g1, &g2).unwrap();
    for (g1, g2) in [(&g1, &other_g2), (&other_g1, &g2)] {
        let found = read(g1, g2);
        assert!(matches!(found, Err(PowersError::Inconsistent(_))), "{found:?}");
    }
    // Each power is replaced by another valid point.
    let good = fs::read(&g1).unwrap();
    for at in 0..32usize {
        let mut bad = good.clone();
        let from = (at + 1) % 32;
        bad.copy_within(from * 32..from * 32 + 32, at * 32);
        fs::write(&g1, &bad).unwrap();
        let found = read(&g1, &g2);
        assert!(matches!(found, Err(PowersError::Inconsistent(_))), "power {at}: {found:?}");
    }
    // A point is on no curve, or on another one.
    let mut bad = good.clone();
    bad[5 * 32] = 0xff;
    fs::write(&g1, &bad).unwrap();
    let found = read(&g1, &g2);
    assert!(matches!(found, Err(PowersError::Point { index: 5, .. })), "{found:?}");
    fs::write(&g1, &good[..100]).unwrap();
    assert!(matches!(read(&g1, &g2), Err(PowersError::TooFew { found: 3, .. })));
    fs::write(&g1, &good).unwrap();
    let mut bad = fs::read(&g2).unwrap();
    bad[3] ^= 0xff;
    fs::write(&g2, &bad).unwrap();
    assert!(read(&g1, &g2).is_err());
    assert!(matches!(read(Path::new("/no/such/file"), &g2), Err(PowersError::Io(_))));
}

#[test]
fn wrong_ptau_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = write_ptau(dir.path(), 4, "ptau");
    let good = fs::read(&path).unwrap();
    PowersOfTau::read_ptau(4, &path).unwrap();
    let found = PowersOfTau::read_ptau(5, &path);
    assert!(matches!(found, Err(PowersError::TooFew { .. })), "{found:?}");
    // The offsets hit magic, version, number of sections, type and length of the first, the modulus, and the power.
    for at in [0, 4, 8, 12, 16, 20, 30, 60, 300, 500] {
        let mut bad = good.clone();
        bad[at] ^= 0x21;
        fs::write(&path, &bad).unwrap();
        let found = PowersOfTau::read_ptau(4, &path);
        assert!(found.is_err(), "byte {at}");
    }
    for length in [0, 3, 11, 40, 700, good.len() - 1] {
        fs::write(&path, &good[..length]).unwrap();
        let found = PowersOfTau::read_ptau(4, &path);
        assert!(matches!(found, Err(PowersError::Format { .. })), "{length} bytes: {found:?}");
    }
}

#[test]
fn the_published_powers_pass() {
    let (g1, g2) = (fixture("kzg/g1.point"), fixture("kzg/g2.point.powerOf2"));
    let (Some(g1), Some(g2)) = (g1, g2) else { return };
    let powers = PowersOfTau::read_gnark(16, &g1, &g2).unwrap();
    assert!(!powers.is_insecure());
    let setup = {
        let powers = PowersOfTau::read_gnark(7, &g1, &g2).unwrap();
        Setup::derive(&powers, true, &mut |_| {})
    };
    let entries = [Entry { index: 100, versions: [1, 0, 3, 0, 0, 9] }];
    let commitment = commit(&setup, &entries);
    let opening = open(&setup, &entries, 100).unwrap();
    let versions = entries[0].versions;
    let claim = polytrie_amt::Claim { commitment, index: 100, versions, opening: &opening };
    assert!(verify(setup.key(), &[claim]));
}
