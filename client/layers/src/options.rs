//! The settings of the layers: options of the command line, which the processes of a benchmark get too.

#[cfg(feature = "binary")]
use super::binary::BinarySettings;
#[cfg(feature = "lmpt")]
use super::lmpt::LmptSettings;
#[cfg(feature = "lvmt")]
use super::lvmt::{LvmtNeeds, LvmtSettings};
#[cfg(feature = "mpt-hash")]
use super::mpt_hash::MptHashSettings;
#[cfg(feature = "nomt")]
use super::nomt::NomtSettings;
#[cfg(feature = "qmdb")]
use super::qmdb::QmdbSettings;
#[cfg(feature = "rain")]
use super::rain::RainSettings;
#[cfg(feature = "replica")]
use super::replica::ReplicaSettings;
use crate::values::parse_bytes;
use clap::Args;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Default number of bytes of trie nodes kept in memory, for a machine of 8 GiB.
const TRIE_CACHE: usize = 1 << 30;

/// Settings of the layers; each reads its own, which its file here describes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
#[command(next_help_heading = "State layers")]
pub struct LayerOptions {
    /// Bytes of trie nodes kept in memory between blocks (k, M, G may follow).
    #[arg(id = "trie.cache", long = "trie.cache", value_name = "BYTES", value_parser = parse_bytes, default_value = "1G")]
    pub trie_cache: usize,
    /// Settings of `binary`.
    #[cfg(feature = "binary")]
    #[command(flatten)]
    pub binary: BinarySettings,
    /// Settings of `lmpt`.
    #[cfg(feature = "lmpt")]
    #[command(flatten)]
    pub lmpt: LmptSettings,
    /// Settings of `mpt-hash`.
    #[cfg(feature = "mpt-hash")]
    #[command(flatten)]
    pub mpt_hash: MptHashSettings,
    /// Settings of `nomt`.
    #[cfg(feature = "nomt")]
    #[command(flatten)]
    pub nomt: NomtSettings,
    /// Settings of `qmdb`.
    #[cfg(feature = "qmdb")]
    #[command(flatten)]
    pub qmdb: QmdbSettings,
    /// Settings of `rain`.
    #[cfg(feature = "rain")]
    #[command(flatten)]
    pub rain: RainSettings,
    /// Settings of `replica`.
    #[cfg(feature = "replica")]
    #[command(flatten)]
    pub replica: ReplicaSettings,
    /// Settings of `lvmt`.
    #[cfg(feature = "lvmt")]
    #[command(flatten)]
    pub lvmt: LvmtSettings,
    /// `--replica.path`: another directory for the flat state. Builds without `replica` have the field too.
    #[arg(skip)]
    pub replica_path: Option<PathBuf>,
    /// Whether blocks will be executed. If not, files that only a commitment needs may be missing.
    #[arg(skip = true)]
    pub executes: bool,
}

impl Default for LayerOptions {
    fn default() -> Self {
        Self {
            trie_cache: TRIE_CACHE,
            #[cfg(feature = "binary")]
            binary: BinarySettings::default(),
            #[cfg(feature = "lmpt")]
            lmpt: LmptSettings::default(),
            #[cfg(feature = "mpt-hash")]
            mpt_hash: MptHashSettings::default(),
            #[cfg(feature = "nomt")]
            nomt: NomtSettings::default(),
            #[cfg(feature = "qmdb")]
            qmdb: QmdbSettings::default(),
            #[cfg(feature = "rain")]
            rain: RainSettings::default(),
            #[cfg(feature = "replica")]
            replica: ReplicaSettings::default(),
            #[cfg(feature = "lvmt")]
            lvmt: LvmtSettings::default(),
            replica_path: None,
            executes: true,
        }
    }
}

/// What layers cannot do without, and no data directory holds: it takes these to execute blocks on what is stored, or to
/// verify a proof.
#[derive(Debug, Clone, Default, Args)]
pub struct LayerNeeds {
    /// Needs of `lvmt`.
    #[cfg(feature = "lvmt")]
    #[command(flatten)]
    pub lvmt: LvmtNeeds,
}

