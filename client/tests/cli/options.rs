//! Tests of refused options and of their messages.

use crate::{
    run::{polytrie, program},
    support::{Data, assert_fails, init_from_dump, sample},
};
use std::fs;

#[test]
fn numbers_that_make_no_sense_are_refused() {
    for (option, words) in [
        ("--balance=-1", "nobody has less than nothing"),
        ("--balance=much", "write for example 10000"),
        ("--gas-limit=0", "--gas-limit"),
        ("--gas-limit=4999", "5000"),
        ("--rpc.max-request=0", "nothing fits"),
        ("--rpc.max-response=0", "nothing fits"),
        ("--rpc.max-connections=0", "--rpc.max-connections"),
        ("--rpc.gascap=0", "0 is not in 21000.."),
        ("--trie.cache=5ib", "`5ib` is not a number of bytes"),
        ("--chain-id=0", "--chain-id"),
    ] {
        let run = polytrie!["devnet", option];
        assert_eq!(run.code, Some(2), "{option}: {}", run.stderr);
        assert!(run.stderr.contains(words), "{option}: {}", run.stderr);
    }
    let run = polytrie!["conformance", "tests", "--jobs", "0"];
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("0 is not in 1..=1024"), "{}", run.stderr);
    let run = polytrie!["import", sample("chain.rlp.gz"), "--threads", "0"];
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("--threads"), "{}", run.stderr);
    let data = Data::new();
    let many = polytrie![
        "bench",
        "generate",
        "--out",
        data.file("out"),
        "--accounts",
        "300",
        "--senders",
        "1000"
    ];
    assert_fails(&many, 2, &["--senders 1000 is more than there are accounts (300)"]);
    let engine = polytrie!["init", "--datadir", data.path(), "--chain", "dev", "--kv", "leveldb"];
    assert_fails(&engine, 2, &["there is no engine `leveldb`; this build has mdbx"]);
    assert!(!engine.stderr.contains("the feature"), "{}", engine.stderr);
}

/// Options of the connections to a cluster are refused with another engine, which would ignore them.
#[test]
fn the_options_of_a_cluster_are_for_a_cluster() {
    let data = Data::new();
    let (file, genesis) = (data.write("file", "sesame\n"), sample("genesis.json"));
    let alone = polytrie!["init", "--datadir", data.path(), "--chain", genesis, "--kv.user", "me"];
    assert_eq!(alone.code, Some(2), "{}", alone.stderr);
    assert!(alone.stderr.contains("--kv.password-file"), "{}", alone.stderr);
    let new = polytrie![
        "init",
        "--datadir",
        data.path(),
        "--chain",
        genesis,
        "--kv.user",
        "me",
        "--kv.password-file",
        file
    ];
    assert_fails(&new, 2, &["--kv.user goes with --kv cassandra", "`mdbx`"]);
    assert!(!data.path().exists());
    polytrie!["init", "--datadir", data.path(), "--chain", genesis].ok();
    let blocks = sample("chain.rlp.gz");
    let stored = polytrie!["import", blocks, "--datadir", data.path(), "--kv.tls-ca", file];
    assert_fails(&stored, 2, &["--kv.tls-ca goes with --kv cassandra", "`mdbx`"]);
    let memory = polytrie!["devnet", "--kv.tls-ca", file];
    assert_fails(&memory, 2, &["--kv.tls-ca goes with --kv cassandra", "`memory`"]);
    for [option, value] in
        [["--kv.nodes", "127.0.0.1:1"], ["--kv.keyspace", "chains"], ["--kv.patience", "5"]]
    {
        let refused = format!("{option} goes with --kv cassandra");
        let other = data.file("other");
        let new = polytrie!["init", "--datadir", other, "--chain", genesis, option, value];
        assert_fails(&new, 2, &[refused.as_str(), "`mdbx`"]);
        assert!(!data.file("other").exists());
        let stored = polytrie!["import", blocks, "--datadir", data.path(), option, value];
        assert_fails(&stored, 2, &[refused.as_str(), "`mdbx`"]);
        let memory = polytrie!["devnet", option, value];
        assert_fails(&memory, 2, &[refused.as_str(), "`memory`"]);
        let bench = polytrie!["bench", "store", "--states", "raw", option, value];
        assert_fails(&bench, 2, &[refused.as_str(), "`mdbx`"]);
    }

    // The file is read before any node is asked.
    #[cfg(feature = "cassandra")]
    {
        let cluster = polytrie![
            "init",
            "--datadir",
            data.file("other"),
            "--chain",
            genesis,
            "--kv",
            "cassandra",
            "--kv.nodes",
            "127.0.0.1:1",
            "--kv.tls-ca",
            file
        ];
        assert_fails(&cluster, 3, &["has no certificate", "--kv.tls-ca"]);
    }
}

