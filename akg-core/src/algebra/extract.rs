//! The cheapest graph in an e-graph.
//!
//! A term that several others use is paid once, so the price of a term is not the sum of the prices of its operands: each
//! class carries the set of classes below its best term, and what counts is the price of that set.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use egg::{Id, Language as _};

use super::site::Space;
use super::term::{Form, Term};
use crate::error::{Error, Result};
use crate::graph::{Arg, Graph, Output, ValueId};

/// Passes over all classes.
const MOST_PASSES: usize = 32;

/// What a term costs that is not the graph's own, so that a graph only changes for a reason.
const CHANGE: f64 = 0.5;

/// One term for each class.
pub(super) struct Choice {
    terms: HashMap<Id, Term>,
    /// The price of all terms below the outputs, each once.
    pub(super) total: f64,
}

/// The best term of a class.
struct Best<'a> {
    term: &'a Term,
    price: f64,
    /// The classes of the terms that it needs and its own, a bit for each.
    below: Rc<[u64]>,
    /// What these cost together.
    total: f64,
}

/// The search for the best terms. Classes have numbers, in the order of their ids.
struct Search<'a> {
    numbers: HashMap<Id, usize>,
    /// The terms of each class with their prices and the classes of their operands.
    terms: Vec<Vec<(f64, &'a Term, Vec<usize>)>>,
    best: Vec<Option<Best<'a>>>,
}

/// Chooses terms for the values `outputs`; `None` if terms without an end were all that was found.
pub(super) fn choose(space: &Space, outputs: &[ValueId], price: &dyn Fn(&Term) -> f64) -> Option<Choice> {
    let mut search = Search::new(space, price);
    for _ in 0..MOST_PASSES {
        if !search.pass() {
            break;
        }
    }
    let mut all = vec![0; search.words()];
    for output in outputs {
        let id = space.classes.find((*space.values.get(output.index())?)?);
        let best = search.best.get(*search.numbers.get(&id)?)?.as_ref()?;
        add(&mut all, &best.below);
    }
    let total = search.total(&all);
    let chosen = search.numbers.into_iter();
    let chosen = chosen.filter_map(|(id, at)| Some((id, search.best.get(at)?.as_ref()?.term.clone())));
    Some(Choice {
        terms: chosen.collect(),
        total,
    })
}

impl<'a> Search<'a> {
    fn new(space: &'a Space, price: &dyn Fn(&Term) -> f64) -> Self {
        let own: HashSet<Term> = space.own.iter().map(|t| space.canonical(t)).collect();
        let mut ids: Vec<Id> = space.classes.classes().map(|c| c.id).collect();
        ids.sort_unstable();
        let numbers: HashMap<Id, usize> = ids.iter().enumerate().map(|(at, id)| (*id, at)).collect();
        let priced = |term: &'a Term| {
            let operands = term
                .children()
                .iter()
                .map(|c| numbers.get(&space.classes.find(*c)).copied());
            let change = if own.contains(term) { 0.0 } else { CHANGE };
            Some((price(term) + change, term, operands.collect::<Option<_>>()?))
        };
        let terms = ids
            .iter()
            .map(|id| space.classes[*id].nodes.iter().filter_map(priced).collect());
        Self {
            terms: terms.collect(),
            best: ids.iter().map(|_| None).collect(),
            numbers,
        }
    }

    fn words(&self) -> usize {
        self.terms.len().div_ceil(64)
    }

    /// Chooses for each class again; whether anything changed.
    fn pass(&mut self) -> bool {
        let mut changed = false;
        for at in 0..self.terms.len() {
            let options = self.terms.get(at).into_iter().flatten();
            let options =
                options.filter_map(|(price, term, operands)| self.option(at, *price, term, operands));
            let Some(found) = options.reduce(|a, b| if b.total < a.total - 1e-9 { b } else { a }) else {
                continue;
            };
            let Some(place) = self.best.get_mut(at) else {
                continue;
            };
            changed |= place
                .as_ref()
                .is_none_or(|old| old.term != found.term || (old.total - found.total).abs() > 1e-6);
            *place = Some(found);
        }
        changed
    }

    /// A term with the best of its operands; `None` if one has none yet, or needs the term itself.
    fn option(&self, at: usize, price: f64, term: &'a Term, operands: &[usize]) -> Option<Best<'a>> {
        let mut below = vec![0; self.words()];
        for operand in operands {
            add(&mut below, &self.best.get(*operand)?.as_ref()?.below);
        }
        let own = 1 << (at % 64);
        if below.get(at / 64)? & own != 0 {
            return None;
        }
        let total = price + self.total(&below);
        *below.get_mut(at / 64)? |= own;
        Some(Best {
            term,
            price,
            below: below.into(),
            total,
        })
    }

    /// What the best terms of some classes cost together.
    fn total(&self, classes: &[u64]) -> f64 {
        let mut total = 0.0;
        for (at, word) in classes.iter().enumerate() {
            let mut left = *word;
            while left != 0 {
                let number = at * 64 + left.trailing_zeros() as usize;
                total += self
                    .best
                    .get(number)
                    .and_then(|b| b.as_ref())
                    .map_or(0.0, |b| b.price);
                left &= left - 1;
            }
        }
        total
    }
}

