//! Tests of commands on a data directory that does not fit: one of another layer, network or format, one that is not
//! of this program, and one in use.

use crate::{
    fixtures::fixture,
    run::{Run, polytrie, program, run},
    support::{
        CONDENSE, Chain, Data, RPC_COMPAT, assert_fails, check, for_each_layer, head, import,
        init_from_dump, sample, stream,
    },
};
use polytrie::datadir::UNFINISHED_FILE;
use polytrie_state::Stamp;
use serde_json::Value;
use std::{fs, io::Write, path::Path, process::Stdio, thread, time::Duration};

for_each_layer!(
    another_layer_or_engine,
    another_network,
    other_forks,
    another_format,
    not_ours,
    nothing_there,
    in_use,
    drop_removes_what_is_ours,
);

fn prepared(layer: &str) -> Option<(Chain, Data)> {
    let chain = RPC_COMPAT.open()?;
    let data = chain.imported(layer, 10);
    Some((chain, data))
}

/// Checks that the directory still holds the first ten blocks and passes its check.
fn untouched(data: &Data) {
    assert_eq!(data.head().0, 10);
    data.check();
}

fn another_layer_or_engine(layer: &str) {
    let Some((chain, data)) = prepared(layer) else { return };
    let name = data.path().display().to_string();
    let other = if layer == "raw" { "mpt" } else { "raw" };
    // The layers depend on the build.
    if polytrie::layers::layer(other).is_ok() {
        let words = [&*name, &format!("`{layer}`"), &format!("`{other}`"), "another --datadir"];
        for command in [
            polytrie!["import", chain.file, "--datadir", data.path(), "--state", other],
            polytrie!["db", "check", "--datadir", data.path(), "--state", other],
            polytrie!["db", "unwind", "--to", "1", "--datadir", data.path(), "--state", other],
        ] {
            assert_fails(&command, 2, &words);
        }
    }
    let unknown = polytrie!["import", chain.file, "--datadir", data.path(), "--state", "merkle"];
    assert_fails(&unknown, 2, &["`merkle`", layer]);
    let engine = polytrie!["import", chain.file, "--datadir", data.path(), "--kv", "rocksdb"];
    assert_fails(&engine, 2, &[&name, "the engine `mdbx`", "`rocksdb`"]);
    let engine = polytrie!["import", chain.file, "--datadir", data.path(), "--kv", "leveldb"];
    assert_fails(&engine, 2, &["`mdbx`", "`leveldb`"]);
    // The engine must fit even for a run in memory, which would not write to the directory.
    let engine = polytrie!["import", chain.file, "--datadir", data.path(), "--kv", "memory"];
    assert_fails(&engine, 2, &[&name, "the engine `mdbx`", "`memory`"]);
    let engine = import![data.path(), chain.file, chain.chain, other, "--kv", "memory"];
    assert_fails(&engine, 2, &[&name, "`memory`"]);
    let node = polytrie!["devnet", "--datadir", data.path(), "--kv", "memory", "--http.port", "0"];
    assert_fails(&node, 2, &[&name, "the engine `mdbx`", "`memory`"]);
    untouched(&data);
}

