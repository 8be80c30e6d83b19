//! Names in printed kernels.

use std::collections::{BTreeSet, HashMap};

/// Names that mean something to Python, to Triton's compiler, or in a printed module.
const RESERVED: &[&str] = &[
    "False",
    "LAUNCH",
    "None",
    "True",
    "abs",
    "and",
    "as",
    "assert",
    "async",
    "await",
    "bool",
    "break",
    "case",
    "cdiv",
    "class",
    "constexpr",
    "continue",
    "def",
    "del",
    "device",
    "elif",
    "else",
    "except",
    "finally",
    "float",
    "for",
    "from",
    "global",
    "grid",
    "if",
    "import",
    "in",
    "int",
    "is",
    "isinstance",
    "jit",
    "lambda",
    "len",
    "libdevice",
    "list",
    "match",
    "max",
    "maxnreg",
    "min",
    "noinline",
    "nonlocal",
    "not",
    "num_ctas",
    "num_stages",
    "num_warps",
    "or",
    "pass",
    "print",
    "raise",
    "range",
    "return",
    "self",
    "static_range",
    "stream",
    "sum",
    "tl",
    "torch",
    "triton",
    "try",
    "tuple",
    "type",
    "warmup",
    "while",
    "with",
    "yield",
    "zero",
];

/// The names of one kernel, each given once.
#[derive(Debug)]
pub(crate) struct Names {
    taken: BTreeSet<String>,
    /// The next number for each name: the lower ones are taken.
    numbers: HashMap<String, usize>,
}

impl Names {
    pub(crate) fn new() -> Self {
        Self {
            taken: RESERVED.iter().map(|s| (*s).to_owned()).collect(),
            numbers: HashMap::new(),
        }
    }

    /// Whether it gave this name.
    pub(crate) fn gave(&self, name: &str) -> bool {
        self.taken.contains(name) && !RESERVED.contains(&name)
    }

    /// `base` as an identifier, with a number if it is taken.
    pub(crate) fn fresh(&mut self, base: &str) -> String {
        let mut name = base.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "_");
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            name.insert(0, 't');
        }
        if name.starts_with("akg_") {
            name.insert(0, '_');
        }
        let number = self.numbers.entry(name.clone()).or_insert(2);
        let mut candidate = name.clone();
        while !self.taken.insert(candidate.clone()) {
            candidate = format!("{name}_{number}");
            *number += 1;
        }
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_identifiers_that_nothing_else_has() {
        let mut names = Names::new();
        let given: Vec<String> = ["x", "x", "for", "2a", "a.b", "", "akg_max"]
            .map(|n| names.fresh(n))
            .into();
        assert_eq!(given, ["x", "x_2", "for_2", "t2a", "a_b", "t", "_akg_max"]);
        assert!(given.iter().all(|name| names.gave(name)));
        assert!(!names.gave("for") && !names.gave("y"));
    }
}
