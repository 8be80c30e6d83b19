//! Kernels that one function computes: deep networks have the same layer many times.

use std::collections::HashMap;
use std::fmt::Write as _;

use akg_core::lower::tiles::{TileKernel, TileProgram};

use crate::options::Options;
use crate::printer::Printed;

/// What kernels agree in that one function computes: the text without comments in which names say what place they have, how
/// it is compiled, the types of the tensors, and what descriptors say of them.
pub(crate) fn likeness(
    program: &TileProgram,
    kernel: &TileKernel,
    function: &str,
    printed: &Printed,
    options: &Options,
) -> String {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut place = |word: &str| {
        let next = places.len();
        *places.entry(word.to_owned()).or_insert(next)
    };
    let mut out = String::new();
    for line in printed
        .text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
    {
        let mut rest = line;
        while !rest.is_empty() {
            let (others, after) = rest.split_at(rest.find(is_word).unwrap_or(rest.len()));
            out.push_str(others);
            let (word, after) = after.split_at(after.find(|c| !is_word(c)).unwrap_or(after.len()));
            // What is an attribute, or an argument by its name, is not a variable.
            let is_variable = !others.ends_with('.') && !after.starts_with('=');
            if is_variable && (word == function || printed.names.gave(word)) {
                let _ = write!(out, "${}", place(word));
            } else {
                out.push_str(word);
            }
            rest = after;
        }
        out.push('\n');
    }
    let _ = write!(
        out,
        "{} {} {:?} {}",
        options.num_warps,
        options.num_stages,
        options.maxnreg,
        kernel.teams.is_some()
    );
    let tensors = kernel.tensors.iter().filter_map(|t| program.tensors.get(t.0));
    for (tensor, parameter) in tensors.zip(&printed.parameters) {
        let _ = write!(out, "\n{} {}", tensor.dtype, tensor.align);
        if let Some((_, descriptor)) = printed.descriptors.iter().find(|(name, _)| name == parameter) {
            let _ = write!(out, " {descriptor:?}");
        }
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
