//! Tests of import and export in all forms: compressed, in hexadecimal, through pipes, in parts, and
//! repeated.

use crate::{
    database::store,
    run::{polytrie, program, run},
    support::{
        CONDENSE, Data, RPC_COMPAT, assert_fails, for_each_layer, import, sample, sample_blocks,
        stream,
    },
};
use alloy_primitives::hex;
use assert_cmd::Command;
use flate2::{Compression, write::GzEncoder};
use polytrie::{chain::TABLES, consensus::decode::decode_block, layers};
use polytrie_kv::Batch;
use std::{
    ffi::OsStr,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

for_each_layer!(
    every_format_gives_the_same_chain,
    parts_known_blocks_and_the_last_block,
    an_export_comes_out_in_ranges,
    figures_go_where_they_are_asked_for,
    init_makes_the_genesis_block,
    receipts_without_state_roots_make_no_archive,
    a_damaged_block_is_not_exported,
);

fn every_format_gives_the_same_chain(layer: &str) {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let bytes = chain.bytes();
    let data = Data::new();
    let mut gz = GzEncoder::new(Vec::new(), Compression::default());
    gz.write_all(&bytes).unwrap();
    let lines: String =
        chain.blocks().iter().map(|block| format!("{}\n", hex::encode_prefixed(block))).collect();
    let mixed = lines.replace("0x", "").replace('\n', "\r\n\r\n");
    // The content of a file decides its format, not its name.
    let files = [
        data.write("blocks", &bytes),
        data.write("blocks.bin", gz.finish().unwrap()),
        data.write("blocks.txt", &lines),
        data.write("other.txt", mixed),
    ];
    for (number, file) in files.iter().enumerate() {
        let dir = data.file(&format!("data-{number}"));
        let text = import![dir, file, chain.chain, layer];
        let text = text.ok().text().to_owned();
        assert!(text.starts_with(&format!("head 54 {} state root 0x", chain.hash)), "{text}");
        let export = polytrie!["export", "-", "--from", "1", "--datadir", dir].ok();
        assert!(export.stdout == bytes, "{}", file.display());
    }

    let dir = data.file("piped");
    let args = ["import", "-", "--datadir", dir.to_str().unwrap(), "--state", layer, "--chain"];
    let mut args: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
    args.push(chain.chain.as_os_str());
    run(&args, &bytes).ok();
    let packed = data.file("export.rlp.gz");
    polytrie!["export", packed, "--from", "1", "--datadir", dir].ok();
    assert!(crate::fixtures::read(&packed) == bytes);
    assert!(fs::read(&packed).unwrap().starts_with(&[0x1f, 0x8b]));
}

fn parts_known_blocks_and_the_last_block(layer: &str) {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let blocks = chain.blocks();
    let data = Data::new();
    let import = |files: &[&str], to: Option<&str>| {
        let mut args = vec!["import".to_owned()];
        args.extend(files.iter().map(|file| data.file(file).to_str().unwrap().to_owned()));
        args.extend(["--datadir".into(), data.path().to_str().unwrap().to_owned()]);
        args.extend(["--chain".into(), chain.chain.to_str().unwrap().to_owned()]);
        args.extend(["--state".into(), layer.into(), "--json".into(), "-".into()]);
        args.extend(to.iter().flat_map(|to| ["--to".to_owned(), (*to).to_owned()]));
        let args: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
        let report = run(&args, &[]).ok().json();
        ["blocks", "skipped"].map(|name| report[name].as_u64().unwrap())
    };
    data.write("a", stream(&blocks[..20]));
    // This part overlaps with both of its neighbours.
    data.write("b", stream(&blocks[15..40]));
    data.write("c", stream(&blocks[38..]));
    assert_eq!(import(&["a", "b"], Some("30")), [30, 5]);
    assert_eq!(data.head().0, 30);
    assert_eq!(import(&["a", "b", "c"], None), [24, 20 + 15 + 2]);
    assert_eq!(data.head(), (54, chain.hash.to_owned()));
    assert_eq!(import(&["c", "b", "a"], None), [0, 16 + 25 + 20]);
    // No options are needed, because the directory knows its chain and its layer.
    polytrie!["import", data.file("a"), "--datadir", data.path()].ok();
    data.check();
}

fn an_export_comes_out_in_ranges(layer: &str) {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let blocks = chain.blocks();
    let data = chain.imported(layer, chain.head);
    let export = |from: &str, to: &str| {
        polytrie!["export", "-", "--datadir", data.path(), "--from", from, "--to", to]
    };
    assert!(export("7", "7").ok().stdout == blocks[6].to_vec());
    assert!(export("10", "20").ok().stdout == stream(&blocks[9..20]));
    // The export begins with the genesis block, which was in no imported file, and can be imported.
    let whole = data.file("whole.rlp");
    polytrie!["export", whole, "--datadir", data.path()].ok();
    let again = data.file("again");
    let report = import![again, whole, chain.chain, layer, "--json", "-"];
    let report = report.ok().json();
    assert_eq!((&report["blocks"], &report["skipped"]), (&54.into(), &1.into()));
    let beyond = polytrie!["export", data.file("x"), "--from", "60", "--datadir", data.path()];
    assert_fails(&beyond, 2, &["blocks 60 to the head were asked for", "blocks 0 to 54"]);
    for (from, to) in [("5", "4"), ("0", "55"), ("60", "70")] {
        let run = export(from, to);
        assert_eq!(run.code, Some(2));
        assert!(run.message().contains("there are blocks 0 to 54"), "{}", run.stderr);
        assert!(run.stdout.is_empty());
    }
    let nowhere = polytrie!["export", data.file("no/such/dir.rlp"), "--datadir", data.path()];
    assert_eq!(nowhere.code, Some(3), "{}", nowhere.stderr);
    for format in ["era1", "ere"] {
        let out = data.file(format);
        let middle =
            polytrie!["export", out, "--format", format, "--from", "5", "--datadir", data.path()];
        assert_fails(&middle, 2, &["multiple of 8192", "start it at block 0"]);
        assert!(!out.exists());
    }
}

fn figures_go_where_they_are_asked_for(layer: &str) {
    let Some(chain) = CONDENSE.open() else { return };
    let data = Data::new();
    let (json, csv) = (data.file("report.json"), data.file("blocks.csv"));
    let run = import![
        data.path(),
        chain.file,
        chain.chain,
        layer,
        "--to",
        "200",
        "--json",
        json,
        "--csv",
        csv
    ]
    .ok();
    assert!(run.text().starts_with("head 200 0x"), "{}", run.text());
    let report: serde_json::Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    assert_eq!(report["state"], layer);
    assert_eq!(report["kv"], "mdbx");
    assert_eq!(report["blocks"], 200);
    assert_eq!(report["skipped"], 1);
    assert_eq!(report["head"]["number"], 200);
    for name in ["seconds", "tps", "mgas_per_second", "peak_rss_bytes"] {
        assert!(report[name].as_f64().unwrap() > 0.0, "{name}");
    }
    for name in ["decode", "recover", "execute", "state_read", "state_commit", "flush"] {
        assert!(report["time"][name].as_f64().unwrap() >= 0.0, "{name}");
    }
    for name in ["requests", "rows"] {
        assert!(report["waited"][name].is_u64(), "{name}");
    }
    for name in ["gets", "engine_gets", "puts", "engine_puts", "flushes"] {
        assert!(report["counters"][name].is_u64(), "{name}");
    }

    let text = fs::read_to_string(csv).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("block_number,blocks,slot,txs,gas,time"));
    let rows: Vec<Vec<u64>> = lines
        .map(|line| line.split(',').map(|field| field.parse().unwrap_or_default()).collect())
        .collect();
    assert_eq!(rows.len(), 200);
    assert!(rows.iter().zip(1..).all(|(row, number)| row[0] == number && row[1] == 1));
    let sum = |column: usize| rows.iter().map(|row| row[column]).sum::<u64>();
    assert_eq!(sum(3), report["txs"].as_u64().unwrap());
    assert_eq!(sum(4), report["gas"].as_u64().unwrap());
    assert!(sum(5) > 0);
}