fn another_network(layer: &str) {
    let Some((chain, data)) = prepared(layer) else { return };
    let name = data.path().display().to_string();
    let run = polytrie!["import", chain.file, "--datadir", data.path(), "--chain", "mainnet"];
    let mainnet = "0xd4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3";
    let words = [
        &*name,
        "the chain",
        "genesis.json",
        "genesis 0x",
        "mainnet",
        mainnet,
        "another --datadir",
    ];
    assert_fails(&run, 2, &words);
    let run = polytrie!["import", chain.file, "--datadir", data.path(), "--chain", "mainnot"];
    assert_fails(&run, 2, &["mainnot", "mainnet", "sepolia"]);
    let run =
        polytrie!["import", chain.file, "--datadir", data.path(), "--chain", data.file("x.json")];
    assert_fails(&run, 3, &["x.json", "check the path after --chain"]);
    let broken = data.write("broken.json", "{\"config\":");
    let run = polytrie!["import", chain.file, "--datadir", data.path(), "--chain", broken];
    assert_fails(&run, 1, &["broken.json", "not valid JSON", "make or copy it again"]);
    // A copy of the genesis file under another name gives the same chain.
    let copy = data.file("copy.json");
    fs::copy(&chain.chain, &copy).unwrap();
    polytrie!["import", chain.file, "--datadir", data.path(), "--chain", copy, "--to", "10"].ok();
    untouched(&data);
    // The genesis file that the directory was created with may be missing later, because the directory keeps what it
    // needs.
    let own = Data::new();
    polytrie!["init", "--datadir", own.path(), "--chain", copy, "--state", layer].ok();
    fs::remove_file(&copy).unwrap();
    own.check();
    polytrie!["import", chain.file, "--datadir", own.path(), "--to", "10"].ok();
    own.check();
    polytrie!["db", "check", "--datadir", own.path(), "--chain", chain.chain].ok();
}

/// A genesis file with a different fork up to the head is refused. Later forks may change.
fn other_forks(layer: &str) {
    let Some((chain, data)) = prepared(layer) else { return };
    let name = data.path().display().to_string();
    let genesis = fs::read_to_string(&chain.chain).unwrap();
    let changed = |file: &str, from: &str, to: &str| {
        assert!(genesis.contains(from));
        data.write(file, genesis.replace(from, to))
    };
    let import = |genesis: &Path, to: &str| {
        polytrie!["import", chain.file, "--datadir", data.path(), "--chain", genesis, "--to", to]
    };
    let words = [&*name, "10 blocks", "the fork Byzantium at block 9", "--chain says at block 10"];
    let late = changed("late.json", "\"byzantiumBlock\": 9", "\"byzantiumBlock\": 10");
    for run in [
        import(&late, "20"),
        polytrie!["db", "check", "--datadir", data.path(), "--chain", late],
        polytrie!["db", "unwind", "--to", "3", "--datadir", data.path(), "--chain", late],
    ] {
        assert_fails(&run, 2, &words);
        assert_fails(&run, 2, &["leave --chain out", "another --datadir"]);
    }
    let other = changed("other.json", "\"chainId\": 3503995874084926", "\"chainId\": 5");
    assert_fails(&import(&other, "20"), 2, &["the chain id 3503995874084926", "says 5"]);
    // No refused genesis is stored. A change of a fork after the head is stored, and may be reverted later.
    let ahead = changed("ahead.json", "\"osakaTime\": 480", "\"osakaTime\": 481");
    let osaka = || {
        let outline = fs::read(data.path().join("chain.json")).unwrap();
        let outline: Value = serde_json::from_slice(&outline).unwrap();
        outline["genesis"]["config"]["osakaTime"].as_u64()
    };
    polytrie!["import", chain.file, "--datadir", data.path(), "--to", "11"].ok();
    assert_eq!(osaka(), Some(480));
    import(&ahead, "12").ok();
    assert_eq!(osaka(), Some(481));
    import(&chain.chain, "54").ok();
    assert_eq!(data.head(), (chain.head, chain.hash.to_owned()));
    assert_fails(&import(&ahead, "54"), 2, &["the fork Osaka at time 480", "says at time 481"]);
    assert_eq!(osaka(), Some(480));
    data.check();
}

/// A built-in chain is found by its name, even if a file with that name lies in the working directory.
#[test]
fn a_file_with_the_name_of_a_chain_is_not_that_chain() {
    let data = Data::new();
    let file = data.write("dev", "something else");
    let mut init = program();
    init.args(["init", "--chain", "dev", "--datadir"]).arg(data.path());
    let init = init.current_dir(file.parent().unwrap()).output().unwrap();
    assert!(init.status.success(), "{}", String::from_utf8_lossy(&init.stderr));
    let chain = |dir: &Path| Stamp::read(dir).unwrap().unwrap().chain;
    assert_eq!(chain(&data.path()), "dev");
    data.check();
    // A genesis file that was put into the data directory is ignored, too.
    fs::copy(sample("genesis.json"), data.path().join("genesis.json")).unwrap();
    let out = data.file("out");
    polytrie!["db", "convert", "--to", "raw", "--datadir", data.path(), "--out", out].ok();
    assert_eq!(chain(&out), "dev");
}

