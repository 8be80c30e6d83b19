//! Random numbers of full precision.
//!
//! Plain arithmetic only, so that every machine makes the same bits, and the compiler makes loops of vectors from it.

/// Spreads the bits of `value` over all bits (SplitMix64).
pub(super) fn hash(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A seed for the number `index` under a seed.
pub(super) fn mix(seed: u64, index: u64) -> u64 {
    hash(seed ^ hash(index))
}

/// A standard normal number from a random word, by the inverse of the normal distribution (Giles, *Approximating the erfinv
/// function*, 2010). The largest are about 6.2.
#[inline(always)]
pub(super) fn normal(word: u32) -> f32 {
    const UNIT: f32 = 1.0 / (1u32 << 31) as f32;
    let magnitude = (word & 0x7fff_ffff) as i32;
    // Both `1 - |x|` and `|x|` of a number in (-1, 1), each with all of its bits.
    let rest = (magnitude as f32 + 0.5) * UNIT;
    let x = ((i32::MAX - magnitude) as f32 + 0.5) * UNIT;
    let w = -ln(rest * (2.0 - rest));
    let central = polynomial(
        w - 2.5,
        &[
            2.810_226_4e-8,
            3.432_739_4e-7,
            -3.523_387_7e-6,
            -4.391_506_5e-6,
            2.185_808_7e-4,
            -1.253_725e-3,
            -4.177_681_6e-3,
            0.246_640_72,
            1.501_409_4,
        ],
    );
    let tail = polynomial(
        w.max(0.0).sqrt() - 3.0,
        &[
            -2.002_142_6e-4,
            1.009_505_6e-4,
            1.349_343_2e-3,
            -3.673_428_4e-3,
            5.739_508e-3,
            -7.622_461e-3,
            9.438_87e-3,
            1.001_674,
            2.832_976_8,
        ],
    );
    let inverse = if w < 5.0 { central } else { tail };
    let value = std::f32::consts::SQRT_2 * inverse * x;
    f32::from_bits(value.to_bits() ^ (word & 0x8000_0000))
}

#[inline(always)]
fn polynomial(x: f32, coefficients: &[f32; 9]) -> f32 {
    coefficients.iter().fold(0.0, |sum, c| sum * x + c)
}

/// The logarithm of a positive normal number, to about seven digits.
#[inline(always)]
fn ln(x: f32) -> f32 {
    // The exponent for which the mantissa lies about 1.
    let bits = x.to_bits().wrapping_sub(0x3f35_04f3);
    let exponent = (bits as i32) >> 23;
    let z = f32::from_bits((bits & 0x007f_ffff).wrapping_add(0x3f35_04f3)) - 1.0;
    let p = polynomial(
        z,
        &[
            7.037_684e-2,
            -0.115_146_1,
            0.116_769_99,
            -0.124_201_41,
            0.142_493_23,
            -0.166_680_58,
            0.200_007_15,
            -0.249_999_94,
            0.333_333_3,
        ],
    );
    let square = z * z;
    z - 0.5 * square + square * z * p + exponent as f32 * std::f32::consts::LN_2
}

/// A uniform number in [0, 1): of 24 bits, as PyTorch draws it on a CPU, or of 32, as it does on a GPU.
#[inline(always)]
pub(super) fn uniform(word: u32, is_fine: bool) -> f32 {
    if is_fine {
        (word as f32 * (1.0 / 4_294_967_296.0)).min(1.0 - f32::EPSILON / 2.0)
    } else {
        (word >> 8) as f32 * (1.0 / 16_777_216.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The moments, the tail and the bits of a normal distribution.
    #[test]
    fn numbers_are_normal_and_of_full_precision() {
        let count = 1 << 20;
        let values: Vec<f32> = (0..count).map(|n| normal(hash(n) as u32)).collect();
        let moment =
            |power: i32| values.iter().map(|v| f64::from(*v).powi(power)).sum::<f64>() / count as f64;
        for (power, expected) in [(1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0), (6, 15.0)] {
            let moment = moment(power);
            assert!(
                (moment - expected).abs() < 0.02 * expected.max(1.0),
                "{power}: {moment}"
            );
        }
        // 2 (1 - Φ(t)).
        for (t, share) in [
            (0.5, 0.617_075),
            (1.0, 0.317_311),
            (2.0, 0.045_500),
            (3.5, 0.000_465_3),
        ] {
            let beyond = values.iter().filter(|v| v.abs() > t).count() as f64 / count as f64;
            assert!((beyond / share - 1.0).abs() < 0.1, "{t}: {beyond}");
        }
        assert!(values.iter().all(|v| v.is_finite() && *v != 0.0));
        // Each mantissa bit is set in half of the numbers.
        for bit in 0..23 {
            let set = values.iter().filter(|v| v.to_bits() >> bit & 1 == 1).count() as f64 / count as f64;
            // The first bits of a mantissa are not uniform in any continuous distribution.
            let slack = if bit < 16 { 0.005 } else { 0.2 };
            assert!((set - 0.5).abs() < slack, "bit {bit}: {set}");
        }
    }

    #[test]
    fn the_ends_are_finite_and_symmetric() {
        for word in [0, 1, 0x7fff_ffff, 0x4000_0000, 12345] {
            let value = normal(word);
            assert!(value.is_finite() && value > 0.0, "{word}: {value}");
            assert_eq!(normal(word | 0x8000_0000), -value);
        }
        assert!(normal(0) > 6.0);
        assert!(uniform(u32::MAX, true) < 1.0 && uniform(u32::MAX, false) < 1.0);
        assert_eq!(uniform(0, true), 0.0);
    }
}