fn init_makes_the_genesis_block(layer: &str) {
    let data = Data::new();
    let init = polytrie!["init", "--datadir", data.path(), "--chain", "sepolia", "--state", layer];
    let genesis = "0x25a5cc106eea7138acab33231d7160d69cb777ee0c2c553fcddf5138993e6dd9";
    assert!(init.ok().text().contains(genesis));
    assert_eq!(data.head(), (0, genesis.to_owned()));
    data.check();
    polytrie!["init", "--datadir", data.path()].ok();
}

/// Receipts from before Byzantium hold state roots, without which an era1 or ere file would be invalid.
/// So a layer without state roots exports no archive.
fn receipts_without_state_roots_make_no_archive(layer: &str) {
    let Some(chain) = CONDENSE.open() else { return };
    for verify in ["full", "none"] {
        let (data, copy) = (Data::new(), Data::new());
        let (to, out) = ("20", ["era1", "ere"].map(|format| (format, data.file(format))));
        let import = |file: &Path, data: &Data, verify: &str| {
            import![data.path(), file, chain.chain, layer, "--to", to, "--verify", verify]
        };
        let run = import(&chain.file, &data, verify).ok();
        let note = "neither state roots nor receipts roots were compared (--verify none)";
        assert_eq!(run.stderr.contains(note), verify == "none", "{}", run.stderr);
        let export = |(format, out): &(&str, PathBuf)| {
            polytrie!["export", out, "--format", format, "--datadir", data.path()]
        };
        if verify == "full" && layers::layer(layer).unwrap().canonical {
            assert!(!run.stderr.contains("not compared"), "{}", run.stderr);
            for out in &out {
                let copy = Data::new();
                export(out).ok();
                import(&out.1, &copy, "full").ok();
                assert_eq!(copy.head(), data.head());
            }
            continue;
        }
        if verify == "full" {
            let (note, given) = ("before Byzantium were not compared", "does not give");
            assert!(run.stderr.contains(note) && run.stderr.contains(given), "{}", run.stderr);
        }
        for out in &out {
            let leave = format!("leave --format {} out", out.0);
            let words =
                ["those of block 4,", "before Byzantium", "state roots", &leave, "under mpt"];
            assert_fails(&export(out), 2, &words);
            assert_eq!(fs::read_dir(&out.1).unwrap().count(), 0);
        }
        let rlp = data.file("blocks.rlp");
        polytrie!["export", rlp, "--datadir", data.path()].ok();
        import(&rlp, &copy, verify).ok();
        assert_eq!(copy.head(), data.head());
    }
}