/// A rule that was changed in `chain.json` is not used. The changed rule, a digit of the address of the deposit
/// contract, would make blocks with deposits invalid.
#[test]
fn rules_that_were_changed_in_the_directory_are_not_believed() {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = Data::new();
    let genesis = data.file("genesis.json");
    fs::copy(&chain.chain, &genesis).unwrap();
    let import = |more: &[&str]| {
        let mut args: Vec<_> = ["import", chain.file.to_str().unwrap(), "--datadir"].into();
        let path = data.path();
        args.push(path.to_str().unwrap());
        args.extend(more);
        let args: Vec<_> = args.iter().map(std::ffi::OsStr::new).collect();
        run(&args, &[])
    };
    import(&["--chain", genesis.to_str().unwrap(), "--to", "10"]).ok();
    let outline = data.path().join("chain.json");
    let text = fs::read_to_string(&outline).unwrap();
    let at = text.find("depositContractAddress").unwrap() + 30;
    let change = |file: &Path, at: usize| {
        let mut bytes = fs::read(file).unwrap();
        bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
        fs::write(file, bytes).unwrap();
    };
    change(&outline, at);
    // The genesis file still exists, and the rules are read from it again.
    for more in [&["--to", "20"][..], &["--to", "21", "--chain", genesis.to_str().unwrap()]] {
        let run = import(more).ok();
        assert!(run.stderr.contains("chain.json is of no use (it was changed"), "{}", run.stderr);
    }
    assert_eq!(fs::read_to_string(&outline).unwrap(), text);
    let name = data.path().display().to_string();
    let words = [&*name, "chain.json", "is missing or damaged", "put back a copy of either file"];
    // Now both files are changed.
    change(&outline, at);
    let original = fs::read_to_string(&genesis).unwrap();
    change(&genesis, original.find("depositContractAddress").unwrap() + 30);
    let has = "genesis.json has other rules now";
    assert_fails(&import(&[]), 3, &[&words[..], &[has]].concat());
    assert_fails(&import(&["--chain", genesis.to_str().unwrap()]), 3, &words);
    assert_fails(&polytrie!["db", "check", "--datadir", data.path()], 3, &words);
    fs::remove_file(&genesis).unwrap();
    assert_fails(&import(&[]), 3, &[&words[..], &["No such file"]].concat());
    // Any file with the right rules is accepted.
    import(&["--chain", chain.chain.to_str().unwrap()]).ok();
    assert_eq!(data.head(), (chain.head, chain.hash.to_owned()));
    data.check();
}

fn another_format(layer: &str) {
    let Some((chain, data)) = prepared(layer) else { return };
    let stamp = data.path().join("polytrie.json");
    let original = fs::read_to_string(&stamp).unwrap();
    let format = Stamp::FORMAT;
    let known = format!("\"format\": {format}");
    fs::write(&stamp, original.replace(&known, "\"format\": 99")).unwrap();
    let name = data.path().display().to_string();
    let reads = format!("reads format {format}");
    let words = [&*name, "has format 99", &reads, "import again into another --datadir"];
    for run in [
        polytrie!["import", chain.file, "--datadir", data.path()],
        polytrie!["db", "stats", "--datadir", data.path()],
        polytrie!["export", "-", "--datadir", data.path()],
    ] {
        assert_fails(&run, 2, &words);
    }
    let changed = original.replace("\"kv\": \"mdbx\"", "\"kv\": \"memory\"");
    assert_ne!(changed, original);
    for damaged in ["", "{}", "not JSON", &changed] {
        fs::write(&stamp, damaged).unwrap();
        let run = polytrie!["import", chain.file, "--datadir", data.path()];
        assert_fails(
            &run,
            3,
            &["polytrie.json", "not a stamp this program understands", "another --datadir"],
        );
        let run = polytrie!["db", "drop", "--yes", "--datadir", data.path()];
        assert_fails(&run, 3, &["polytrie.json"]);
    }
    fs::write(&stamp, original).unwrap();
    untouched(&data);
}

