//! The joint opening of some leaves of a stem: the hashes of all subtrees without any of them.
//!
//! A second form opens the last leaf of a stem, which shows that the stem is not an inner node. The hash of a leaf
//! has an input of 32 bytes, all other hashes one of 64. Among the leaves of a stem, a leaf is 8 levels below their
//! root. Could this root be an inner node's right child instead, with the leaf 8 levels below it? The path down from
//! an inner node's child passes inner nodes and comes to a stem. If it goes to the right there, it still has 8 levels
//! of that stem's leaves before it, and so ends at a node whose input is 64 bytes. If it goes to the left, the stem's
//! leaves are on its right, where the last leaf must have only empty subtrees.

use super::{Value, form::Hashes};
use crate::{
    hash::{hash_pair, hash_value},
    stem::{LEVELS, Leaves, root_of, split},
};
use alloy_primitives::B256;

/// Returns the values of leaves, and the hashes beside them. `subs` must be in order, each once.
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

/// Returns the value of the last leaf, and each level of the path to it: whether the path goes to the right, and the
/// hash beside it.
pub(super) fn last(leaves: &Leaves) -> (B256, Vec<(bool, B256)>) {
    // An existing stem has a leaf.
    let (sub, value) = leaves.all().last().copied().unwrap_or_default();
    let mut way = Vec::new();
    let mut leaves = leaves.all();
    for levels in (1..=LEVELS).rev() {
        let [left, right] = split(leaves, levels);
        let is_right = sub & (1 << (levels - 1)) != 0;
        let (next, beside) = if is_right { (right, left) } else { (left, right) };
        way.push((is_right, root_of(beside, levels - 1)));
        leaves = next;
    }
    (value, way)
}

/// Returns the sub-index and value of the last leaf, and the hashes on the left of the path to it.
pub(super) fn open_last(leaves: &Leaves) -> (u8, B256, Hashes) {
    let sub = leaves.all().last().map_or(0, |(sub, _)| *sub);
    let (value, way) = last(leaves);
    let left: Vec<B256> =
        way.iter().filter(|(is_right, _)| *is_right).map(|(_, left)| *left).collect();
    (sub, value, Hashes::pack(&left))
}

/// Returns the root of leaves, the last of which is given; `None` if there are too few hashes, or too many.
pub(super) fn root_over_last(sub: u8, value: &B256, left: &Hashes) -> Option<B256> {
    let mut left = left.unpack()?;
    let mut hash = hash_value(value);
    for level in 0..LEVELS {
        hash = match sub & (1 << level) == 0 {
            true => hash_pair(&hash, &B256::ZERO),
            false => hash_pair(&left.pop()?, &hash),
        };
    }
    left.is_empty().then_some(hash)
}

/// Returns the root of the leaves, some of which are opened; `None` if there are too few hashes, or too many.
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
    fn the_last_leaf_leads_to_the_root() {
        let stem = Stem([1; 31]);
        let mut leaves = Leaves::default();
        for sub in [0u8, 1, 5, 64, 66, 129, 200, 255] {
            leaves.change(&stem, sub, LeafChange::Set(B256::repeat_byte(sub))).unwrap();
            let expected = root_of(leaves.all(), LEVELS);
            let (last, value, left) = open_last(&leaves);
            assert_eq!((last, value), (sub, B256::repeat_byte(sub)));
            assert_eq!(root_over_last(sub, &value, &left), Some(expected));
            assert_ne!(root_over_last(sub, &B256::repeat_byte(0x77), &left), Some(expected));
            let longer = Hashes::pack(&[left.unpack().unwrap(), vec![expected]].concat());
            assert_eq!(root_over_last(sub, &value, &longer), None);
        }
    }

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
