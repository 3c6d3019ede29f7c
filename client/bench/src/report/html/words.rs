//! The sentences of the page.

use super::super::{
    BASELINE, LayerSummary, Report,
    plot::{grouped, short},
};
use polytrie_node::words::counted;
use serde_json::Value;

/// Introduction for readers who do not know state layers.
pub(super) const WHAT_IS_A_LAYER: &str = "An Ethereum client executes transactions that read and change the <em>state</em>: who owns how much, and what contracts remember. A <em>state layer</em> keeps the state in a key-value engine on disk, and commits to all of it with one short hash after every block. Here the same blocks ran through the same client again and again; only the layer was changed.";

/// Note below the table.
pub(super) const TABLE: &str = "Spread is the distance of the fastest and the slowest run as a part of the median. The ratios to mpt and to mpt-hash, where these were measured, are taken within each turn, so that a machine that becomes slower meanwhile does not change them; the median stands first, then the least and the greatest. Times, reads and writes are of the run with the median throughput. Execution, structure and engine add up to the time of one operation, with the wait for senders where they were recovered during the run; engine time is what the executing thread waited for it: in its own reads, for threads that read ahead, and for writes. What other threads read meanwhile is not in it, and waiting for other work of a layer's threads counts as structure. Bytes written are those of the rows that reached the engine; bytes to the device are all that the process wrote, with the pages that a row changes, what the engine does in the background, and files that a layer has beside it (nomt, qmdb), whose own work counts as structure.";

/// Returns the result in a sentence or two.
pub(super) fn headline(report: &Report) -> String {
    let mut layers: Vec<_> = report.layers.iter().collect();
    layers.sort_by(|a, b| b.throughput.spread.median.total_cmp(&a.throughput.spread.median));
    let Some(best) = layers.first() else { return String::new() };
    let what = report.operation();
    let speed = |layer: &LayerSummary| {
        format!("{} {what}s a second", grouped(layer.throughput.spread.median))
    };
    let mut text = format!("`{}` came to {}", best.name(), speed(best));
    if let Some(ratio) = best.ratio_to_mpt.filter(|_| !best.subject.is_plain(&report.reference)) {
        text += &format!(", {ratio:.2} times the Merkle Patricia trie as `mpt` keeps it");
    }
    text += &over_baseline(best);
    text.push('.');
    let authenticated = layers.iter().find(|layer| layer.subject.state != "raw");
    if let Some(layer) = authenticated.filter(|_| best.subject.state == "raw") {
        text += &format!(
            " `raw` commits to nothing and is the ceiling; of the layers that do, `{}` was the fastest with {}",
            layer.name(),
            speed(layer)
        );
        if let Some(ratio) =
            layer.ratio_to_mpt.filter(|_| !layer.subject.is_plain(&report.reference))
        {
            text += &format!(" ({ratio:.2} times `mpt`)");
        }
        text += &over_baseline(layer);
        text.push('.');
    }
    text
}

/// Returns the ratio of a layer to the papers' baseline, if that is another layer and was measured.
fn over_baseline(layer: &LayerSummary) -> String {
    let ratio = layer.ratio_to_mpt_hash.filter(|_| !layer.subject.is_plain(BASELINE));
    ratio.map_or_else(String::new, |ratio| {
        format!(", {ratio:.1} times what the papers measured against (`{BASELINE}`)")
    })
}

/// Returns a parameter that is a number.
fn number(report: &Report, name: &str) -> Option<u64> {
    report.parameters.get(name)?.as_u64()
}

fn text<'a>(report: &'a Report, name: &str) -> &'a str {
    report.parameters.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the number of accounts or keys before the first block.
pub(super) fn size(report: &Report) -> Option<u64> {
    number(report, "accounts").or_else(|| number(report, "keys"))
}

