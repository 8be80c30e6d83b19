//! Random numbers and random damage to texts.

/// A generator of random numbers: SplitMix64, whose numbers follow from the seed on every machine.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Self(seed ^ 0x5eed_f022_a417_c0de);
        random.next();
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is 1 at least.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// True in one of `times` cases.
    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// A count: mostly small, sometimes of the size at which limits are.
    pub(crate) fn count(&mut self) -> usize {
        match self.below(8) {
            0 => self.below(20_000),
            1 | 2 => self.below(600),
            _ => self.below(9),
        }
    }

    /// An integer, often near an end of a type or of a limit.
    pub(crate) fn integer(&mut self) -> i64 {
        const ENDS: [i64; 14] = [
            0,
            1,
            -1,
            7,
            64,
            i64::MAX,
            i64::MIN,
            1 << 31,
            1 << 32,
            1 << 53,
            1 << 60,
            1 << 62,
            -(1 << 62),
            4_294_967_291,
        ];
        match self.below(4) {
            0 => self.next() as i64,
            1 => self.below(17) as i64,
            _ => self.pick(&ENDS).wrapping_add(self.below(3) as i64 - 1),
        }
    }
}

/// Cuts a text into words, numbers, spaces and single other characters.
fn tokens(text: &str) -> Vec<&str> {
    let class = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => 0,
        ' ' => 1,
        _ => 2,
    };
    let mut out = Vec::new();
    let mut start = 0;
    let mut last = None;
    for (at, c) in text.char_indices() {
        let this = class(c);
        if at > start && (last != Some(this) || this == 2) {
            out.push(&text[start..at]);
            start = at;
        }
        last = Some(this);
    }
    out.push(&text[start..]);
    out
}

/// Damages a text: tokens left out, repeated, exchanged and replaced, pieces repeated many times, the end cut off. `words`
/// are what its language has.
pub(crate) fn mutate(random: &mut Random, text: &str, words: &[&str]) -> String {
    let mut parts: Vec<String> = tokens(text).into_iter().map(str::to_owned).collect();
    for _ in 0..=random.below(4) {
        let at = random.below(parts.len());
        match random.below(9) {
            0 => {
                parts.remove(at);
            }
            1 => {
                let copy = parts[at].clone();
                parts.insert(random.below(parts.len()), copy);
            }
            2 => {
                let other = random.below(parts.len());
                parts.swap(at, other);
            }
            3 => parts[at] = random.integer().to_string(),
            4 | 5 => (*random.pick(words)).clone_into(&mut parts[at]),
            6 => {
                let end = (at + 1 + random.below(12)).min(parts.len());
                let piece: Vec<String> = parts[at..end].to_vec();
                let times = random.count().min(200_000 / (1 + piece.concat().len()));
                let many: Vec<String> = std::iter::repeat_n(piece, times).flatten().collect();
                parts.splice(at..at, many);
            }
            7 => parts.truncate(at + 1),
            _ => {
                let odd = [
                    "\u{1b}[2J",
                    "\u{202e}",
                    "é",
                    "\0",
                    "\\\n",
                    "\"",
                    "\r",
                    "𝕏",
                    "\u{feff}",
                ];
                parts.insert(at, (*random.pick(&odd)).to_owned());
            }
        }
        if parts.is_empty() {
            parts.push(String::new());
        }
    }
    parts.concat()
}

/// Damages bytes.
pub(crate) fn mutate_bytes(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(6) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        match random.below(5) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => bytes.truncate(at),
            3 => {
                let end = (at + random.below(64)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                let end = (at + 4).min(bytes.len());
                bytes[at..end].fill(0xff);
            }
        }
    }
}
