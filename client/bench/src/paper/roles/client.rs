//! Counts of the guesses of a client that runs transactions ahead on an older state.

use super::{
    Counted, Course,
    loads::{Loads, loads},
    walk::{Head, Turn, rules, walk, wrong},
};
use crate::{Comparison, Result, workload::BLOCK_TIME};
use alloy_consensus::Header;
use polytrie_chain::executor::sandbox::run_ahead;

/// Number of the first block that counts. It is the same however many blocks a client is behind.
const FIRST: u64 = 21;

/// Runs each transaction by itself on an older state, `behind` blocks before that of its parent, and compares what it
/// loads with what the transaction loads in its block.
pub(super) fn count(base: &Comparison, course: &Course, behind: usize) -> Result<Counted> {
    let mut tally = Tally::default();
    walk(base, course, (behind, FIRST), &mut |turn| {
        if let Some(head) = turn.heads.get(behind) {
            tally.block(turn, head)?;
        }
        Ok(())
    })?;
    Ok(Counted { variant: course.name.to_owned(), values: tally.shares().to_vec() })
}

#[derive(Debug, Default)]
struct Tally {
    transactions: u64,
    /// Transactions that loaded other accounts or slots than the client had guessed.
    different: u64,
    /// Transactions that loaded an account or slot of which the guess says nothing.
    incomplete: u64,
    /// Transactions that loaded a value that had changed since the client saw it.
    stale: u64,
    /// Accounts and slots that transactions loaded.
    loaded: u64,
    /// The accounts and slots among these that the client had foreseen.
    foreseen: u64,
}

impl Tally {
    fn block(&mut self, turn: &Turn<'_>, head: &Head) -> Result<()> {
        let candidate = turn.candidate;
        let next = Header {
            parent_hash: head.header.hash(),
            number: head.header.number + 1,
            timestamp: head.header.timestamp + BLOCK_TIME,
            ..head.header.inner().clone()
        };
        let mut sandbox = turn.sandbox(head);
        let transactions = candidate.block.body.transactions.iter().zip(turn.senders()?);
        for ((tx, sender), loaded) in transactions.zip(turn.loads) {
            let rules = rules(turn.spec, &next);
            let guess = run_ahead(&mut sandbox, &next, rules, tx, *sender)
                .map_err(|error| wrong(candidate.header.number)(&error))?;
            let guess = guess.map(|state| loads(&state, next.beneficiary)).unwrap_or_default();
            self.transaction(loaded, &guess);
        }
        Ok(())
    }

    fn transaction(&mut self, loaded: &Loads, guess: &Loads) {
        let foreseen = loaded.keys().filter(|key| guess.contains_key(*key)).count();
        let is_stale = |(key, was)| guess.get(key).is_some_and(|seen| seen != was);
        self.transactions += 1;
        self.loaded += loaded.len() as u64;
        self.foreseen += foreseen as u64;
        self.incomplete += u64::from(foreseen < loaded.len());
        self.different += u64::from(foreseen < loaded.len() || foreseen < guess.len());
        self.stale += u64::from(loaded.iter().any(is_stale));
    }

    /// The shares, in the order of the part's quantities; NaN if there was nothing to count.
    fn shares(&self) -> [f64; 4] {
        // A share of 0 is NaN.
        let of = |count: u64, all: u64| count as f64 / all as f64;
        [
            of(self.foreseen, self.loaded),
            of(self.different, self.transactions),
            of(self.incomplete, self.transactions),
            of(self.stale, self.transactions),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::loads::{Key, Was},
        *,
    };
    use alloy_primitives::{Address, U256};

    #[test]
    fn guesses_are_held_against_what_happened() {
        let slots = |slots: &[(u64, u64)]| -> Loads {
            let slot = |(slot, value): &(u64, u64)| {
                (Key::Slot(Address::ZERO, U256::from(*slot)), Was::Slot(U256::from(*value)))
            };
            slots.iter().map(slot).collect()
        };
        let mut tally = Tally::default();
        let loaded = slots(&[(1, 1), (2, 2)]);
        tally.transaction(&loaded, &loaded);
        // The value has changed, the slots are the same.
        tally.transaction(&loaded, &slots(&[(1, 1), (2, 7)]));
        // One slot more than needed, which costs only its transfer.
        tally.transaction(&loaded, &slots(&[(1, 1), (2, 2), (3, 3)]));
        // One slot less than needed.
        tally.transaction(&loaded, &slots(&[(1, 1)]));
        assert_eq!(tally.shares(), [7.0 / 8.0, 0.5, 0.25, 0.25]);
        assert!(Tally::default().shares().iter().all(|share| share.is_nan()));
    }
}
