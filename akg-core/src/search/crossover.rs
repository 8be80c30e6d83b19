//! Two sketches of one task made one: a part of the kernels of one in the place of those of the other that compute the same
//! tensors, and the values of knobs from both.

use std::collections::{BTreeMap, BTreeSet};

use super::draw::Draw;
use super::words::{renamed, words};
use crate::diagnostic::Severity;
use crate::expr::Bindings;
use crate::sketch::ir::{Op, Program, Stmt, TensorId};
use crate::sketch::syntax::{Item, KernelSyntax, SketchTree, Spanned, TensorSyntax};
use crate::sketch::{Knob, Sketch, validate};
use crate::source::{KnobValue, Knobs, TensorRole};
use crate::target::Target;

/// A sketch with values for its knobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Crossed {
    /// The sketch.
    pub sketch: Sketch,
    /// Knob values, each from the parent that the knob is from.
    pub knobs: Knobs,
}

/// Every sketch that a run of neighbouring kernels of `second` makes of `first` in the place of a run of kernels that writes
/// the same tensors, as later kernels and callers see them: those of the same name, element type and number of elements, where
/// inputs and outputs go by position. What is returned parses, elaborates at the knob values of its parents and is valid on
/// `target`, and is neither parent. `hints` has the values of symbolic extents.
///
/// Buffers of one name may hold different things in different sketches, so that a verdict must still say whether it computes
/// the same.
pub fn crossings<'a>(
    first: (&'a Sketch, &'a Knobs),
    second: (&'a Sketch, &'a Knobs),
    hints: &'a Bindings,
    target: &'a Target,
) -> impl Iterator<Item = Crossed> + 'a {
    let parents = Parent::new(first, hints).zip(Parent::new(second, hints));
    let parents = parents.filter(|(first, second)| first.has_ports_of(second));
    parents.into_iter().flat_map(move |(first, second)| {
        let mut found: Vec<Sketch> = Vec::new();
        let exchanges = first.exchanges(&second).into_iter();
        exchanges.filter_map(move |(out, into)| {
            let crossed = first.with(&out, &second, &into)?;
            let known = [first.sketch, second.sketch].contains(&&crossed.sketch);
            if known || found.contains(&crossed.sketch) || !crossed.is_valid(hints, target) {
                return None;
            }
            found.push(crossed.sketch.clone());
            Some(crossed)
        })
    })
}

/// Knob values of which each is from one of two, drawn by `seed`, where the sketch allows that: what it has from neither is its
/// default. `None` if no drawn mixture is legal and differs from both.
pub fn mixed(sketch: &Sketch, values: [&Knobs; 2], hints: &Bindings, seed: u64) -> Option<Knobs> {
    const DRAWS: usize = 16;
    let declared = sketch.knobs();
    let mut draw = Draw::new(seed, 0);
    (0..DRAWS).find_map(|_| {
        let mut mixture = sketch.default_knobs();
        for knob in &declared {
            let choices: Vec<KnobValue> = values
                .iter()
                .filter_map(|values| values.get(&knob.name).copied())
                .filter(|value| knob.values.contains(value))
                .collect();
            mixture.extend(draw.pick(&choices).map(|value| (knob.name.clone(), *value)));
        }
        let is_new = values.iter().all(|values| **values != mixture);
        (is_new && sketch.elaborate(&mixture, hints).is_ok()).then_some(mixture)
    })
}

impl Crossed {
    fn is_valid(&self, hints: &Bindings, target: &Target) -> bool {
        let Ok(program) = self.sketch.elaborate(&self.knobs, hints) else {
            return false;
        };
        let found = validate(&program, Some(target));
        !found.iter().any(|finding| finding.severity == Severity::Error)
    }
}

/// Neighbouring kernels, by their places.
type Run = std::ops::Range<usize>;

/// A tensor as both parents know it: inputs and outputs by position, buffers by name, and what they hold.
type Interface = (String, String, i64);

/// A sketch that is to be crossed.
struct Parent<'a> {
    sketch: &'a Sketch,
    knobs: &'a Knobs,
    tree: &'a SketchTree,
    program: Program,
    /// Each tensor, in the order of the program.
    interfaces: Vec<Interface>,
    /// What each kernel of the syntax tree reads and writes.
    kernels: Vec<Touched>,
}

/// Tensors that a kernel touches.
#[derive(Debug, Default, Clone)]
struct Touched {
    reads: BTreeSet<TensorId>,
    writes: BTreeSet<TensorId>,
}

