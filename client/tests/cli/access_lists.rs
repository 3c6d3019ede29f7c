//! `import --bal-build` and `--bal hints`: lists that one import makes are hints to another, and change nothing.

use crate::{
    run::{Run, polytrie},
    support::{Data, assert_fails, for_each_layer, import, sample},
};
use std::{fs, path::Path};

for_each_layer!(hints_change_nothing);

/// Blocks of the sample that are imported.
const BLOCKS: u64 = 200;

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

fn hint(data: &Data, file: &Path, layer: &str, prefetch: &str) -> Run {
    import![
        data.path(),
        sample("chain.rlp.gz"),
        sample("genesis.json"),
        layer,
        "--bal",
        "hints",
        "--bal-file",
        file,
        prefetch,
        "--to",
        BLOCKS.to_string(),
        "--json",
        "-"
    ]
}

fn hints_change_nothing(layer: &str) {
    let plain = Data::new();
    let file = plain.file("lists");
    let built = build(&plain, &file, layer).ok().json();
    assert_eq!(built["lists_written"], built["blocks"]);
    assert_eq!(built["blocks"], BLOCKS);
    for prefetch in ["--prefetch=on", "--prefetch=off"] {
        let data = Data::new();
        let hinted = hint(&data, &file, layer, prefetch).ok().json();
        assert_eq!(hinted["listed"], BLOCKS, "{prefetch}");
        assert_eq!(hinted["head"], built["head"]);
        data.check();
        assert!(data.dump() == plain.dump(), "another state");
    }
}

/// A list that is wrong, or of another block, is a hint all the same.
#[test]
fn wrong_lists_do_no_harm() {
    let plain = Data::new();
    let file = plain.file("lists");
    build(&plain, &file, "mpt").ok();
    let mut bytes = fs::read(&file).unwrap();
    // Here and there, beyond the hash and length of the first list.
    for byte in bytes.iter_mut().skip(24 + 36 + 8).step_by(211).take(40) {
        *byte ^= 0x10;
    }
    fs::write(&file, bytes).unwrap();
    let data = Data::new();
    hint(&data, &file, "mpt", "--prefetch=on").ok();
    assert_eq!(data.head(), plain.head());
    assert!(data.dump() == plain.dump(), "another state");
}

#[test]
fn what_is_no_file_of_lists_is_named() {
    let data = Data::new();
    let missing = data.file("missing");
    let run = hint(&data, &missing, "mpt", "--prefetch=off");
    assert_fails(&run, 3, &["there are no access lists in", "missing", "--bal-build"]);
    let other = data.write("other", "blocks");
    for run in
        [hint(&Data::new(), &other, "mpt", "--prefetch=off"), build(&Data::new(), &other, "mpt")]
    {
        assert_fails(&run, 2, &["holds no access lists of blocks", "--bal-file"]);
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

/// Beside the chain, when no file is named: an import that goes on adds the lists of its blocks.
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
    // They are there already, and are hints now.
    let again = imported("60", "--bal=hints").ok().json();
    assert_eq!((&again["lists_written"], &again["listed"]), (&0.into(), &10.into()));
    assert_eq!(fs::read(data.path().join("access-lists")).unwrap(), file);
}