/// Adds the members of one set to another.
fn add(to: &mut [u64], from: &[u64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to |= from);
}

/// The graph of the chosen terms: the same inputs, constants and outputs, and the names of the values that are still there.
pub(super) fn build(graph: &Graph, space: &Space, choice: &Choice) -> Result<Graph> {
    let mut builder = Builder {
        graph,
        space,
        choice,
        out: Graph::new(graph.name()),
        made: HashMap::new(),
        names: HashMap::new(),
    };
    builder.begin()?;
    let mut outputs: Vec<(ValueId, ValueId)> = Vec::new();
    for output in graph.outputs() {
        let known = outputs.iter().find(|(old, _)| *old == output.value);
        let new = match known {
            Some((_, new)) => *new,
            None => builder.output(output.value)?,
        };
        outputs.push((output.value, new));
        let updates = output.updates.map(|state| builder.given(state)).transpose()?;
        builder.out.outputs.push(Output { value: new, updates });
    }
    builder.out.validate()?;
    Ok(builder.out)
}

struct Builder<'a> {
    graph: &'a Graph,
    space: &'a Space,
    choice: &'a Choice,
    out: Graph,
    /// The values that a class has become.
    made: HashMap<Id, Vec<ValueId>>,
    /// The name of the value of each class, in the graph.
    names: HashMap<Id, ValueId>,
}

