//! The proof that a run was cold, from the bytes that it read from the device.

use super::{BenchError, Result, RunResult};
use crate::{
    Subject,
    measure::Measured,
    worst::{ReadBytes, WorstFigures, WorstRun},
};
use serde::{Deserialize, Serialize};

/// Least number of device reads for an operation in a cold run: half of the operations had to wait for the device.
const COLD_READS: f64 = 0.5;
/// Bytes that count as one read.
const READ_BYTES: f64 = 4096.0;
/// Least bytes of rows in the first block of a test that prove anything. Fewer bytes may have been read when the
/// layer was opened.
const TELLING_ROWS: u64 = 16 << 10;
/// A cold test reads at least one byte from the device for this many bytes of rows. With nothing in memory a page is
/// read for each row, or for several that share it, but an engine may store rows in less space than it returns.
const COLD_PART: u64 = 4;

/// Measure of how cold a run was.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Coldness {
    /// Reads of 4 KiB from the device for each operation or transaction.
    pub device_reads_per_operation: f64,
    /// Least number of such reads with which a run counts as cold.
    pub required: f64,
}

impl Coldness {
    /// The coldness of a run; `None` where the system does not report what was read from devices.
    pub fn of(measured: &Measured) -> Option<Self> {
        let bytes = measured.device?.read_bytes as f64;
        let device_reads_per_operation = bytes / READ_BYTES / measured.operations.max(1) as f64;
        Some(Self { device_reads_per_operation, required: COLD_READS })
    }

    /// Whether the run had enough device reads to count as cold.
    pub fn is_proven(&self) -> bool {
        self.device_reads_per_operation >= self.required
    }
}

/// Returns the coldness of a run that was cold.
///
/// # Errors
///
/// If the run was not cold, or the system does not report device reads.
pub(super) fn prove(result: &RunResult) -> Result<Coldness> {
    let (run, subject) = (result.run, &result.subject);
    let coldness = Coldness::of(&result.measured).ok_or_else(|| untold(run, subject))?;
    if coldness.is_proven() {
        return Ok(coldness);
    }
    Err(BenchError::Refused(format!(
        "run {run} of {subject} was not cold: {:.3} reads of 4 KiB from the device an operation, at least {COLD_READS} expected; what it needs fits into memory, so choose more --keys or --accounts, a smaller --trie.cache, or --kv rocksdb, which reads past the page cache (or leave out --cold)",
        coldness.device_reads_per_operation
    )))
}

/// Checks that the cold tests of a run of worst cases were cold, each by itself, and returns the number of tests
/// that were. A test whose first block reads less than [`TELLING_ROWS`] bytes of rows is not judged, but at least
/// one must be.
///
/// # Errors
///
/// If a test that is judged was not cold, or no test is judged.
pub(super) fn prove_tests(result: &WorstRun) -> Result<usize> {
    let (run, subject) = (result.run, &result.subject);
    let mut proven = 0;
    for (test, ReadBytes { rows, device }) in judged(result) {
        let device = device.ok_or_else(|| untold(run, subject))?;
        if !is_cold(rows, device) {
            return Err(BenchError::Refused(format!(
                "run {run} of {subject} was not cold in the test {} at {}M: its first block read {rows} bytes of rows and {device} from the device, at least {} expected; the system keeps what it was asked to forget, so put --cache on a disk, or choose --kv rocksdb, which reads past the page cache (or leave out --cold)",
                test.case,
                test.gas_limit / 1_000_000,
                rows / COLD_PART
            )));
        }
        proven += 1;
    }
    if proven == 0 {
        return Err(BenchError::Refused(format!(
            "run {run} of {subject} cannot be called cold: no test has read {TELLING_ROWS} bytes of rows in its first block, so nothing tells where they came from; choose cases that read (--filter '^sload-present'), more --slots or --gas, or leave out --cold"
        )));
    }
    Ok(proven)
}

/// The cold tests of a run whose first block reads enough rows to tell whether they were cold, with what it read.
fn judged(result: &WorstRun) -> impl Iterator<Item = (&WorstFigures, ReadBytes)> {
    let cold = result.tests.iter().filter(|test| !test.warm);
    let with_reads = cold.filter_map(|test| Some((test, test.first_block?)));
    with_reads.filter(|(_, read)| read.rows >= TELLING_ROWS)
}

