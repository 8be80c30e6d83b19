//! The control state of arithmetic in a thread: rounding, flush-to-zero, exception masks, x87 precision.
//!
//! A kernel may change it while it runs and must restore it. It is compared by the worker itself, in the thread that ran
//! the kernel, and set back before anything else runs there.

use std::sync::atomic::{AtomicU64, Ordering};

mod threads;

pub(crate) use threads::deviations;

/// Marks a stored [`Deviation`], which may have no other bit in its state.
const IS_SET: u64 = 1 << 63;

/// Bits of a state below the number of a thread.
const STATE_BITS: u32 = 40;

/// Sets the control state that the platform's ABI promises to functions.
pub(crate) fn reset() {
    arch::reset();
}

/// Describes a state that is not what the ABI promises.
pub(crate) fn describe(state: u64) -> String {
    arch::describe(state)
}

/// The first deviation that any thread of a team showed.
#[derive(Debug, Default)]
pub(crate) struct Deviation(AtomicU64);

impl Deviation {
    /// Compares the calling thread's state with the ABI's after a kernel has returned, notes a difference and undoes it.
    #[inline]
    pub(crate) fn check(&self, thread: usize) {
        let state = arch::state();
        if state != arch::DEFAULT {
            reset();
            let deviation = IS_SET | (thread as u64) << STATE_BITS | state;
            // Only the first one is kept.
            let _ = self
                .0
                .compare_exchange(0, deviation, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Describes what was noted since the last call, with the number of the thread.
    pub(crate) fn take(&self) -> Option<(String, usize)> {
        let deviation = self.0.swap(0, Ordering::Relaxed);
        let state = deviation & ((1 << STATE_BITS) - 1);
        let thread = ((deviation & !IS_SET) >> STATE_BITS) as usize;
        (deviation & IS_SET != 0).then(|| (arch::describe(state), thread))
    }
}

#[cfg(target_arch = "x86_64")]
mod arch {
    use std::arch::asm;

    /// The control bits of MXCSR: all exceptions masked, rounding to nearest.
    const MXCSR: u32 = 0x1f80;
    /// The status bits of MXCSR, which arithmetic sets.
    const MXCSR_STATUS: u32 = 0x3f;
    /// The x87 control word: all exceptions masked, extended precision, rounding to nearest.
    const X87: u16 = 0x037f;
    /// Undefined bits of the x87 control word.
    const X87_UNDEFINED: u16 = 0xe0c0;
    /// The x87 tag word when no register is in use.
    const EMPTY: u16 = 0xffff;
    /// EFLAGS: string instructions run downwards; misaligned accesses trap.
    const DIRECTION: u64 = 1 << 10;
    const ALIGNMENT: u64 = 1 << 18;

    /// Bytes of the registers that the system shows of a thread, as the instruction `fxsave` stores them, and the places of
    /// the control words in these.
    pub(super) const FLOATING_REGISTERS: usize = 512;
    const STORED_X87: usize = 0;
    const STORED_MXCSR: usize = 24;

    // Places in a state.
    const X87_AT: u32 = 16;
    const IN_USE: u64 = 1 << 32;
    const BACKWARDS: u64 = 1 << 33;
    const ALIGNED_ONLY: u64 = 1 << 34;

    pub(super) const DEFAULT: u64 = MXCSR as u64 | ((X87 & !X87_UNDEFINED) as u64) << X87_AT;

    pub(super) fn reset() {
        let mxcsr = MXCSR;
        // SAFETY: sets control registers to what the ABI promises, and empties the x87 registers.
        unsafe {
            asm!(
                "cld",
                "pushfq",
                "and qword ptr [rsp], {keep}",
                "popfq",
                "fninit",
                "ldmxcsr dword ptr [{mxcsr}]",
                keep = in(reg) !ALIGNMENT,
                mxcsr = in(reg) &raw const mxcsr,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            );
        }
    }

    #[inline]
    pub(super) fn state() -> u64 {
        let mut environment = [0u16; 14];
        let mut mxcsr = 0u32;
        let flags: u64;
        // SAFETY: stores control registers; the environment has the 28 bytes that are written. Storing it masks the x87
        // exceptions, which they are by default. The direction flag is cleared before compiled code goes on.
        unsafe {
            asm!(
                "pushfq",
                "pop {flags}",
                "cld",
                "fnstenv [{environment}]",
                "stmxcsr dword ptr [{mxcsr}]",
                flags = out(reg) flags,
                environment = in(reg) &raw mut environment,
                mxcsr = in(reg) &raw mut mxcsr,
            );
        }
        let [control, _, _, _, tags, ..] = environment;
        let mut state = u64::from(mxcsr & !MXCSR_STATUS) | u64::from(control & !X87_UNDEFINED) << X87_AT;
        for (is_set, bit) in [
            (tags != EMPTY, IN_USE),
            (flags & DIRECTION != 0, BACKWARDS),
            (flags & ALIGNMENT != 0, ALIGNED_ONLY),
        ] {
            if is_set {
                state |= bit;
            }
        }
        state
    }

    /// The state of a thread in what the system shows of its registers. Those in use are not part of it, as threads may stand
    /// still anywhere.
    pub(super) fn state_in(registers: &[u8; FLOATING_REGISTERS]) -> Option<u64> {
        let (_, x87) = registers.split_at_checked(STORED_X87)?;
        let (_, mxcsr) = registers.split_at_checked(STORED_MXCSR)?;
        let control = u16::from_le_bytes(*x87.first_chunk()?);
        let mxcsr = u32::from_le_bytes(*mxcsr.first_chunk()?);
        Some(u64::from(mxcsr & !MXCSR_STATUS) | u64::from(control & !X87_UNDEFINED) << X87_AT)
    }

    pub(super) fn describe(state: u64) -> String {
        let rounding = |bits: u64| match bits & 3 {
            1 => Some("rounding towards minus infinity"),
            2 => Some("rounding towards plus infinity"),
            3 => Some("rounding towards zero"),
            _ => None,
        };
        let x87 = state >> X87_AT;
        let when = |condition: bool, text| condition.then_some(text);
        let found: Vec<String> = [
            when(state & (1 << 15) != 0, "flush-to-zero (FTZ) on"),
            when(state & (1 << 6) != 0, "denormals-are-zero (DAZ) on"),
            rounding(state >> 13),
            when(state & 0x1f80 != 0x1f80, "floating-point exceptions unmasked"),
        ]
        .into_iter()
        .flatten()
        .map(|text| format!("{text} (MXCSR {:#06x})", state & 0xffff))
        .chain(
            [
                when(x87 & 0x0300 != 0x0300, "reduced x87 precision"),
                rounding(x87 >> 10),
                when(x87 & 0x3f != 0x3f, "floating-point exceptions unmasked"),
            ]
            .into_iter()
            .flatten()
            .map(|text| format!("{text} (x87 control word {:#06x})", x87 & 0xffff)),
        )
        .chain(
            [
                when(state & IN_USE != 0, "x87 or MMX registers in use"),
                when(state & BACKWARDS != 0, "the direction flag set"),
                when(state & ALIGNED_ONLY != 0, "the alignment check on"),
            ]
            .into_iter()
            .flatten()
            .map(str::to_owned),
        )
        .collect();
        found.join(", ")
    }
}

#[cfg(target_arch = "aarch64")]
mod arch {
    use std::arch::asm;

    /// FPCR: rounding to nearest, no flushing, no traps.
    pub(super) const DEFAULT: u64 = 0;

    /// Bytes of the registers that the system shows of a thread, and the place of FPCR in these.
    pub(super) const FLOATING_REGISTERS: usize = 528;
    const STORED_FPCR: usize = 516;

    /// The state of a thread in what the system shows of its registers.
    pub(super) fn state_in(registers: &[u8; FLOATING_REGISTERS]) -> Option<u64> {
        let (_, control) = registers.split_at_checked(STORED_FPCR)?;
        Some(u64::from(u32::from_le_bytes(*control.first_chunk()?)))
    }

    pub(super) fn reset() {
        // SAFETY: sets the control register to what the ABI promises.
        unsafe { asm!("msr fpcr, {}", in(reg) DEFAULT, options(nomem, nostack)) }
    }

    #[inline]
    pub(super) fn state() -> u64 {
        let control: u64;
        // SAFETY: reads a control register.
        unsafe { asm!("mrs {}, fpcr", out(reg) control, options(nomem, nostack)) }
        control & 0xffff_ffff
    }

    pub(super) fn describe(state: u64) -> String {
        let rounding = match (state >> 22) & 3 {
            1 => Some("rounding towards plus infinity"),
            2 => Some("rounding towards minus infinity"),
            3 => Some("rounding towards zero"),
            _ => None,
        };
        let flushing = (state & (1 << 24) != 0).then_some("flush-to-zero (FTZ) on");
        let mut found: Vec<_> = flushing.into_iter().chain(rounding).collect();
        if found.is_empty() {
            found.push("another control state of arithmetic");
        }
        format!("{} (FPCR {state:#010x})", found.join(", "))
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod arch {
    /// The control state of this architecture is not compared.
    pub(super) const DEFAULT: u64 = 0;

    pub(super) const FLOATING_REGISTERS: usize = 0;

    pub(super) fn state_in(_: &[u8; FLOATING_REGISTERS]) -> Option<u64> {
        Some(DEFAULT)
    }

    pub(super) fn reset() {}

    pub(super) fn state() -> u64 {
        DEFAULT
    }

    pub(super) fn describe(_: u64) -> String {
        String::new()
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::arch::asm;

    use super::*;

    /// Notes what is different after MXCSR and the x87 control word were set.
    fn deviation(mxcsr: u32, x87: u16) -> Option<(String, usize)> {
        let deviation = Deviation::default();
        reset();
        // SAFETY: the state is set back by the check.
        unsafe {
            asm!(
                "ldmxcsr dword ptr [{}]", "fldcw word ptr [{}]",
                in(reg) &raw const mxcsr, in(reg) &raw const x87,
            );
        }
        deviation.check(3);
        deviation.take()
    }

    #[test]
    fn deviations_are_named_and_undone() {
        assert_eq!(deviation(0x1f80, 0x037f), None);
        // Arithmetic sets the status bits.
        assert_eq!(deviation(0x1fbf, 0x037f), None);
        for (mxcsr, x87, text) in [
            (0x9f80, 0x037f, "flush-to-zero (FTZ) on (MXCSR 0x9f80)"),
            (0x1fc0, 0x037f, "denormals-are-zero (DAZ) on (MXCSR 0x1fc0)"),
            (0x3f80, 0x037f, "rounding towards minus infinity (MXCSR 0x3f80)"),
            (0x5f80, 0x037f, "rounding towards plus infinity (MXCSR 0x5f80)"),
            (0x7f80, 0x037f, "rounding towards zero (MXCSR 0x7f80)"),
            (0x1f80, 0x027f, "reduced x87 precision (x87 control word 0x023f)"),
            (0x1f80, 0x0f7f, "rounding towards zero (x87 control word 0x0f3f)"),
        ] {
            assert_eq!(deviation(mxcsr, x87), Some((text.to_owned(), 3)));
            assert_eq!(arch::state(), arch::DEFAULT);
        }
    }

    #[test]
    fn the_direction_flag_and_registers_in_use_are_found() {
        let deviation = Deviation::default();
        // SAFETY: the state is set back by the check.
        unsafe { asm!("fld1", "std") };
        deviation.check(0);
        let (text, _) = deviation.take().unwrap();
        assert_eq!(text, "x87 or MMX registers in use, the direction flag set");
        assert_eq!(arch::state(), arch::DEFAULT);
    }
}
