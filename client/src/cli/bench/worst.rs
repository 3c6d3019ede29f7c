//! `polytrie bench worst`.

use super::{Failure, measure::MeasureArgs};
use crate::{
    bench::worst::{Case, WorstSpec},
    blocks::OutputFile,
    cli::output::{self, write_json},
    layers::values::parse_bytes,
};
use clap::Args;
use regex::Regex;
use std::path::PathBuf;

/// Measure worst cases: blocks that do one thing only, which is hard for a state layer.
///
/// A test is one case with one amount of gas. It takes in some blocks on one genesis state as an import does, and takes them
/// back afterwards: first cold (the layer is opened anew, and the system forgets its files), then warm. The state has
/// mainnet's shape, and the contracts of the cases. Gas, receipts and, where a layer has one, state roots are checked. Prints
/// million gas a second, p50 and p99 of a block, and the ratio to `mpt`, the worst first.
#[derive(Debug, Args)]
pub(super) struct WorstArgs {
    /// Gas that the transactions of a block may use. A few percent of it are left; million gas a second is of what was used,
    /// without what is refunded.
    #[arg(long, value_name = "MILLIONS,…", value_delimiter = ',', default_value = "30M,60M,100M", value_parser = millions)]
    gas: Vec<u64>,
    /// Take so many consecutive blocks as one.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    merge: u64,
    /// Only the cases whose names match this regular expression.
    #[arg(long, value_name = "RE")]
    filter: Option<Regex>,
    /// List the cases.
    #[arg(long)]
    list: bool,
    /// Bytes of the state of mainnet's shape around the contracts of the cases (k, M, G may follow).
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = parse_bytes)]
    size: usize,
    /// Slots of the largest contract, rounded down to a power of ten; there is a contract for each power of ten up to it.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    slots: u64,
    /// Contracts with 24 KiB of code.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    codes: u64,
    /// Blocks of a test.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    blocks: u64,
    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write everything as JSON to this file; `-` for standard output.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    json: Option<PathBuf>,
    /// Write a heat map as SVG to this file: tests by layers, coloured by the ratio to `mpt`.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    measure: MeasureArgs,
}

pub(super) fn run(args: &WorstArgs) -> Result<(), Failure> {
    let spec = WorstSpec {
        seed: args.seed,
        size: args.size as u64,
        slots: args.slots,
        codes: args.codes,
        blocks: args.blocks,
        most_gas: args.gas.iter().max().copied().unwrap_or_default() * args.merge,
    };
    let mut cases = Case::all(&spec);
    if let Some(filter) = &args.filter {
        cases.retain(|case| filter.is_match(&case.name));
    }
    if cases.is_empty() {
        return Err(Failure::Usage(
            "no case matches --filter; --list says what cases there are".to_owned(),
        ));
    }
    if args.list {
        let lines = cases.iter().map(|case| format!("{:<24} {}", case.name, case.about));
        return output::line(&lines.collect::<Vec<_>>().join("\n"));
    }
    args.measure.expect_not_slowed()?;
    let twice = |(at, gas): &(usize, &u64)| args.gas[..*at].contains(gas);
    if let Some((_, gas)) = args.gas.iter().enumerate().find(twice) {
        return Err(Failure::Usage(format!(
            "--gas has {}M twice, and tests are told apart by it; name it once",
            gas / 1_000_000
        )));
    }
    let outputs = [("--json", args.json.as_deref()), ("--svg", args.svg.as_deref())];
    output::expect_apart(&outputs, &[])?;
    let json = args.json.as_deref().map(OutputFile::create).transpose()?;
    let svg = args.svg.as_deref().map(OutputFile::create).transpose()?;
    let comparison = args.measure.equipped()?;
    let report = comparison.worst(&spec, &cases, &args.gas, args.merge)?;
    let svg =
        svg.map_or(Ok(()), |file| file.write_whole(&report.heat_map()).map_err(Failure::from));
    let json = json.map_or(Ok(()), |file| write_json(file, &report));
    let table = match output::takes_stdout(args.json.as_deref()) {
        true => Ok(()),
        false => output::line(report.table().trim_end()),
    };
    [svg, json, table].into_iter().fold(Ok(()), Failure::decide)
}

/// Parses a number of millions from 1 to 1000, as in 60M or 60.
fn millions(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix(['M', 'm']).unwrap_or(text).parse().ok();
    let number: Option<u64> = number.filter(|number| (1..=1_000).contains(number));
    number
        .map(|number| number * 1_000_000)
        .ok_or_else(|| format!("`{text}` is not a number of millions from 1 to 1000, as in 60M"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn millions_are_read() {
        assert_eq!((millions("60M"), millions("1")), (Ok(60_000_000), Ok(1_000_000)));
        assert!(["", "M", "0", "1001M", "60k"].map(millions).iter().all(Result::is_err));
    }
}
