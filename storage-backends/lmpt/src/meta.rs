//! The meta row: the position of the layer, its settings, and the roots that it commits to.
//!
//! ```text
//! commitment    H(snapshot root ‖ I ‖ D)
//!   I           H(intermediate salt ‖ intermediate root)
//!   D           H(delta salt ‖ delta root)
//! delta salt    H(snapshot root ‖ I), as both are when the delta is empty and its interval begins
//! ```

use crate::{Boundary, LmptOptions, META, merge::Schedule, options::unsupported};
use alloy_primitives::{B256, Bytes, keccak256};
use polytrie_kv::{Batch, Read, append_checksum, strip_checksum};
use polytrie_state::{Commitment, Result, corrupt};
use polytrie_trie::EMPTY_ROOT;
use serde::{Deserialize, Serialize};

const KEY: &[u8] = b"head";

/// Bytes of the row without its checksum.
const BODY: usize = 2 * 8 + 1 + 3 * 8 + 5 * 32;

/// A trie in memory, as the commitment and proofs contain it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Salted {
    pub(crate) salt: B256,
    pub(crate) root: B256,
}

impl Salted {
    /// Returns the hash of salt and root: 32 bytes that stand for the trie and for the places of its keys.
    pub(crate) fn digest(&self) -> B256 {
        keccak256([self.salt.0, self.root.0].concat())
    }
}

/// The three roots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Roots {
    pub(crate) snapshot: B256,
    pub(crate) intermediate: Salted,
    pub(crate) delta: Salted,
}

impl Roots {
    /// Returns the roots of a state that is all in the snapshot.
    pub(crate) fn of_snapshot(snapshot: B256) -> Self {
        let intermediate = Salted { salt: B256::ZERO, root: EMPTY_ROOT };
        Self::with_empty_delta(snapshot, intermediate)
    }

    /// Returns the roots at the beginning of an interval.
    fn with_empty_delta(snapshot: B256, intermediate: Salted) -> Self {
        let salt = keccak256([snapshot.0, intermediate.digest().0].concat());
        Self { snapshot, intermediate, delta: Salted { salt, root: EMPTY_ROOT } }
    }

    /// Returns the roots after the delta has become the intermediate, and a new delta begins.
    pub(crate) fn rotated(&self) -> Self {
        Self::with_empty_delta(self.snapshot, self.delta)
    }

    /// Returns the 32 bytes that the layer commits to.
    pub(crate) fn digest(&self) -> B256 {
        let parts = [self.snapshot.0, self.intermediate.digest().0, self.delta.digest().0];
        keccak256(parts.concat())
    }

    /// Returns the commitment: the digest, and the five values that it is made of.
    pub(crate) fn commitment(&self) -> Commitment {
        let body = self.to_array().concat();
        Commitment::own(self.digest(), Bytes::from(body))
    }

    const fn to_array(self) -> [[u8; 32]; 5] {
        let Self { snapshot, intermediate, delta } = self;
        [snapshot.0, intermediate.salt.0, intermediate.root.0, delta.salt.0, delta.root.0]
    }
}

/// The position of the layer, its settings and its roots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) schedule: Schedule,
    /// Number of the last block; `None` if the state was loaded and no block followed.
    pub(crate) number: Option<u64>,
    /// The first block after the load.
    pub(crate) first: u64,
    /// The oldest block whose writes the journal has.
    pub(crate) oldest: u64,
    pub(crate) roots: Roots,
}

impl Meta {
    /// Returns the meta row of a loaded state.
    pub(crate) fn loaded(options: &LmptOptions, snapshot: B256) -> Self {
        let schedule = options.schedule();
        let roots = Roots::of_snapshot(snapshot);
        Self { schedule, number: None, first: 0, oldest: 0, roots }
    }

    /// Adapts the meta row to `options`. Before the first block all of the state is snapshot, so any options fit.
    ///
    /// # Errors
    ///
    /// If the commitment of the stored blocks depends on other options.
    pub(crate) fn under(self, options: &LmptOptions) -> Result<Self> {
        let schedule = options.schedule();
        if self.number.is_none() {
            return Ok(Self { schedule, ..self });
        }
        let words = |Schedule { interval, sweep, boundary }| {
            [interval.to_string(), sweep.to_string(), boundary.to_string()]
        };
        let (found, asked) = (words(self.schedule), words(schedule));
        let options = ["interval", "sweep", "boundary"];
        for ((option, found), asked) in options.iter().zip(found).zip(asked) {
            if found != asked {
                return Err(unsupported(format!(
                    "holds a state of --lmpt.{option} {found}, {asked} was asked for; leave --lmpt.{option} out"
                )));
            }
        }
        Ok(self)
    }

