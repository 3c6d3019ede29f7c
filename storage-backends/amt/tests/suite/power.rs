//! A loss of power while a setup is written leaves all of it, the old one, or none.

#![expect(clippy::unwrap_used, reason = "tests")]

use alloy_primitives::B256;
use polytrie_amt::{PowersOfTau, Setup, SetupError};
use polytrie_kv_testing::{Failure, ForgetfulDisk, Lived, Random, disk_seeds, first_caught};
use std::path::PathBuf;

/// The names of the syncs of a setup.
const PLACES: [&str; 4] =
    ["directory: name", "setup: content", "setup: name", "setup: the old one is gone"];

/// Returns two setups.
fn setups() -> [Setup; 2] {
    ["old", "new"]
        .map(|name| Setup::derive(&PowersOfTau::insecure_dev(3, name).unwrap(), true, &mut |_| {}))
}

/// Writes one of the two setups over the present one, several times.
fn run(setups: &[Setup; 2], seed: u64, ignored: Option<&str>) -> Result<Lived, String> {
    let mut random = Random::new(seed);
    let disk = ForgetfulDisk::new(random.next());
    if let Some(place) = ignored {
        disk.ignore(place);
    }
    let dir: PathBuf = disk.dir().join("polytrie").join("lvmt");
    let (mut lived, mut whole) = (Lived::default(), None::<B256>);
    for _ in 0..3 {
        let setup = &setups[random.below(2)];
        if random.one_in(3) {
            disk.fail_at(1 + random.below(40) as u64, Failure::Io);
        }
        disk.fail_at(1 + random.below(60) as u64, Failure::Power);
        let written = setup.write(&dir);
        let before = whole;
        whole = match written {
            Ok(()) => Some(setup.key().id()),
            Err(_) => None,
        };
        disk.restart();
        lived.power += 1;
        match (Setup::open(&dir, true), whole) {
            (Ok(found), Some(expected)) if found.key().id() == expected => {}
            (Ok(found), None)
                if Some(found.key().id()) == before || found.key().id() == setup.key().id() =>
            {
                whole = Some(found.key().id());
            }
            (Err(SetupError::Missing { .. }), None) => {}
            (found, expected) => {
                let found = found.map(|setup| setup.key().id());
                return Err(format!("seed {seed}: expected {expected:?}, found {found:?}"));
            }
        }
    }
    disk.expect_places(&[&PLACES])?;
    Ok(lived)
}

#[test]
fn a_setup_is_whole_or_not_there() {
    let setups = setups();
    for seed in disk_seeds(1_200) {
        run(&setups, seed, None).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn each_sync_is_needed() {
    let setups = setups();
    for place in PLACES {
        let caught = first_caught(0..1_000, place, |seed, ignored| run(&setups, seed, ignored));
        assert!(caught.is_some(), "without {place} nothing is lost");
    }
}
