//! Options for the access lists of blocks.

use super::{
    args::{access_list_mode, access_list_threads},
    exit::Failure,
};
use crate::{
    access_lists::{
        ACCESS_LISTS_FILE, AccessListFileError, AccessListMode, AccessListReader, AccessListWriter,
    },
    datadir::OpenOptions,
};
use clap::{ArgGroup, Args};
use polytrie_chain::ListUse;
use std::path::{Path, PathBuf};

/// What to do with access lists.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("access_lists").args(["bal", "bal_build"]).multiple(true)))]
pub(super) struct AccessListArgs {
    /// How to use the access lists of blocks (EIP-7928) that --bal-build made. Each mode does what those before it do: `off`
    /// does nothing; `hints` announces the listed accounts and slots to the state layer before the block runs, and where
    /// --prefetch would run the block ahead, many threads read them instead; `trie` computes the commitment from the list while
    /// the transactions run; `parallel` runs the transactions at the same time, each on the values that the list gives before it.
    /// A block without a list runs as without --bal. Under `trie` and `parallel` a block before Cancun, under --verify
    /// every=N or with --witness runs as with `hints`. No result depends on a list: one that is wrong costs time only.
    #[arg(long, value_name = "HOW", default_value = "off", value_parser = access_list_mode())]
    bal: AccessListMode,
    /// Threads that run the transactions of a block with --bal parallel [default: the number of cores]
    #[arg(long, value_name = "N", requires = "bal", value_parser = clap::value_parser!(u16).range(1..=1024))]
    bal_threads: Option<u16>,
    /// Make the access list of each executed block, of any fork, so that another import of the blocks can use it with --bal.
    /// The lists go to a file beside the chain, and no export contains them. (In blocks from Amsterdam on the list is made and
    /// compared with the header's hash in any case.)
    #[arg(long)]
    bal_build: bool,
    /// The file of the access lists [default: `access-lists` in --datadir]
    #[arg(long, value_name = "FILE", requires = "access_lists")]
    bal_file: Option<PathBuf>,
}

impl AccessListArgs {
    /// Whether the import makes access lists.
    pub(super) const fn builds(&self) -> bool {
        self.bal_build
    }

    /// The use that the chain makes of access lists, with the number of threads that run transactions.
    pub(super) fn list_use(&self) -> ListUse {
        self.bal.list_use(access_list_threads(self.bal_threads))
    }

    /// The file that --bal-file names, if the import writes it.
    pub(super) fn output(&self) -> Option<&Path> {
        self.bal_file.as_deref().filter(|_| self.bal_build)
    }

    /// Opens the file of lists to read and the file of lists to write. Each is `None` where its option is not set.
    ///
    /// Fails with [`Failure::Usage`] if neither --bal-file nor a data directory on disk gives a place for the file, and
    /// with [`Failure::Invalid`] if the file to read holds something else.
    pub(super) fn open(
        &self,
        options: &OpenOptions,
    ) -> Result<(Option<AccessListReader>, Option<AccessListWriter>), Failure> {
        let reads = !self.bal.is_off();
        if !reads && !self.bal_build {
            return Ok((None, None));
        }
        let datadir = options.datadir.as_deref().filter(|_| !options.is_in_memory());
        let beside = datadir.map(|dir| dir.join(ACCESS_LISTS_FILE));
        let Some(path) = self.bal_file.clone().or(beside) else {
            let text =
                "there is no directory for the access lists; name their file with --bal-file";
            return Err(Failure::Usage(text.to_owned()));
        };
        let writer = self.bal_build.then(|| AccessListWriter::open(&path)).transpose()?;
        let reader = reads.then(|| AccessListReader::open(&path)).transpose().map_err(unread)?;
        Ok((reader, writer))
    }
}

/// The failure to read a file of lists. As an input it is invalid if it holds something else; as an output it would be
/// the wrong path.
fn unread(error: AccessListFileError) -> Failure {
    match error {
        AccessListFileError::OtherContent { .. } => Failure::Invalid(error.to_string()),
        error => error.into(),
    }
}
