//! What tells candidates apart before any of them costs device time: hashes of texts without what cannot matter.
//!
//! Two candidates with one fingerprint are the same program. The opposite does not hold: what is the same in a less obvious way
//! has two.

use std::collections::{BTreeMap, BTreeSet};

use super::lexemes::{Lexeme, Syntax, lexemes};
use super::words::words;
use crate::digest::Digest;
use crate::dtype::DType;
use crate::error::Result;
use crate::sketch::Sketch;
use crate::sketch::ir::DotMethod;
use crate::sketch::syntax::{Item, SketchTree, Spanned, Statement};
use crate::source::Source;

/// The fingerprint of a sketch: its text as printed, without comments, and with names by the order in which they first appear.
/// Names that callers bind, those of open extents and parameters, stay.
pub fn of_sketch(sketch: &Sketch) -> Digest {
    // What it is called is said nowhere else.
    let name = Spanned::new(String::new(), 0..0);
    let tree = SketchTree {
        name,
        ..sketch.tree().clone()
    };
    let text = tree.to_string();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    let mut names = declared(&tree);
    // A name that is also one of the language's may mean either.
    let called = text.split('(').filter_map(|before| last_word(before));
    let called: BTreeSet<&str> = called.collect();
    let is_method = |name: &str| name.parse::<DotMethod>().is_ok();
    names
        .retain(|name| !called.contains(name.as_str()) && !is_method(name) && name.parse::<DType>().is_err());
    Digest::of(in_order(&text, &names).as_bytes())
}

/// The word that a text ends with.
fn last_word(text: &str) -> Option<&str> {
    words(text).last().filter(|word| text.ends_with(word))
}

/// The names that a sketch gives, and that nobody outside knows.
fn declared(tree: &SketchTree) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let ports = tree.inputs.iter().chain(&tree.outputs);
    names.extend(ports.map(|tensor| tensor.name.node.clone()));
    for item in &tree.items {
        let name = match &item.node {
            Item::Let { name, .. } | Item::Knob { name, .. } => name,
            Item::Param {
                name, value: Some(_), ..
            } => name,
            Item::Buffer { tensor, .. } => &tensor.name,
            Item::Param { value: None, .. } | Item::Require(_) | Item::Accuracy(_) | Item::Comment(_) => {
                continue;
            }
        };
        names.insert(name.node.clone());
    }
    for kernel in tree.kernels.iter().map(|kernel| &kernel.node) {
        names.insert(kernel.name.node.clone());
        names.extend(kernel.grid.iter().map(|(index, _)| index.node.clone()));
        let template = kernel.template.iter().flat_map(|template| &template.names);
        names.extend(template.map(|name| name.node.clone()));
        bound(&kernel.body, &mut names);
    }
    names
}

/// The names that statements bind.
fn bound(body: &[Spanned<Statement>], names: &mut BTreeSet<String>) {
    for statement in body {
        match &statement.node {
            Statement::Assign { name, .. } => {
                names.insert(name.node.clone());
            }
            Statement::For {
                indices,
                body,
                combine,
                ..
            } => {
                names.extend(indices.iter().map(|index| index.name.node.clone()));
                bound(body, names);
                if let Some(combine) = combine {
                    let pairs = combine.pairs.iter().flat_map(|(own, other)| [own, other]);
                    names.extend(pairs.map(|name| name.node.clone()));
                    bound(&combine.body, names);
                }
            }
            Statement::If { then, otherwise, .. } => {
                bound(then, names);
                bound(otherwise, names);
            }
            Statement::Store { .. } | Statement::Barrier | Statement::Comment(_) => {}
        }
    }
}

/// A text in which each of `names` says which of them it is, in the order of their first appearance.
fn in_order(text: &str, names: &BTreeSet<String>) -> String {
    let mut order: BTreeMap<String, String> = BTreeMap::new();
    for word in words(text).filter(|word| names.contains(*word)) {
        let next = format!("${}", order.len());
        order.entry(word.to_owned()).or_insert(next);
    }
    super::words::renamed(text, &order)
}

/// The fingerprint of a source: its text without comments and what space does not matter, with locals by the order in which they
/// first appear, and its launch plan. Its knobs are in the text. Without a syntax, the text is taken as it stands.
///
/// # Errors
/// If the launch plan cannot be written as JSON.
pub fn of_source(source: &Source, syntax: Option<Syntax>) -> Result<Digest> {
    let text = syntax.map_or_else(|| source.text.clone(), |syntax| normal_form(&source.text, syntax));
    let form = Digest::of_value(&source.form)?.to_string();
    Ok(Digest::of_parts([source.dsl.as_str(), &text, &form]))
}

/// Lexemes one after the other.
fn normal_form(text: &str, syntax: Syntax) -> String {
    let Some(lexemes) = lexemes(text, syntax) else {
        // There is something that this does not understand.
        return text.to_owned();
    };
    let locals = syntax.locals(&lexemes);
    let mut order: BTreeMap<&str, usize> = BTreeMap::new();
    let mut out = String::with_capacity(text.len());
    for lexeme in &lexemes {
        match lexeme {
            Lexeme::Word(word) if locals.contains(word) => {
                let next = order.len();
                out.push_str(&format!("${}", order.entry(word).or_insert(next)));
            }
            other => out.push_str(other.text()),
        }
        out.push('\u{1f}');
    }
    out
}
