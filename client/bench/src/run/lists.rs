//! The access lists of a prepared chain, made before anything is measured.

use super::{
    BenchError, Result,
    chain::{begin, candidates, wrong},
};
use crate::{Base, Cache, PreparedChain, Settings, Subject, fixture::store::copied};
use polytrie_chain::ChainOptions;
use polytrie_node::{
    access_lists::{ACCESS_LISTS_FILE, AccessListFileError, AccessListWriter, HEADING},
    import::ImportError,
};
use std::path::{Path, PathBuf};

/// The file with the access lists of a chain: from the cache, or made now by running the chain on `mpt`.
pub(super) fn lists(
    cache: &Cache,
    base: &Base,
    chain: &PreparedChain,
    settings: &Settings,
) -> Result<PathBuf> {
    // The name of the chain's directory contains a hash of all that the chain depends on.
    let name = chain.dir().file_name().map(|name| name.to_string_lossy().into_owned());
    // A file that another build made may have another format.
    let format = String::from_utf8_lossy(HEADING);
    let parameters = serde_json::json!({ "chain": name, "format": format.trim_end() });
    let dir = cache.entry("access-lists", &parameters, |dir| {
        tracing::info!("making the access lists of the chain");
        make(cache, base, chain, settings, &dir.join(ACCESS_LISTS_FILE))
    })?;
    Ok(dir.join(ACCESS_LISTS_FILE))
}

fn make(
    cache: &Cache,
    base: &Base,
    prepared_chain: &PreparedChain,
    settings: &Settings,
    file: &Path,
) -> Result<()> {
    let subject = Subject::new("mpt", "mdbx");
    let (_scratch, open, _) = copied(cache, base, &subject, settings)?;
    let options = ChainOptions { keep_access_lists: true, ..ChainOptions::default() };
    let mut chain = begin(prepared_chain, &open, options)?;
    let mut writer = AccessListWriter::open(file).map_err(unusable)?;
    for candidate in candidates(prepared_chain, chain.spec())? {
        cache.go_on("access lists were made")?;
        chain.insert(candidate).map_err(|error| wrong(&chain, error))?;
        for block in chain.take_access_lists() {
            writer.write(&block).map_err(unusable)?;
        }
    }
    chain.settle().map_err(|error| wrong(&chain, error))?;
    writer.make_durable().map_err(unusable)
}

pub(super) fn unusable(error: AccessListFileError) -> BenchError {
    ImportError::from(error).into()
}
