//! `polytrie bench run-job`: runs one job in the process that another `polytrie bench` started for it.

use super::Failure;
use crate::{bench::run::Job, cli::output};
use polytrie_kv::KvError;
use std::{
    io::{self, BufRead, Read},
    process, thread,
};

pub(super) fn run() -> Result<(), Failure> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|e| Failure::Machine(format!("cannot read what to measure: {e}")))?;
    let job: Job = serde_json::from_str(&line).map_err(|e| {
        Failure::Usage(format!(
            "what to measure is not a job ({e}); `bench run-job` is started by `bench store` and `bench chain`"
        ))
    })?;
    // The parent keeps standard input open until it has the figures. If it closes earlier, the parent is gone.
    let watch = || {
        let mut rest = [0; 16];
        while !matches!(io::stdin().read(&mut rest), Ok(0) | Err(_)) {}
        process::exit(130);
    };
    thread::Builder::new().spawn(watch).map_err(KvError::thread)?;
    let measured = job.run()?;
    let text = serde_json::to_string(&measured)
        .map_err(|e| Failure::Machine(format!("the figures do not serialise: {e}")))?;
    output::line(&text)
}