/// A block with a damaged header or body is not exported in any format. The blocks before it can be
/// exported.
fn a_damaged_block_is_not_exported(layer: &str) {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = chain.imported(layer, chain.head);
    let tables = [layers::layer(layer).unwrap().tables, TABLES].concat();
    let table = *tables.iter().find(|table| table.name == "Blocks").unwrap();
    let number = chain.head - 2;
    let original = chain.blocks()[number as usize - 1].to_vec();
    let header = decode_block(&original).unwrap().header;
    let find = |what: &[u8]| original.windows(what.len()).position(|w| w == what).unwrap();
    for at in [find(header.parent_hash.as_slice()) + 3, original.len() - 40] {
        let mut damaged = original.clone();
        damaged[at] ^= 1;
        let mut batch = Batch::new();
        batch.put(table, &number.to_be_bytes(), &damaged);
        store(&data, &tables).write(batch).unwrap();
        let out = data.file("out");
        for format in ["rlp", "ere"] {
            let run = polytrie!["export", out, "--datadir", data.path(), "--format", format];
            let name = data.path().display().to_string();
            let words = ["is damaged", &*name, &format!("block {number} ")];
            // A layer whose receipts lack their roots reports that first.
            if format == "rlp" || layers::layer(layer).unwrap().canonical {
                assert_fails(&run, 3, &words);
            }
            assert_ne!(run.code, Some(0));
            assert!(!out.is_file());
        }
        // The directory is empty.
        fs::remove_dir(&out).unwrap();
        let before = (number - 1).to_string();
        polytrie!["export", "-", "--datadir", data.path(), "--to", before].ok();
    }
}

#[test]
fn lines_for_each_block_go_to_standard_output() {
    let (data, elsewhere) = (Data::new(), Data::new());
    let json = data.file("report.json");
    let import = |data: &Data, json: &Path| {
        polytrie![
            "import",
            sample("chain.rlp.gz"),
            "--chain",
            sample("genesis.json"),
            "--to",
            "30",
            "--datadir",
            data.path(),
            "--csv",
            "-",
            "--json",
            json,
        ]
    };
    let run = import(&data, &json).ok();
    let lines: Vec<_> = run.text().lines().collect();
    assert_eq!(lines.len(), 31, "{}", run.text());
    assert_eq!(lines[0], "block_number,blocks,slot,txs,gas,time");
    assert!(lines[30].starts_with("30,1,,"), "{}", lines[30]);
    assert!(run.stderr.contains("head 30 0x"), "{}", run.stderr);
    assert!(fs::read_to_string(json).unwrap().contains("\"blocks\": 30"));
    let both = import(&elsewhere, Path::new("-"));
    assert_fails(&both, 2, &["--json", "--csv", "standard output"]);
    assert!(!elsewhere.path().exists());
}

