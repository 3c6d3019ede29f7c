//! Target for dumps from which a chain begins: any bytes, or valid dumps of each form with changes by
//! the fuzzer's bytes.
//!
//! The header is made to fit, so that the dump becomes the state of its block. That state is written as a dump and
//! read again, and must have the same root.

#![no_main]

use alloy_consensus::{Header, Sealed};
use alloy_primitives::B256;
use flate2::{Compression, write::GzEncoder};
use libfuzzer_sys::{
    arbitrary::{Result, Unstructured},
    fuzz_target,
};
use polytrie::{
    blocks::KnownHeader,
    datadir::{NewDir, OpenOptions},
    state_dump::{Beginning, DumpForm, DumpOptions, StateDumpError, begin, write_dump},
};
use polytrie_fuzz::{
    change::change,
    files,
    sample::{GENESIS, options},
};
use serde_json::{Value, json};
use std::{
    io::Write,
    path::PathBuf,
    sync::{LazyLock, Mutex, atomic::AtomicBool},
};

/// A root that no dump has.
const NO_ROOT: B256 = B256::repeat_byte(0xee);

/// Dumps as lists of lines: the accounts of the sample's genesis in each form.
static DUMPS: LazyLock<Mutex<Vec<Value>>> = LazyLock::new(|| {
    let mut genesis: Value = serde_json::from_slice(GENESIS).expect("the sample is JSON");
    let Value::Object(alloc) = genesis["alloc"].take() else { panic!("a genesis has accounts") };
    let lines: Vec<Value> = (alloc.into_iter())
        .map(|(address, mut account)| {
            account["address"] = json!(address);
            account
        })
        .collect();
    let text = text_of(&lines);
    let root = root_of(&text).expect("the accounts make a dump");
    let dir = begin_at(&text, root).expect("it has this root");
    let forms = [DumpForm::Polytrie, DumpForm::Reth, DumpForm::Geth];
    let dumps = forms.map(|form| {
        let text = written(&dir, form);
        let lines = serde_json::Deserializer::from_slice(&text).into_iter::<Value>();
        Value::Array(lines.map(|line| line.expect("a dump is JSON")).collect())
    });
    Mutex::new(dumps.into())
});

fuzz_target!(|data: &[u8]| {
    if matches!(data.first(), Some(b'{' | 0x1f)) {
        return take_in(data);
    }
    let dumps = DUMPS.lock().expect("a panic ends the process");
    _ = run(&dumps, &mut Unstructured::new(data));
});

fn run(dumps: &[Value], bytes: &mut Unstructured<'_>) -> Result<()> {
    let mut value = bytes.choose(dumps)?.clone();
    // Only some of the lines are used, so that a run is quick.
    if let Value::Array(lines) = &mut value {
        let from = bytes.choose_index(lines.len())?;
        lines.drain(1..from.max(1));
        lines.truncate(bytes.int_in_range(1..=8)?);
    }
    change(&mut value, dumps, bytes)?;
    let Value::Array(mut lines) = value else { return Ok(()) };
    // The root in the dump is mostly right, as the dump would not be read further otherwise.
    if lines.first().is_some_and(|line| line.get("root").is_some()) && bytes.ratio(7, 8)? {
        let root = root_of(&text_of(&lines[1..])).unwrap_or_default();
        lines[0] = json!({ "root": root });
    }
    let mut text = text_of(&lines);
    if bytes.ratio(1, 8)? {
        text.truncate(bytes.choose_index(text.len().max(1))?);
    }
    if bytes.ratio(1, 8)? {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&text).expect("memory does not fail");
        text = packed.finish().expect("memory does not fail");
    }
    take_in(&text);
    Ok(())
}

fn text_of(lines: &[Value]) -> Vec<u8> {
    lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
}

/// The root of the accounts in a dump; `None` if the dump cannot be read to its end.
fn root_of(dump: &[u8]) -> Option<B256> {
    match begin_with(dump, NO_ROOT) {
        Err(StateDumpError::Root { found, .. }) => Some(found),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
        Ok(_) => panic!("no state has that root"),
    }
}

/// The root that a dump states, if it states one.
fn said(dump: &[u8]) -> Option<B256> {
    let first = serde_json::Deserializer::from_slice(dump).into_iter::<Value>().next()?.ok()?;
    first["root"].as_str()?.parse().ok()
}

fn take_in(dump: &[u8]) {
    let root = match (root_of(dump), said(dump)) {
        (Some(root), _) => root,
        (None, Some(root)) => return drop(begin_with(dump, root)),
        (None, None) => return,
    };
    let written = match begin_with(dump, root) {
        Ok(written) => written,
        Err(error) => panic!("a dump with the root {root} begins a chain: {error}"),
    };
    if !written.is_empty() {
        let again = begin_with(&written, root).expect("what was written is a dump");
        assert!(again == written);
    }
}

/// Begins a chain from a dump and returns its state, as a dump.
fn begin_with(dump: &[u8], root: B256) -> std::result::Result<Vec<u8>, StateDumpError> {
    begin_at(dump, root).map(|new| written(&new, DumpForm::Polytrie))
}

fn written(new: &NewDir, form: DumpForm) -> Vec<u8> {
    let mut text = Vec::new();
    let options = DumpOptions { form, code: true, storage: true };
    let never = AtomicBool::new(false);
    write_dump(new.dir(), options, &mut text, &never, &mut |_| {})
        .expect("what was taken in is written");
    text
}

fn begin_at(dump: &[u8], root: B256) -> std::result::Result<NewDir, StateDumpError> {
    let options = OpenOptions { chain: Some("dev".to_owned()), ..options("mpt") };
    let new = NewDir::create(&options).expect("memory does not fail");
    let spec = new.dir().spec().expect("it was made of one");
    let genesis = spec.genesis_header();
    let (number, timestamp) = (genesis.number + 1, genesis.timestamp + 12);
    let header = Header {
        number,
        timestamp,
        state_root: root,
        parent_hash: genesis.hash(),
        ..genesis.inner().clone()
    };
    let header = KnownHeader { header: Sealed::new(header), block: None, total_difficulty: None };
    let dir = files::directory([("dump", dump)]);
    let beginning = Beginning {
        dump: dir.path().join("dump"),
        headers: vec![header],
        header_file: PathBuf::from("header"),
        total_difficulty: None,
        keep_preimages: true,
    };
    begin(new.dir(), beginning, &AtomicBool::new(false), &mut |_| {})?;
    Ok(new)
}