impl Builder<'_> {
    /// Inputs and constants, and the names of the classes: an output's before others.
    fn begin(&mut self) -> Result<()> {
        for input in self.graph.inputs() {
            let value = &self.graph.values()[input.value.index()];
            let new = self
                .out
                .add_input(&value.name, value.ty.clone(), input.kind, input.layout.clone());
            self.made.insert(self.class(input.value)?, vec![new]);
        }
        for constant in self.graph.constants() {
            let new = self
                .out
                .constant(self.graph.value_name(constant.value), constant.tensor.clone());
            self.made.insert(self.class(constant.value)?, vec![new]);
        }
        let outputs = self.graph.outputs().iter().map(|o| o.value);
        let nodes = self.graph.nodes().iter().flat_map(|n| n.outputs.iter().copied());
        for value in outputs.chain(nodes) {
            if let Ok(id) = self.class(value) {
                self.names.entry(id).or_insert(value);
            }
        }
        Ok(())
    }

    fn class(&self, value: ValueId) -> Result<Id> {
        let id = self.space.values.get(value.index()).copied().flatten();
        let id = id.ok_or_else(|| Error::unexpected("a value has no class"))?;
        Ok(self.space.classes.find(id))
    }

    /// The new number of an input.
    fn given(&self, value: ValueId) -> Result<ValueId> {
        self.out
            .find(self.graph.value_name(value))
            .ok_or_else(|| Error::unexpected("a state is no input"))
    }

    /// The value of an output, under its name: a copy if what it is equal to has another.
    fn output(&mut self, value: ValueId) -> Result<ValueId> {
        let id = self.class(value)?;
        let new = self.make(id)?;
        let name = self.graph.value_name(value);
        let was_given = self.graph.given().any(|v| v == value);
        if self.out.value_name(new) == name || was_given {
            return Ok(new);
        }
        let copied = self.out.call("clone.default", [("self", new.into())])?;
        let copy = *copied
            .first()
            .ok_or_else(|| Error::unexpected("a copy has no result"))?;
        self.out.rename(copy, name)?;
        Ok(copy)
    }

    /// The value of a class, whose operands are made first.
    fn make(&mut self, root: Id) -> Result<ValueId> {
        let mut open = vec![(root, false)];
        let mut entered = HashSet::new();
        while let Some((id, ready)) = open.pop() {
            if self.made.contains_key(&id) {
                continue;
            }
            let missing = || Error::unexpected("a value that is needed has no term");
            let term = self.choice.terms.get(&id).ok_or_else(missing)?;
            let operands = term.children().iter().map(|c| self.space.classes.find(*c));
            if ready {
                self.emit(id, term)?;
                continue;
            }
            if !entered.insert(id) {
                return Err(Error::unexpected("the chosen terms need one another"));
            }
            open.push((id, true));
            let fresh: Vec<Id> = operands.filter(|c| !self.made.contains_key(c)).collect();
            open.extend(fresh.into_iter().rev().map(|c| (c, false)));
        }
        let values = self.made.get(&root);
        values
            .and_then(|v| v.first().copied())
            .ok_or_else(|| Error::unexpected("an output was not made"))
    }

    /// Appends the term of a class, whose operands are there.
    fn emit(&mut self, id: Id, term: &Term) -> Result<()> {
        let values = match &term.form {
            Form::Given(_) => return Err(Error::unexpected("an input is not among the inputs")),
            Form::Part(at) => {
                let call = term.children().first().map(|c| self.space.classes.find(*c));
                let all = call.and_then(|call| self.made.get(&call));
                let value = all.and_then(|all| all.get(*at).copied());
                vec![value.ok_or_else(|| Error::unexpected("a call has fewer results"))?]
            }
            Form::Call { op, .. } => {
                let made = |v: ValueId| {
                    let id = self.space.classes.find(super::term::class(v));
                    self.made
                        .get(&id)
                        .and_then(|all| all.first().copied())
                        .unwrap_or(v)
                };
                let args: Vec<Arg> = term.full_args().iter().map(|a| a.map_values(&made)).collect();
                let names = self.names_of(id, term);
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                self.out.push(op, args, &names)?
            }
        };
        self.made.insert(id, values);
        Ok(())
    }

    /// The names of a call's results: those in the graph, or new ones.
    fn names_of(&self, id: Id, term: &Term) -> Vec<String> {
        let base = term
            .name()
            .split('.')
            .next()
            .unwrap_or_default()
            .trim_start_matches('_');
        let name = |class: Option<Id>| {
            let known = class.and_then(|class| self.names.get(&class));
            if let Some(value) = known {
                return self.graph.value_name(*value).to_owned();
            }
            let taken = |name: &str| self.graph.find(name).is_some() || self.out.find(name).is_some();
            let numbered = (1..).map(|n| format!("{base}_{n}"));
            let mut names = std::iter::once(base.to_owned()).chain(numbered);
            names.find(|n| !taken(n)).unwrap_or_default()
        };
        if term.types.len() == 1 {
            return vec![name(Some(id))];
        }
        let parts = term.types.iter().enumerate().map(|(at, ty)| {
            let part = Term::part(id, at, ty.clone());
            self.space
                .classes
                .lookup(part)
                .map(|c| self.space.classes.find(c))
        });
        parts.map(name).collect()
    }
}