/// Returns the sets of reports that are of the same benchmark under the same conditions, but began with states of different
/// sizes; each in the order of its reports.
pub(super) fn of_several_sizes(reports: &[Report]) -> Vec<Vec<&Report>> {
    let key = |report: &Report| {
        let mut parameters = report.parameters.clone();
        if let Some(fields) = parameters.as_object_mut() {
            fields.remove("accounts");
            fields.remove("keys");
        }
        (report.bench.clone(), parameters, report.memory_limit, report.cold)
    };
    let mut sets: Vec<(_, Vec<&Report>)> = Vec::new();
    for report in reports {
        let key = key(report);
        match sets.iter_mut().find(|(known, _)| *known == key) {
            Some((_, set)) => set.push(report),
            None => sets.push((key, vec![report])),
        }
    }
    let differ = |set: &Vec<&Report>| set.iter().any(|report| size(report) != size(set[0]));
    sets.into_iter().map(|(_, set)| set).filter(differ).collect()
}

/// Whether the chain is one from the user.
fn is_given(report: &Report) -> bool {
    report.parameters.get("chain").is_some()
}

/// Whether the state is the part that blocks touch, with other accounts.
fn is_partial(report: &Report) -> bool {
    number(report, "accounts_named").is_some()
}

/// Returns the number of the last block of a chain from the user.
fn head(report: &Report) -> String {
    grouped(number(report, "head").unwrap_or_default() as f64)
}

/// Returns the title that distinguishes a report from others on the page.
pub(super) fn title(report: &Report) -> String {
    let size = size(report).map_or_else(String::new, |size| format!(", {}", short(size as f64)));
    let what = match report.bench.as_str() {
        "chain" if is_given(report) => {
            format!("{}, to block {}", text(report, "chain"), head(report))
        }
        "chain" => format!("{}{size} accounts", text(report, "workload")),
        "trace" => format!("the trace {}", text(report, "file")),
        _ => format!("bench {}{size} keys", report.bench),
    };
    what + &conditions(report)
}

/// Returns the title of reports that differ in the size of the state.
pub(super) fn without_size(report: &Report) -> String {
    let what = match report.bench.as_str() {
        "chain" if is_given(report) => text(report, "chain").to_owned(),
        "chain" => text(report, "workload").to_owned(),
        _ => format!("bench {}", report.bench),
    };
    what + &conditions(report)
}

/// Returns the conditions by which reports of the same blocks differ most: the engine, unless it is the default or there
/// are several, and the limit of memory.
fn conditions(report: &Report) -> String {
    let mut text = String::new();
    if let Some((first, others)) = report.layers.split_first()
        && first.subject.kv != polytrie_layers::DEFAULT_ENGINE
        && others.iter().all(|other| other.subject.kv == first.subject.kv)
    {
        text += &format!(", on {}", first.subject.kv);
    }
    if let Some(limit) = report.memory_limit {
        text += &format!(", {} MiB of memory", grouped((limit.bytes >> 20) as f64));
    }
    if report.cold {
        text += ", cold";
    }
    text
}

/// Returns a description of the blocks.
pub(super) fn workload(report: &Report) -> String {
    let of = |name: &str| grouped(number(report, name).unwrap_or_default() as f64);
    match report.bench.as_str() {
        "chain" if is_partial(report) => format!(
            "Every layer executed the same blocks, {} to {} of {}, in a state that has what they touch ({} accounts) and as many other accounts as make {}. {}",
            of("first"),
            head(report),
            text(report, "chain"),
            of("accounts_named"),
            of("accounts"),
            beside_execution(report)
        ),
        "chain" if is_given(report) => format!(
            "Every layer executed the same blocks, 1 to {} of {}, from its genesis state. {}",
            head(report),
            text(report, "chain"),
            beside_execution(report)
        ),
        "chain" => {
            let what = match text(report, "workload") {
                "transfer" => "plain payments of ether",
                "erc20" => {
                    "transfers of a token: calls of an ERC-20 contract in which every account has a balance"
                }
                "mixed" => {
                    "what mainnet was seen to hold: 15 % calls of a token contract, the rest plain payments"
                }
                "swap" => {
                    "swaps on the UniswapV2 exchange: tokens for tokens and tokens for ether, through all six functions"
                }
                "swap-eth" => "swaps between a token and ether on the UniswapV2 exchange",
                "swap-token" => "swaps between two tokens on the UniswapV2 exchange",
                _ => "a little of everything",
            };
            let popularity = match text(report, "popularity") {
                "90/10" => ", a tenth of them taking part in nine of ten cases",
                _ => "",
            };
            format!(
                "Every layer executed the same {} transactions in blocks of {}: {what}. The state began with {} accounts{popularity}. {}",
                of("txs"),
                of("block_txs"),
                of("accounts"),
                beside_execution(report)
            )
        }
        "trace" => format!(
            "Every layer replayed what {} transactions wrote: each account and slot was read and then written, {} of them{}, without running the contracts.",
            of("transactions"),
            of("operations"),
            match number(report, "rounds") {
                Some(rounds) if rounds > 1 => format!(" in each of {} rounds", of("rounds")),
                _ => String::new(),
            }
        ),
        _ => {
            let fresh = report.parameters.get("fresh").and_then(Value::as_bool) == Some(true);
            let keys = if fresh { "new keys" } else { "random keys of those that are there" };
            let keys = format!("{} {keys}", of("ops"));
            let work = match text(report, "mode") {
                "read" => format!("read {keys}"),
                "write" => format!("wrote {keys}"),
                _ => format!("read {keys} and wrote each right after"),
            };
            format!(
                "No contracts were run: the layers worked alone, on values of 256 bits. The state began with {} keys; each of {} blocks {work}, and was on disk before the next one began.",
                of("keys"),
                of("blocks")
            )
        }
    }
}

