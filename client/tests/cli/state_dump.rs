//! Tests of `init --state-dump`, with which any layer starts from the state of any block, in the format of any client.
//! `db dump --format` writes these formats.

use crate::{
    run::{Run, polytrie, run},
    support::{
        CONDENSE, Chain, Data, RPC_COMPAT, assert_fails, for_each_layer, init_from_dump,
        needs_names, sample, stream,
    },
};
use alloy_consensus::Header;
use alloy_primitives::{B256, Bytes, U256, hex, keccak256};
use flate2::{Compression, write::GzEncoder};
use polytrie::consensus::decode::{decode_block, decode_header};
use serde_json::{Map, Value, json};
use std::{
    ffi::OsStr,
    io::Write,
    path::{Path, PathBuf},
};

for_each_layer!(
    every_format_is_taken_in,
    what_is_wrong_leaves_nothing,
    the_chain_goes_on_from_the_middle,
);

/// The number of the block at which the chain is cut. It is after the merge.
const AT: u64 = 40;

/// The chain, and its state at [`AT`] in the formats with addresses.
struct Source {
    chain: Chain,
    data: Data,
    at: u64,
}

impl Source {
    fn open(at: u64) -> Option<Self> {
        let chain = RPC_COMPAT.open()?;
        let data = Data::new();
        import_with_preimages(&chain, &data, at);
        Some(Self { chain, data, at })
    }

    fn dump(&self, format: &str) -> String {
        let data = self.data.path();
        polytrie!["db", "dump", "--format", format, "--datadir", data].ok().text().to_owned()
    }

    /// Returns the block at the cut as RLP.
    fn block(&self) -> Bytes {
        self.chain.blocks()[self.at as usize - 1].clone()
    }

    /// Writes the header of that block to a file and returns its path.
    fn header(&self) -> PathBuf {
        let header = decode_header(&self.block()).unwrap();
        self.data.write("header.rlp", alloy_rlp::encode(header.inner()))
    }

    /// Runs `init` for a new directory.
    fn init(&self, layer: &str, dump: &Path, header: &Path, out: &Data, stdin: &[u8]) -> Run {
        init(&self.chain, layer, dump, header, &out.path(), stdin)
    }
}

fn import_with_preimages(chain: &Chain, data: &Data, at: u64) {
    polytrie![
        "import",
        chain.file,
        "--datadir",
        data.path(),
        "--chain",
        chain.chain,
        "--to",
        at.to_string(),
        "--preimages",
    ]
    .ok();
}

fn init(
    chain: &Chain,
    layer: &str,
    dump: &Path,
    header: &Path,
    datadir: &Path,
    stdin: &[u8],
) -> Run {
    let args: [&OsStr; 11] = [
        "init".as_ref(),
        "--state-dump".as_ref(),
        dump.as_ref(),
        "--header".as_ref(),
        header.as_ref(),
        "--chain".as_ref(),
        chain.chain.as_ref(),
        "--state".as_ref(),
        layer.as_ref(),
        "--datadir".as_ref(),
        datadir.as_ref(),
    ];
    run(&args, stdin)
}