/// Whether enough of so many bytes of rows came from the device.
const fn is_cold(rows: u64, device: u64) -> bool {
    device >= rows / COLD_PART
}

/// A note for a report without proofs, if there are tests that are called cold and were not.
pub(super) fn not_cold(results: &[WorstRun]) -> Option<String> {
    let reads = results.iter().flat_map(judged);
    let found: Vec<bool> =
        reads.filter_map(|(_, ReadBytes { rows, device })| Some(is_cold(rows, device?))).collect();
    let warm = found.iter().filter(|cold| !**cold).count();
    (warm > 0).then(|| {
        format!(
            "cold tests: {warm} of the {} that can be judged were not cold, as in their first block a part of less than 1/{COLD_PART} of the rows' bytes came from the device; the system keeps what it was asked to forget, so put --cache on a disk, or choose --kv rocksdb with --cold, which reads past the page cache",
            found.len()
        )
    })
}

/// A note for the report with the numbers that [`prove_tests`] returned for all runs.
pub(super) fn proven_tests(proven: usize, results: &[WorstRun]) -> String {
    let tests = results.iter().flat_map(|result| &result.tests);
    let all = tests.filter(|test| !test.warm).count();
    format!(
        "cold tests: {proven} of {all} in all runs are proven cold, as in their first block a part of 1/{COLD_PART} or more of the rows' bytes came from the device; the others read too few rows there to tell"
    )
}

fn untold(run: usize, subject: &Subject) -> BenchError {
    BenchError::Refused(format!(
        "run {run} of {subject} cannot be called cold: the system does not say what was read from devices (/proc/self/io); leave out --cold"
    ))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// A run of tests whose first blocks read this many bytes of rows and from the device; the last, a warm test,
    /// is not judged.
    fn run(first_blocks: &[(u64, Option<u64>)]) -> WorstRun {
        let test = |first_block: Option<ReadBytes>| WorstFigures {
            case: "sload-present-1e6".to_owned(),
            gas_limit: 30_000_000,
            warm: first_block.is_none(),
            gas: 30_000_000,
            seconds: 1.0,
            blocks: vec![1.0],
            first_block,
        };
        let cold = first_blocks
            .iter()
            .map(|(rows, device)| test(Some(ReadBytes { rows: *rows, device: *device })));
        let tests = cold.chain([test(None)]).collect();
        WorstRun { subject: Subject::new("raw", "mdbx"), run: 1, tests }
    }

    #[test]
    fn a_test_that_reads_has_to_read_from_the_device() {
        let (few, many) = ((100, Some(0)), (1_000_000, Some(250_000)));
        let proven = run(&[few, many, many]);
        assert_eq!(prove_tests(&proven).unwrap(), 2);
        assert!(proven_tests(2, &[proven]).starts_with("cold tests: 2 of 3 in all runs"));
        for (tests, words) in [
            (vec![many, (1_000_000, Some(249_999))], "not cold in the test sload-present-1e6"),
            (vec![few, few], "no test has read"),
            (Vec::new(), "no test has read"),
            (vec![many, (1_000_000, None)], "/proc/self/io"),
        ] {
            let error = prove_tests(&run(&tests)).unwrap_err().to_string();
            assert!(error.starts_with("run 1 of raw on mdbx") && error.contains(words), "{error}");
        }
    }

    /// Without --cold nothing is refused, but the report says what it should not have called cold.
    #[test]
    fn a_test_that_was_not_cold_is_named_without_a_proof() {
        let (few, many, warm) = ((100, Some(0)), (1_000_000, Some(250_000)), (1_000_000, Some(0)));
        assert_eq!(not_cold(&[run(&[few, many]), run(&[(1_000_000, None)])]), None);
        let note = not_cold(&[run(&[few, many, warm]), run(&[warm])]).unwrap_or_default();
        assert!(note.starts_with("cold tests: 2 of the 3 that can be judged were not"), "{note}");
    }
}
