//! Tests of `kill -9` at random moments of an import.

use crate::{
    each_layer::for_each_layer,
    fixtures::{fixture, read},
    run::{Run, polytrie, program, run},
    say,
    variables::number,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

/// The number of times that an import is killed. The variable `POLYTRIE_CRASH_ROUNDS` sets another
/// number.
const ROUNDS: u32 = 10;
/// The approximate number of kills within the time of one import.
const KILLS_AN_IMPORT: u32 = 4;

/// An import that is killed several times.
struct Import {
    layer: &'static str,
    verify: &'static str,
    chain: PathBuf,
    file: PathBuf,
    datadir: PathBuf,
    /// The file of figures, with one line per block.
    csv: PathBuf,
}

impl Import {
    fn arguments(&self) -> Vec<&OsStr> {
        let mut args: Vec<&OsStr> =
            ["import", "--flush-every", "16", "--state", self.layer].map(OsStr::new).to_vec();
        args.extend(["--verify", self.verify].map(OsStr::new));
        args.extend([OsStr::new("--csv"), self.csv.as_ref()]);
        args.extend([OsStr::new("--chain"), self.chain.as_ref()]);
        args.extend([OsStr::new("--datadir"), self.datadir.as_ref(), self.file.as_ref()]);
        args
    }

    fn to_its_end(&self) -> Run {
        run(&self.arguments(), &[]).ok()
    }

    /// Starts the import and kills it after `delay`. Returns `true` if it had already ended with
    /// success.
    fn killed_after(&self, delay: Duration) -> bool {
        let mut child = program()
            .args(self.arguments())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(delay);
        child.kill().unwrap();
        child.wait().unwrap().success()
    }
}

/// Returns the head and the dump of its state.
fn end(datadir: &Path) -> (serde_json::Value, Vec<u8>) {
    let stats = polytrie!["db", "stats", "--datadir", datadir, "--json", "-"].ok().json();
    let dump = polytrie!["db", "dump", "--datadir", datadir].ok().stdout;
    (stats["head"].clone(), dump)
}

/// Returns the numbers of the blocks that have figures.
fn told(csv: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(csv).unwrap();
    text.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect()
}

/// Checks that `db check` finds no damage, or that the directory has no stamp yet.
fn check(datadir: &Path, context: &str) {
    let run = polytrie!["db", "check", "--datadir", datadir];
    if !datadir.join("polytrie.json").exists() {
        assert_eq!(run.code, Some(2), "{context}: {}", run.stderr);
        assert!(run.message().contains("no data of polytrie"), "{context}: {}", run.stderr);
        return;
    }
    assert_eq!(run.code, Some(0), "{context}: {}{}", run.text(), run.stderr);
}

for_each_layer!(an_import_that_is_killed_goes_on);

fn an_import_that_is_killed_goes_on(layer: &'static str) {
    let rounds = number("POLYTRIE_CRASH_ROUNDS").unwrap_or(ROUNDS);
    let seed: u64 = number("POLYTRIE_CRASH_SEED").unwrap_or_else(rand::random);
    let files = ["chains/condense/foundation.conf.json", "chains/condense/export.rlp.gz"];
    let [Some(chain), Some(file)] = files.map(fixture) else { return };
    let temp = tempfile::tempdir().unwrap();
    // The file is decompressed first, so that a restart does not spend time on it.
    let blocks = temp.path().join("blocks.rlp");
    std::fs::write(&blocks, read(&file)).unwrap();
    let context = format!("POLYTRIE_CRASH_SEED={seed}, layer {layer}");
    say(&format!("{context}: {rounds} rounds"));
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let import = |name: &str, verify: &'static str| Import {
        layer,
        verify,
        chain: chain.clone(),
        file: blocks.clone(),
        datadir: temp.path().join(name),
        csv: temp.path().join(format!("{name}.csv")),
    };
    let straight = import("straight", "full");
    let start = Instant::now();
    straight.to_its_end();
    let time = start.elapsed();
    let expected = end(&straight.datadir);

    let (mut kills, mut completed) = (0, 0);
    while kills < rounds {
        let verify = if completed % 2 == 0 { "full" } else { "every=25" };
        let import = import(&completed.to_string(), verify);
        while kills < rounds {
            let delay = time.mul_f64(random.random::<f64>() * 2.0 / f64::from(KILLS_AN_IMPORT));
            let ended = import.killed_after(delay);
            let context = format!("{context}, kill {kills} after {delay:?}");
            check(&import.datadir, &context);
            if ended {
                break;
            }
            kills += 1;
        }
        import.to_its_end();
        check(&import.datadir, &context);
        let found = end(&import.datadir);
        assert_eq!(found.0, expected.0, "{context}");
        assert!(found.1 == expected.1, "{context}: another state");
        let told = told(&import.csv);
        let head = expected.0["number"].as_u64().unwrap();
        assert!(told.iter().copied().eq(1..=head), "{context}: figures of {told:?}");
        std::fs::remove_dir_all(&import.datadir).unwrap();
        completed += 1;
    }
    say(&format!("{context}: killed {kills} times, completed {completed} imports"));
}
