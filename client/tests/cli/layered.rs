//! Tests of `lmpt` with unusual settings. Its commitment depends on the blocks and on the stamped settings alone.

use crate::{
    run::run,
    support::{Data, sample},
};
use polytrie_testing::Seed;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    path::Path,
};

/// The number of random configurations. The variable `POLYTRIE_TEST_RUNS` sets another number.
const RUNS: usize = 8;

/// Imports the first blocks of the sample with these settings. Returns number, hash and commitment of the head.
#[track_caller]
fn imported(datadir: &Path, to: u64, settings: &[String]) -> serde_json::Value {
    let (file, genesis, to) = (sample("chain.rlp.gz"), sample("genesis.json"), to.to_string());
    let mut args = vec![OsStr::new("import"), file.as_os_str(), OsStr::new("--chain")];
    args.extend([genesis.as_os_str(), OsStr::new("--datadir"), datadir.as_os_str()]);
    args.extend(["--state", "lmpt", "--json", "-", "--to", &to].map(OsStr::new));
    args.extend(settings.iter().map(OsStr::new));
    run(&args, &[]).ok().json()["head"].clone()
}

/// Returns the number of scratch directories beside the files of the engine.
fn scratch(datadir: &Path) -> usize {
    let entries = std::fs::read_dir(datadir.join("db")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("scratch-")).count()
}

/// With every block a trie leaves memory, while the threads that prefetch still hold dozens of older tries.
#[test]
fn tries_leave_memory_by_the_dozen() {
    let (little, plain) = (Data::new(), Data::new());
    let settings = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let found = imported(
        &little.path(),
        150,
        &settings("--lmpt.memory 0 --lmpt.interval 1 --prefetch --threads 4"),
    );
    assert_eq!(found, imported(&plain.path(), 150, &settings("--lmpt.interval 1")));
    assert_eq!(scratch(&little.path()), 0);
    // Remains of a crash are removed at the next start.
    let left = little.path().join("db/scratch-left");
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("mdbx.dat"), b"rows").unwrap();
    little.check();
    imported(&little.path(), 160, &settings("--lmpt.memory 0"));
    assert_eq!(scratch(&little.path()), 0);
    little.check();
}

/// Random combinations of memory, threads, caches, prefetching and restarts cause no error, and those with the same
/// stamp reach the same head.
#[test]
#[expect(clippy::print_stderr, reason = "how much was compared, and the seed that repeats it")]
fn commitments_depend_on_what_is_stamped_alone() {
    let seed = Seed::or(26);
    let mut rng = ChaCha8Rng::seed_from_u64(seed.value());
    let runs = std::env::var("POLYTRIE_TEST_RUNS").ok().and_then(|runs| runs.parse().ok());
    let to = 120;
    let mut heads: BTreeMap<(u64, u64, &str), serde_json::Value> = BTreeMap::new();
    for _ in 0..runs.unwrap_or(RUNS) {
        let boundary = ["slices", "switch"][rng.random_range(0..2)];
        let stamped = (rng.random_range(1..4), [1, 4_096][rng.random_range(0..2)], boundary);
        let mut settings = vec![
            format!("--lmpt.memory={}", ["0", "1k", "100k", "1G"][rng.random_range(0..4)]),
            format!("--trie.cache={}", ["0", "10k", "1G"][rng.random_range(0..3)]),
            format!("--prefetch={}", ["on", "off"][rng.random_range(0..2)]),
            format!("--threads={}", rng.random_range(1..5)),
            format!("--flush-every={}", [1, 7, 4_096][rng.random_range(0..3)]),
        ];
        let data = Data::new();
        let mut first = settings.clone();
        first.push(format!("--lmpt.interval={}", stamped.0));
        first.push(format!("--lmpt.sweep={}", stamped.1));
        first.push(format!("--lmpt.boundary={}", stamped.2));
        if rng.random_bool(0.5) {
            imported(&data.path(), rng.random_range(1..to), &first);
            settings[0] = format!("--lmpt.memory={}", ["0", "1G"][rng.random_range(0..2)]);
        } else {
            settings = first.clone();
        }
        let head = imported(&data.path(), to, &settings);
        let context = format!("seed {}, {first:?}, then {settings:?}", seed.value());
        assert_eq!(scratch(&data.path()), 0, "{context}");
        assert_eq!(*heads.entry(stamped).or_insert_with(|| head.clone()), head, "{context}");
    }
    let commitments = heads.values().map(|head| head["commitment"].to_string());
    let distinct = commitments.collect::<BTreeSet<_>>().len();
    eprintln!("{} stamps, {distinct} commitments, seed {}", heads.len(), seed.value());
}
