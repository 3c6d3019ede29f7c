//! Options about the access lists of blocks.

use super::{
    args::{access_list_mode, access_list_threads},
    exit::Failure,
};
use crate::{
    access_lists::{ACCESS_LISTS_FILE, AccessListMode, AccessListReader, AccessListWriter},
    datadir::OpenOptions,
};
use clap::Args;
use polytrie_chain::ListUse;
use std::path::{Path, PathBuf};

/// What to do with access lists.
#[derive(Debug, Args)]
pub(super) struct AccessListArgs {
    /// What to make of the access lists of blocks (EIP-7928), which --bal-build has made: `off`, nothing; `hints`, what
    /// a block lists is announced to the state layer before the block runs, and read ahead on many threads when
    /// --prefetch says so, instead of running the block ahead to find it out; `trie`, its commitment is computed too,
    /// while its transactions run, from what it says they leave; `parallel`, the transactions run at the same time too,
    /// each on what it says comes before it. Blocks of which there is no list, and for `trie` and `parallel` those before
    /// Cancun or under --verify every=N, run as ever. Results never depend on a list: one that does not agree with its
    /// block costs time only.
    #[arg(long, value_name = "HOW", default_value = "off", value_parser = access_list_mode())]
    bal: AccessListMode,
    /// Threads that run the transactions of a block with --bal parallel [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    bal_threads: Option<u16>,
    /// Write down what each block that is executed reads and changes, in blocks of any fork, for another import of them
    /// with --bal. The lists go to a file beside the chain, and no export holds them. (In blocks from Amsterdam on
    /// the list is made and compared with the header's hash in any case.)
    #[arg(long)]
    bal_build: bool,
    /// Where the access lists are [default: `access-lists` in --datadir]
    #[arg(long, value_name = "FILE")]
    bal_file: Option<PathBuf>,
}

impl AccessListArgs {
    /// Whether lists are made.
    pub(super) const fn builds(&self) -> bool {
        self.bal_build
    }

    /// What the chain makes of lists.
    pub(super) fn list_use(&self) -> ListUse {
        self.bal.list_use(access_list_threads(self.bal_threads))
    }

    /// A file that is named and written.
    pub(super) fn output(&self) -> Option<&Path> {
        self.bal_file.as_deref().filter(|_| self.bal_build)
    }

    /// The lists that are read, and those that are written.
    pub(super) fn open(
        &self,
        options: &OpenOptions,
    ) -> Result<(Option<AccessListReader>, Option<AccessListWriter>), Failure> {
        let reads = !self.bal.is_off();
        if !reads && !self.bal_build {
            return Ok((None, None));
        }
        let in_memory = options.kv.as_deref() == Some("memory");
        let datadir = options.datadir.as_deref().filter(|_| !in_memory);
        let beside = datadir.map(|dir| dir.join(ACCESS_LISTS_FILE));
        let Some(path) = self.bal_file.clone().or(beside) else {
            let text =
                "there is no directory for the access lists; name their file with --bal-file";
            return Err(Failure::Usage(text.to_owned()));
        };
        let writer = self.bal_build.then(|| AccessListWriter::open(&path)).transpose()?;
        let reader = reads.then(|| AccessListReader::open(&path)).transpose()?;
        Ok((reader, writer))
    }
}
