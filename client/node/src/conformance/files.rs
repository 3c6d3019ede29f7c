//! Search for the files of tests.

use super::error::ConformanceError;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Returns the JSON files in and below `places`, in the order of their names. A place that is a file is returned
/// under any name.
///
/// # Errors
///
/// Fails if a place or a directory in it cannot be read.
pub fn test_files(places: &[PathBuf]) -> Result<Vec<PathBuf>, ConformanceError> {
    let mut files = Vec::new();
    for place in places {
        if is_dir(place)? {
            walk(place, &mut files)?;
        } else {
            files.push(place.clone());
        }
    }
    Ok(files)
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) -> Result<(), ConformanceError> {
    let mut entries = fs::read_dir(dir)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>())
        .map_err(|source| ConformanceError::Read { path: dir.to_owned(), source })?;
    entries.sort_unstable();
    for path in entries {
        if is_dir(&path)? {
            walk(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    Ok(())
}

fn is_dir(path: &Path) -> Result<bool, ConformanceError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(source) => Err(ConformanceError::Read { path: path.to_owned(), source }),
    }
}