/// A missing last block is no error: a script may name a block that a later file will have.
#[test]
fn files_without_the_last_block_are_noticed() {
    let data = Data::new();
    let blocks = sample_blocks(10);
    let last = decode_block(&blocks[9]).unwrap().header.number;
    let file = data.write("short", stream(&blocks));
    for (to, is_short) in [("100", true), (&*last.to_string(), false)] {
        let run = import![data.path(), file, sample("genesis.json"), "mpt", "--to", to].ok();
        let words =
            format!("block {to} of --to is not in the files; the chain ends at block {last}");
        assert_eq!(run.stderr.contains(&words), is_short, "{}", run.stderr);
        assert!(run.text().starts_with(&format!("head {last} ")), "{}", run.text());
    }
}

/// The file with that name has blocks that are stored, so it would be passed over.
#[test]
fn a_file_with_the_name_of_standard_input_is_not_read() {
    let data = Data::new();
    let (chain, archives) = (sample("genesis.json"), data.file("archives"));
    import![data.path(), sample("chain.rlp.gz"), chain, "mpt", "--to", "10"].ok();
    polytrie!["export", archives, "--format", "ere", "--datadir", data.path()].ok();
    let mut files = fs::read_dir(&archives).unwrap().map(|entry| entry.unwrap().path());
    let archive = files.find(|file| file.extension() == Some(OsStr::new("ere"))).unwrap();
    fs::copy(archive, data.file("-")).unwrap();
    let mut import = Command::from_std(program());
    import.args(["import", "-", "--to", "20", "--datadir"]).arg(data.path());
    import.current_dir(data.file("-").parent().unwrap());
    import.write_stdin(fs::read(sample("chain.rlp.gz")).unwrap()).assert().success();
    assert_eq!(data.head().0, 20);
}

#[test]
fn era1_ends_at_the_merge() {
    let data = Data::new();
    let (file, chain) = (sample("chain.rlp.gz"), sample("genesis.json"));
    let out = data.file("archive");
    let export = |data: &Data, more: &[&str]| {
        let datadir = data.path();
        let mut args = ["export", "--format", "era1", "--datadir"].map(OsStr::new).to_vec();
        args.extend([datadir.as_os_str(), out.as_os_str()]);
        args.extend(more.iter().map(OsStr::new));
        run(&args, &[])
    };
    import![data.path(), file, chain, "mpt", "--to", "5"].ok();
    assert_fails(&export(&data, &[]), 2, &["block 0 is past the merge", "--format ere"]);
    assert!(!out.exists());
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = chain.imported("mpt", chain.head);
    let heads =
        chain.blocks().iter().map(|rlp| decode_block(rlp).unwrap().header).collect::<Vec<_>>();
    let first = heads.iter().find(|header| header.difficulty.is_zero()).unwrap().number;
    let (words, before) = (format!("block {first} is past the merge"), (first - 1).to_string());
    assert_fails(&export(&data, &[]), 2, &[&words, "--format ere", &format!("--to {before}")]);
    assert!(!out.exists());
    export(&data, &["--to", &before]).ok();
}

#[test]
fn archives_need_a_directory() {
    let data = Data::new();
    let file = data.write("blocks", "text");
    let named = ["x.gz", "x.rlp", "x.era1", "x.ere"].map(|name| data.file(name));
    for format in ["era1", "ere"] {
        for name in named.iter().chain([&PathBuf::from("-"), &file]) {
            let run = polytrie!["export", name, "--format", format, "--datadir", data.path()];
            let words = format!("{format} needs a directory");
            assert_fails(&run, 2, &[&name.display().to_string(), &words]);
            assert!(!name.is_dir());
        }
        let name = format!("x.{format}");
        let named = polytrie!["export", data.file(&name), "--datadir", data.path()];
        let (words, advice) = (format!("{name} would hold RLP"), format!("--format {format}"));
        assert_fails(&named, 2, &[&words, &advice]);
    }
}
