//! The part of a module's time that PyTorch takes, seen from outside of its process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use akg_worker::process::Halt;
use akg_worker::sample::{Executed, Sampler};

/// Samples of work after which the part is known well enough, and those without which it is not known.
const ENOUGH: usize = 256;
const LEAST: usize = 32;

/// Stops of the process at most: a module may do nothing but wait.
const MOST_STOPS: usize = 2048;

/// The time between samples. It varies, so that it is no multiple of a call.
const BETWEEN: Duration = Duration::from_micros(200);

/// The owner of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    PyTorch,
    /// The candidate, in whatever language and library.
    Own,
    /// Nobody: the interpreter, the system's libraries, and the waiting of threads for each other.
    Nobody,
}

/// Samples of a module's process while it is called.
#[derive(Debug, Default)]
pub(crate) struct Share {
    pytorch: usize,
    own: usize,
    stops: usize,
}

impl Share {
    /// Whether the part is not known yet.
    pub(crate) fn is_open(&self) -> bool {
        self.pytorch + self.own < ENOUGH && self.stops < MOST_STOPS
    }

    /// The part of the work that is PyTorch's; `None` if there was hardly any.
    pub(crate) fn of_pytorch(&self) -> Option<f64> {
        let all = self.pytorch + self.own;
        (all >= LEAST).then(|| self.pytorch as f64 / all as f64)
    }

    /// Takes samples until the call is `done`. The process goes on then.
    pub(crate) fn sample(&mut self, halt: &Halt, done: &AtomicBool) {
        let mut sampler = Sampler::new(halt);
        while self.is_open() && !done.load(Ordering::Acquire) {
            // Multiples of the golden ratio are spread evenly.
            let part = (self.stops as f64 * 0.618_033_988_75).fract();
            thread::sleep(BETWEEN.mul_f64(0.5 + part));
            if done.load(Ordering::Acquire) || halt.stop().is_err() {
                break;
            }
            self.stops += 1;
            for executed in sampler.sample() {
                match owner(&executed) {
                    Owner::PyTorch => self.pytorch += 1,
                    Owner::Own => self.own += 1,
                    Owner::Nobody => {}
                }
            }
            halt.go();
        }
    }
}

/// The owner of the code that a thread executes. The C library copies for whoever calls it, which is the module if the call is
/// by way of `ctypes`.
fn owner(executed: &Executed) -> Owner {
    let caller = name_of(&executed.caller);
    if !name_of(&executed.file).starts_with("libc.") || caller.is_empty() {
        return owner_of(&executed.file);
    }
    if caller.starts_with("libffi") || caller.starts_with("_ctypes") {
        return Owner::Own;
    }
    owner_of(&executed.caller)
}

fn owner_of(file: &str) -> Owner {
    let name = name_of(file);
    let begins = |names: &[&str]| names.iter().any(|begin| name.starts_with(begin));
    if begins(&["libgomp", "libomp", "libiomp"]) {
        return Owner::Nobody;
    }
    if file.contains("/torch/lib/") || file.contains("/torch/_C") {
        // What calls operators takes the same time for operators that do nothing.
        let is_glue = begins(&["libtorch_python", "libc10", "libshm", "_C"]);
        return if is_glue { Owner::Nobody } else { Owner::PyTorch };
    }
    let is_system = begins(&[
        "python",
        "libpython",
        "ld-",
        "libc.",
        "libpthread",
        "libdl.",
        "libffi",
        "libstdc++",
        "libgcc",
        "_ctypes",
        "[v",
    ]);
    if is_system || file.contains("/lib-dynload/") {
        return Owner::Nobody;
    }
    Owner::Own
}

fn name_of(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_belongs_to_pytorch_the_module_or_nobody() {
        for (file, caller, expected) in [
            (
                "/v/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so",
                "",
                Owner::PyTorch,
            ),
            (
                "/v/lib/python3.11/site-packages/torch/lib/libtorch_python.so",
                "",
                Owner::Nobody,
            ),
            (
                "/v/lib/python3.11/site-packages/torch/lib/libgomp-a34b.so.1",
                "",
                Owner::Nobody,
            ),
            ("/tmp/torchinductor_user/ab/cab.so", "", Owner::Own),
            ("/tmp/d/kernel.so", "/usr/lib/libc.so.6", Owner::Own),
            ("", "", Owner::Own),
            (
                "/v/lib/python3.11/site-packages/numpy/_core/_multiarray_umath.cpython-311.so",
                "",
                Owner::Own,
            ),
            ("/usr/lib/x86_64-linux-gnu/libm.so.6", "", Owner::Own),
            (
                "/usr/lib/x86_64-linux-gnu/libc.so.6",
                "/tmp/d/kernel.so",
                Owner::Own,
            ),
            (
                "/usr/lib/x86_64-linux-gnu/libc.so.6",
                "/usr/lib/libffi.so.8",
                Owner::Own,
            ),
            ("/usr/lib/x86_64-linux-gnu/libc.so.6", "", Owner::Nobody),
            ("/usr/bin/python3.11", "", Owner::Nobody),
            ("[vdso]", "", Owner::Nobody),
        ] {
            let executed = Executed {
                file: file.to_owned(),
                caller: caller.to_owned(),
            };
            assert_eq!(owner(&executed), expected, "{file} called by {caller}");
        }
    }

    #[test]
    fn few_samples_show_no_part() {
        let mut share = Share {
            pytorch: LEAST - 1,
            ..Share::default()
        };
        assert_eq!(share.of_pytorch(), None);
        share.own = 1;
        assert_eq!(share.of_pytorch(), Some(1.0 - 1.0 / LEAST as f64));
        share.own = ENOUGH;
        assert!(!share.is_open());
    }
}
