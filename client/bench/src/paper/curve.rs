//! The time of elementary operations on the curve BN254.

use polytrie_amt::{Fr, G1Affine, POINT_BYTES, decode_point};
use std::{hint::black_box, time::Instant};

/// Microseconds of a mixed addition and of a multiplication in G1 of BN254, on one core; NaN if the generator
/// does not decode.
pub(super) fn microseconds(quick: bool) -> [f64; 2] {
    let times: u32 = if quick { 200 } else { 5_000 };
    let Some(generator) = generator() else { return [f64::NAN; 2] };
    // The points are no small multiples of each other.
    let scalars: Vec<Fr> = (1..=16)
        .map(|n: u64| Fr::from(n) * Fr::from(u64::MAX - n) * Fr::from(u64::MAX / 3))
        .collect();
    let points: Vec<G1Affine> =
        scalars.iter().map(|scalar| G1Affine::from(generator * scalar)).collect();

    let additions = 100 * times;
    let mut sum = points[0] + points[1];
    let start = Instant::now();
    for (_, point) in (0..additions).zip(points.iter().cycle()) {
        sum += black_box(point);
    }
    let addition = start.elapsed().as_secs_f64() * 1e6 / f64::from(additions);
    let _ = black_box(sum);

    let start = Instant::now();
    for (_, (point, scalar)) in (0..times).zip(points.iter().zip(&scalars).cycle()) {
        let _ = black_box(*black_box(point) * black_box(scalar));
    }
    [addition, start.elapsed().as_secs_f64() * 1e6 / f64::from(times)]
}

/// The generator of G1, the point (1, 2).
fn generator() -> Option<G1Affine> {
    let mut bytes = [0; POINT_BYTES];
    bytes[31] = 1;
    bytes[63] = 2;
    decode_point(&bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_multiplication_takes_many_additions() {
        // A thread that stands still for seconds while it adds makes additions look slow.
        let measured = [(); 5].map(|()| super::microseconds(true));
        let is_longer =
            |[addition, multiplication]: &[f64; 2]| *addition > 0.0 && multiplication > addition;
        assert!(measured.iter().any(is_longer), "{measured:?}");
    }
}
