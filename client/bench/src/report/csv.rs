//! CSV with a line per block, in the columns of other clients' statistics.

use crate::run::RunResult;
use polytrie_files::{ExportError, OutputFile};
use std::{fmt::Write as _, fs, path::Path};

/// Writes one file for every run to `dir`, which is created if it is not there: `mpt-mdbx-1.csv` for the first run
/// of `mpt` on `mdbx`. The columns are those of `import --csv`: `block_number,blocks,slot,txs,gas,time`. `slot` is
/// left empty, `time` is in nanoseconds; in `bench store`, `txs` are operations and there is no gas.
///
/// # Errors
///
/// Fails if the disk fails.
pub fn write_csv<'a>(
    dir: &Path,
    runs: impl IntoIterator<Item = &'a RunResult>,
) -> Result<(), ExportError> {
    let failed = |error| ExportError::Io { file: dir.display().to_string().into(), error };
    fs::create_dir_all(dir).map_err(failed)?;
    for result in runs {
        let mut text = "block_number,blocks,slot,txs,gas,time\n".to_owned();
        for block in &result.blocks {
            let gas = block.gas.map(|gas| gas.to_string()).unwrap_or_default();
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{},1,,{},{gas},{}",
                block.number, block.operations, block.nanoseconds
            );
        }
        let subject = &result.subject;
        let name = format!("{}-{}-{}.csv", subject.label(), subject.kv, result.run);
        OutputFile::create(dir.join(name))?.write_whole(&text)?;
    }
    Ok(())
}
