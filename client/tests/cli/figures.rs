//! Tests of the files to which an import writes its figures. Existing content of other kinds is kept.

use crate::{
    branches::{Branch, branch, empty_chain},
    run::{polytrie, program, run},
    support::{Data, assert_fails, sample, stream},
};
use alloy_primitives::Address;
use parking_lot::Mutex;
use polytrie::{
    chain::{Chain, ChainOptions, TABLES},
    import::{CsvLog, ImportOptions},
    layers::{LAYERS, LayerOptions},
};
use polytrie_chainspec::ChainSpec;
use polytrie_kv::{Durability, MemoryEngine, Store, StoreOptions};
use polytrie_state::{BlockRef, LayerSession, Outcome, StateError, StateLayer};
use polytrie_testing::{AlterLayer, AlteredLayer};
use serde_json::json;
use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// Returns the arguments of an import of the sample.
fn import(data: &Data, more: &[&dyn AsRef<OsStr>]) -> Vec<PathBuf> {
    let mut args = vec![PathBuf::from("import"), sample("chain.rlp.gz")];
    args.extend(["--chain".into(), sample("genesis.json")]);
    args.extend(["--datadir".into(), data.path()]);
    args.extend(more.iter().map(|arg| PathBuf::from(arg.as_ref())));
    args
}

fn imported(data: &Data, more: &[&dyn AsRef<OsStr>]) -> crate::run::Run {
    let args = import(data, more);
    run(&args.iter().map(|arg| arg.as_os_str()).collect::<Vec<_>>(), &[])
}

