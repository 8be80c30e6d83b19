//! The environment variables of a worker, as the C library of its candidate sees them.

use std::ffi::{CStr, CString, c_char};

unsafe extern "C" {
    /// The C library's list of variables, which ends with null.
    static environ: *const *const c_char;
}

/// The variables at one moment: the list, its entries and their text.
#[derive(Debug)]
pub(crate) struct Environment {
    list: usize,
    entries: Vec<(usize, CString)>,
}

impl Environment {
    /// The variables now. Called while no candidate is loaded.
    pub(crate) fn now() -> Self {
        let mut entries = Vec::new();
        // SAFETY: the list is the system's, and nothing changes it.
        let list = unsafe {
            let mut next = environ;
            while !next.is_null() && !(*next).is_null() {
                entries.push((*next as usize, CStr::from_ptr(*next).to_owned()));
                next = next.add(1);
            }
            environ as usize
        };
        Self { list, entries }
    }

    /// Names the first difference from now. Reads only the list and the texts that it knows, so that a list that was
    /// replaced is never followed.
    pub(crate) fn difference(&self) -> Option<String> {
        // SAFETY: the list and the texts lie where they lay at the start, in memory of this process that is never freed.
        unsafe {
            if environ as usize != self.list {
                return Some(
                    "the list of environment variables is another (setenv, putenv or unsetenv)".into(),
                );
            }
            for (index, (address, text)) in self.entries.iter().enumerate() {
                if *environ.add(index) as usize != *address {
                    return Some(format!("the environment variable {} was replaced", name(text)));
                }
                let now = std::slice::from_raw_parts(*address as *const u8, text.count_bytes() + 1);
                if now != text.to_bytes_with_nul() {
                    return Some(format!("the environment variable {} was changed", name(text)));
                }
            }
            if !environ.is_null() && !(*environ.add(self.entries.len())).is_null() {
                return Some("an environment variable was added".into());
            }
        }
        None
    }
}

/// The name of a variable, for people.
fn name(text: &CStr) -> String {
    let text = text.to_string_lossy();
    format!("`{}`", text.split('=').next().unwrap_or_default())
}
