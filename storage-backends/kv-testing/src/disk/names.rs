//! The names of files on a simulated disk, and those that survive a loss of power.

use crate::Random;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The target of a name: a file by number, or a directory (`None`).
pub(super) type Node = Option<u64>;

/// The names as processes see them, and as the disk has them.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) seen: BTreeMap<PathBuf, Node>,
    durable: BTreeMap<PathBuf, Node>,
    /// The changes that the disk does not have yet, in order.
    changes: Vec<Change>,
    /// All names that there ever were.
    known: BTreeSet<PathBuf>,
}

#[derive(Debug, Clone)]
enum Change {
    Put(PathBuf, Node),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf, Node),
}

impl Names {
    /// Adds a name that is durable already.
    pub(super) fn found(&mut self, path: &Path, node: Node) {
        self.known.insert(path.to_owned());
        self.seen.insert(path.to_owned(), node);
        self.durable.insert(path.to_owned(), node);
    }

    pub(super) fn put(&mut self, path: &Path, node: Node) {
        self.change(Change::Put(path.to_owned(), node));
    }

    pub(super) fn remove(&mut self, path: &Path) {
        self.change(Change::Remove(path.to_owned()));
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) {
        if let Some(node) = self.seen.get(from) {
            self.change(Change::Rename(from.to_owned(), to.to_owned(), *node));
        }
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.seen);
        self.known.extend(self.seen.keys().cloned());
        self.changes.push(change);
    }

    /// Makes the names in a directory durable.
    pub(super) fn sync(&mut self, dir: &Path) {
        let durable = &mut self.durable;
        self.changes.retain(|change| {
            let is_here = change.is_in(dir);
            if is_here {
                change.apply(durable);
            }
            !is_here
        });
    }

    /// Makes the real files those of `names`, with the content of each.
    ///
    /// # Panics
    ///
    /// If they cannot be written.
    pub(super) fn show(&self, names: &BTreeMap<PathBuf, Node>, content: impl Fn(u64) -> Vec<u8>) {
        for path in &self.known {
            match names.get(path) {
                Some(None) => {}
                // The file is removed first, so that a process that has mapped the old one keeps it.
                Some(Some(_)) => drop(fs::remove_file(path)),
                None if path.is_dir() => drop(fs::remove_dir_all(path)),
                None => drop(fs::remove_file(path)),
            }
        }
        for (path, node) in names {
            let shown = match node {
                None => fs::create_dir_all(path),
                Some(id) => fs::write(path, content(*id)),
            };
            shown.expect("there is room for temporary files");
        }
    }

    /// Returns names that a loss of power may leave: of the unsynced changes none, all, the first ones, or any.
    pub(super) fn survivors(&self, random: &mut Random) -> BTreeMap<PathBuf, Node> {
        let mut left = self.durable.clone();
        let mode = random.below(4);
        let first = random.below(self.changes.len() + 1);
        for (index, change) in self.changes.iter().enumerate() {
            let survives = match mode {
                0 => false,
                1 => true,
                2 => index < first,
                _ => random.one_in(2),
            };
            if survives {
                change.apply(&mut left);
            }
        }
        // The content of a removed directory is removed with it.
        let known = self.seen.iter().chain(&self.durable);
        let dirs: Vec<PathBuf> =
            known.filter(|(_, node)| node.is_none()).map(|(path, _)| path.clone()).collect();
        let gone: Vec<&PathBuf> = dirs.iter().filter(|dir| !left.contains_key(*dir)).collect();
        left.retain(|path, _| !gone.iter().any(|dir| path.starts_with(dir)));
        left
    }
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<PathBuf, Node>) {
        match self {
            Self::Put(path, node) => {
                names.insert(path.clone(), *node);
            }
            Self::Remove(path) => {
                names.remove(path);
            }
            Self::Rename(from, to, node) => {
                names.remove(from);
                names.insert(to.clone(), *node);
            }
        }
    }

    fn is_in(&self, dir: &Path) -> bool {
        let is_here = |path: &Path| path.parent() == Some(dir);
        match self {
            Self::Put(path, _) | Self::Remove(path) => is_here(path),
            Self::Rename(from, to, _) => is_here(from) || is_here(to),
        }
    }
}
