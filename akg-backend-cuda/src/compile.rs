//! CUDA C++ to machine code, by NVIDIA's run-time compiler.

use std::ffi::{CString, c_char};
use std::ptr;

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::verdict::{Failure, FailureKind};
use cudarc::nvrtc::sys::{self, nvrtcResult};

/// Where the toolkit's headers are, if a variable says where the toolkit is.
fn include_options() -> impl Iterator<Item = String> {
    ["CUDA_HOME", "CUDA_PATH"]
        .into_iter()
        .filter_map(|name| std::env::var(name).ok())
        .map(|home| format!("--include-path={home}/include"))
}

/// The machine code of a text for an architecture such as `sm_90a`. What the compiler has against it is the failure.
///
/// # Errors
/// [`ErrorKind::ToolMissing`] if the compiler's library is not found.
pub(crate) fn compile(text: &[u8], arch: &str) -> Result<Result<Vec<u8>, Failure>> {
    // SAFETY: loading the compiler runs its initialisers.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::new(
            ErrorKind::ToolMissing,
            "CUDA C++ needs the library libnvrtc.so of NVIDIA's run-time compiler, which is not found; install the CUDA \
             toolkit, and name its directory of libraries in LD_LIBRARY_PATH if the system does not know it",
        ));
    }
    let rejected = |evidence: String| Ok(Err(Failure::new(FailureKind::CompileFailed, evidence)));
    let Ok(text) = CString::new(text) else {
        return rejected("the text has a zero byte".to_owned());
    };
    let options = [format!("--gpu-architecture={arch}"), "--std=c++17".to_owned()]
        .into_iter()
        .chain(include_options())
        .filter_map(|option| CString::new(option).ok());
    let options: Vec<CString> = options.collect();
    let program = Program::new(&text)?;
    let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    // SAFETY: the program lives, and so do the options.
    let compiled = unsafe { sys::nvrtcCompileProgram(program.0, pointers.len() as i32, pointers.as_ptr()) };
    match compiled {
        nvrtcResult::NVRTC_SUCCESS => Ok(Ok(program.code()?)),
        nvrtcResult::NVRTC_ERROR_COMPILATION => rejected(program.log()?),
        other => Err(trouble("nvrtcCompileProgram", other)),
    }
}

fn trouble(call: &str, result: nvrtcResult) -> Error {
    Error::unexpected(format!(
        "the run-time compiler of CUDA C++ refused {call}: {result:?}"
    ))
}

fn check(call: &str, result: nvrtcResult) -> Result<()> {
    match result {
        nvrtcResult::NVRTC_SUCCESS => Ok(()),
        other => Err(trouble(call, other)),
    }
}

/// A text in the compiler.
struct Program(sys::nvrtcProgram);

impl Program {
    fn new(text: &CString) -> Result<Self> {
        let mut program = ptr::null_mut();
        // SAFETY: the text ends with a zero byte; there are no headers.
        let created = unsafe {
            sys::nvrtcCreateProgram(
                &raw mut program,
                text.as_ptr(),
                c"kernel.cu".as_ptr(),
                0,
                ptr::null(),
                ptr::null(),
            )
        };
        check("nvrtcCreateProgram", created)?;
        Ok(Self(program))
    }

    fn code(&self) -> Result<Vec<u8>> {
        let mut bytes = 0;
        // SAFETY: the program was compiled, and the buffer has the size that was asked for.
        unsafe {
            check(
                "nvrtcGetCUBINSize",
                sys::nvrtcGetCUBINSize(self.0, &raw mut bytes),
            )?;
            let mut code = vec![0u8; bytes];
            check(
                "nvrtcGetCUBIN",
                sys::nvrtcGetCUBIN(self.0, code.as_mut_ptr().cast()),
            )?;
            Ok(code)
        }
    }

    fn log(&self) -> Result<String> {
        let mut bytes = 0;
        // SAFETY: the program was compiled, and the buffer has the size that was asked for.
        let log = unsafe {
            check(
                "nvrtcGetProgramLogSize",
                sys::nvrtcGetProgramLogSize(self.0, &raw mut bytes),
            )?;
            let mut log = vec![0u8; bytes];
            check(
                "nvrtcGetProgramLog",
                sys::nvrtcGetProgramLog(self.0, log.as_mut_ptr().cast()),
            )?;
            log
        };
        Ok(String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the program is not used any more.
        unsafe { sys::nvrtcDestroyProgram(&raw mut self.0) };
    }
}
