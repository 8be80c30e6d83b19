//! Random numbers without state: Philox4x32-10 of J. K. Salmon, M. A. Moraes, R. O. Dror and D. E. Shaw, *Parallel Random
//! Numbers: As Easy as 1, 2, 3* (SC 2011), the generator of cuRAND's, PyTorch's and Triton's device code.
//!
//! Each number follows from a key and a counter alone, by integer operations, so that any kernel draws any of them in any
//! order, and all draw the same bits.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// What the key grows by from round to round: the fractions of the golden ratio and of the root of 3.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// The four words for a counter under a key.
fn words(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..ROUNDS {
        let [a, b, c, d] = counter;
        let first = u64::from(MULTIPLIERS[0]) * u64::from(a);
        let second = u64::from(MULTIPLIERS[1]) * u64::from(c);
        counter = [
            (second >> 32) as u32 ^ b ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ d ^ key[1],
            first as u32,
        ];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

/// The random word of a seed at a place in its sequence: the first of the four for the counter `index`, as Triton's
/// `tl.randint` has it.
pub(crate) fn word(seed: i64, index: i64) -> u32 {
    let halves = |v: i64| [v as u32, (v >> 32) as u32];
    let [low, high] = halves(index);
    words([low, high, 0, 0], halves(seed))[0]
}

/// The bits of a fraction: as many as make every fraction, and what it lacks to one, a number of `f32`.
pub(crate) const FRACTION_BITS: u32 = 24;

/// A random number of [0, 1): the first bits of a [`word`].
pub(crate) fn fraction(seed: i64, index: i64) -> f64 {
    f64::from(word(seed, index) >> (32 - FRACTION_BITS)) * 2f64.powi(-(FRACTION_BITS as i32))
}

/// The least word for which something happens that happens with probability `1 - p`.
pub(crate) fn least_kept(p: f64) -> f64 {
    (p * 2f64.powi(32)).ceil()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the known-answer file of Random123, the authors' implementation.
    #[test]
    fn the_published_answers() {
        assert_eq!(
            words([0; 4], [0; 2]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            words([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            words(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }
}
