//! Tests of `bench`: its reports, the comparison of two reports, and that a failed run leaves no
//! files.

mod compare;
mod given;
mod measured;
mod merges;
mod page;
mod stopped;
mod worst;

use crate::{
    run::{Run, run},
    support::Data,
};
use polytrie::layers::LAYERS;
use serde_json::Value;
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

/// Returns the names of all layers of this build, separated by commas.
fn states() -> String {
    LAYERS.iter().map(|layer| layer.name).collect::<Vec<_>>().join(",")
}

/// Runs `polytrie bench` with these arguments, separated by spaces, and with this cache. Paths are in quotes, because they
/// may have spaces.
fn bench(cache: &Path, args: &str) -> Run {
    let mut all = vec![OsStr::new("bench")];
    for (index, part) in args.split('"').enumerate() {
        match index % 2 {
            0 => all.extend(part.split_whitespace().map(OsStr::new)),
            _ => all.push(OsStr::new(part)),
        }
    }
    all.extend([OsStr::new("--cache"), cache.as_os_str()]);
    run(&all, &[])
}

/// Returns the entries of the layers and the entries of the runs.
fn parts(report: &Value) -> (&Vec<Value>, &Vec<Value>) {
    (report["layers"].as_array().unwrap(), report["results"].as_array().unwrap())
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// Runs a small benchmark and writes its report. Returns the path of the report.
fn report(data: &Data, cache: &Path, name: &str, states: &str, more: &str) -> PathBuf {
    let file = data.file(name);
    let args = format!(
        "store --states {states} --keys 300 --blocks 2 --ops 20 --runs 3 {more} --json {:?}",
        file.display()
    );
    bench(cache, &args).ok();
    file
}