impl From<LayerNeeds> for LayerOptions {
    /// Returns options to open stored data, of which no block will be executed.
    #[cfg_attr(not(feature = "lvmt"), expect(unused_variables, reason = "nothing is needed"))]
    fn from(needs: LayerNeeds) -> Self {
        Self {
            #[cfg(feature = "lvmt")]
            lvmt: LvmtSettings { needs: needs.lvmt, ..LvmtSettings::default() },
            executes: false,
            ..Self::default()
        }
    }
}

impl LayerOptions {
    /// Returns the settings that a layer cannot do without.
    pub fn needs(&self) -> LayerNeeds {
        LayerNeeds {
            #[cfg(feature = "lvmt")]
            lvmt: self.lvmt.needs.clone(),
        }
    }

    /// Returns these options with caches that fit into `bytes` of memory beside everything else: no cache is larger
    /// than a quarter of `bytes`.
    #[must_use]
    pub fn within(mut self, bytes: usize) -> Self {
        let quarter = bytes / 4;
        self.trie_cache = self.trie_cache.min(quarter);
        #[cfg(feature = "lmpt")]
        {
            self.lmpt.memory = self.lmpt.memory.min(quarter);
        }
        #[cfg(feature = "mpt-hash")]
        {
            self.mpt_hash.cache = self.mpt_hash.cache.min(quarter);
        }
        #[cfg(feature = "nomt")]
        {
            self.nomt.cache = self.nomt.cache.min(quarter);
        }
        #[cfg(feature = "qmdb")]
        {
            self.qmdb.cache = self.qmdb.cache.min(quarter);
        }
        self
    }

    /// Returns these options for a layer that can prove every key.
    #[must_use]
    #[cfg_attr(not(feature = "lvmt"), expect(unused_mut, reason = "every layer can"))]
    pub fn proving(mut self) -> Self {
        #[cfg(feature = "lvmt")]
        {
            self.lvmt.proving = true;
        }
        self
    }

    /// Returns these options for a second layer that executes the same blocks as the first, without settings that only
    /// one data directory can have.
    #[must_use]
    pub fn beside(mut self) -> Self {
        self.replica_path = None;
        #[cfg(feature = "replica")]
        {
            self.replica.depth = Some(0);
        }
        self
    }

    /// Returns these options for a store without blocks. Its rows do not depend on how blocks are counted.
    #[must_use]
    #[cfg_attr(not(feature = "lmpt"), expect(unused_mut, reason = "no layer counts blocks"))]
    pub fn before_blocks(mut self) -> Self {
        #[cfg(feature = "lmpt")]
        {
            let LmptSettings { interval, sweep, boundary, .. } = &mut self.lmpt;
            (*interval, *sweep, *boundary) = (None, None, None);
        }
        self
    }
}

#[cfg(any(test, feature = "testing"))]
impl LayerOptions {
    /// Returns the defaults for tests: files that a layer needs do not come from the user's directories, and intervals
    /// end within short chains.
    pub fn for_tests() -> Self {
        Self {
            #[cfg(feature = "lmpt")]
            lmpt: LmptSettings { interval: Some(5), ..LmptSettings::default() },
            #[cfg(feature = "lvmt")]
            lvmt: LvmtSettings {
                needs: LvmtNeeds { setup: Some(crate::testsetup::dir()) },
                ..LvmtSettings::default()
            },
            ..Self::default()
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    /// The defaults in the help are those that a caller gets without options.
    #[test]
    fn defaults_are_those_of_the_command_line() {
        let command = LayerOptions::augment_args(Command::new("test"));
        let command = command.mut_args(|arg| arg.env(clap::builder::Resettable::Reset));
        let matches = command.try_get_matches_from(["test"]).unwrap();
        assert_eq!(LayerOptions::from_arg_matches(&matches).unwrap(), LayerOptions::default());
    }
}