fn not_ours(layer: &str) {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = Data::new();
    fs::create_dir(data.path()).unwrap();
    fs::write(data.path().join("letter.txt"), "dear").unwrap();
    let run = import![data.path(), chain.file, chain.chain, layer];
    let name = data.path().display().to_string();
    assert_fails(&run, 2, &[&name, "is not empty", "choose an empty directory"]);
    let run = polytrie!["db", "drop", "--yes", "--datadir", data.path()];
    assert_fails(&run, 2, &[&name, "is not a data directory", "nothing was removed"]);
    assert_eq!(fs::read_to_string(data.path().join("letter.txt")).unwrap(), "dear");
    // The remains of an import that was killed at its start are no obstacle. A directory with blocks but without a
    // stamp is one.
    let begun = data.file("begun");
    fs::create_dir_all(begun.join("db")).unwrap();
    fs::write(begun.join("LOCK"), "1234\n").unwrap();
    let import = || import![begun, chain.file, chain.chain, layer];
    import().ok();
    fs::remove_file(begun.join("chain.json")).unwrap();
    fs::remove_file(begun.join("polytrie.json")).unwrap();
    assert_fails(
        &import(),
        2,
        &["begun is not empty and holds no polytrie.json", "choose an empty"],
    );
    let file = data.write("plain", "a file");
    let run = import![file, chain.file, chain.chain, layer];
    assert_fails(&run, 3, &["plain", "check the path"]);
}

/// A data directory that lost its stamp still holds its store. Commands that fill a new directory refuse it, and do
/// not overwrite the store.
#[test]
fn a_store_that_lost_its_stamp_is_not_filled_anew() {
    let (file, genesis) = (sample("chain.rlp.gz"), sample("genesis.json"));
    let data = Data::new();
    polytrie!["import", file, "--datadir", data.path(), "--chain", genesis, "--to", "3"].ok();
    let (dump, block) = (data.write("dump", data.dump()), data.file("block.rlp"));
    polytrie!["export", block, "--datadir", data.path(), "--from", "3", "--to", "3"].ok();
    let lost = data.file("lost");
    polytrie!["import", file, "--datadir", lost, "--chain", genesis, "--to", "5"].ok();
    let (stamp, outline) = (lost.join("polytrie.json"), lost.join("chain.json"));
    let (kept, kept_outline) = (fs::read(&stamp).unwrap(), fs::read(&outline).unwrap());
    fs::remove_file(&stamp).unwrap();
    fs::remove_file(&outline).unwrap();
    let name = lost.display().to_string();
    let from_dump = init_from_dump![lost, dump, block, genesis];
    let convert =
        || polytrie!["db", "convert", "--to", "mpt", "--datadir", data.path(), "--out", lost];
    for run in [
        from_dump,
        polytrie!["init", "--shape", "mainnet", "--size", "100k", "--datadir", lost],
        polytrie!["import", "--prestate", data.file(""), "--chain", genesis, "--datadir", lost],
        convert(),
    ] {
        assert_fails(&run, 2, &[&name, "holds no polytrie.json", "restore that file from a copy"]);
    }
    assert_fails(&polytrie!["db", "drop", "--yes", "--datadir", lost], 2, &["nothing was removed"]);
    fs::write(&stamp, kept).unwrap();
    fs::write(&outline, kept_outline).unwrap();
    check(&lost);
    assert_eq!(head(&lost).0, 5);
    // With the mark of an unfinished attempt in place of the stamp, the directory is filled again or dropped.
    for is_filled in [true, false] {
        fs::rename(&stamp, lost.join(UNFINISHED_FILE)).unwrap();
        fs::remove_file(&outline).unwrap();
        if is_filled {
            convert().ok();
            check(&lost);
            assert_eq!(head(&lost).0, 3);
        }
    }
    let run = polytrie!["db", "drop", "--datadir", lost];
    assert_fails(&run, 2, &["that was not finished", "add --yes"]);
    polytrie!["db", "drop", "--yes", "--datadir", lost].ok();
    assert!(!lost.exists());
}

