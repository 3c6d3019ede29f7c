//! Measured points in a directory, for a run that is resumed later.

use super::replicate::MeasuredPoint;
use crate::{BenchError, Comparison, GivenChain, Result, measure::Machine};
use alloy_primitives::keccak256;
use polytrie_files::{ExportError, OutputFile};
use polytrie_kv::disk::if_there;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{
    fmt::Display,
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
};

/// Seconds that a point may take: times beyond are those of a damaged file, and no computation with them makes sense.
const POSSIBLE: Range<f64> = 0.0..1e9;

/// A directory of measured points.
pub(super) struct Kept<'a>(&'a Path);

impl<'a> Kept<'a> {
    /// Opens the directory, if its points were measured under the conditions of this comparison.
    ///
    /// # Errors
    ///
    /// If the disk fails, or the conditions differ.
    pub(super) fn open(
        dir: &'a Path,
        base: &Comparison,
        quick: bool,
        given: Option<&GivenChain>,
    ) -> Result<Self> {
        fs::create_dir_all(dir).map_err(failed(dir))?;
        let kept = Self(dir);
        let build = fs::read("/proc/self/exe").map(|program| keccak256(&program));
        let mut conditions = json!({
            "version": env!("CARGO_PKG_VERSION"),
            // If the program cannot read its own file, only the version identifies the build.
            "build": build.ok(),
            "machine": Machine::this(),
            "quick": quick,
            "subjects": base.subjects,
            "runs": base.runs,
            "settings": base.settings,
            "cold": base.cold,
            "threads": base.threads,
            "pinned": base.pinned,
            "memory_limit": base.memory_limit,
            "slowed": base.slowed,
        });
        if let Some(given) = given {
            conditions["given"] = given.parameters();
        }
        let file = dir.join("conditions.json");
        match read::<Value>(&file)? {
            Some(found) if found == conditions => {}
            Some(found) => {
                return Err(BenchError::Usage(other_conditions(dir, &found, &conditions)));
            }
            None => write(&file, &conditions)?,
        }
        Ok(kept)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.json"))
    }

    /// The point that is kept under a name; `None` if there is none, or if its description differs from `of`.
    ///
    /// # Errors
    ///
    /// If the disk fails, or the file is damaged.
    pub(super) fn read(&self, name: &str, of: &str) -> Result<Option<MeasuredPoint>> {
        let file = self.file(name);
        let kept: Option<KeptPoint> = read(&file)?;
        if kept.as_ref().is_some_and(|kept| !POSSIBLE.contains(&kept.measured.seconds)) {
            return Err(damaged(&file, &"no point takes such a time"));
        }
        Ok(kept.filter(|kept| kept.of == of).map(|kept| kept.measured))
    }

    /// Keeps a point under a name, with a description of its work.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub(super) fn write(&self, name: &str, of: String, measured: &MeasuredPoint) -> Result<()> {
        write(&self.file(name), &KeptPoint { of, measured: measured.clone() })
    }
}

/// A point as it is kept in its file.
#[derive(Serialize, Deserialize)]
struct KeptPoint {
    /// Description of the work: the same work has the same description.
    of: String,
    #[serde(flatten)]
    measured: MeasuredPoint,
}

/// The error for other conditions, which names the first condition that differs.
fn other_conditions(dir: &Path, found: &Value, expected: &Value) -> String {
    let all = found.as_object().into_iter().chain(expected.as_object()).flat_map(|o| o.keys());
    let different = all.into_iter().find(|key| found.get(key) != expected.get(key));
    let key = different.map_or("conditions", String::as_str);
    format!(
        "the points in {} were measured under other conditions: `{key}` was {} there and is {} here; name another --resume directory",
        dir.display(),
        found[key],
        expected[key]
    )
}

/// The error for a file or directory on which the disk failed.
fn failed(path: &Path) -> impl FnOnce(io::Error) -> BenchError {
    move |source| BenchError::Kept { path: path.to_owned(), source }
}

