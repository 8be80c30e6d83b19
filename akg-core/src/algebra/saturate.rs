//! Rules applied until nothing new is found.

use std::collections::HashMap;

use egg::{Id, Language as _};

use super::rules::{Found, Rule};
use super::site::{Site, Space};
use super::term::Term;

/// Rounds in which every rule is tried at every term.
const MOST_ROUNDS: usize = 10;

/// Terms after which no rule is tried. Reached by no graph that people write.
const MOST_TERMS: usize = 50_000;

/// What rules found.
#[derive(Default)]
pub(super) struct Saturated {
    /// How often each rule proved two classes equal that were not known to be, by its place in the list.
    pub(super) counts: Vec<usize>,
    /// The terms at which they did.
    pub(super) roots: Vec<Term>,
}

/// Applies `rules` until they find nothing new or a limit is reached.
pub(super) fn saturate(space: &mut Space, rules: &[&'static Rule]) -> Saturated {
    let mut by_root: HashMap<&str, Vec<usize>> = HashMap::new();
    for (number, rule) in rules.iter().enumerate() {
        for root in rule.roots {
            by_root.entry(root).or_default().push(number);
        }
    }
    let mut found = Saturated {
        counts: vec![0; rules.len()],
        ..Saturated::default()
    };
    space.classes.rebuild();
    for _ in 0..MOST_ROUNDS {
        let mut terms: Vec<(Id, Term)> = space
            .classes
            .classes()
            .flat_map(|class| class.nodes.iter().map(|term| (class.id, term.clone())))
            .collect();
        terms.sort();
        let mut new = false;
        for (id, term) in &terms {
            for number in by_root.get(term.name()).into_iter().flatten() {
                let Some(rule) = rules.get(*number) else { continue };
                for equal in results(space, rule, term) {
                    if join(space, *id, equal) {
                        new = true;
                        if let Some(count) = found.counts.get_mut(*number) {
                            *count += 1;
                        }
                        found.roots.push(term.clone());
                    }
                }
                if space.classes.total_size() > MOST_TERMS {
                    space.classes.rebuild();
                    return found;
                }
            }
        }
        space.classes.rebuild();
        if !new {
            break;
        }
    }
    found
}

/// What a rule makes of a term.
fn results(space: &mut Space, rule: &Rule, term: &Term) -> Vec<Id> {
    let mut site = Site {
        classes: &mut space.classes,
    };
    if rule.inner.is_empty() {
        let found = Found {
            node: term,
            inner: term,
            at: 0,
        };
        return (rule.apply)(&mut site, &found).into_iter().collect();
    }
    let mut out = Vec::new();
    for (at, operand) in term.children().iter().enumerate() {
        for inner in site.makers(*operand, rule.inner) {
            let found = Found {
                node: term,
                inner: &inner,
                at,
            };
            out.extend((rule.apply)(&mut site, &found));
        }
    }
    out
}

/// Makes two classes one; `false` if they were, or are of different types.
fn join(space: &mut Space, a: Id, b: Id) -> bool {
    let classes = &mut space.classes;
    classes[a].data.types == classes[b].data.types && classes.union(a, b)
}