fn nothing_there(layer: &str) {
    let Some(file) = fixture(RPC_COMPAT.file) else { return };
    let data = Data::new();
    let name = data.path().display().to_string();
    let run = polytrie!["import", file, "--datadir", data.path(), "--state", layer];
    assert_fails(&run, 2, &["--chain is needed", "mainnet", "genesis.json"]);
    assert!(!data.path().exists());
    let run = polytrie!["import", file, "--chain", "mainnet", "--state", layer];
    assert_fails(&run, 2, &["--datadir is needed"]);
    for run in [
        polytrie!["db", "stats", "--datadir", data.path()],
        polytrie!["db", "check", "--datadir", data.path()],
        polytrie!["db", "dump", "--datadir", data.path()],
        polytrie!["db", "unwind", "--to", "0", "--datadir", data.path()],
        polytrie!["export", "-", "--datadir", data.path()],
        polytrie!["devnet", "--read-only", "--datadir", data.path(), "--http.port", "0"],
    ] {
        assert_fails(&run, 2, &[&name, "no data of polytrie", "polytrie import", "polytrie.json"]);
    }
    assert!(!data.path().exists());
}

/// While an import holds the directory and waits for blocks, other commands may read the directory but not write to
/// it.
fn in_use(layer: &str) {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let blocks = chain.blocks();
    let data = Data::new();
    let mut first = program()
        .args(["import", "-", "--state", layer, "--datadir"])
        .arg(data.path())
        .arg("--chain")
        .arg(&chain.chain)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = first.stdin.take().unwrap();
    stdin.write_all(&stream(&blocks[..10])).unwrap();
    // The directory has been opened when it has a stamp, and holds a block when it has a head.
    let is_open = || {
        let run = polytrie!["db", "stats", "--datadir", data.path(), "--json", "-"];
        run.code == Some(0) && run.json()["head"].is_object()
    };
    while !is_open() {
        assert!(first.try_wait().unwrap().is_none(), "the import has ended");
        thread::sleep(Duration::from_millis(20));
    }
    let name = data.path().display().to_string();
    let words =
        [&*name, "in use by another process", &format!("process {}", first.id()), "stop it"];
    let refused = |run: Run| assert_fails(&run, 3, &words);
    refused(polytrie!["import", chain.file, "--datadir", data.path()]);
    refused(polytrie!["db", "unwind", "--to", "0", "--datadir", data.path()]);
    refused(polytrie!["db", "drop", "--yes", "--datadir", data.path()]);
    data.check();
    data.dump();
    stdin.write_all(&stream(&blocks[10..])).unwrap();
    drop(stdin);
    assert!(first.wait().unwrap().success());
    assert_eq!(data.head(), (chain.head, chain.hash.to_owned()));
    data.check();
}