impl<'a> Parent<'a> {
    /// `None` for what does not elaborate, and for kernels that are templates, which have no place of their own.
    fn new((sketch, knobs): (&'a Sketch, &'a Knobs), hints: &Bindings) -> Option<Self> {
        let tree = sketch.tree();
        let program = sketch.elaborate(knobs, hints).ok()?;
        if program.kernels.len() != tree.kernels.len()
            || tree.kernels.iter().any(|k| k.node.template.is_some())
        {
            return None;
        }
        let mut interfaces = Vec::new();
        let mut positions: BTreeMap<&str, usize> = BTreeMap::new();
        for tensor in &program.tensors {
            let role = match tensor.role {
                TensorRole::Input => "input",
                TensorRole::Output => "output",
                TensorRole::Scratch => "buffer",
            };
            let position = positions.entry(role).or_default();
            let name = match tensor.role {
                TensorRole::Scratch => format!("{role} {}", tensor.name),
                _ => format!("{role} {position}"),
            };
            *position += 1;
            let elements = tensor.shape.iter().try_fold(1i64, |product, extent| {
                extent
                    .eval(hints)
                    .ok()
                    .and_then(|extent| product.checked_mul(extent))
            })?;
            interfaces.push((name, tensor.dtype.to_string(), elements));
        }
        let kernels = program.kernels.iter().map(|kernel| {
            let mut touched = Touched::default();
            touched.body(&kernel.body);
            touched
        });
        Some(Self {
            sketch,
            knobs,
            tree,
            kernels: kernels.collect(),
            interfaces,
            program,
        })
    }

    /// Whether callers give both the same inputs and get the same outputs.
    fn has_ports_of(&self, other: &Self) -> bool {
        let ports = |parent: &Self| -> Vec<Interface> {
            let all = parent.program.tensors.iter().zip(&parent.interfaces);
            let ports = all.filter(|(tensor, _)| tensor.role != TensorRole::Scratch);
            ports.map(|(_, interface)| interface.clone()).collect()
        };
        ports(self) == ports(other)
    }

    fn runs(&self) -> impl Iterator<Item = Run> + use<> {
        let count = self.kernels.len();
        (0..count).flat_map(move |from| (from + 1..=count).map(move |to| from..to))
    }

    fn interfaces_of(&self, tensors: &BTreeSet<TensorId>) -> BTreeSet<&Interface> {
        let known = tensors.iter().filter_map(|tensor| self.interfaces.get(tensor.0));
        known.collect()
    }

    fn is_output(&self, tensor: TensorId) -> bool {
        let tensor = self.program.tensors.get(tensor.0);
        tensor.is_some_and(|tensor| tensor.role == TensorRole::Output)
    }

    /// What a run writes that others see.
    fn shown(&self, run: &Run) -> BTreeSet<TensorId> {
        let inside = self.kernels.get(run.clone()).unwrap_or_default();
        let outside = self
            .kernels
            .iter()
            .enumerate()
            .filter(|(at, _)| !run.contains(at));
        let read: BTreeSet<TensorId> = outside.flat_map(|(_, k)| k.reads.iter().copied()).collect();
        let written = inside.iter().flat_map(|kernel| kernel.writes.iter().copied());
        written
            .filter(|tensor| read.contains(tensor) || self.is_output(*tensor))
            .collect()
    }

    /// What a run reads that it does not write.
    fn needed(&self, run: &Run) -> BTreeSet<TensorId> {
        let inside = self.kernels.get(run.clone()).unwrap_or_default();
        let written: BTreeSet<TensorId> = inside.iter().flat_map(|k| k.writes.iter().copied()).collect();
        let read = inside.iter().flat_map(|kernel| kernel.reads.iter().copied());
        read.filter(|tensor| !written.contains(tensor)).collect()
    }

    /// Runs of this sketch with those of another that can stand in their places: all that is not both whole.
    fn exchanges(&self, other: &Self) -> Vec<(Run, Run)> {
        let mut theirs: BTreeMap<BTreeSet<&Interface>, Vec<Run>> = BTreeMap::new();
        for into in other.runs() {
            let shown = other.interfaces_of(&other.shown(&into));
            theirs.entry(shown).or_default().push(into);
        }
        let mut found = Vec::new();
        for out in self.runs() {
            let mine = self.interfaces_of(&self.shown(&out));
            for into in theirs.get(&mine).into_iter().flatten() {
                let whole = out.len() == self.kernels.len() && into.len() == other.kernels.len();
                if !whole && !mine.is_empty() && self.supplies(&out, other, into) {
                    found.push((out.clone(), into.clone()));
                }
            }
        }
        found
    }