/// The file names the store. Without it the rows cannot be found.
#[cfg(feature = "cassandra")]
#[test]
fn a_damaged_address_of_a_store_in_a_cluster_stays() {
    let (data, genesis) = (Data::new(), sample("genesis.json"));
    let file = data.path().join("db/cluster.json");
    fs::create_dir_all(data.path().join("db")).unwrap();
    // The stamp is lost, and the directory has an earlier command's lock.
    fs::write(data.path().join("LOCK"), "").unwrap();
    fs::write(&file, r#"{"format": 1, "store": "0123"#).unwrap();
    let run = polytrie![
        "init",
        "--datadir",
        data.path(),
        "--chain",
        genesis,
        "--kv",
        "cassandra",
        "--kv.nodes",
        "127.0.0.1:1",
        "--kv.patience",
        "1"
    ];
    assert_fails(&run, 3, &["cluster.json is damaged"]);
    assert!(file.exists());
}

/// Options of some engines are refused with others, which would ignore them.
#[test]
fn caches_are_for_engines_that_have_them() {
    let data = Data::new();
    let genesis = sample("genesis.json");
    let new = polytrie!["init", "--datadir", data.path(), "--chain", genesis, "--kv.cache", "1M"];
    assert_fails(&new, 2, &["--kv.cache goes with --kv rocksdb or cassandra", "`mdbx`"]);
    assert!(!data.path().exists());
    polytrie!["init", "--datadir", data.path(), "--chain", genesis].ok();
    let blocks = sample("chain.rlp.gz");
    let stored = polytrie!["import", blocks, "--datadir", data.path(), "--kv.direct-io"];
    assert_fails(&stored, 2, &["--kv.direct-io goes with --kv rocksdb", "`mdbx`"]);
    let memory = polytrie!["devnet", "--kv.cache", "1M"];
    assert_fails(&memory, 2, &["--kv.cache goes with", "`memory`"]);
    let bench =
        polytrie!["bench", "store", "--states", "raw", "--kv", "mdbx,memory", "--kv.direct-io"];
    assert_fails(&bench, 2, &["--kv.direct-io goes with --kv rocksdb", "`mdbx`"]);
}

/// A result file that cannot be written is reported before the work starts.
#[test]
fn where_a_result_goes_is_looked_at_first() {
    let data = Data::new();
    let (blocks, genesis) = (sample("chain.rlp.gz"), sample("genesis.json"));
    polytrie!["import", blocks, "--datadir", data.path(), "--chain", genesis, "--to", "9"].ok();
    let (file, out) = (data.file("none/report.json"), data.file("out"));
    for run in [
        polytrie!["db", "unwind", "--to", "3", "--datadir", data.path(), "--json", file],
        polytrie!["db", "prune", "--datadir", data.path(), "--json", file],
        polytrie!["db", "repair", "--datadir", data.path(), "--json", file],
        polytrie![
            "db",
            "convert",
            "--to",
            "raw",
            "--out",
            out,
            "--datadir",
            data.path(),
            "--json",
            file
        ],
    ] {
        assert_fails(&run, 3, &["none/report.json", "cannot be written"]);
    }
    assert_eq!(data.head().0, 9);
    assert!(!out.exists());
}

/// A result does not replace what the command reads.
#[test]
fn a_result_is_no_input() {
    let data = Data::new();
    let genesis = data.write("genesis.json", fs::read(sample("genesis.json")).unwrap());
    let (blocks, dump, header) = (sample("chain.rlp.gz"), data.file("dump"), data.file("header"));
    let dir = data.path();
    polytrie!["import", blocks, "--datadir", dir, "--chain", genesis, "--to", "9"].ok();
    polytrie!["db", "dump", dump, "--datadir", dir].ok();
    polytrie!["export", header, "--from", "9", "--datadir", dir].ok();
    let init = |json: &std::path::Path| {
        let out = data.file("out");
        init_from_dump![out, dump, header, genesis, "--json", json]
    };
    let unwind = polytrie![
        "db",
        "unwind",
        "--to",
        "3",
        "--datadir",
        dir,
        "--chain",
        genesis,
        "--json",
        genesis
    ];
    for run in [
        init(&dump),
        init(&header),
        init(&genesis),
        unwind,
        polytrie!["db", "check", "--datadir", dir, "--chain", genesis, "--json", genesis],
        polytrie!["bench", "chain", header, "--chain", genesis, "--json", header],
        polytrie!["bench", "chain", header, "--chain", genesis, "--json", genesis],
        polytrie!["bench", "worst", "--json", data.file("one"), "--svg", data.file("one")],
    ] {
        assert_fails(&run, 2, &["is the same file", "name another one"]);
    }
    assert_eq!(data.head().0, 9);
    init(&data.file("report.json")).ok();
}

/// Nor does it replace a file of a directory that the command reads.
#[test]
fn a_result_is_no_file_of_a_directory_that_is_read() {
    let data = Data::new();
    let dir = data.file("blocks");
    fs::create_dir(&dir).unwrap();
    let (block, archive) = (dir.join("1.json"), dir.join("mainnet-00000-5ec1ffb8.era1"));
    for file in [&block, &archive] {
        fs::write(file, "what is kept").unwrap();
    }
    for run in [
        polytrie!["import", "--prestate", dir, "--chain", "mainnet", "--json", block],
        polytrie!["import", dir, "--chain", "mainnet", "--json", archive],
        polytrie!["bench", "chain", "--prestate", dir, "--chain", "mainnet", "--json", block],
        polytrie!["bench", "chain", dir, "--chain", "mainnet", "--json", archive],
        polytrie!["bench", "paper", "all", "--blocks", dir, "--chain", "dev", "--json", archive],
    ] {
        assert_fails(&run, 2, &["is the same file", "name another one"]);
    }
    for file in [&block, &archive] {
        assert_eq!(fs::read(file).unwrap(), b"what is kept");
    }
}

/// The completion script of each shell has every command and the layers of the build.
#[test]
fn shells_complete_what_there_is() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = polytrie!["completions", shell].ok();
        for word in ["import", "conformance", "lvmt.proofs", "completions"] {
            assert!(run.text().contains(word), "{shell}: {word} is missing");
        }
        assert!(shell == "elvish" || shell == "powershell" || run.text().contains("replica"));
    }
    let run = polytrie!["completions", "tcsh"];
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("bash"), "{}", run.stderr);
}