/// The error for a file with other content than a kept point.
fn damaged(file: &Path, reason: &dyn Display) -> BenchError {
    BenchError::Wrong(format!(
        "{} is no point that was kept ({reason}); remove it, or name another --resume directory",
        file.display()
    ))
}

fn read<T: DeserializeOwned>(file: &Path) -> Result<Option<T>> {
    let Some(bytes) = if_there(fs::read(file)).map_err(failed(file))? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| damaged(file, &error))
}

/// Writes a file atomically: it is there whole or not at all.
fn write(file: &Path, value: &impl Serialize) -> Result<()> {
    let of_output = |error: ExportError| match error {
        ExportError::Io { error, .. } => error,
        other => io::Error::other(other.to_string()),
    };
    let mut output = OutputFile::create(file).map_err(of_output).map_err(failed(file))?;
    serde_json::to_writer(&mut output, value).map_err(io::Error::from).map_err(failed(file))?;
    output.finish().map_err(of_output).map_err(failed(file))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::paper::{roles::Counted, testing::comparison};

    const NAME: &str = "lmpt-10-1-2";

    fn measured(seconds: f64) -> MeasuredPoint {
        MeasuredPoint { seconds, ..MeasuredPoint::default() }
    }

    #[test]
    fn a_point_is_kept_for_its_conditions() {
        let (dir, base) = comparison(3);
        let points = dir.path().join("points");
        let kept = Kept::open(&points, &base, false, None).unwrap();
        assert!(kept.read(NAME, "this").unwrap().is_none());
        kept.write(NAME, "this".to_owned(), &measured(7.0)).unwrap();
        let again = Kept::open(&points, &base, false, None).unwrap();
        assert_eq!(again.read(NAME, "this").unwrap().unwrap().seconds, 7.0);
        assert!(again.read(NAME, "that").unwrap().is_none());
        assert!(again.read("lmpt-10-small-1-2", "this").unwrap().is_none());
        for error in [
            Kept::open(&points, &base, true, None).err(),
            Kept::open(&points, &Comparison { runs: 4, ..base.clone() }, false, None).err(),
        ] {
            let error = error.unwrap().to_string();
            assert!(error.contains("name another --resume directory"), "{error}");
            assert!(
                error.contains("`quick` was false") || error.contains("`runs` was 3"),
                "{error}"
            );
        }
        // A damaged file is reported by name, and not overwritten.
        fs::write(kept.file(NAME), "{").unwrap();
        assert!(kept.read(NAME, "this").unwrap_err().to_string().contains("lmpt-10-1-2.json"));
        for seconds in [-1.0, 1e300] {
            kept.write(NAME, "this".to_owned(), &measured(seconds)).unwrap();
            let error = kept.read(NAME, "this").unwrap_err().to_string();
            assert!(error.contains("is no point that was kept"), "{error}");
        }
        // A disk that fails is not reported as wrong usage.
        let error = Kept::open(&kept.file(NAME), &base, false, None).err().unwrap();
        assert!(matches!(error, BenchError::Kept { .. }), "{error}");
    }

    /// Values without a number survive: a chain without transactions gives a client nothing to foresee, so its
    /// share is NaN.
    #[test]
    fn what_has_no_value_is_kept() {
        let (dir, base) = comparison(1);
        let points = dir.path().join("points");
        let kept = Kept::open(&points, &base, false, None).unwrap();
        let counted = Counted { variant: "payments".to_owned(), values: vec![f64::NAN, 0.5] };
        let point = MeasuredPoint { counted: vec![counted], ..measured(1.0) };
        kept.write(NAME, "this".to_owned(), &point).unwrap();
        let found = kept.read(NAME, "this").unwrap().unwrap();
        let values = &found.counted[0].values;
        assert!(values[0].is_nan() && values[1] == 0.5, "{values:?}");
    }
}
