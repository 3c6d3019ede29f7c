//! The versions of one value by write number, as long as a reader still sees them.
//!
//! Writes are numbered. A reader of write 7 sees the newest version of each key that was made by write 7 or before. A
//! version is dropped when it is overwritten and no reader stands between it and its successor ([`LiveSet`]).
//!
//! [`LiveSet`]: crate::LiveSet

use crate::Live;

/// Versions before the newest, each with the number of the write that made it, oldest first.
#[derive(Debug, Clone)]
pub struct Older<T>(Vec<(u64, T)>);

impl<T> Default for Older<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Older<T> {
    /// Returns all kept versions.
    pub fn as_slice(&self) -> &[(u64, T)] {
        &self.0
    }

    /// Returns the version that is seen after write `seq`, and the write that made it.
    pub fn at(&self, seq: u64) -> Option<(u64, &T)> {
        self.0.iter().rfind(|(made, _)| *made <= seq).map(|(made, value)| (*made, value))
    }

    /// Adds the version of write `made`, which must be newer than all others here.
    pub fn push(&mut self, made: u64, value: T) {
        self.0.push((made, value));
    }

    /// Drops the versions that no reader sees; write `next` made the version after these.
    pub fn forget(&mut self, mut next: u64, live: &Live<'_>) {
        for at in (0..self.0.len()).rev() {
            let made = self.0[at].0;
            if !live.sees(made..next) {
                self.0.remove(at);
            }
            next = made;
        }
    }
}

/// All versions of a value; the newest is mostly the only one.
#[derive(Debug, Clone)]
pub struct Versions<T> {
    made: u64,
    newest: T,
    older: Older<T>,
}

impl<T> Versions<T> {
    /// Creates a list with one version, made by write `seq`.
    pub fn new(newest: T, seq: u64) -> Self {
        Self { made: seq, newest, older: Older::default() }
    }

    /// The newest version.
    pub const fn newest(&self) -> &T {
        &self.newest
    }

    /// Returns the versions before the newest.
    pub fn older(&self) -> &[(u64, T)] {
        self.older.as_slice()
    }

    /// Returns the version that is seen after write `seq`, and the write that made it.
    #[inline]
    pub fn at(&self, seq: u64) -> Option<(u64, &T)> {
        if self.made <= seq { Some((self.made, &self.newest)) } else { self.older.at(seq) }
    }

    /// Sets a new version as write `seq`, which must be the newest.
    pub fn set(&mut self, value: T, seq: u64, live: &Live<'_>) {
        self.forget(live);
        let before = std::mem::replace(&mut self.newest, value);
        if live.sees(self.made..seq) {
            self.older.push(self.made, before);
        }
        self.made = seq;
    }

    /// Drops the versions that no reader sees.
    pub fn forget(&mut self, live: &Live<'_>) {
        self.older.forget(self.made, live);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LiveSet;
    use std::sync::Arc;

    #[test]
    fn versions_are_kept_for_those_who_see_them() {
        let live = Arc::new(LiveSet::default());
        let mut versions = Versions::new('a', 1);
        let at = |versions: &Versions<char>, seq| versions.at(seq).map(|(made, now)| (made, *now));
        let reader = live.enter(2);
        versions.set('b', 3, &live.lock());
        versions.set('c', 4, &live.lock());
        assert_eq!(versions.older(), [(1, 'a')]);
        assert_eq!(at(&versions, 0), None);
        assert_eq!((at(&versions, 2), at(&versions, 9)), (Some((1, 'a')), Some((4, 'c'))));
        drop(reader);
        let reader = live.enter(4);
        versions.set('d', 5, &live.lock());
        assert_eq!(versions.older(), [(4, 'c')]);
        assert_eq!((at(&versions, 4), at(&versions, 5)), (Some((4, 'c')), Some((5, 'd'))));
        drop(reader);
        versions.set('e', 6, &live.lock());
        assert_eq!(versions.older(), []);
        // The value is set twice within one write, and no reader comes in between.
        let reader = live.enter(6);
        versions.set('f', 6, &live.lock());
        assert_eq!((versions.older(), *versions.newest()), (&[][..], 'f'));
        drop(reader);
    }
}
