//! Measures the figures of the README on one thread: the work of a commit, an opening, a verification.
//!
//! `cargo run --release -p polytrie-amt --example measure -- [THREADS [G1-FILE G2-FILE]]`
//!
//! With the files of a ceremony, also the time to derive the tables from them, without and with those for proofs.

#![expect(clippy::print_stdout, reason = "it is there to print")]

use polytrie_amt::{
    Claim, Counting, Entry, G1Affine, PowersOfTau, ProofTree, Setup, commit, open, verify,
};
use std::{path::Path, time::Instant};

/// Number of keys changed in one commit.
const KEYS: u32 = 100_000;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let threads = args.first().map_or(Ok(1), |n| n.parse())?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    match &args[..] {
        [_, g1, g2] => pool.install(|| derive(g1.as_ref(), g2.as_ref())),
        _ => pool.install(run),
    }
}

fn derive(g1: &Path, g2: &Path) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let started = Instant::now();
    let powers = PowersOfTau::read_gnark(16, g1, g2)?;
    println!("read and check              {:>10.2?}", started.elapsed());
    for proofs in [false, true] {
        let started = Instant::now();
        let setup = Setup::derive(&powers, proofs, &mut |_| {});
        let mib = setup.table_bytes() >> 20;
        println!("tables, proofs {proofs:<5}        {:>10.2?}  {mib} MiB", started.elapsed());
    }
    Ok(())
}

fn run() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let started = Instant::now();
    let setup = Setup::derive(&PowersOfTau::insecure_dev(16, "measure")?, true, &mut |_| {});
    println!("tables of a known tau       {:>10.2?}", started.elapsed());

    // There are two levels: keys fall on 65,536 trees at random, and each changed tree on one entry of the root.
    let mut state = 1u64;
    let mut random = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    };
    // This measures the present speed of the machine: mixed additions of the library, one after the other.
    let mut sum = polytrie_amt::G1Affine::identity() + setup.point(0, 1);
    let started = Instant::now();
    for index in 0..65_536 {
        sum += setup.point(0, index);
    }
    let mixed = started.elapsed().as_secs_f64() * 1e6 / 65_536.0;
    println!(
        "a mixed addition            {mixed:.3} µs{}",
        if sum == sum + sum { "!" } else { "" }
    );

    for round in 0..6 {
        let mut keys: Vec<(u32, u32)> =
            (0..KEYS).map(|_| (random() % 65_536, random() % 65_536)).collect();
        keys.sort_unstable();
        let old: G1Affine = setup.point(0, 1);
        let started = Instant::now();
        let mut counting = Counting::new(&setup, 1 << 16, 2 * keys.len());
        let mut dirty = Vec::new();
        for tree in keys.chunk_by(|a, b| a.0 == b.0) {
            counting.vector(old, tree.iter().map(|(_, entry)| (1, *entry)));
            dirty.push(tree[0].0);
        }
        counting.vector(old, dirty.iter().map(|tree| (0, *tree)));
        // If most of the root changes, it takes as many additions as there are unchanged trees.
        let additions = keys.len() + dirty.len().min((1 << 16) - dirty.len());
        let sums = counting.finish();
        let taken = started.elapsed();
        println!(
            "commit {round}: {KEYS} keys, {} trees  {taken:>10.2?}  {:.3} µs a key, {:.3} µs an addition",
            sums.len(),
            taken.as_secs_f64() * 1e6 / f64::from(KEYS),
            taken.as_secs_f64() * 1e6 / additions as f64
        );
    }

    let few: Vec<Entry> =
        (0..153).map(|k| Entry { index: k * 428, versions: [0, 3, 0, 0, 0, 0] }).collect();
    let started = Instant::now();
    let lower = open(&setup, &few, 428).ok_or("no tables")?;
    println!("opening among 153 entries   {:>10.2?}", started.elapsed());

    let mut tree = ProofTree::new(16);
    let mut versions: Vec<u64> = (0..65_536).map(|j| 700 + j % 1_000).collect();
    let started = Instant::now();
    tree.open(&setup, &versions, 1_000).ok_or("no tables")?;
    println!("opening of a full root      {:>10.2?}", started.elapsed());
    for j in (0..65_536).step_by(7) {
        versions[j] += 1;
    }
    let started = Instant::now();
    let upper = tree.open(&setup, &versions, 1_000).ok_or("no tables")?;
    println!("… 9,363 of it changed       {:>10.2?}", started.elapsed());

    let entries: Vec<Entry> = (0u32..)
        .zip(&versions)
        .map(|(index, version)| Entry { index, versions: [*version, 0, 0, 0, 0, 0] })
        .collect();
    let claims = [
        Claim {
            commitment: commit(&setup, &entries),
            index: 1_000,
            versions: entries[1_000].versions,
            opening: &upper,
        },
        Claim {
            commitment: commit(&setup, &few),
            index: 428,
            versions: [0, 3, 0, 0, 0, 0],
            opening: &lower,
        },
    ];
    for count in [1, 2] {
        let started = Instant::now();
        assert!(verify(setup.key(), &claims[..count]));
        println!("verification of {count}           {:>10.2?}", started.elapsed());
    }
    Ok(())
}
