//! Points of the curve y² = x³ + 7, one in each lane, in Jacobian coordinates: (X, Y, Z) is (X / Z², Y / Z³).
//!
//! The sum of two points with equal x has Z = 0, and so has everything that is computed from it. So one look at the Z of the last
//! sum tells in which lanes these formulas did not hold.

use super::field::{Field, LIMBS, Products};
use std::arch::x86_64::__mmask8;

/// Limbs of x and of y of one point.
pub(super) type Coordinates = ([u64; LIMBS], [u64; LIMBS]);

/// Eight points with their own coordinates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Affine {
    pub(super) x: Field,
    pub(super) y: Field,
}

/// Eight points.
#[derive(Debug, Clone, Copy)]
pub(super) struct Jacobian {
    pub(super) x: Field,
    pub(super) y: Field,
    pub(super) z: Field,
}

impl Affine {
    /// Returns one point in all lanes.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn splat((x, y): Coordinates) -> Self {
        Self { x: Field::splat(x), y: Field::splat(y) }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn jacobian(self) -> Jacobian {
        Jacobian { x: self.x, y: self.y, z: Field::one() }
    }

    /// Returns a bit for each lane with a point on the curve.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn on_curve(self) -> __mmask8 {
        let difference = Products::square_of(self.y).plus(self.right_side().negated()).reduced();
        !difference.canonical().not_zero()
    }

    /// Returns x³ + 7.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn right_side(self) -> Field {
        let seven = Field::splat([7, 0, 0, 0, 0]);
        Products::of(self.x.squared(), self.x).plus(seven.sum()).reduced()
    }

    /// Returns the points with their y negated where `mask` has a bit.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn negated_where(self, mask: __mmask8) -> Self {
        Self { x: self.x, y: self.y.or_where(mask, self.y.negated().reduced()) }
    }
}

impl Jacobian {
    /// Returns twice the points.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn doubled(self) -> Self {
        let Self { x, y, z } = self;
        let xx = x.squared().sum();
        let yy = y.squared();
        let yyyy = yy.squared();
        let slope = xx.plus(xx.shifted::<1>()).reduced();
        let middle = x.times(yy).sum().shifted::<2>().reduced();
        let new_x = Products::square_of(slope).plus(middle.negated().shifted::<1>()).reduced();
        let across = middle.sum().plus(new_x.negated()).reduced();
        let new_y = Products::of(slope, across).plus(yyyy.negated().shifted::<3>()).reduced();
        let new_z = y.sum().shifted::<1>().reduced().times(z);
        Self { x: new_x, y: new_y, z: new_z }
    }

    /// Returns the sums with other points. Where both have equal x, or Z was zero before, Z is zero. In the literature `run`
    /// and `rise` are H and r.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn plus(self, other: Affine) -> Self {
        let Self { x, y, z } = self;
        let zz = z.squared();
        let run = Products::of(other.x, zz).plus(x.negated()).reduced();
        let rise = Products::of(other.y, zz.times(z)).plus(y.negated()).reduced();
        let square = run.squared();
        let cube = square.times(run);
        let middle = square.times(x);
        let new_x = Products::square_of(rise)
            .plus(cube.negated().plus(middle.negated().shifted::<1>()))
            .reduced();
        let across = middle.sum().plus(new_x.negated()).reduced();
        let new_y = Products::of(rise, across).plus_product(y.negated().reduced(), cube).reduced();
        Self { x: new_x, y: new_y, z: z.times(run) }
    }

    /// Returns the points of `other` where `mask` has a bit, and these elsewhere.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn or_where(self, mask: __mmask8, other: Self) -> Self {
        Self {
            x: self.x.or_where(mask, other.x),
            y: self.y.or_where(mask, other.y),
            z: self.z.or_where(mask, other.z),
        }
    }

    /// Returns the points with their own coordinates, given the inverses of their Z.
    #[target_feature(enable = "avx512f,avx512ifma")]
    #[inline]
    pub(super) fn affine(self, inverse: Field) -> Affine {
        let square = inverse.squared();
        Affine { x: self.x.times(square), y: self.y.times(square.times(inverse)) }
    }
}