fn drop_removes_what_is_ours(layer: &str) {
    let Some((_, data)) = prepared(layer) else { return };
    let asked = polytrie!["db", "drop", "--datadir", data.path()];
    assert_fails(&asked, 2, &[&format!("under `{layer}`"), "add --yes"]);
    untouched(&data);
    let letter = data.path().join("letter.txt");
    fs::write(&letter, "dear").unwrap();
    let run = polytrie!["db", "drop", "--yes", "--datadir", data.path()].ok();
    assert!(run.text().contains("other files are in it and stay"), "{}", run.text());
    let left = |dir: &Path| fs::read_dir(dir).unwrap().count();
    assert_eq!((left(&data.path()), letter.exists()), (1, true));

    let Some((_, data)) = prepared(layer) else { return };
    // Files that `import --bal-build` and `engine` keep in the directory.
    for file in ["access-lists", "jwt.hex"] {
        fs::write(data.path().join(file), "").unwrap();
    }
    // The remains of a shadow whose import was killed at its start.
    fs::create_dir_all(data.path().join("shadow-raw/db")).unwrap();
    fs::write(data.path().join("shadow-raw/LOCK"), "1234\n").unwrap();
    let run = polytrie!["db", "drop", "--yes", "--datadir", data.path()].ok();
    assert!(run.text().starts_with("removed "), "{}", run.text());
    assert!(!data.path().exists());
}

/// A directory that was moved has its genesis at another path than its stamp says. A genesis that the user put beside the
/// stamp stays, also if it is the last copy.
#[test]
fn drop_removes_the_genesis_of_a_directory_that_was_moved() {
    let data = Data::new();
    let [made, converted, moved] = ["made", "converted", "moved"].map(|name| data.file(name));
    polytrie!["init", "--shape", "mainnet", "--size", "100k", "--datadir", made].ok();
    polytrie!["db", "convert", "--to", "raw", "--datadir", made, "--out", converted].ok();
    for dir in [made, converted] {
        fs::rename(&dir, &moved).unwrap();
        assert!(moved.join("genesis.json").exists());
        polytrie!["db", "drop", "--yes", "--datadir", moved].ok();
        assert!(!moved.exists(), "{}", dir.display());
    }

    let genesis = fs::read_to_string(sample("genesis.json")).unwrap();
    for is_last in [false, true] {
        let (net, dir) = (data.file("net"), data.file(if is_last { "last" } else { "one" }));
        let (given, own) = (net.join("genesis.json"), dir.join("genesis.json"));
        fs::create_dir_all(&net).unwrap();
        fs::write(&given, &genesis).unwrap();
        polytrie!["init", "--chain", given, "--datadir", dir].ok();
        fs::write(&own, format!("{genesis}\n")).unwrap();
        if is_last {
            fs::remove_dir_all(&net).unwrap();
        }
        polytrie!["db", "drop", "--yes", "--datadir", dir].ok();
        assert_eq!((own.exists(), fs::read_dir(&dir).unwrap().count()), (true, 1));
    }
}

/// An output that would replace the store or the stamp is refused, and the chain stays.
#[test]
fn an_output_in_the_place_of_the_data_is_refused() {
    let data = Data::new();
    let (file, genesis) = (sample("chain.rlp.gz"), sample("genesis.json"));
    polytrie!["import", file, "--datadir", data.path(), "--chain", genesis, "--to", "3"].ok();
    for name in ["db/mdbx.dat", "db/report.json", "polytrie.json", "chain.json", "LOCK"] {
        let out = data.path().join(name);
        for run in [
            polytrie!["export", out, "--datadir", data.path()],
            polytrie!["db", "dump", out, "--datadir", data.path()],
            polytrie!["db", "stats", "--datadir", data.path(), "--json", out],
            polytrie!["import", file, "--datadir", data.path(), "--to", "4", "--json", out],
            polytrie!["conformance", data.file("tests"), "--json", out],
        ] {
            assert_fails(&run, 2, &[name, "would replace a part of the data directory"]);
        }
    }
    // A link may lead to a file that is still to be made.
    #[cfg(unix)]
    {
        let link = data.file("link");
        std::os::unix::fs::symlink(data.path().join("db/report.json"), &link).unwrap();
        let run = polytrie!["db", "stats", "--datadir", data.path(), "--json", link];
        assert_fails(&run, 2, &["link", "would replace a part of the data directory"]);
    }
    // A generated genesis would be taken for that of a devnet's directory.
    let made = data.path().join("genesis.json");
    fs::write(&made, "{}").unwrap();
    let args = ["--shape", "mainnet", "--size", "10k"];
    let generated =
        polytrie!["bench", "generate", "--out", data.path(), args[0], args[1], args[2], args[3]];
    assert_fails(&generated, 2, &["genesis.json", "would replace a part of the data directory"]);
    assert_eq!(fs::read_to_string(&made).unwrap(), "{}");
    let out = data.path().join("report.json");
    polytrie!["db", "stats", "--datadir", data.path(), "--json", out].ok();
    assert_eq!(data.head().0, 3);
    data.check();
}

