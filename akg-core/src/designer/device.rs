//! What the rules want to know of a device, read off the numbers of its description.

use crate::dtype::DType;
use crate::target::Target;
use crate::task::Accuracy;

/// Programs that keep a core's threads busy to the end.
const WAVES: i64 = 4;
/// Programs that are enough for any machine whose cores run one thread at a time.
const PROGRAMS: i64 = 64;

/// Registers of a core where that is not known.
const REGISTERS: i64 = 65536;

/// A device and how exact it must be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Device<'a> {
    target: &'a Target,
    accuracy: Accuracy,
    care: usize,
}

/// What is multiplied in the place of operands in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Factors {
    /// Two f16 for each element, scaled row by row: 22 bits, for three products.
    Halves,
    /// One f16 for each element, scaled row by row: 11 bits.
    F16,
    /// The first 11 bits of f32, at half the rate of f16 and with twice its bytes, but without a scale.
    Tf32,
    /// One bf16 for each element: 8 bits, without a scale.
    Bf16,
    /// The elements themselves, of a type of 16 bits: nothing is lost.
    Given(DType),
}

impl Factors {
    /// The type of factors in memory.
    pub(super) fn dtype(self) -> DType {
        match self {
            Self::Halves | Self::F16 => DType::F16,
            Self::Tf32 => DType::F32,
            Self::Bf16 => DType::BF16,
            Self::Given(dtype) => dtype,
        }
    }

    /// How they are multiplied, which is the type of what is.
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Halves | Self::F16 => "f16",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
            Self::Given(dtype) => dtype.name(),
        }
    }

    /// Whether they have the range of f16, to which elements are scaled.
    pub(super) fn is_scaled(self) -> bool {
        matches!(self, Self::Halves | Self::F16)
    }

    /// Whether each element has a low one beside the high one.
    pub(super) fn has_low(self) -> bool {
        self == Self::Halves
    }
}

/// What programs hold in registers that all run at the same time: half of what the cores have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    cores: i64,
    /// 32-bit numbers that the programs of a core hold together.
    numbers: i64,
}

impl Held {
    /// The most programs that hold `numbers` each.
    pub(super) fn programs(&self, numbers: i64) -> i64 {
        self.cores * (self.numbers / numbers)
    }

    /// The same as text, for a number with a name.
    pub(super) fn text(&self, numbers: &str) -> String {
        format!("{}*({} // {numbers})", self.cores, self.numbers)
    }
}

