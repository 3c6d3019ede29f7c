//! Roots and inverses: powers with exponents of the form 11…1 at their front, of several registers side by side, since a
//! squaring has to wait for the one before.

use super::field::Field;

/// Powers x^(2^n - 1) of some elements: the exponents of a root and of an inverse begin with 223 ones, followed by 22 more
/// after a zero.
struct Ones {
    two: Vec<Field>,
    twenty_two: Vec<Field>,
    two_hundred_and_twenty_three: Vec<Field>,
}

/// Returns base^(2^`squarings`) · factor of each pair.
#[target_feature(enable = "avx512f,avx512ifma")]
fn raised(bases: &[Field], squarings: u32, factors: &[Field]) -> Vec<Field> {
    let mut out = bases.to_vec();
    for _ in 0..squarings {
        for out in &mut out {
            *out = out.squared();
        }
    }
    for (out, factor) in out.iter_mut().zip(factors) {
        *out = out.times(*factor);
    }
    out
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn ones(of: &[Field]) -> Ones {
    let two = raised(of, 1, of);
    let three = raised(&two, 1, of);
    let six = raised(&three, 3, &three);
    let nine = raised(&six, 3, &three);
    let eleven = raised(&nine, 2, &two);
    let twenty_two = raised(&eleven, 11, &eleven);
    let forty_four = raised(&twenty_two, 22, &twenty_two);
    let eighty_eight = raised(&forty_four, 44, &forty_four);
    let twice_that = raised(&eighty_eight, 88, &eighty_eight);
    let two_hundred_and_twenty = raised(&twice_that, 44, &forty_four);
    let two_hundred_and_twenty_three = raised(&two_hundred_and_twenty, 3, &three);
    Ones { two, twenty_two, two_hundred_and_twenty_three }
}

/// Returns what is a square root of each element that has one: its power by (p + 1) / 4.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn roots(of: &[Field]) -> Vec<Field> {
    let ones = ones(of);
    let front = raised(&ones.two_hundred_and_twenty_three, 23, &ones.twenty_two);
    raised(&raised(&front, 6, &ones.two), 2, &[])
}

/// Replaces each element by its inverse, and zero by zero. If a lane has a zero anywhere, it has zeros everywhere afterwards.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn invert(elements: &mut [Field]) {
    let mut product = Field::one();
    let mut before = Vec::with_capacity(elements.len());
    for element in &*elements {
        before.push(product);
        product = product.times(*element);
    }
    let ones = ones(&[product]);
    let front = raised(&ones.two_hundred_and_twenty_three, 23, &ones.twenty_two);
    let front = raised(&raised(&front, 5, &[product]), 3, &ones.two);
    let mut inverse = raised(&front, 2, &[product])[0];
    for (element, before) in elements.iter_mut().zip(before).rev() {
        let own = *element;
        *element = inverse.times(before);
        inverse = inverse.times(own);
    }
}
