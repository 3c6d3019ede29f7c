//! Where an import writes its figures: what is there already stays.

use crate::{
    run::{binary, polytrie, run},
    support::{Data, assert_fails, sample},
};
use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The arguments of an import of the sample.
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

/// The blocks of the lines of a file of figures, which begins as it should.
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
    // Nothing to do, nothing to say.
    up_to("60").ok();
    assert!(blocks(&csv).into_iter().eq(1..=60));

    // Killed within a line, and with lines of blocks that were not durable.
    polytrie!["db", "unwind", "--to", "50", "--datadir", data.path()].ok();
    let mut text = fs::read_to_string(&csv).unwrap();
    text.push_str("61,1,,7");
    fs::write(&csv, text).unwrap();
    up_to("70").ok();
    assert!(blocks(&csv).into_iter().eq(1..=70));

    // Another data directory begins again.
    let other = Data::new();
    imported(&other, &[&"--csv", &csv, &"--to", &"5"]).ok();
    assert!(blocks(&csv).into_iter().eq(1..=5));

    let notes = data.write("notes.csv", "what I know of blocks\n");
    let run = imported(&data, &[&"--csv", &notes, &"--to", &"80"]);
    assert_fails(&run, 2, &["notes.csv", "holds something else", "name another file"]);
    assert_eq!(fs::read_to_string(&notes).unwrap(), "what I know of blocks\n");
}

#[test]
fn figures_do_not_replace_what_is_read() {
    let data = Data::new();
    let chain = data.file("chain.rlp.gz");
    let genesis = data.file("genesis.json");
    fs::copy(sample("chain.rlp.gz"), &chain).unwrap();
    fs::copy(sample("genesis.json"), &genesis).unwrap();
    // By another name, too.
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

/// The blocks are what was asked for, whoever reads the figures.
#[test]
fn an_import_goes_on_without_a_reader_of_its_figures() {
    let data = Data::new();
    let mut import = Command::new(binary())
        .args(import(&data, &[&"--csv", &"-"]))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(import.stdout.take());
    assert_eq!(import.wait().unwrap().code(), Some(0));
    assert_eq!(data.head().0, 1000);
}