    /// Whether a run of another sketch reads only what is there in the place of one of this.
    fn supplies(&self, out: &Run, other: &Self, into: &Run) -> bool {
        let before = self.kernels.get(..out.start).unwrap_or_default();
        let mut there: BTreeSet<TensorId> = before.iter().flat_map(|k| k.writes.iter().copied()).collect();
        there.extend(self.program.with_role(TensorRole::Input).map(|(id, _)| id));
        let needed = other.interfaces_of(&other.needed(into));
        needed.is_subset(&self.interfaces_of(&there))
    }

    /// This sketch with a run of another's kernels in the place of one of its own.
    fn with(&self, out: &Run, other: &Self, into: &Run) -> Option<Crossed> {
        let given = other.tree.kernels.get(into.clone())?;
        let names = self.names_for(other, given.iter().map(|kernel| &kernel.node));
        let (before, after) = (
            self.tree.kernels.get(..out.start)?,
            self.tree.kernels.get(out.end..)?,
        );
        let own = |kernels: &[Spanned<KernelSyntax>]| -> Vec<String> {
            kernels.iter().map(|kernel| kernel.node.to_string()).collect()
        };
        let given = given.iter().zip(into.clone());
        let given = given.map(|(kernel, at)| renamed(&self.seen_by(other, &kernel.node, at), &names));
        let kernels: Vec<String> = own(before).into_iter().chain(given).chain(own(after)).collect();
        let others = other
            .tree
            .items
            .iter()
            .map(|item| renamed(&item.node.to_string(), &names));
        let items = self.tree.items.iter().map(|item| item.node.to_string());
        let mut items: Vec<(bool, String)> = items
            .map(|text| (true, text))
            .chain(others.map(|text| (false, text)))
            .collect();
        retain_needed(&mut items, &kernels);
        let header = SketchTree {
            items: Vec::new(),
            kernels: Vec::new(),
            doc: Vec::new(),
            ..self.tree.clone()
        };
        let items: Vec<String> = items.into_iter().map(|(_, text)| text).collect();
        let text = format!("{header}{}\n\n{}", items.join("\n"), kernels.join("\n"));
        let sketch = Sketch::parse(&text).ok()?;
        let declared = sketch.knobs();
        let mut knobs = sketch.default_knobs();
        let theirs = other.knobs.iter().map(|(name, value)| {
            let name = names.get(name).unwrap_or(name);
            (name.clone(), *value)
        });
        for (name, value) in theirs.chain(self.knobs.clone()) {
            let is_legal = |knob: &Knob| knob.name == name && knob.values.contains(&value);
            if declared.iter().any(is_legal) {
                knobs.insert(name, value);
            }
        }
        Some(Crossed { sketch, knobs })
    }

    /// What the names of another sketch become here: tensors at the interface those of this sketch, and everything else that
    /// this sketch knows as something else a name of its own.
    fn names_for<'b>(
        &self,
        other: &Self,
        given: impl Iterator<Item = &'b KernelSyntax>,
    ) -> BTreeMap<String, String> {
        let mut names = BTreeMap::new();
        for (tensor, interface) in other.program.tensors.iter().zip(&other.interfaces) {
            let same = self.interfaces.iter().position(|own| own == interface);
            let same = same.and_then(|at| self.program.tensors.get(at));
            names.extend(same.map(|own| (tensor.name.clone(), own.name.clone())));
        }
        let declaration = |tree: &SketchTree, name: &str| {
            let items = tree.items.iter().map(|item| &item.node);
            let mut items = items.filter(|item| declared(item) == Some(name));
            items.next().map(ToString::to_string)
        };
        let mut taken: BTreeSet<String> = [self.tree, other.tree]
            .iter()
            .flat_map(|tree| words(&tree.to_string()).map(str::to_owned).collect::<Vec<_>>())
            .collect();
        let items = other.tree.items.iter().filter_map(|item| declared(&item.node));
        let kernels: Vec<&str> = given.map(|kernel| kernel.name.node.as_str()).collect();
        for name in items.chain(kernels) {
            let known = words(&self.tree.to_string()).any(|word| word == name);
            let is_same =
                declaration(self.tree, name).is_some_and(|own| Some(own) == declaration(other.tree, name));
            if known && !is_same && !names.contains_key(name) {
                let mut free = (2..).map(|count| format!("{name}_{count}"));
                let fresh = free.find(|fresh| !taken.contains(fresh)).unwrap_or_default();
                taken.insert(fresh.clone());
                names.insert(name.to_owned(), fresh);
            }
        }
        names
    }

    /// A kernel of another sketch that sees tensors in the extents that they have there.
    fn seen_by(&self, other: &Self, kernel: &KernelSyntax, at: usize) -> String {
        let mut kernel = kernel.clone();
        let touched = other.kernels.get(at);
        let touched = touched
            .iter()
            .flat_map(|touched| touched.reads.iter().chain(&touched.writes));
        for tensor in touched.collect::<BTreeSet<_>>() {
            let (Some(theirs), Some(interface)) = (
                other.program.tensors.get(tensor.0),
                other.interfaces.get(tensor.0),
            ) else {
                continue;
            };
            let own = self.interfaces.iter().position(|own| own == interface);
            let own = own.and_then(|own| self.program.tensors.get(own));
            let seen = kernel.views.iter().any(|(name, _)| name.node == theirs.name);
            if own.is_some_and(|own| own.shape != theirs.shape) && !seen {
                let declared = tensors(other.tree).find(|tensor| tensor.name.node == theirs.name);
                kernel
                    .views
                    .extend(declared.map(|t| (t.name.clone(), t.shape.clone())));
            }
        }
        kernel.to_string()
    }
}