impl<'a> Device<'a> {
    /// Its description.
    pub(super) fn target(&self) -> &'a Target {
        self.target
    }

    /// `care` is how often to take [sums](Self::sums_in_full), [factors](Self::factors) and [runs](Self::has_short_runs) that lose
    /// less than the fastest ones that should do.
    pub(super) fn new(target: &'a Target, accuracy: Accuracy, care: usize) -> Self {
        Self {
            target,
            accuracy,
            care,
        }
    }

    /// The class that results are for.
    pub(super) fn accuracy(&self) -> Accuracy {
        self.accuracy
    }

    /// Independent processors.
    pub(super) fn cores(&self) -> i64 {
        i64::from(self.target.cores)
    }

    /// Whether the threads of a core share a tile, each with a few elements in registers: tiles are small then, and there
    /// are many programs.
    pub(super) fn shares_tiles(&self) -> bool {
        self.target.threads > 1
    }

    /// Programs that keep the whole device busy.
    pub(super) fn programs(&self) -> i64 {
        if self.shares_tiles() {
            WAVES * self.cores()
        } else {
            PROGRAMS
        }
    }

    /// Bytes that one program on each core may read and find in the cache of all cores when it reads them again, beside
    /// what it writes meanwhile; `None` for cores with caches of their own.
    pub(super) fn second_read(&self) -> Option<i64> {
        let cache = *self.target.caches.last().filter(|_| self.shares_tiles())?;
        i64::try_from(cache / 5 * 3).ok()?.checked_div(self.cores())
    }

    /// What programs may hold in registers from one barrier to the next; `None` if that is not known.
    pub(super) fn held(&self) -> Option<Held> {
        let core = self.target.residency.as_ref().filter(|_| self.shares_tiles())?;
        Some(Held {
            cores: self.cores(),
            numbers: i64::from(core.registers / 2),
        })
    }

    /// 32-bit numbers that a program may hold in registers from one step of a loop to the next: three quarters of a core's.
    pub(super) fn numbers(&self) -> i64 {
        let core = self.target.residency.as_ref();
        core.map_or(REGISTERS, |core| i64::from(core.registers)) / 4 * 3
    }

    /// Bytes that stay in the cache of all cores although as much as a row of a large tensor streams through it before they
    /// are read again; `None` for cores with caches of their own.
    pub(super) fn keeps(&self) -> Option<i64> {
        let cache = *self.target.caches.last().filter(|_| self.shares_tiles())?;
        i64::try_from(cache / 4).ok()
    }

    /// Bytes of on-chip memory that a program can have.
    pub(super) fn tile_bytes(&self) -> i64 {
        i64::try_from(self.target.tile_bytes).unwrap_or(i64::MAX)
    }

    /// Whether sums must be as exact as those in f32 arithmetic: units that cut them off lose more than factors do where many
    /// terms have one sign.
    pub(super) fn sums_in_full(&self) -> bool {
        self.accuracy == Accuracy::Fp32 || self.care > 0
    }

    /// Whether products in f32 must lose less, too: with less care they were in f32 already.
    pub(super) fn has_short_runs(&self) -> bool {
        (0..self.care).any(|care| Self { care, ..*self }.factors(None).is_none())
    }

    /// The least time that a kernel takes.
    pub(super) fn launch_seconds(&self) -> f64 {
        self.target.launch_seconds
    }

    /// The least time that so many multiply-adds take in f32, without factors.
    pub(super) fn multiply_seconds(&self, products: f64) -> f64 {
        let rate = self.target.peak.get(&DType::F32).copied().unwrap_or(0.0);
        2.0 * products / rate
    }

    /// The least time that so many multiply-adds of factors take; `None` if the device's rate is not known.
    pub(super) fn multiply_factors_seconds(&self, products: f64) -> Option<f64> {
        let rate = self
            .target
            .peak
            .get(&DType::F16)
            .copied()
            .filter(|rate| *rate > 0.0)?;
        Some(2.0 * products / rate)
    }

    /// The least time that so many bytes take to or from memory; `None` if the device's bandwidth is not known.
    pub(super) fn move_seconds(&self, bytes: f64) -> Option<f64> {
        (self.target.bandwidth > 0.0).then(|| bytes / self.target.bandwidth)
    }

    /// The factors whose products are faster than those of f32 operands, and exact enough. Both operands may be `given` in a
    /// type of 16 bits.
    pub(super) fn factors(&self, given: Option<DType>) -> Option<Factors> {
        let rate = |dtype| self.target.peak.get(&dtype).copied().unwrap_or(0.0);
        if let Some(dtype) = given.filter(|dtype| rate(*dtype) > rate(DType::F32)) {
            return Some(Factors::Given(dtype));
        }
        let rough = match self.accuracy {
            Accuracy::Fp32 => None,
            Accuracy::Half if rate(DType::BF16) >= rate(DType::F16) => Some((Factors::Bf16, 1.0)),
            Accuracy::Tf32 | Accuracy::Half => Some((Factors::F16, 1.0)),
        };
        // Next after rough factors are the finest of them, with sums in full.
        let next = rough.map(|_| (Factors::F16, 1.0));
        let mut choices = rough.into_iter().chain(next).chain([(Factors::Halves, 3.0)]);
        let (factors, products) = choices.nth(self.care)?;
        (rate(DType::F16) > products * rate(DType::F32)).then_some(factors)
    }
}