    /// Returns the last block of the interval before that of the next block: later blocks are in the delta.
    pub(crate) const fn delta_after(&self, number: u64) -> u64 {
        number - number % self.schedule.interval
    }

    /// Reads the row; `None` in an empty store.
    pub(crate) fn read(store: &dyn Read) -> Result<Option<Self>> {
        let Some(row) = store.get(META, KEY)? else { return Ok(None) };
        Self::decode(&row).map(Some)
    }

    /// Adds the row to a batch.
    pub(crate) fn write(&self, batch: &mut Batch) {
        batch.put(META, KEY, &self.encode());
    }

    /// Encodes the row: `interval ‖ sweep ‖ flags ‖ number ‖ first ‖ oldest ‖ roots and salts ‖ checksum`, numbers
    /// big-endian. Flags: 1 there is a number, 2 the snapshot is switched at the boundary.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut row = Vec::with_capacity(BODY + 8);
        row.extend_from_slice(&self.schedule.interval.to_be_bytes());
        row.extend_from_slice(&self.schedule.sweep.to_be_bytes());
        let switched = self.schedule.boundary == Boundary::Switch;
        row.push(u8::from(self.number.is_some()) | u8::from(switched) << 1);
        for number in [self.number.unwrap_or_default(), self.first, self.oldest] {
            row.extend_from_slice(&number.to_be_bytes());
        }
        for part in self.roots.to_array() {
            row.extend_from_slice(&part);
        }
        append_checksum(KEY, &mut row);
        row
    }

    /// Decodes a row of [`Self::encode`].
    pub(crate) fn decode(row: &[u8]) -> Result<Self> {
        let damaged = || corrupt!("the row of where the layer stands is damaged");
        let body = strip_checksum(KEY, row).ok_or_else(damaged)?;
        if body.len() != BODY || body[16] > 3 {
            return Err(damaged());
        }
        let number =
            |at: usize| body[at..at + 8].iter().fold(0, |n: u64, byte| n << 8 | u64::from(*byte));
        let hash = |n: usize| B256::from_slice(&body[41 + 32 * n..][..32]);
        let (interval, sweep) = (number(0), number(8));
        if interval == 0 || sweep == 0 {
            return Err(damaged());
        }
        let boundary = match body[16] & 2 {
            0 => Boundary::Slices,
            _ => Boundary::Switch,
        };
        Ok(Self {
            schedule: Schedule { interval, sweep, boundary },
            number: (body[16] & 1 != 0).then(|| number(17)),
            first: number(25),
            oldest: number(33),
            roots: Roots {
                snapshot: hash(0),
                intermediate: Salted { salt: hash(1), root: hash(2) },
                delta: Salted { salt: hash(3), root: hash(4) },
            },
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_and_no_byte_may_change() {
        let mut meta = Meta::loaded(&LmptOptions::default(), B256::repeat_byte(3));
        for (number, boundary) in [(None, Boundary::Slices), (Some(7), Boundary::Switch)] {
            (meta.number, meta.schedule.boundary) = (number, boundary);
            let row = meta.encode();
            assert_eq!(row.len(), BODY + 4);
            assert_eq!(Meta::decode(&row).unwrap(), meta);
            for at in 0..row.len() {
                let mut changed = row.clone();
                changed[at] ^= 1;
                assert!(Meta::decode(&changed).is_err(), "byte {at}");
            }
            assert!(Meta::decode(&row[1..]).is_err());
        }
    }

    #[test]
    fn the_commitment_is_as_documented() {
        let roots = Roots::of_snapshot(B256::repeat_byte(1));
        let h = |parts: &[B256]| keccak256(parts.iter().flat_map(|p| p.0).collect::<Vec<_>>());
        let intermediate = h(&[B256::ZERO, EMPTY_ROOT]);
        let salt = h(&[B256::repeat_byte(1), intermediate]);
        let delta = h(&[salt, EMPTY_ROOT]);
        assert_eq!(roots.digest(), h(&[B256::repeat_byte(1), intermediate, delta]));
        assert_eq!(roots.rotated().intermediate, roots.delta);
        assert_eq!(roots.rotated().delta.salt, h(&[B256::repeat_byte(1), delta]));
    }
}