/// Every tensor that a sketch declares.
fn tensors(tree: &SketchTree) -> impl Iterator<Item = &TensorSyntax> {
    let buffers = tree.items.iter().filter_map(|item| match &item.node {
        Item::Buffer { tensor, .. } => Some(tensor),
        _ => None,
    });
    tree.inputs.iter().chain(&tree.outputs).chain(buffers)
}

/// The name that an item declares.
fn declared(item: &Item) -> Option<&str> {
    match item {
        Item::Param { name, .. } | Item::Let { name, .. } | Item::Knob { name, .. } => Some(&name.node),
        Item::Buffer { tensor, .. } => Some(&tensor.name.node),
        Item::Require(_) | Item::Accuracy(_) | Item::Comment(_) => None,
    }
}

/// Leaves the items that `kernels` need, directly or through other items, once each. Requirements stay whose names all do; of
/// accuracies, the first sketch's stays if both have one, and none if one has not, which is the strictest.
fn retain_needed(items: &mut Vec<(bool, String)>, kernels: &[String]) {
    let is_named = |text: &str| {
        ["knob ", "hint ", "let ", "param ", "buffer "]
            .iter()
            .any(|k| text.starts_with(k))
    };
    let name = |text: &str| words(text).nth(1).map(str::to_owned);
    let mut needed: BTreeSet<String> = kernels
        .iter()
        .flat_map(|text| words(text))
        .map(str::to_owned)
        .collect();
    loop {
        let before = needed.len();
        for (_, text) in items.iter().filter(|(_, text)| is_named(text)) {
            if name(text).is_some_and(|name| needed.contains(&name)) {
                needed.extend(words(text).map(str::to_owned));
            }
        }
        if needed.len() == before {
            break;
        }
    }
    let all: BTreeSet<String> = items
        .iter()
        .filter(|(_, text)| is_named(text))
        .filter_map(|(_, t)| name(t))
        .collect();
    let classes = items
        .iter()
        .filter(|(_, text)| text.starts_with("accuracy "))
        .count();
    let mut seen = BTreeSet::new();
    items.retain(|(is_first, text)| {
        if is_named(text) {
            name(text).is_some_and(|name| needed.contains(&name) && seen.insert(name))
        } else if text.starts_with("accuracy ") {
            *is_first && classes == 2
        } else {
            let is_require = text.starts_with("require ");
            let known = words(text)
                .filter(|word| all.contains(*word))
                .all(|word| needed.contains(word));
            is_require && known && seen.insert(text.clone())
        }
    });
}

impl Touched {
    fn body(&mut self, body: &[Stmt]) {
        for stmt in body {
            match stmt {
                Stmt::Define {
                    op: Op::Load { tensor, .. },
                    ..
                } => {
                    self.reads.insert(*tensor);
                }
                Stmt::Store { tensor, .. } => {
                    self.writes.insert(*tensor);
                }
                _ => {}
            }
            for block in stmt.blocks() {
                self.body(block);
            }
        }
    }
}