/// The id of a chain and its genesis are fixed. Asking for another id is an error, because otherwise only the signatures
/// would fail; so is asking for a balance.
#[test]
fn a_chain_keeps_its_id_and_its_genesis() {
    let data = Data::new();
    let genesis = sample("genesis.json");
    let new = polytrie!["devnet", "--chain", genesis, "--chain-id", "5", "--datadir", data.path()];
    assert_fails(&new, 2, &["--chain-id asks for 5", "has the id"]);
    let rich = polytrie!["devnet", "--chain", genesis, "--balance", "5", "--datadir", data.path()];
    assert_fails(&rich, 2, &["--balance 5 is for the accounts of a new `dev` chain"]);
    assert!(!data.path().exists());
    polytrie!["init", "--datadir", data.path(), "--chain", genesis].ok();
    let stored = polytrie!["devnet", "--chain-id", "5", "--datadir", data.path()];
    assert_fails(&stored, 2, &["--chain-id asks for 5", "has the id"]);
}

/// The advice in a message names options that the command has.
#[test]
fn advice_fits_the_command() {
    let data = Data::new();
    let run = polytrie!["export", data.file("x.rlp")];
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("--datadir") && !run.stderr.contains("memory"), "{}", run.stderr);
    let nothing = data.file("nothing");
    let run = polytrie!["export", data.file("x.rlp"), "--datadir", nothing];
    assert_fails(&run, 2, &["there is no data of polytrie in"]);
    assert!(!data.file("nothing").exists() && !data.file("x.rlp").exists());

    polytrie!["init", "--datadir", data.path(), "--chain", sample("genesis.json")].ok();
    let other = data.file("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("notes"), "mine").unwrap();
    let run = polytrie!["db", "convert", "--datadir", data.path(), "--to", "raw", "--out", other];
    assert_fails(&run, 2, &["is not empty", "choose an empty directory"]);
    assert!(!run.message().contains("--datadir"), "{}", run.message());

    // This address is reserved for documentation, and no machine has it.
    let run = polytrie!["devnet", "--http.addr", "192.0.2.1", "--http.port", "0"];
    assert_fails(&run, 3, &["cannot listen on 192.0.2.1", "--http.addr"]);
    assert!(!run.message().contains("--http.port"), "{}", run.message());
    let run = polytrie!["devnet", "--http.addr", "example.org"];
    assert!(run.code == Some(2) && run.stderr.contains("0.0.0.0 for all"), "{}", run.stderr);

    let text = data.write("blocks.hex", "0x00\n");
    let run = polytrie!["bench", "compare", text, text];
    assert_fails(&run, 1, &["blocks.hex is not a report"]);
    assert!(!run.message().contains("--json "), "{}", run.message());
}