/// A command that fails before its work creates no directory, because that would have the wrong layer or chain for
/// the next command.
#[test]
fn nothing_is_made_for_what_cannot_be_carried_out() {
    let data = Data::new();
    let (file, genesis) = (sample("chain.rlp.gz"), sample("genesis.json"));
    let nowhere = data.file("nowhere").join("file");
    let import = |file: &Path, chain: &Path, option: &str, value: &Path| {
        polytrie!["import", file, "--datadir", data.path(), "--chain", chain, option, value]
    };
    let option = |option: &str, value: &Path| import(&file, &genesis, option, value);
    let to = |file: &Path, chain: &Path| import(file, chain, "--to", Path::new("3"));
    for (run, code, words) in [
        (to(&nowhere, &genesis), 3, &["there is no such file"][..]),
        (to(&genesis, &genesis), 1, &["looks like JSON"]),
        (to(&file, Path::new("mainnet")), 1, &["mainnet", "name the right one with --chain"]),
        (option("--kv", Path::new("leveldb")), 2, &["there is no engine `leveldb`"]),
        (option("--shadow", Path::new("nope")), 2, &["`nope`"]),
        (option("--shadow", Path::new("mpt")), 2, &["--shadow mpt", "name another one"]),
        (option("--witness", &data.file("witness")), 2, &["makes no witnesses", "`rain`"]),
        (option("--csv", &nowhere), 3, &["nowhere"]),
        (option("--json", &nowhere), 3, &["nowhere"]),
    ] {
        assert_fails(&run, code, words);
        assert!(!data.path().exists(), "{}", run.stderr);
    }
    let init = polytrie!["init", "--datadir", data.path(), "--chain", genesis, "--json", nowhere];
    assert_fails(&init, 3, &["nowhere"]);
    assert!(!data.path().exists());
    // An output within a directory that is to be made would stand in its way.
    let within = data.path().join("file");
    for name in ["--json", "--csv", "--trace", "--witness"] {
        let words = [name, "is no data directory yet", "name a path outside of it"];
        assert_fails(&option(name, &within), 2, &words);
        assert!(!data.path().exists(), "{name}");
    }
    let init = polytrie!["init", "--datadir", data.path(), "--chain", genesis, "--json", within];
    assert_fails(&init, 2, &["is no data directory yet"]);
    // With `--on-invalid stop` the genesis block is kept even if the first block is invalid.
    let stopped = data.file("stopped");
    let (chain, how) = (Path::new("mainnet"), "stop");
    polytrie!["import", file, "--datadir", stopped, "--chain", chain, "--on-invalid", how].ok();
    assert_eq!(head(&stopped).0, 0);
    // Block 0 of a file is compared with the genesis of the chain.
    if let (Some(condense), Some(rpc)) = (CONDENSE.open(), RPC_COMPAT.open()) {
        assert_fails(&to(&condense.file, &rpc.chain), 1, &["genesis block 0x", "--chain"]);
        assert!(!data.path().exists());
    }
    // A failed import keeps the figures that an earlier one wrote.
    let csv = data.file("blocks.csv");
    option("--csv", &csv).ok();
    let figures = fs::read_to_string(&csv).unwrap();
    let run = polytrie!["import", file, "--datadir", data.path(), "--state", "rain", "--csv", csv];
    assert_fails(&run, 2, &["`mpt`"]);
    assert_eq!(fs::read_to_string(&csv).unwrap(), figures);
}
