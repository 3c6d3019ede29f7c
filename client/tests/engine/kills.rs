//! Tests of repeated `kill -9` at random moments of a chain that a consensus layer drives.

use crate::{
    run::polytrie,
    sample::sample,
    support::{Node, Payload, args, choice, layers, sample_blocks},
    variables::number,
};
use alloy_primitives::B256;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// The number of times that a node of each layer is killed. The variable `POLYTRIE_CRASH_ROUNDS` sets another
/// number.
const ROUNDS: u32 = 5;
/// The largest number of payloads that are sent and chosen without a kill in between.
const PEACE: usize = 3;

/// A chain that a consensus layer drives, with the state that the consensus layer knows.
struct Driven<'a> {
    layer: &'static str,
    data: PathBuf,
    payloads: &'a [Payload],
    /// The number of payloads whose choice was confirmed.
    chosen: usize,
    /// The durations of the last calls that sent and that chose a payload. Kills happen within such a time.
    executing: Duration,
    choosing: Duration,
}

impl Driven<'_> {
    fn head(&self, chosen: usize, genesis: B256) -> B256 {
        chosen.checked_sub(1).map_or(genesis, |last| self.payloads[last].hash)
    }

    /// Sends the next payload and chooses it.
    fn go_on(&mut self, node: &Node) {
        let payload = &self.payloads[self.chosen];
        let start = Instant::now();
        node.valid(payload);
        self.executing = start.elapsed();
        let start = Instant::now();
        node.choose(payload.hash);
        self.choosing = start.elapsed();
        self.chosen += 1;
    }

    /// Kills the node at a random moment of the next payload. Returns how many more payloads may be chosen
    /// afterwards, and a description of the moment.
    fn kill(&mut self, node: Node, random: &mut ChaCha8Rng) -> (usize, String) {
        let next = &self.payloads[self.chosen];
        let part = random.random::<f64>() * 1.5;
        let choose = || choice(next.hash, B256::ZERO, &Value::Null);
        match random.random_range(0..5) {
            0 => {
                let delay = self.executing.mul_f64(part);
                node.kill_during((next.method(), json!(next.params)), delay);
                (0, format!("{delay:?} after a payload was sent"))
            }
            1 | 2 => {
                node.valid(next);
                node.kill();
                (0, "between a payload and its choice".to_owned())
            }
            3 => {
                node.valid(next);
                let delay = self.choosing.mul_f64(part);
                node.kill_during(choose(), delay);
                (1, format!("{delay:?} after a choice was sent"))
            }
            _ => {
                self.go_on(&node);
                node.kill();
                (0, "after a choice".to_owned())
            }
        }
    }
}

#[test]
fn a_chain_that_is_killed_again_and_again_goes_on() {
    let rounds = number("POLYTRIE_CRASH_ROUNDS").unwrap_or(ROUNDS);
    let seed: u64 = number("POLYTRIE_CRASH_SEED").unwrap_or_else(rand::random);
    say(&format!("POLYTRIE_CRASH_SEED={seed}"));
    let payloads = Payload::of_all(&sample_blocks(1000));
    assert!(payloads.len() > 2 * PEACE + 2);
    let temp = tempfile::tempdir().unwrap();
    for layer in layers() {
        let context = format!("POLYTRIE_CRASH_SEED={seed}, layer {}", layer.name);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (mut kills, mut between, mut chains) = (0, 0, 0);
        while kills < rounds {
            let data = temp.path().join(format!("{}-{chains}", layer.name));
            let mut driven = Driven {
                layer: layer.name,
                data,
                payloads: &payloads,
                chosen: 0,
                executing: Duration::ZERO,
                choosing: Duration::ZERO,
            };
            chains += 1;
            let mut node = Node::new(&driven.data, layer.name, &sample("genesis.json"), args![]);
            let genesis = node.head();
            while kills < rounds && driven.chosen + PEACE + 2 < payloads.len() {
                for _ in 0..=random.random_range(0..PEACE) {
                    driven.go_on(&node);
                }
                let (more, moment) = driven.kill(node, &mut random);
                kills += 1;
                between += u32::from(moment.starts_with("between"));
                node = Node::open(&driven.data, args![]);
                let found = node.head();
                let chosen = (driven.chosen..=driven.chosen + more)
                    .find(|chosen| driven.head(*chosen, genesis) == found);
                driven.chosen = chosen.unwrap_or_else(|| {
                    let last = driven.chosen;
                    panic!("{context}: the head is {found} {moment}, the choice of block {last} was confirmed")
                });
            }
            driven.go_on(&node);
            node.kill();
            assert_as_imported(&driven, temp.path(), &context);
        }
        say(&format!(
            "{context}: killed {kills} times, {between} of them between a payload and its choice"
        ));
    }
}

/// Checks that the state equals that of an import of the same blocks, and that `db check` finds no damage.
fn assert_as_imported(driven: &Driven<'_>, temp: &Path, context: &str) {
    let check = polytrie!["db", "check", "--datadir", driven.data].ok();
    assert!(check.text().starts_with("clean: "), "{context}: {}", check.text());
    let straight = temp.join("straight");
    let (genesis, chain) = (sample("genesis.json"), sample("chain.rlp.gz"));
    let (to, layer) = (driven.chosen.to_string(), driven.layer);
    polytrie![
        "import",
        chain,
        "--to",
        to,
        "--chain",
        genesis,
        "--state",
        layer,
        "--datadir",
        straight
    ]
    .ok();
    let dump = |dir: &Path| polytrie!["db", "dump", "--datadir", dir].ok().stdout;
    assert!(dump(&driven.data) == dump(&straight), "{context}: another state");
    for dir in [&driven.data, &straight] {
        std::fs::remove_dir_all(dir).unwrap();
    }
}

#[expect(clippy::print_stderr, reason = "a failure is repeated with this seed")]
fn say(line: &str) {
    eprintln!("{line}");
}
