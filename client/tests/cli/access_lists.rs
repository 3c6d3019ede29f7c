//! Tests of `import --bal-build` and `--bal`: the access lists that one import writes are hints for another
//! import, and change no result.

use crate::{
    run::{Run, polytrie},
    support::{Data, assert_fails, for_each_layer, import, sample},
};
use std::{fs, path::Path};

for_each_layer!(lists_change_nothing);

/// The number of blocks of the sample that are imported.
const BLOCKS: u64 = 500;
/// The number of those of Cancun that have transactions, so that they run by their lists.
const BY_LIST: u64 = 94;

fn build(data: &Data, file: &Path, layer: &str) -> Run {
    import![
        data.path(),
        sample("chain.rlp.gz"),
        sample("genesis.json"),
        layer,
        "--bal-build",
        "--bal-file",
        file,
        "--to",
        BLOCKS.to_string(),
        "--json",
        "-"
    ]
}

fn with_lists(data: &Data, file: &Path, layer: &str, bal: &str, more: &str) -> Run {
    import![
        data.path(),
        sample("chain.rlp.gz"),
        sample("genesis.json"),
        layer,
        "--bal",
        bal,
        "--bal-file",
        file,
        more,
        "--to",
        BLOCKS.to_string(),
        "--json",
        "-"
    ]
}

fn lists_change_nothing(layer: &str) {
    let plain = Data::new();
    let file = plain.file("lists");
    let built = build(&plain, &file, layer).ok().json();
    assert_eq!(built["lists_written"], built["blocks"]);
    assert_eq!(built["blocks"], BLOCKS);
    for (bal, more) in [
        ("hints", "--prefetch=on"),
        ("hints", "--prefetch=off"),
        ("trie", "--prefetch=on"),
        ("parallel", "--bal-threads=1"),
        ("parallel", "--bal-threads=3"),
    ] {
        let data = Data::new();
        let listed = with_lists(&data, &file, layer, bal, more).ok().json();
        assert_eq!(listed["listed"], BLOCKS, "{bal} {more}");
        assert_eq!(listed["by_list"], if bal == "hints" { 0 } else { BY_LIST }, "{bal} {more}");
        assert_eq!(listed["head"], built["head"]);
        data.check();
        assert!(data.dump() == plain.dump(), "another state");
    }
}

/// A list that is wrong, or that belongs to another block, does not change the result.
#[test]
fn wrong_lists_do_no_harm() {
    let plain = Data::new();
    let file = plain.file("lists");
    build(&plain, &file, "mpt").ok();
    let mut bytes = fs::read(&file).unwrap();
    // Change bytes in many places, beyond the hash and the length of the first list.
    for byte in bytes.iter_mut().skip(24 + 36 + 8).step_by(211).take(40) {
        *byte ^= 0x10;
    }
    fs::write(&file, bytes).unwrap();
    for bal in ["hints", "trie", "parallel"] {
        let data = Data::new();
        with_lists(&data, &file, "mpt", bal, "--prefetch=on").ok();
        assert_eq!(data.head(), plain.head());
        assert!(data.dump() == plain.dump(), "another state");
    }
}

#[test]
fn what_is_no_file_of_lists_is_named() {
    let data = Data::new();
    let missing = data.file("missing");
    let run = with_lists(&data, &missing, "mpt", "hints", "--prefetch=off");
    assert_fails(&run, 3, &["there are no access lists in", "missing", "--bal-build"]);
    assert!(!data.path().exists(), "a directory was made for an import that cannot begin");
    let other = data.write("other", "blocks");
    let hint = with_lists(&Data::new(), &other, "mpt", "hints", "--prefetch=off");
    // What is read is an input, and what would be written is a path that was named by mistake.
    for (run, code) in [(hint, 1), (build(&Data::new(), &other, "mpt"), 2)] {
        assert_fails(&run, code, &["holds no access lists of blocks", "--bal-file"]);
    }
    assert_eq!(fs::read(&other).unwrap(), b"blocks");
    let run = import![
        Data::new().path(),
        sample("chain.rlp.gz"),
        sample("genesis.json"),
        "mpt",
        "--kv",
        "memory",
        "--bal-build"
    ];
    assert_fails(&run, 2, &["name their file with --bal-file"]);
}

/// What is to be done with lists is named, too.
#[test]
fn options_of_lists_alone_are_refused() {
    let data = Data::new();
    let (blocks, genesis) = (sample("chain.rlp.gz"), sample("genesis.json"));
    for [option, value, missing] in
        [["--bal-file", "lists", "--bal-build"], ["--bal-threads", "2", "--bal <HOW>"]]
    {
        let run = import![data.path(), blocks, genesis, "mpt", option, value];
        assert_eq!(run.code, Some(2), "{}", run.stderr);
        assert!(run.stderr.contains(missing), "{}", run.stderr);
        assert!(!data.path().exists());
    }
    let bench = polytrie!["bench", "chain", "--states", "raw", "--bal-threads", "2"];
    assert_eq!(bench.code, Some(2), "{}", bench.stderr);
    assert!(bench.stderr.contains("--bal <HOW,…>"), "{}", bench.stderr);
}

/// Lists are kept beside the chain if no file is named. An import that goes on adds the lists of its
/// blocks.
#[test]
fn lists_are_kept_beside_the_chain() {
    let data = Data::new();
    let imported = |to: &str, more: &str| {
        import![
            data.path(),
            sample("chain.rlp.gz"),
            sample("genesis.json"),
            "mpt",
            "--bal-build",
            "--to",
            to,
            "--json",
            "-",
            more
        ]
    };
    let written = |to: &str| imported(to, "--prefetch=off").ok().json()["lists_written"].as_u64();
    assert_eq!(written("40"), Some(40));
    assert_eq!(written("60"), Some(20));
    let file = fs::read(data.path().join("access-lists")).unwrap();
    polytrie!["db", "unwind", "--to", "50", "--datadir", data.path()].ok();
    // The lists exist already, so this import uses them as hints and writes none.
    let again = imported("60", "--bal=hints").ok().json();
    assert_eq!((&again["lists_written"], &again["listed"]), (&0.into(), &10.into()));
    assert_eq!(fs::read(data.path().join("access-lists")).unwrap(), file);
    polytrie!["db", "drop", "--yes", "--datadir", data.path()].ok();
    assert!(!data.path().exists());
}
