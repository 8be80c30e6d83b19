//! Digests by which a module's process commits itself to results that lie on a device.
//!
//! A sum would do for one who returns what he has; it can be said in advance and met later by changing some elements within
//! their tolerance. So words are hashed pairwise in a tree, twice with other constants. `digest.py` computes the same.

/// The two roots of a tensor's bytes.
pub(crate) type Digest = [i64; 2];

/// Odd constants of each tree.
const TREES: [[u64; 2]; 2] = [
    [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9],
    [0xd6e8_feb8_6659_fd93, 0xa076_1d64_78bd_642f],
];

/// The digest of bytes, filled up with zeros to words of 64 bits.
pub(crate) fn digest(bytes: &[u8]) -> Digest {
    let words: Vec<u64> = bytes
        .chunks(8)
        .map(|chunk| {
            let mut word = [0; 8];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            u64::from_le_bytes(word)
        })
        .collect();
    TREES.map(|constants| (root(words.clone(), constants) ^ bytes.len() as u64) as i64)
}

/// Folds the second half of the words into the first until one is left.
fn root(mut words: Vec<u64>, [left, right]: [u64; 2]) -> u64 {
    loop {
        let half = words.len().div_ceil(2);
        let others = words.split_off(half);
        let others = others.into_iter().chain(std::iter::repeat(0));
        for (word, other) in words.iter_mut().zip(others) {
            let mut mixed = (*word ^ other.wrapping_mul(left)).wrapping_mul(right);
            mixed ^= mixed >> 32;
            *word = mixed.wrapping_mul(left);
        }
        if words.len() <= 1 {
            return words.first().copied().unwrap_or(0);
        }
    }
}