/// An empty environment variable counts as unset, because scripts often unset variables this way.
#[test]
fn an_empty_variable_is_none() {
    let data = Data::new();
    let run = |variable: &str, args: &[&dyn AsRef<std::ffi::OsStr>]| {
        let mut command = program();
        command.env(variable, "").env("XDG_CACHE_HOME", data.file("cache"));
        command.args(args.iter().map(|arg| arg.as_ref())).output().unwrap()
    };
    let init: [&dyn AsRef<std::ffi::OsStr>; 5] =
        [&"init", &"--datadir", &data.path(), &"--chain", &"dev"];
    let output = run("POLYTRIE_LVMT_SETUP", &init);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bench: [&dyn AsRef<std::ffi::OsStr>; 16] = [
        &"bench",
        &"store",
        &"--states",
        &"raw",
        &"--kv",
        &"memory",
        &"--keys",
        &"10",
        &"--ops",
        &"10",
        &"--blocks",
        &"1",
        &"--runs",
        &"1",
        &"--threads",
        &"1",
    ];
    let output = run("POLYTRIE_BENCH_CACHE", &bench);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Without a home directory there is no default cache, and the working directory is not used
    // instead.
    let mut command = program();
    command.env("HOME", "").env_remove("XDG_CACHE_HOME").env_remove("POLYTRIE_BENCH_CACHE");
    fs::create_dir(data.file("here")).unwrap();
    command.current_dir(data.file("here")).args(bench.iter().map(|arg| arg.as_ref()));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--cache is needed"));
    assert!(fs::read_dir(data.file("here")).unwrap().next().is_none());
    // A variable with a value is used.
    let elsewhere = data.file("elsewhere");
    let mut command = program();
    command.env("POLYTRIE_BENCH_CACHE", &elsewhere);
    assert!(command.args(bench.iter().map(|arg| arg.as_ref())).output().unwrap().status.success());
    assert!(elsewhere.exists());
}

