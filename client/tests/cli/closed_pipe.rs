//! Tests of commands whose results or log cannot be written, for example because the reader closed the pipe. The exit
//! code still reports what the command found.

use crate::{
    database::store,
    fixtures::read,
    rewrite::rewritten,
    run::{Run, polytrie, program},
    support::{Data, assert_fails, sample, stream},
};
use polytrie::{blocks::BlockReader, chain::TABLES, layers};
use polytrie_kv::Batch;
use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

/// Runs the program with a standard output whose reader has closed.
fn unread(args: &[&OsStr]) -> Run {
    let mut command = program();
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    Run { code: output.status.code(), stdout: output.stdout, stderr }
}

macro_rules! unread {
    ($($arg:expr),* $(,)?) => {
        unread(&[$(OsStr::new(&$arg)),*])
    };
}

/// Writes a file with ten blocks of the sample, of which the ninth is invalid.
fn wrong_blocks(data: &Data) -> PathBuf {
    let file = data.write("blocks", read(&sample("chain.rlp.gz")));
    let mut blocks: Vec<_> =
        BlockReader::open(file).unwrap().take(10).map(|block| block.unwrap().rlp).collect();
    blocks[8] = rewritten(&blocks[8], |block| block.header.gas_used += 1);
    data.write("wrong.rlp", stream(&blocks))
}

#[test]
fn an_invalid_block_is_told_although_nobody_reads() {
    for extra in [&[][..], &["--json", "-"], &["--on-invalid", "stop"]] {
        let data = Data::new();
        let (file, dir, genesis) = (wrong_blocks(&data), data.path(), sample("genesis.json"));
        let mut args = vec![OsStr::new("import"), file.as_os_str(), OsStr::new("--datadir")];
        args.extend([dir.as_os_str(), OsStr::new("--chain"), genesis.as_os_str()]);
        args.extend(extra.iter().map(OsStr::new));
        let run = unread(&args);
        if extra.contains(&"stop") {
            assert_eq!(run.code, Some(0), "{}", run.stderr);
        } else {
            assert_fails(&run, 1, &["block 9 ", "gas used"]);
        }
        assert_eq!(data.head().0, 8);
    }
}

#[test]
fn an_invalid_block_is_told_although_its_result_cannot_be_written() {
    let data = Data::new();
    let file = wrong_blocks(&data);
    let import = |json: &Path| {
        polytrie![
            "import",
            file,
            "--datadir",
            data.path(),
            "--chain",
            sample("genesis.json"),
            "--json",
            json,
        ]
    };
    // A report that can never be written is an error before any work is done.
    let run = import(&data.file("nowhere").join("report.json"));
    assert_fails(&run, 3, &["report.json", "cannot be written", "check the path"]);
    assert!(!data.path().exists());
    let run = import(Path::new("/dev/full"));
    assert_fails(&run, 1, &["block 9 ", "gas used"]);
    assert!(run.stderr.contains("/dev/full cannot be written"), "{}", run.stderr);
    // The report is written when the import ends.
    let report = data.file("report.json");
    assert_fails(&import(&report), 1, &["block 9 "]);
    assert!(fs::read_to_string(report).unwrap().contains("\"number\": 8"));
}

#[test]
fn damage_is_told_although_nobody_reads() {
    let data = Data::new();
    polytrie!["init", "--datadir", data.path(), "--chain", sample("genesis.json")].ok();
    let tables = [layers::layer("mpt").unwrap().tables, TABLES].concat();
    let blocks = *tables.iter().find(|table| table.name == "Blocks").unwrap();
    let mut stray = Batch::new();
    stray.put(blocks, &9_u64.to_be_bytes(), b"stray");
    store(&data, &tables).write(stray).unwrap();
    for run in [
        unread!["db", "check", "--datadir", data.path()],
        unread!["db", "check", "--datadir", data.path(), "--json", "-"],
    ] {
        assert_fails(&run, 3, &["is damaged", "one problem was found"]);
    }
}

/// An import continues if its log cannot be written because the disk is full or the reader has closed.
#[test]
fn an_import_goes_on_without_its_log() {
    for full in [true, false] {
        let data = Data::new();
        let mut command = program();
        command.arg("import").arg(sample("chain.rlp.gz"));
        command.arg("--chain").arg(sample("genesis.json")).arg("--datadir").arg(data.path());
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(match full {
            true => Stdio::from(fs::File::create("/dev/full").unwrap()),
            false => Stdio::piped(),
        });
        let mut child = command.spawn().unwrap();
        drop(child.stderr.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "full: {full}");
        assert!(output.stdout.starts_with(b"head 1000 0x"), "full: {full}");
        assert_eq!(data.head().0, 1000);
    }
}

#[cfg(feature = "rain")]
#[test]
fn the_last_of_many_witnesses_is_verified_although_nobody_reads() {
    let data = Data::new();
    let dir = data.file("witnesses");
    crate::support::import![
        data.path(),
        sample("chain.rlp.gz"),
        sample("genesis.json"),
        "rain",
        "--to",
        "3",
        "--witness",
        dir
    ]
    .ok();
    let file = |number: u64| dir.join(format!("{number}.json"));
    fs::write(file(3), "{}").unwrap();
    let run =
        unread!["witness", "verify", file(1), file(2), file(3), "--chain", sample("genesis.json"),];
    assert_fails(&run, 1, &["3.json", "holds no witness"]);
}