/// Checks the heading of a file of figures and returns the block numbers of its lines.
fn blocks(csv: &Path) -> Vec<u64> {
    let text = fs::read_to_string(csv).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("block_number,blocks,slot,txs,gas,time"));
    lines.map(|line| line.split(',').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn an_import_that_goes_on_appends_to_its_lines() {
    let data = Data::new();
    let csv = data.file("blocks.csv");
    let up_to = |to: &str| imported(&data, &[&"--csv", &csv, &"--to", &to]);
    up_to("40").ok();
    assert!(blocks(&csv).into_iter().eq(1..=40));
    up_to("60").ok();
    assert!(blocks(&csv).into_iter().eq(1..=60));
    // An import without new blocks adds no lines.
    up_to("60").ok();
    assert!(blocks(&csv).into_iter().eq(1..=60));

    // An import was killed in the middle of a line, and the file has lines of blocks that were not
    // durable.
    polytrie!["db", "unwind", "--to", "50", "--datadir", data.path()].ok();
    let mut text = fs::read_to_string(&csv).unwrap();
    text.push_str("61,1,,7");
    fs::write(&csv, text).unwrap();
    up_to("70").ok();
    assert!(blocks(&csv).into_iter().eq(1..=70));

    // An import into another data directory starts the file again.
    let other = Data::new();
    imported(&other, &[&"--csv", &csv, &"--to", &"5"]).ok();
    assert!(blocks(&csv).into_iter().eq(1..=5));

    let notes = data.write("notes.csv", "what I know of blocks\n");
    let run = imported(&data, &[&"--csv", &notes, &"--to", &"80"]);
    assert_fails(&run, 2, &["notes.csv", "holds something else", "name another file"]);
    assert_eq!(fs::read_to_string(&notes).unwrap(), "what I know of blocks\n");
    // After a power failure a file may hold a few zeros in the place of the heading. A longer file of
    // zeros is something else, and is not overwritten.
    let image = data.write("disk.img", [0; 4096]);
    for option in ["--csv", "--trace", "--bal-file"] {
        let more: [&dyn AsRef<OsStr>; 3] = [&option, &image, &"--bal-build"];
        let run = imported(&data, &more);
        assert_fails(&run, 2, &["disk.img", "name another file"]);
        assert_eq!(fs::read(&image).unwrap(), [0; 4096], "{option}");
    }
    fs::write(&image, [0; 10]).unwrap();
    imported(&data, &[&"--csv", &image, &"--to", &"75"]).ok();
    assert!(blocks(&image).into_iter().eq(71..=75));
}

#[test]
fn figures_do_not_replace_what_is_read() {
    let data = Data::new();
    let chain = data.file("chain.rlp.gz");
    let genesis = data.file("genesis.json");
    fs::copy(sample("chain.rlp.gz"), &chain).unwrap();
    fs::copy(sample("genesis.json"), &genesis).unwrap();
    // The same file under another path.
    let within = data.file("within");
    fs::create_dir(&within).unwrap();
    let roundabout = within.join("../chain.rlp.gz");
    let both = data.file("both");
    for (outputs, words) in [
        (vec!["--csv".into(), chain.clone()], ["--csv", "chain.rlp.gz", "what is read"]),
        (vec!["--json".into(), roundabout], ["--json", "chain.rlp.gz", "what is read"]),
        (vec!["--json".into(), genesis.clone()], ["--json", "genesis.json", "what is read"]),
        (
            vec!["--json".into(), both.clone(), "--csv".into(), both.clone()],
            ["--csv", "both", "that of --json"],
        ),
    ] {
        let mut args = vec![PathBuf::from("import"), chain.clone(), "--chain".into()];
        args.extend([genesis.clone(), "--datadir".into(), data.path()]);
        args.extend(outputs);
        let run = run(&args.iter().map(|arg| arg.as_os_str()).collect::<Vec<_>>(), &[]);
        assert_fails(&run, 2, &words);
        assert!(!data.path().exists() && !both.exists());
    }
    assert_eq!(fs::read(&chain).unwrap(), fs::read(sample("chain.rlp.gz")).unwrap());
    assert_eq!(fs::read(&genesis).unwrap(), fs::read(sample("genesis.json")).unwrap());
    let run = polytrie!["bench", "compare", genesis, chain, "--json", chain];
    assert_fails(&run, 2, &["--json", "chain.rlp.gz"]);
}

/// An import whose reader of the figures has closed goes on to its end.
#[test]
fn an_import_goes_on_without_a_reader_of_its_figures() {
    let data = Data::new();
    let mut import = program()
        .args(import(&data, &[&"--csv", &"-"]))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(import.stdout.take());
    assert_eq!(import.wait().unwrap().code(), Some(0));
    assert_eq!(data.head().0, 1000);
}

/// A layer that flushes the store when the next block begins after an undo, as `qmdb` does.
#[derive(Debug)]
struct Settles {
    store: Store,
    csv: PathBuf,
    went_back: AtomicBool,
    /// The block numbers in the file of figures before each of these flushes.
    told: Arc<Mutex<Vec<Vec<u64>>>>,
}

impl AlterLayer for Settles {
    fn undo(&self, inner: &Arc<dyn StateLayer>, record: &[u8]) -> Result<Outcome, StateError> {
        self.went_back.store(true, Relaxed);
        inner.undo(record)
    }

    fn begin(
        &self,
        inner: &Arc<dyn StateLayer>,
        parent: BlockRef,
    ) -> Result<Box<dyn LayerSession>, StateError> {
        if self.went_back.swap(false, Relaxed) {
            self.told.lock().push(blocks(&self.csv));
            self.store.flush()?;
        }
        inner.begin(parent)
    }
}

/// A change of branch may make blocks durable, so that they are not executed again. Their figures are
/// written before.
#[test]
fn lines_come_before_a_change_of_branch() {
    let (genesis, empty) = empty_chain(12);
    let spec = Arc::new(ChainSpec::parse("empty", genesis.as_bytes()).unwrap());
    let mined = |tip, seconds| {
        let beneficiary = Address::repeat_byte(0xbe);
        branch(&spec, &empty, Branch { fork: 0, tip, seconds, beneficiary })
    };
    let (Some(light), Some(heavy)) = (mined(10, 1_000), mined(12, 1)) else { return };
    let data = Data::new();
    let file = data.write("branches.rlp", stream(light.iter().chain(&heavy)));
    let csv = data.file("blocks.csv");

    let kind = LAYERS.iter().find(|kind| kind.canonical).unwrap();
    let tables = [kind.tables, TABLES].concat();
    let options = StoreOptions { durability: Durability::ByHand, ..StoreOptions::default() };
    let store = Store::open(Arc::new(MemoryEngine::new()), &tables, options).unwrap();
    let inner = (kind.open)(store.clone().into(), &LayerOptions::default()).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let settles = Settles {
        store: store.clone(),
        csv: csv.clone(),
        went_back: AtomicBool::new(false),
        told: Arc::clone(&told),
    };
    let layer = Arc::new(AlteredLayer::new(inner, settles));
    let mut chain = Chain::open(spec, store, layer, ChainOptions::default()).unwrap();
    let options = ImportOptions {
        csv: Some(CsvLog::create(&csv).unwrap()),
        ..ImportOptions::plain(vec![file])
    };
    let end = polytrie::import::import(&mut chain, options);
    assert!(end.error.is_none(), "{:?}", end.error);
    assert_eq!((end.report.reorganised, chain.head().number()), (1, 12));
    assert_eq!(*told.lock(), [(1..=10_u64).collect::<Vec<_>>()]);
}

#[test]
fn every_result_is_there_for_a_machine() {
    let data = Data::new();
    imported(&data, &[&"--to", &"9"]).ok();
    let file = data.file("out.rlp");
    let export = |to: &Path, json: &Path| {
        polytrie!["export", to, "--datadir", data.path(), "--from", "3", "--json", json]
    };
    let stdout = Path::new("-");
    let exported = export(&file, stdout).ok().json();
    let expected = json!({ "format": "rlp", "from": 3, "to": 9, "blocks": 7, "files": [file] });
    assert_eq!(exported, expected);
    assert_fails(&export(stdout, stdout), 2, &["--json", "standard output"]);
    assert_fails(&export(&file, &file), 2, &["is the same file", "--json"]);
    let dropped =
        polytrie!["db", "drop", "--yes", "--datadir", data.path(), "--json", "-"].ok().json();
    assert_eq!((&dropped["removed"], &dropped["others"]), (&json!(true), &json!(false)));
}