/// The help texts list the layers and engines of the build.
#[test]
fn help_names_the_layers_and_engines_of_the_build() {
    let layers = |text: &str| {
        let about =
            |layer: &&polytrie::layers::LayerKind| text.contains(&format!("- {}:", layer.name));
        polytrie::layers::LAYERS.iter().all(|layer| about(&layer))
    };
    for command in [
        &["init"][..],
        &["import"],
        &["export"],
        &["devnet"],
        &["conformance"],
        &["db", "convert"],
        &["db", "stats"],
        &["proof", "get"],
        &["bench", "store"],
        &["bench", "chain"],
    ] {
        let mut args: Vec<&std::ffi::OsStr> = command.iter().map(std::ffi::OsStr::new).collect();
        args.push("--help".as_ref());
        let help = crate::run::run(&args, &[]).ok();
        assert!(layers(help.text()), "{command:?}: {}", help.text());
        args.pop();
        args.push("-h".as_ref());
        let short = crate::run::run(&args, &[]).ok();
        let words: Vec<_> = short.text().split_whitespace().collect();
        let listed = words.join(" ").contains("[possible values: lmpt, ");
        assert!(listed, "{command:?}: {}", short.text());
    }
    for command in ["store", "chain"] {
        let help = polytrie!["bench", command, "--help"].ok();
        assert!(help.text().contains("- mdbx:") && help.text().contains("--slow-down"));
    }
    let engines = polytrie!["init", "--help"].ok();
    assert!(engines.text().contains("- mdbx:") && engines.text().contains("- memory:"));
}

#[test]
fn a_bench_that_no_machine_can_run_is_refused() {
    for (option, number) in [
        ("--keys", "18446744073709551615"),
        ("--keys", "10000000001"),
        ("--ops", "18446744073709551615"),
        ("--ops", "1000000000000"),
        ("--blocks", "18446744073709551615"),
        ("--warmup", "18446744073709551615"),
    ] {
        let run = polytrie!["bench", "store", option, number];
        assert_eq!(run.code, Some(2), "{}", run.stderr);
        let refused = format!("error: invalid value '{number}' for '{option}");
        assert!(
            run.stderr.contains(&refused) && run.stderr.contains("is not in"),
            "{}",
            run.stderr
        );
    }
    // The number is within the bounds of the option, but no machine has the memory for it.
    let run = polytrie!["bench", "store", "--keys", "10000000000"];
    assert_fails(&run, 2, &["--keys 10000000000", "of memory"]);
}

/// clap drops a requirement where what is required conflicts with another option that was given. Each of these options
/// would then be ignored.
#[test]
fn an_option_without_its_other_half_is_refused_beside_any_other() {
    let mut commands = vec![
        vec!["import", "chain.rlp", "--accounts", "5"],
        vec!["import", "--prestate", "blocks", "--witness.levels", "2"],
        vec!["init", "--shape", "mainnet", "--size", "1k", "--header", "header.rlp"],
        vec!["init", "--shape", "mainnet", "--size", "1k", "--total-difficulty", "5"],
        vec!["init", "--shape", "mainnet", "--size", "1k", "--preimages"],
        vec!["devnet", "--block-time", "1", "--authrpc.port", "1"],
        vec!["devnet", "--datadir", "d", "--read-only", "--engine.payloads", "9M"],
        vec!["bench", "generate", "--out", "out", "--txs", "5", "--size", "1k"],
        vec!["bench", "store", "--keys", "5", "--merge", "2"],
        vec!["bench", "store", "--keys", "5", "--rounds", "2"],
    ];
    if cfg!(feature = "lvmt") {
        commands.push(vec!["setup", "lvmt", "--insecure-dev", "--g2", "g2.point"]);
        commands.push(vec!["setup", "lvmt", "--ptau", "powers.ptau", "--g2", "g2.point"]);
    }
    for command in commands {
        let args: Vec<_> = command.iter().map(std::ffi::OsStr::new).collect();
        let run = crate::run::run(&args, &[]);
        assert_eq!(run.code, Some(2), "{command:?}: {}", run.stderr);
        assert!(run.stderr.contains("cannot be used with"), "{command:?}: {}", run.stderr);
    }
}
