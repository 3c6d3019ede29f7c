//! How the memory of nodes is divided among those that were touched recently and those that were not.

/// Bytes of memory by the number of blocks since a node was last touched, its age. Ages below 16 are told apart, and
/// four classes of ages from each power of two to the next one.
#[derive(Debug, Clone)]
pub struct Ages([usize; Self::CLASSES]);

impl Default for Ages {
    fn default() -> Self {
        Self([0; Self::CLASSES])
    }
}

impl Ages {
    const CLASSES: usize = 16 + 28 * 4;

    /// Adds the memory of a node of this age.
    pub const fn add(&mut self, age: u32, bytes: usize) {
        self.0[Self::class(age)] += bytes;
    }

    /// Returns the largest age so that all nodes up to it take no more than this many bytes; `None` if those of age 0
    /// alone take more.
    pub fn oldest_within(&self, bytes: usize) -> Option<u32> {
        let mut left = bytes;
        let fitting = self.0.iter().take_while(|class| match left.checked_sub(**class) {
            Some(after) => {
                left = after;
                true
            }
            None => false,
        });
        fitting.count().checked_sub(1).map(Self::oldest)
    }

    const fn class(age: u32) -> usize {
        match age.checked_ilog2() {
            Some(power @ 4..) => 4 * power as usize + ((age >> (power - 2)) & 3) as usize,
            _ => age as usize,
        }
    }

    /// Returns the largest age of a class.
    const fn oldest(class: usize) -> u32 {
        if class < 16 {
            return class as u32;
        }
        let (power, quarter) = (class / 4, class % 4);
        ((((5 + quarter) as u64) << (power - 2)) - 1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_ages_follow_each_other() {
        for class in 0..Ages::CLASSES {
            let oldest = Ages::oldest(class);
            assert_eq!(Ages::class(oldest), class);
            match oldest.checked_add(1) {
                Some(next) => assert_eq!(Ages::class(next), class + 1),
                None => assert_eq!(class, Ages::CLASSES - 1),
            }
        }
    }

    #[test]
    fn the_oldest_that_fit() {
        let mut ages = Ages::default();
        for (age, bytes) in [(0, 10), (3, 10), (1_000, 10), (u32::MAX, 10)] {
            ages.add(age, bytes);
        }
        assert_eq!(ages.oldest_within(9), None);
        assert_eq!(ages.oldest_within(19), Some(2));
        // 1,000 is in the class of 896 to 1,023.
        assert_eq!(ages.oldest_within(29), Some(895));
        assert_eq!(ages.oldest_within(39), Some(3_758_096_383));
        assert_eq!(ages.oldest_within(40), Some(u32::MAX));
    }
}
