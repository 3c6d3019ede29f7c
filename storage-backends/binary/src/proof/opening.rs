//! Some leaves of a stem, opened together: the hashes of all subtrees in which none of them is.

use super::{Value, form::Hashes};
use crate::{
    hash::{hash_pair, hash_value},
    stem::{LEVELS, Leaves, root_of, split},
};
use alloy_primitives::B256;

/// The values of leaves, and the hashes beside them. `subs` are in order, each once.
pub(super) fn open(leaves: &Leaves, subs: &[u8]) -> (Vec<Value>, Hashes) {
    let values = subs.iter().map(|sub| leaves.get(*sub).copied()).collect();
    let mut siblings = Vec::new();
    let subs: Vec<_> = subs.iter().map(|sub| (*sub, ())).collect();
    gather(leaves.all(), &subs, LEVELS, &mut siblings);
    (values, Hashes::pack(&siblings))
}

fn gather(leaves: &[(u8, B256)], subs: &[(u8, ())], levels: u32, siblings: &mut Vec<B256>) {
    if subs.is_empty() {
        siblings.push(root_of(leaves, levels));
    } else if levels > 0 {
        let ([left, right], [to_left, to_right]) = (split(leaves, levels), split(subs, levels));
        gather(left, to_left, levels - 1, siblings);
        gather(right, to_right, levels - 1, siblings);
    }
}

/// The root of the leaves of which some are opened. `None` if there are too few hashes, or too many.
pub(super) fn root(subs: &[u8], values: &[Value], siblings: &Hashes) -> Option<B256> {
    let siblings = siblings.unpack()?;
    if subs.len() != values.len() {
        return None;
    }
    let opened: Vec<(u8, Value)> = subs.iter().copied().zip(values.iter().copied()).collect();
    let mut siblings = siblings.into_iter();
    let root = fold(&opened, LEVELS, &mut siblings)?;
    siblings.next().is_none().then_some(root)
}

fn fold(
    opened: &[(u8, Value)],
    levels: u32,
    siblings: &mut impl Iterator<Item = B256>,
) -> Option<B256> {
    match (opened, levels) {
        ([], _) => siblings.next(),
        ([(_, value)], 0) => Some(value.as_ref().map_or(B256::ZERO, hash_value)),
        (_, 0) => None,
        _ => {
            let [left, right] = split(opened, levels);
            let left = fold(left, levels - 1, siblings)?;
            let right = fold(right, levels - 1, siblings)?;
            Some(hash_pair(&left, &right))
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{Stem, account::LeafChange};

    #[test]
    fn any_leaves_lead_to_the_root() {
        let stem = Stem([1; 31]);
        let mut leaves = Leaves::default();
        for sub in [0u8, 1, 5, 64, 66, 129, 255] {
            leaves.change(&stem, sub, LeafChange::Set(B256::repeat_byte(sub))).unwrap();
        }
        let expected = root_of(leaves.all(), LEVELS);
        let all: Vec<u8> = (0..=255).collect();
        for subs in [&[][..], &[0], &[2], &[0, 1, 2], &[5, 64, 200], &[255], &all] {
            let (values, siblings) = open(&leaves, subs);
            assert_eq!(root(subs, &values, &siblings), Some(expected), "{subs:?}");
            let longer = Hashes::pack(&[siblings.unpack().unwrap(), vec![expected]].concat());
            assert_eq!(root(subs, &values, &longer), None);
            for at in 0..values.len() {
                let mut values = values.clone();
                values[at] = values[at].is_none().then_some(B256::ZERO);
                assert_ne!(root(subs, &values, &siblings), Some(expected));
            }
        }
    }
}
