//! Tests of damaged and wrong files: each is refused with one sentence that says what was found and what to do,
//! and the blocks imported before stay.

use crate::{
    fixtures::fixture,
    run::{polytrie, run},
    support::{
        CONDENSE, Chain, Data, FRONTIER, RPC_COMPAT, assert_fails, for_each_layer, import, sample,
        stream,
    },
};
use alloy_primitives::Bytes;
use polytrie::{
    blocks::{BlockReader, EreWriter},
    consensus::decode::{EncodedReceipts, decode_block, decode_slim_receipts},
    layers::LAYERS,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::{
    ffi::OsStr,
    fs::File,
    ops::Range,
    path::{Path, PathBuf},
};

for_each_layer!(
    no_blocks_at_all,
    blocks_of_another_chain,
    blocks_that_do_not_follow,
    damage_in_the_middle,
    one_byte_wrong,
    one_byte_wrong_in_a_seal,
    one_byte_wrong_anywhere,
    one_byte_wrong_in_an_era1_file,
    one_byte_wrong_in_an_ere_file,
    receipts_of_another_chain,
);

/// The number of blocks that are imported before each case.
const BEFORE: usize = 20;

/// A data directory with the first blocks of a chain. No case changes it for the next one.
struct Case {
    chain: Chain,
    blocks: Vec<Bytes>,
    data: Data,
}

impl Case {
    fn new(layer: &str) -> Option<Self> {
        let chain = RPC_COMPAT.open()?;
        let data = chain.imported(layer, BEFORE as u64);
        Some(Self { blocks: chain.blocks(), chain, data })
    }

    /// Checks that the import of `file` fails with this code and these words, that the head is `head` afterwards,
    /// and that the store passes its check.
    #[track_caller]
    fn refused(&self, file: &Path, code: i32, head: u64, words: &[&str]) {
        let run = polytrie!["import", file, "--datadir", self.data.path()];
        assert_fails(&run, code, words);
        assert_fails(&run, code, &[&file.display().to_string()]);
        assert_eq!(self.data.head().0, head, "{}", run.message());
        self.data.check();
    }

    fn write(&self, content: impl AsRef<[u8]>) -> PathBuf {
        self.data.write("file", content)
    }

    /// Checks that an import of the right file goes on at the head and reaches the end.
    fn goes_on(&self) {
        polytrie!["import", self.chain.file, "--datadir", self.data.path()].ok();
        assert_eq!(self.data.head(), (self.chain.head, self.chain.hash.to_owned()));
        self.data.check();
    }
}

fn no_blocks_at_all(layer: &str) {
    let Some(case) = Case::new(layer) else { return };
    let before = BEFORE as u64;
    let missing = case.data.file("missing.rlp");
    case.refused(&missing, 3, before, &["there is no such file", "check the path"]);
    case.refused(
        &case.write(""),
        1,
        before,
        &["is empty", "at least one block was expected", "check"],
    );
    case.refused(&case.write("\n\n"), 1, before, &["is empty"]);
    let folder = case.data.file("folder");
    std::fs::create_dir(&folder).unwrap();
    let words =
        ["is a directory without .era1 or .ere files", "a file of blocks was expected", "name the"];
    case.refused(&folder, 1, before, &words);
    let words = ["looks like JSON", "blocks were expected", "pass it with --chain"];
    case.refused(&case.chain.chain, 1, before, &words);
    let words = ["starts with \"hello", "is none of", "check that this is a file of blocks"];
    case.refused(&case.write("hello, world"), 1, before, &words);
    let words = ["zip", "decompress it first"];
    case.refused(&case.write(b"PK\x03\x04 and so on"), 1, before, &words);

    // A length of 2^60, at the start of a file and after blocks.
    let bomb = [0xff, 0x10, 0, 0, 0, 0, 0, 0, 0, 0xf9];
    let words = ["claims to be 1152921504606846976 bytes long", "at most", "get it again"];
    case.refused(&case.write(bomb), 1, before, &words);
    let mut after = stream(&case.blocks[..BEFORE]);
    after.extend_from_slice(&bomb);
    case.refused(&case.write(after), 1, before, &["index 20", "claims to be"]);

    // A file of 100 MB of zeros. It is sparse, so it takes no space.
    let zeros = case.data.file("zeros");
    File::create(&zeros).unwrap().set_len(100 << 20).unwrap();
    let words = ["found zero bytes", "the start of a block was expected", "make it again"];
    case.refused(&zeros, 1, before, &words);
    let padded = case.write(stream(&case.blocks[..BEFORE + 2]));
    File::options().write(true).open(&padded).unwrap().set_len(100 << 20).unwrap();
    case.refused(&padded, 1, before + 2, &["index 22", "found zero bytes"]);

    // The same bytes through a pipe.
    let datadir = case.data.path();
    let args = ["import", "-", "--datadir", datadir.to_str().unwrap()];
    let args: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
    assert_fails(&run(&args, b""), 1, &["standard input", "is empty"]);
    assert_fails(&run(&args, &bomb), 1, &["standard input", "claims to be"]);
    assert_fails(&run(&args, &[0; 4096]), 1, &["standard input", "found zero bytes"]);

    // If one of several files is missing, none of them is imported.
    let run = polytrie!["import", case.chain.file, missing, "--datadir", datadir];
    assert_fails(&run, 3, &["missing.rlp", "there is no such file"]);
    assert_eq!(case.data.head().0, before + 2);
    case.goes_on();
}

fn blocks_of_another_chain(layer: &str) {
    let Some(case) = Case::new(layer) else { return };
    let before = BEFORE as u64;
    // One of the files begins with block 1, the other with block 0.
    let Some(london) = fixture("chains/london/testLondonBlockchain.blocks") else { return };
    let (Some(condense), Some(ethtest)) = (CONDENSE.open(), fixture("chains/ethtest/chain.rlp"))
    else {
        return;
    };
    let words = ["block 1 ", "another network", "name the right one with --chain"];
    case.refused(&ethtest, 1, before, &words);
    for file in [&condense.file, &london] {
        let words = ["begins with genesis block 0x", "has 0x", "name the right chain with --chain"];
        case.refused(file, 1, before, &words);
    }
    let Some(frontier) = FRONTIER.open() else { return };
    let later = case.write(stream(&frontier.blocks()[10..]));
    case.refused(
        &later,
        1,
        before,
        &["block 10 ", "its parent 0x", "is not known", "another chain"],
    );
    case.goes_on();
}

/// A pipe can be read only once, so its first block is checked before a data directory is created.
#[test]
fn a_pipe_of_another_chain_leaves_no_directory() {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = Data::new();
    let (path, genesis) = (data.path(), sample("genesis.json"));
    let import = |chain: &Path, stdin: &[u8]| {
        let args: [&OsStr; 6] = [
            "import".as_ref(),
            "-".as_ref(),
            "--datadir".as_ref(),
            path.as_ref(),
            "--chain".as_ref(),
            chain.as_ref(),
        ];
        run(&args, stdin)
    };
    let words = ["begins with blocks on genesis block", "name the right one with --chain"];
    let no_header: &[u8] = &[0xc3, 0x80, 0x80, 0x80];
    for (bytes, words) in [
        (&chain.bytes()[..], &words[..]),
        (b"no blocks", &[]),
        (no_header, &["index 0", "the header is an RLP string"]),
    ] {
        assert_fails(&import(&genesis, bytes), 1, words);
        assert_fails(&import(&genesis, bytes), 1, &["standard input"]);
        assert!(!path.exists());
    }
    // The bytes of the right chain that were read for the check are not lost.
    import(&chain.chain, &chain.bytes()).ok();
    assert_eq!(data.head(), (chain.head, chain.hash.to_owned()));
}

fn blocks_that_do_not_follow(layer: &str) {
    let Some(case) = Case::new(layer) else { return };
    let before = BEFORE as u64;
    let beyond = case.write(stream(&case.blocks[40..]));
    let words =
        ["block 41 ", "its parent 0x", "the head is block 20", "blocks 21 to 40 must be imported"];
    case.refused(&beyond, 1, before, &words);
    let next = case.write(stream(&case.blocks[BEFORE + 1..]));
    case.refused(&next, 1, before, &["block 22 ", "block 21 must be imported before it"]);
    let mut swapped = case.blocks.clone();
    swapped.swap(29, 30);
    let words = ["block 31 ", "is not known", "the head is block 29", "block 30 must be imported"];
    case.refused(&case.write(stream(&swapped)), 1, 29, &words);
    let mut reversed = case.blocks[BEFORE..].to_vec();
    reversed.reverse();
    case.refused(&case.write(stream(&reversed)), 1, 29, &["blocks 30 to 53 must be imported"]);
    case.goes_on();
}

fn damage_in_the_middle(layer: &str) {
    let Some(case) = Case::new(layer) else { return };
    let bytes = case.chain.bytes();
    let at = |block: usize| stream(&case.blocks[..block]).len();
    // The file is cut in the middle of a block.
    let words =
        ["the file ends inside", "index 24", "are missing", "copy or download the file again"];
    case.refused(&case.write(&bytes[..at(25) - 100]), 1, 24, &words);
    // The file is cut in the length of a block.
    let words = ["the file ends inside the length of", "index 26"];
    case.refused(&case.write(&bytes[..at(26) + 1]), 1, 26, &words);
    // A compressed file that is cut or damaged.
    let Some(condense) = CONDENSE.open() else { return };
    let packed = std::fs::read(&condense.file).unwrap();
    let cut = case.write(&packed[..packed.len() / 2]);
    let other = Data::new();
    let import = |file: &Path| import![other.path(), file, condense.chain, layer];
    let words = ["gzip data is damaged or cut off", "copy or download the file again"];
    assert_fails(&import(&cut), 1, &words);
    let half = other.head().0;
    assert!(half > 100, "{half}");
    other.check();
    let mut damaged = packed;
    let middle = damaged.len() * 3 / 4;
    damaged[middle] ^= 0x10;
    let run = import(&case.write(damaged));
    assert_fails(&run, 1, &["again"]);
    assert!(other.head().0 >= half);
    other.check();
    case.goes_on();
}

fn one_byte_wrong(layer: &str) {
    let Some(case) = Case::new(layer) else { return };
    let start = |block: usize| stream(&case.blocks[..block]).len();
    let find = |block: usize, what: &[u8]| {
        let rlp = &case.blocks[block];
        let at = rlp.windows(what.len()).position(|window| window == what);
        start(block) + at.unwrap_or_else(|| panic!("{what:?} is not in block {block}"))
    };
    let flipped = |position: usize| {
        let mut bytes = case.chain.bytes();
        bytes[position] ^= 1;
        case.write(bytes)
    };
    // Block 25 has index 24 in the file.
    let block = decode_block(&case.blocks[24]).unwrap();
    let header = &block.header;
    let parent = flipped(find(24, header.parent_hash.as_slice()) + 5);
    let words = ["block 25 ", "its parent 0x", "the head is block 24", "get the file again"];
    case.refused(&parent, 1, 24, &words);
    let root = flipped(find(24, header.transactions_root.as_slice()) + 31);
    let words = ["block 25 ", "the header's transactions root is 0x", "have the root 0x"];
    case.refused(&root, 1, 24, &words);
    // A byte of a transaction: one of the 64 bytes of its signature, and one of its input.
    let with_txs = (26..case.blocks.len())
        .find(|index| !decode_block(&case.blocks[*index]).unwrap().body.transactions.is_empty());
    let index = with_txs.unwrap();
    let block = decode_block(&case.blocks[index]).unwrap();
    let signature = block.body.transactions[0].signature();
    let number = block.header.number;
    let file = flipped(find(index, &signature.r().to_be_bytes_trimmed_vec()) + 9);
    let words = [&format!("block {number} "), "transactions root is", "have the root"];
    case.refused(&file, 1, number - 1, &words);
    case.goes_on();
}

/// A change that alters only the hash of the header is found at the next block, whose parent hash does not match.
fn one_byte_wrong_in_a_seal(layer: &str) {
    let Some(chain) = FRONTIER.open() else { return };
    let data = chain.imported(layer, 10);
    let mut blocks = chain.blocks();
    let mut block = blocks[25].to_vec();
    let mix = decode_block(&block).unwrap().header.mix_hash;
    let at = block.windows(32).position(|window| window == mix.as_slice()).unwrap();
    block[at] ^= 1;
    blocks[25] = block.into();
    let file = data.write("file", stream(&blocks));
    let run = polytrie!["import", file, "--datadir", data.path()];
    assert_fails(
        &run,
        1,
        &["block 26 ", "its parent 0x", "the head is block 25 (0x", "get the file again"],
    );
    assert_eq!(data.head().0, 25);
    data.check();
    // The block with the wrong seal is the head until the right branch, which is longer, arrives.
    polytrie!["import", chain.file, "--datadir", data.path()].ok();
    assert_eq!(data.head(), (chain.head, chain.hash.to_owned()));
    data.check();
}

/// Whether a damage is tried under a layer. Each is tried under every `share`th layer, because files are read above the
/// layers, and each layer meets some.
fn is_tried(damage: usize, layer: &str, share: usize) -> bool {
    let place = LAYERS.iter().position(|kind| kind.name == layer).unwrap();
    damage % share == place % share
}

/// A flipped byte is found in its block or in the next one.
fn one_byte_wrong_anywhere(layer: &str) {
    let Some(case) = Case::new(layer) else { return };
    let seed = 0x0bad_b10c;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for number in 0..24 {
        let index = random.random_range(BEFORE..40);
        let start = stream(&case.blocks[..index]).len();
        let position = start + random.random_range(0..case.blocks[index].len());
        let bit = random.random_range(0..8);
        if !is_tried(number, layer, 3) {
            continue;
        }
        let mut bytes = stream(&case.blocks[..index + 3]);
        bytes[position] ^= 1 << bit;
        let file = case.write(bytes);
        let context = format!("seed {seed}: block {}, byte {position}, bit {bit}", index + 1);
        let run = polytrie!["import", file, "--datadir", case.data.path()];
        assert_eq!(run.code, Some(1), "{context}: {}", run.stderr);
        assert_fails(&run, 1, &[&file.display().to_string()]);
        let head = case.data.head().0 as usize;
        assert!(head == index || head == index + 1, "{context}: the head is {head}");
        case.data.check();
        polytrie!["db", "unwind", "--datadir", case.data.path(), "--to", BEFORE.to_string()].ok();
    }
    case.goes_on();
}

fn one_byte_wrong_in_an_era1_file(layer: &str) {
    // The changed byte is within the first records, so that the test is fast.
    let file = "era1/mainnet-00000-5ec1ffb8.era1";
    one_byte_wrong_in_an_archive(
        layer,
        ("mainnet", file),
        std::slice::from_ref(&(100..60_000)),
        0xe7a1,
    );
}

fn one_byte_wrong_in_an_ere_file(layer: &str) {
    // A byte of a header, body or receipts of the first blocks, of a total difficulty, or of the index.
    let file = "ere/sepolia-00000-8e3e7dc9-noproofs.ere";
    let places = [
        100..60_000,
        2_415_430..2_421_000,
        2_652_998..2_658_000,
        2_874_182..3_201_854,
        3_201_894..3_464_070,
    ];
    one_byte_wrong_in_an_archive(layer, ("sepolia", file), &places, 0xe2e);
}

fn one_byte_wrong_in_an_archive(
    layer: &str,
    (chain, file): (&str, &str),
    places: &[Range<usize>],
    seed: u64,
) {
    let Some(file) = fixture(file) else { return };
    let bytes = std::fs::read(&file).unwrap();
    let data = Data::new();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for (number, place) in places.iter().cycle().take(8).enumerate() {
        let (position, bit) = (random.random_range(place.clone()), random.random_range(0..8));
        if !is_tried(number, layer, 2) {
            continue;
        }
        let mut bytes = bytes.clone();
        bytes[position] ^= 1 << bit;
        let wrong = data.write("wrong", bytes);
        let run = import![data.path(), wrong, chain, layer, "--to", "200"];
        assert_eq!(run.code, Some(1), "seed {seed}, byte {position}: {}", run.stderr);
        assert_fails(&run, 1, &[&wrong.display().to_string()]);
        // An error at the start of the file is found before a data directory is created.
        if !data.path().exists() {
            continue;
        }
        data.check();
        let head = data.head().0;
        if head > 0 {
            // The blocks that were imported belong to the right chain, so the right file goes on from them.
            let run = polytrie![
                "import",
                file,
                "--datadir",
                data.path(),
                "--to",
                head.to_string(),
                "--json",
                "-"
            ];
            assert_eq!(run.ok().json()["skipped"], head + 1);
            polytrie!["db", "unwind", "--datadir", data.path(), "--to", "0"].ok();
        }
    }
}

/// If a file is intact but its receipts differ from the execution, the error names file, block, transaction and
/// field.
fn receipts_of_another_chain(layer: &str) {
    let Some(chain) = RPC_COMPAT.open() else { return };
    let data = chain.imported(layer, 1);
    let mut out = EreWriter::new("test", Vec::new(), 0, &std::env::temp_dir()).unwrap();
    // Export each block with its receipts, but change one of them.
    let Some(canonical) = LAYERS.iter().find(|layer| layer.canonical) else { return };
    let made = chain.imported(canonical.name, chain.head);
    let directory = made.file("ere");
    polytrie!["export", directory, "--datadir", made.path(), "--format", "ere"].ok();
    let mut changed = None;
    for block in BlockReader::open(&directory).unwrap().map(Result::unwrap) {
        let Some(EncodedReceipts::Slim(rlp)) = &block.receipts else { panic!("{block:?}") };
        let mut receipts = decode_slim_receipts(rlp).unwrap();
        // Receipts since Byzantium have a status, which is the same under every layer.
        let is_one = receipts.len() > 1 && receipts[1].status.as_post_state().is_none();
        if changed.is_none() && is_one {
            receipts[1].cumulative_gas_used += 1;
            changed = Some(block.index);
        }
        let sum = block.total_difficulty.unwrap();
        out.push(&block.rlp, &alloy_rlp::encode(&receipts), sum).unwrap();
    }
    let file = data.write("wrong", out.finish().unwrap().0);
    let number = changed.unwrap();
    let run = polytrie!["import", file, "--datadir", data.path()];
    let words = [
        &*file.display().to_string(),
        &format!("block {number} "),
        "another cumulative gas for the receipt of transaction 1",
    ];
    assert_fails(&run, 1, &words);
    assert_eq!(data.head().0, number - 1);
    data.check();
}