/// Returns a sentence about the measured work of an import beside the execution.
fn beside_execution(report: &Report) -> &'static str {
    match report.parameters.get("recover").and_then(Value::as_bool) {
        Some(true) => {
            "The blocks came from a file and their senders were recovered on other threads meanwhile, as in an import; what is measured is all of that, executing the blocks and keeping the state."
        }
        _ => {
            "The blocks were in memory and the senders known; what is measured is executing the blocks and keeping the state."
        }
    }
}

/// Returns an explanation of the parts of the time.
pub(super) fn split(report: &Report) -> &'static str {
    match report.bench.as_str() {
        "chain" => {
            "Microseconds of one transaction (of one block, where all are empty); shorter is better. Execution is running the contracts, the same for all layers. Authenticated structure is the layer's own work: finding values, building its trees, hashing. Engine is waiting for the key-value store below it, and for the disk."
        }
        _ => {
            "Microseconds of one operation; shorter is better. Execution is handing over keys and values, as there are no contracts here. Authenticated structure is the layer's own work: finding values, building its trees, hashing. Engine is waiting for the key-value store below it, and for the disk."
        }
    }
}

/// Returns the rules of the measurement, one sentence or more each.
pub(super) fn how(report: &Report) -> Vec<String> {
    let roots = match is_partial(report) {
        true => {
            "one state root under all layers that have one (a part of a state has another than its header)"
        }
        false => "the state root where the layer has one",
    };
    // Earlier builds did not read these accounts.
    let reads = report.results.iter().all(|entry| entry.result.measured.checksum.is_some());
    let held = if reads { "what accounts of the last blocks hold, " } else { "" };
    let answers = match report.bench.as_str() {
        "chain" => format!("the gas of every block, {held}{roots}"),
        // Without contracts there is no gas, and no header to compare a root with.
        _ => "the values that it read, one state root under all layers that have one".to_owned(),
    };
    let store = match report.in_place {
        true => "the prepared store itself",
        false => "a fresh copy of its store",
    };
    let mut all = vec![format!(
        "Each layer ran {}, every time in a fresh process on {store}, the layers taking turns and every second turn in reverse order, so that whatever the machine does in the meantime meets all of them. The first blocks of each run warm it up and do not count; the time until everything is on disk does. Every layer's answers were checked: {answers}, and the same commitment in every run.",
        counted(report.runs, "time")
    )];
    if report.cold {
        all.push("All runs were cold: nothing of the store was in memory at the start, and the figures prove that each run had to read from the device.".into());
    }
    all.push("The same command on the same version gives the same blocks, byte for byte:".into());
    all
}

/// Returns date and time of a Unix time in seconds, UTC.
pub(super) fn date(seconds: u64) -> String {
    // Days are counted from 0000-03-01, so that a leap day is the last of its year.
    let days = seconds / 86_400 + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hours, minutes) = (seconds / 3_600 % 24, seconds / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hours:02}:{minutes:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_are_right() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_767_225_599), "2025-12-31 23:59 UTC");
    }
}
