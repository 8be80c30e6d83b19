//! Speeds of a target.

use crate::dtype::DType;
use crate::target::Target;

/// Bytes per second of memory, if the target does not say.
const DEFAULT_BANDWIDTH: f64 = 20e9;
/// FLOP/s of a core for each byte of a vector register on f32, if the target does not say: two fused multiply-adds on
/// 4-byte lanes at 2.5 GHz.
const DEFAULT_RATE: f64 = 2.5e9;

/// The target's speeds, with guesses where it has no measurement.
pub(crate) struct Rates<'t> {
    pub(crate) target: &'t Target,
}

impl Rates<'_> {
    /// Bytes per second of memory.
    pub(crate) fn memory(&self) -> f64 {
        if self.target.bandwidth > 0.0 {
            self.target.bandwidth
        } else {
            DEFAULT_BANDWIDTH
        }
    }

    pub(crate) fn peak(&self, dtype: DType) -> f64 {
        let lanes = f64::from(self.target.vector_bytes.max(16)) * 4.0 / dtype.size().max(4) as f64;
        let guess = f64::from(self.target.cores.max(1)) * lanes * DEFAULT_RATE;
        // What was not measured runs like f32, f64 at half its rate.
        let like_f32 = || Some(self.target.peak.get(&DType::F32)? * 4.0 / dtype.size().max(4) as f64);
        let measured = self.target.peak.get(&dtype).copied().or_else(like_f32);
        measured.filter(|rate| *rate > 0.0).unwrap_or(guess)
    }

    /// FLOP/s of a dot. TF32 runs at half the rate of f16 where there is a unit for that.
    pub(crate) fn dot(&self, method: &str, operand: DType) -> f64 {
        match method {
            "tf32" => self.peak(DType::F32).max(self.peak(DType::F16) / 2.0),
            "f16" => self.peak(DType::F16),
            "bf16" => self.peak(DType::BF16),
            // Products of narrow operands are exact in f32, so the units for those operands will do.
            _ => self.peak(operand),
        }
    }

    /// Element operations per second: no fused multiply-add, and narrow types run as f32.
    pub(crate) fn element(&self, dtype: DType) -> f64 {
        self.peak(dtype) / 2.0
    }
}