fn lines(dump: &str) -> Vec<Value> {
    dump.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn text(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Converts a dump to the single object that `geth dump` writes.
fn one_object(geth: &str) -> String {
    let lines = lines(geth);
    let root = lines[0]["root"].as_str().unwrap().trim_start_matches("0x");
    let accounts: Map<String, Value> = lines[1..]
        .iter()
        .map(|line| (line["address"].as_str().unwrap().to_owned(), line.clone()))
        .collect();
    serde_json::to_string_pretty(&json!({"root": root, "accounts": accounts})).unwrap()
}

/// Converts a dump to the format of `geth snapshot dump`, with hashed slots and with values as RLP.
fn snapshot(geth: &str) -> String {
    let mut lines = lines(geth);
    for line in &mut lines[1..] {
        let line = line.as_object_mut().unwrap();
        line.remove("address");
        let Some(storage) = line.get_mut("storage") else { continue };
        let hashed = storage.as_object().unwrap().iter().map(|(slot, value)| {
            let slot: B256 = slot.parse().unwrap();
            let value = U256::from_str_radix(value.as_str().unwrap(), 16).unwrap();
            (keccak256(slot).to_string(), json!(hex::encode(alloy_rlp::encode(value))))
        });
        *storage = hashed.collect::<Map<_, _>>().into();
    }
    text(&lines)
}

fn shuffled(dump: &str) -> String {
    let mut lines: Vec<&str> = dump.lines().collect();
    lines.rotate_left(7);
    lines.reverse();
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn gzipped(text: &str) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(text.as_bytes()).unwrap();
    out.finish().unwrap()
}

/// Every format, also gzipped, piped and shuffled, gives the state that an import gives. Two formats have no addresses
/// and are refused by layers that need them.
fn every_format_is_taken_in(layer: &str) {
    let Some(source) = Source::open(AT) else { return };
    let expected = source.data.dump();
    let geth = source.dump("geth");
    let header = source.header();
    let formats = [
        ("polytrie", expected.clone()),
        ("geth", geth.clone()),
        ("object", one_object(&geth)),
        ("snapshot", snapshot(&geth)),
        ("reth", source.dump("reth")),
        ("genesis", source.dump("genesis")),
        ("shuffled", shuffled(&geth)),
    ];
    for (name, dump) in formats {
        let file = source.data.write(name, &dump);
        let out = Data::new();
        let run = source.init(layer, &file, &header, &out, &[]);
        if needs_names(layer) && matches!(name, "polytrie" | "snapshot") {
            assert_fails(&run, 2, &["is known by its hash only"]);
            assert!(!out.path().exists(), "{name}: something is left");
            continue;
        }
        let run = run.ok();
        assert!(run.text().contains(&format!("head {AT} ")), "{name}: {}", run.text());
        assert!(out.dump() == expected, "{name}: another state");
        assert_eq!(out.head(), source.data.head(), "{name}");
        out.check();
    }
    let file = source.data.write("geth.gz", gzipped(&geth));
    let out = Data::new();
    source.init(layer, &file, &header, &out, &[]).ok();
    assert!(out.dump() == expected);
    let out = Data::new();
    source.init(layer, Path::new("-"), &header, &out, gzipped(&geth).as_slice()).ok();
    assert!(out.dump() == expected);
}

/// The next blocks are imported, taken back and imported again, and the result equals that of a full import. Blocks
/// before the cut are reported as missing.
fn the_chain_goes_on_from_the_middle(layer: &str) {
    for at in [20, AT] {
        let Some(source) = Source::open(at) else { return };
        let dump = source.data.write("dump", source.dump("geth"));
        // The blocks serve as the header, because before the merge the ommer rules need the blocks before the cut.
        let blocks = source.chain.blocks();
        let header = source.data.write("blocks.rlp", stream(&blocks[..at as usize]));
        let out = Data::new();
        let total = total_difficulty(&blocks[..at as usize], &source.chain);
        let total = format!("--total-difficulty={total}");
        init_from_dump![out.path(), dump, header, source.chain.chain, "--state", layer, total].ok();
        let stats = |data: &Data| {
            polytrie!["db", "stats", "--datadir", data.path(), "--json", "-"].ok().json()["head"]
                .clone()
        };
        assert_eq!(stats(&out), stats(&source.data));
        let run = polytrie!["import", source.chain.file, "--datadir", out.path(), "--json", "-"];
        let report = run.ok().json();
        assert_eq!(report["blocks"], source.chain.head - at, "{report}");
        assert_eq!(report["skipped"], at, "{report}");
        let head = (source.chain.head, source.chain.hash.to_owned());
        assert_eq!(out.head(), head);
        out.check();
        let straight = Data::new();
        import_with_preimages(&source.chain, &straight, source.chain.head);
        assert!(out.dump() == straight.dump(), "another state at the head");
        assert_eq!(stats(&out), stats(&straight));

        let back =
            |to: u64| polytrie!["db", "unwind", "--to", to.to_string(), "--datadir", out.path()];
        back(at).ok();
        assert!(out.dump() == source.data.dump(), "another state after the way back");
        assert_fails(&back(at - 1), 2, &["cannot go back"]);
        out.check();
        polytrie!["import", source.chain.file, "--datadir", out.path()].ok();
        assert_eq!(out.head(), head);

        let file = out.file("exported.rlp");
        let export =
            |from: &str| polytrie!["export", file, "--datadir", out.path(), "--from", from];
        assert_fails(&export("1"), 2, &[&format!("there are blocks {} to", at + 1)]);
        polytrie!["export", file, "--datadir", out.path()].ok();
        assert_eq!(std::fs::read(&file).unwrap(), stream(&blocks[at as usize..]));
    }
}

/// No blocks lead a shadow to where the chain begins, so it is converted from the state there.
#[cfg(all(feature = "mpt", feature = "raw"))]
#[test]
fn a_shadow_of_a_chain_that_begins_in_the_middle_is_converted() {
    let Some(source) = Source::open(AT) else { return };
    let dump = source.data.write("dump", source.dump("polytrie"));
    let out = Data::new();
    source.init("mpt", &dump, &source.header(), &out, &[]).ok();
    let import =
        || polytrie!["import", source.chain.file, "--datadir", out.path(), "--shadow", "raw"];
    let shadow = out.path().join("shadow-raw");
    let advice = format!("db convert --to raw --out {}", shadow.display());
    assert_fails(&import(), 2, &[&format!("begins with the state at block {AT}"), &advice]);
    assert!(!shadow.exists());
    polytrie!["db", "convert", "--datadir", out.path(), "--to", "raw", "--out", shadow].ok();
    let run = import().ok();
    let compared = format!("{} blocks compared with `raw`", source.chain.head - AT);
    assert!(run.stderr.contains(&compared), "{}", run.stderr);
    // Nor does a file of an archive begin there.
    let export = polytrie!["export", out.file("ere"), "--format", "ere", "--datadir", out.path()];
    assert_fails(&export, 2, &[&format!("begins with the state at block {AT}"), "block 8192"]);
}

fn total_difficulty(blocks: &[Bytes], chain: &Chain) -> U256 {
    let genesis = chain.spec().genesis_header().difficulty;
    blocks.iter().fold(genesis, |sum, rlp| sum + decode_header(rlp).unwrap().difficulty)
}

/// Each wrong input causes one sentence and exit code 1, and leaves no directory behind.
fn what_is_wrong_leaves_nothing(layer: &str) {
    let Some(source) = Source::open(AT) else { return };
    let geth = source.dump("geth");
    let reth = source.dump("reth");
    let header = source.header();
    let fails = |name: &str, dump: &[u8], header: &Path, words: &[&str]| {
        let file = source.data.write(name, dump);
        let out = Data::new();
        let run = source.init(layer, &file, header, &out, &[]);
        assert_fails(&run, 1, words);
        assert!(!out.path().exists(), "{name}: something is left in {}", out.path().display());
    };
    let changed = |dump: &str, change: &dyn Fn(&mut Vec<Value>)| {
        let mut lines = lines(dump);
        change(&mut lines);
        text(&lines).into_bytes()
    };
    let with_storage = |lines: &[Value]| {
        lines
            .iter()
            .position(|line| line["storage"].as_object().is_some_and(|s| s.len() > 1))
            .unwrap()
    };
    let balance = changed(&geth, &|lines| lines[3]["balance"] = json!("12345"));
    fails("balance", &balance, &header, &["make the state root", "block 40", "has 0x"]);
    let fewer_slots = |lines: &mut Vec<Value>| {
        let at = with_storage(lines);
        let storage = lines[at]["storage"].as_object_mut().unwrap();
        let first = storage.keys().next().unwrap().clone();
        storage.remove(&first);
    };
    let slot = changed(&geth, &fewer_slots);
    fails("slot", &slot, &header, &["storage root", "a slot is missing", "--cache.preimages"]);
    let slot = changed(&reth, &fewer_slots);
    fails("slot of reth", &slot, &header, &["make the state root"]);
    let cut = geth.trim_end();
    let cut = &cut.as_bytes()[..cut.len() - 20];
    fails("cut", cut, &header, &["cut off", "line"]);
    let cut = geth.lines().take(9).fold(String::new(), |text, line| text + line + "\n");
    fails("fewer", cut.as_bytes(), &header, &["make the state root"]);
    let packed = gzipped(&geth);
    fails("cut gzip", &packed[..packed.len() / 2], &header, &["damaged or cut off"]);
    let twice = format!("{geth}{}\n", geth.lines().last().unwrap());
    fails("twice", twice.as_bytes(), &header, &["is there twice"]);
    let code = changed(&geth, &|lines| {
        let at = lines.iter().position(|line| line["code"].is_string()).unwrap();
        lines[at].as_object_mut().unwrap().remove("code");
    });
    fails("code", &code, &header, &["which the dump leaves out", "--nocode"]);
    let odd = geth.replacen("\"nonce\":", "\"nonce\":\"many\",\"n\":", 1);
    fails("odd", odd.as_bytes(), &header, &["line 2", "\"many\"", "64 bits"]);
    fails("empty", b"", &header, &["is empty"]);
    fails("blocks", &source.block(), &header, &["no dump of a state"]);
    let nobody = changed(&geth, &|lines| {
        let line = lines[2].as_object_mut().unwrap();
        line.remove("address");
        line.remove("key");
    });
    fails("nobody", &nobody, &header, &["neither \"address\" nor"]);

    // The header of another block, and bytes that are no header.
    let blocks = source.chain.blocks();
    let other = decode_header(&blocks[AT as usize]).unwrap();
    let other = source.data.write("other.rlp", alloy_rlp::encode(other.inner()));
    fails("geth", geth.as_bytes(), &other, &["the state with the root", "block 41"]);
    if !needs_names(layer) {
        let plain = source.data.dump();
        fails("plain", plain.as_bytes(), &other, &["make the state root", "block 41"]);
    }
    let none = source.data.write("none.json", "{\"number\":\"0x1\"}");
    fails("geth", geth.as_bytes(), &none, &["no header"]);
    let gap = source.data.write("gap.rlp", stream([&blocks[30], &blocks[39]]));
    fails("geth", geth.as_bytes(), &gap, &["has the parent"]);
}

/// A header may be RLP, or JSON as nodes answer it.
#[test]
fn headers_are_rlp_or_json() {
    let Some(source) = Source::open(AT) else { return };
    let dump = source.data.write("dump", source.data.dump());
    let block = source.block();
    let header = decode_header(&block).unwrap();
    let rlp = alloy_rlp::encode(header.inner());
    let mut answer = serde_json::to_value::<&Header>(header.inner()).unwrap();
    answer["hash"] = json!(header.hash());
    answer["transactions"] = json!([]);
    // A node that does not know the total difficulty may say this.
    answer["totalDifficulty"] = json!("0x0");
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": answer}).to_string();
    let contents: [(&str, Vec<u8>); 5] = [
        ("header", rlp.clone()),
        ("block", block.to_vec()),
        ("hex", format!("0x{}\n", hex::encode(&rlp)).into_bytes()),
        ("json", answer.clone().into_bytes()),
        ("json.gz", gzipped(&answer)),
    ];
    for (name, content) in contents {
        let file = source.data.write(name, content);
        let out = Data::new();
        source.init("mpt", &dump, &file, &out, &[]).ok();
        assert_eq!(out.head(), source.data.head(), "{name}");
    }
    let wrong = answer.replace("\"gasUsed\":\"0x", "\"gasUsed\":\"0x1");
    let file = source.data.write("wrong", wrong);
    let run = source.init("mpt", &dump, &file, &Data::new(), &[]);
    assert_fails(&run, 1, &["has the hash"]);
    // A block is stored with its header, so it must be the one of the header.
    let mut other = decode_block(&block).unwrap();
    other.body.ommers.push(header.inner().clone());
    let file = source.data.write("other", alloy_rlp::encode(&other));
    let run = source.init("mpt", &dump, &file, &Data::new(), &[]);
    assert_fails(&run, 1, &[&format!("block {AT} is not what its header says")]);
}

/// Where a chain begins without its total difficulty, that of a file is not compared with one that counts from there.
#[test]
fn total_difficulties_that_are_not_known_are_not_compared() {
    let Some(chain) = CONDENSE.open() else { return };
    let (source, out) = (chain.imported("mpt", 60), Data::new());
    let archive = source.file("archive");
    polytrie!["export", archive, "--format", "era1", "--datadir", source.path()].ok();
    polytrie!["db", "unwind", "--to", "40", "--datadir", source.path()].ok();
    let dump = source.write("dump", source.dump());
    let headers = source.file("headers.rlp");
    polytrie!["export", headers, "--from", "30", "--datadir", source.path()].ok();
    let begun = init(&chain, "mpt", &dump, &headers, &out.path(), &[]).ok();
    assert!(begun.stderr.contains("--total-difficulty gives it"), "{}", begun.stderr);
    polytrie!["import", archive, "--datadir", out.path()].ok();
    assert_eq!(out.head().0, 60);
    // Nor are they written into another file.
    for format in ["era1", "ere"] {
        let to = out.file(format);
        let export = polytrie!["export", to, "--format", format, "--datadir", out.path()];
        assert_fails(&export, 2, &["total difficulties", "begins with block 40"]);
        assert!(!to.exists());
    }
}

/// Where addresses and slots are kept, an import that does not ask for it keeps those of its blocks, too.
#[test]
fn an_import_goes_on_keeping_addresses_and_slots() {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let (kept, late) = (Data::new(), Data::new());
    let dump = |data: &Data| polytrie!["db", "dump", "--format", "geth", "--datadir", data.path()];
    import_with_preimages(&chain, &kept, 20);
    polytrie!["import", chain.file, "--datadir", kept.path()].ok();
    dump(&kept).ok();
    crate::support::import![late.path(), chain.file, chain.chain, "mpt", "--to", "20"].ok();
    let run = polytrie!["import", chain.file, "--datadir", late.path(), "--preimages"].ok();
    assert!(run.stderr.contains("up to block 20 are not kept"), "{}", run.stderr);
    assert_fails(&dump(&late), 2, &["known by its hash only"]);
}

/// The genesis block may be there before, of `init` or of an import that was killed.
#[test]
fn addresses_of_a_genesis_that_is_there_are_kept() {
    let data = Data::new();
    let (blocks, genesis) = (sample("chain.rlp.gz"), sample("genesis.json"));
    polytrie!["init", "--datadir", data.path(), "--chain", genesis].ok();
    polytrie!["import", blocks, "--datadir", data.path(), "--preimages", "--to", "9"].ok();
    polytrie!["db", "dump", "--format", "geth", "--datadir", data.path()].ok();
}

/// A state that geth has dumped is accepted.
#[test]
fn a_dump_of_geth_is_taken_in() {
    let file = |name: &str| crate::fixtures::fixture(&format!("chains/ethtest/{name}"));
    let (Some(dump), Some(header), Some(chain)) =
        (file("headstate.json"), file("headblock.json"), file("genesis.json"))
    else {
        return;
    };
    let chain = Chain {
        file: file("chain.rlp").unwrap(),
        chain,
        head: 600,
        hash: "0x44e3809c9a3cda717f00aea3a9da336d149612c8d5657fbc0028176ef8d94d2a",
    };
    let out = Data::new();
    init(&chain, "replica", &dump, &header, &out.path(), &[]).ok();
    assert_eq!(out.head(), (chain.head, chain.hash.to_owned()));
    let straight = chain.imported("raw", chain.head);
    assert!(out.dump() == straight.dump());
}

/// Without preimages the state cannot be written in formats with addresses. With them the state can be read back from
/// every format.
#[test]
fn names_are_kept_where_that_is_asked_for() {
    let Some(source) = Source::open(AT) else { return };
    let plain = source.chain.imported("mpt", AT);
    for format in ["geth", "reth", "genesis"] {
        let run = polytrie!["db", "dump", "--format", format, "--datadir", plain.path()];
        assert_fails(&run, 2, &["known by its hash only", "--preimages"]);
    }
    let dump = source.data.write("dump", source.dump("reth"));
    let (header, out) = (source.header(), Data::new());
    init_from_dump![out.path(), dump, header, source.chain.chain, "--preimages"].ok();
    let end = |data: &Data| {
        polytrie!["import", source.chain.file, "--datadir", data.path(), "--preimages"].ok();
        polytrie!["db", "dump", "--format", "geth", "--datadir", data.path()].ok().text().to_owned()
    };
    assert!(end(&out) == end(&source.data));
}

/// A directory that is not empty is not changed.
#[test]
fn a_directory_that_is_taken_stays() {
    let Some(source) = Source::open(AT) else { return };
    let dump = source.data.write("dump", source.data.dump());
    let run = init(&source.chain, "mpt", &dump, &source.header(), &source.data.path(), &[]);
    assert_fails(&run, 2, &["holds data of polytrie already"]);
    assert_eq!(source.data.head().0, AT);
    let missing = Data::new();
    let run = source.init("mpt", &missing.file("nothing"), &source.header(), &missing, &[]);
    assert_fails(&run, 3, &["cannot be opened"]);
    assert!(!missing.path().exists());
}

/// A check that needs blocks before the state is an error if they are missing.
#[test]
fn ommers_need_the_blocks_before_them() {
    let Some(source) = Source::open(20) else { return };
    let dump = source.data.write("dump", source.data.dump());
    let blocks = source.chain.blocks();
    let before = &blocks[..20];
    let total = total_difficulty(before, &source.chain).to_string();
    let (header, out) = (source.header(), Data::new());
    let chain = &source.chain.chain;
    let without = init_from_dump![out.path(), dump, header, chain];
    assert_fails(&without, 2, &["block 20", "--total-difficulty"]);
    let begin =
        |total: &str| init_from_dump![out.path(), dump, header, chain, "--total-difficulty", total];
    let late = begin("1000000000");
    assert_fails(&late, 1, &["block 20 is from before the merge", "not below that of the merge"]);
    assert!(!out.path().exists());
    let run = begin(&total).ok();
    assert!(run.stderr.contains("BLOCKHASH"), "{}", run.stderr);
    let export = polytrie!["export", "-", "--datadir", out.path()];
    assert_fails(&export, 2, &["begins with the state at block 20", "no block after it yet"]);
    assert!(!decode_block(&blocks[20]).unwrap().body.ommers.is_empty());
    let run = polytrie!["import", source.chain.file, "--datadir", out.path()];
    assert_fails(
        &run,
        2,
        &["block 21 has ommers", "begins with the state at block 20", "--header"],
    );
    assert_eq!(out.head().0, 20);
}
