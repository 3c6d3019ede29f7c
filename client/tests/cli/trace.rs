//! Tests of the trace of the writes of each transaction in an import.

use crate::{
    run::polytrie,
    support::{Data, assert_fails, for_each_layer, import, sample},
};
use alloy_primitives::{Address, B256, U256, keccak256};
use std::{collections::BTreeMap, fs, path::Path};

for_each_layer!(a_trace_leads_from_the_genesis_to_the_head, a_trace_goes_on);

/// The address, the kind of the value, and the slot.
type Place = (Address, char, U256);

/// Returns the last value of each place. Checks that every line starts from the value that the line before it left, and
/// the first one from the value in the genesis.
fn ends(trace: &Path) -> BTreeMap<Place, U256> {
    let genesis: serde_json::Value =
        serde_json::from_slice(&fs::read(sample("genesis.json")).unwrap()).unwrap();
    let begins = |(address, kind, slot): Place| {
        let account = &genesis["alloc"];
        let account =
            [format!("{address:#x}"), format!("{address:x}")].map(|key| account[key].clone());
        let account = account.into_iter().find(|account| !account.is_null()).unwrap_or_default();
        let value = match kind {
            'B' => &account["balance"],
            'N' => &account["nonce"],
            _ => &account["storage"][B256::from(slot).to_string()],
        };
        value.as_str().map_or(U256::ZERO, |value| value.parse().unwrap())
    };
    let text = fs::read_to_string(trace).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("#kind,block,txindex,ordinal,address,key,old,new"));
    let mut values: BTreeMap<Place, U256> = BTreeMap::new();
    let mut before = (0, 0, 0);
    let mut gone = None;
    for line in lines {
        let columns: Vec<_> = line.split(',').collect();
        let [kind, block, index, ordinal, address, key, old, new] = columns[..] else {
            panic!("{line}")
        };
        let number = |text: &str| text.parse::<u64>().unwrap();
        let at = (number(block), number(index), number(ordinal));
        assert!(at > before, "{line}");
        // The ordinal counts the lines of a block.
        assert_eq!(at.2, if at.0 == before.0 { before.2 + 1 } else { 1 }, "{line}");
        before = at;
        let radix = if kind == "N" { 10 } else { 16 };
        let value = |text: &str, radix| match text {
            "" => U256::ZERO,
            _ => U256::from_str_radix(text, radix).unwrap(),
        };
        let kind = kind.chars().next().unwrap();
        let place = (address.parse().unwrap(), kind, value(key, 16));
        let (old, new) = (value(old, radix), value(new, radix));
        assert_ne!(old, new, "{line}");
        let left = values.insert(place, new).unwrap_or_else(|| begins(place));
        // Before Cancun a contract that destroys itself loses all slots. The trace names some of them after its nonce.
        let destroyed = (at.0, at.1, place.0);
        if kind == 'N' && new.is_zero() {
            gone = Some(destroyed);
            let slots =
                values.iter_mut().filter(|((of, kind, _), _)| *of == place.0 && *kind == 'S');
            slots.for_each(|(_, value)| *value = U256::ZERO);
        }
        if kind != 'S' || gone != Some(destroyed) {
            assert_eq!(left, old, "{line}");
        }
    }
    values
}

fn a_trace_leads_from_the_genesis_to_the_head(layer: &str) {
    let data = Data::new();
    let trace = data.file("trace.csv");
    let (file, genesis) = (sample("chain.rlp.gz"), sample("genesis.json"));
    import![data.path(), file, genesis, layer, "--to", "120", "--trace", trace].ok();
    let dump = data.dump();
    let accounts: BTreeMap<B256, serde_json::Value> = dump
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|account| (account["hash"].as_str().unwrap().parse().unwrap(), account))
        .collect();
    let ends = ends(&trace);
    let kinds = |kind| ends.keys().filter(|place| place.1 == kind).count();
    assert!(kinds('B') > 20 && kinds('N') > 5 && kinds('S') > 20, "{ends:?}");
    for ((address, kind, slot), value) in &ends {
        let account = accounts.get(&keccak256(address)).cloned().unwrap_or_default();
        let found = match kind {
            'B' => &account["balance"],
            'N' => &account["nonce"],
            _ => &account["storage"][keccak256(B256::from(*slot)).to_string()],
        };
        let found = found.as_str().map_or(U256::ZERO, |found| found.parse().unwrap());
        assert_eq!(found, *value, "{kind} {address} {slot}");
    }
}

/// A trace continues if the import is made in parts, after blocks were taken back, and together with access lists.
fn a_trace_goes_on(layer: &str) {
    let (file, genesis) = (sample("chain.rlp.gz"), sample("genesis.json"));
    let whole = Data::new();
    let expected = whole.file("trace.csv");
    import![whole.path(), file, genesis, layer, "--to", "60", "--trace", expected].ok();
    let data = Data::new();
    let trace = data.file("trace.csv");
    let up_to = |to: &str, verify: &str| {
        import![
            data.path(),
            file,
            genesis,
            layer,
            "--to",
            to,
            "--verify",
            verify,
            "--trace",
            trace,
            "--bal-build"
        ]
        .ok();
    };
    up_to("25", "full");
    up_to("40", "every=4");
    polytrie!["db", "unwind", "--to", "30", "--datadir", data.path()].ok();
    up_to("60", "full");
    assert!(fs::read(&trace).unwrap() == fs::read(&expected).unwrap());
    let report = polytrie![
        "bench",
        "store",
        "--states",
        layer,
        "--trace",
        trace,
        "--runs",
        "1",
        "--warmup",
        "2",
        "--cache",
        data.file("cache"),
        "--json",
        "-"
    ];
    assert_eq!(report.ok().json()["bench"], "trace");
}

#[test]
fn where_a_trace_cannot_go() {
    let data = Data::new();
    let (file, genesis) = (sample("chain.rlp.gz"), sample("genesis.json"));
    let run = import![data.path(), file, genesis, "raw", "--trace", "-", "--json", "-"];
    assert_fails(&run, 2, &["--json and --trace both want standard output"]);
    let run = import![data.path(), file, genesis, "raw", "--trace", "t", "--shadow", "mpt"];
    assert!(run.code == Some(2) && run.stderr.contains("--shadow"), "{}", run.stderr);
    let notes = data.write("notes", "what I know\n");
    let run = import![data.path(), file, genesis, "raw", "--trace", notes];
    assert_fails(&run, 2, &["notes", "holds something else"]);
    assert!(!data.path().exists());
    let run = import![data.path(), file, genesis, "raw", "--to", "5", "--trace", "-"].ok();
    assert!(run.text().starts_with("#kind,block,"), "{}", run.text());
}
