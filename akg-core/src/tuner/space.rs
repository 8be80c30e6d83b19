//! The configurations of a sketch.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use crate::expr::Bindings;
use crate::sketch::syntax::Item;
use crate::sketch::{Sketch, cost};
use crate::source::Knobs;
use crate::target::Target;

/// Configurations of a group that are looked at; of more, as many at equal distances.
const MOST_POINTS: usize = 1024;

/// The configurations of a sketch on a device.
#[derive(Debug, Clone, Copy)]
pub struct Space<'a> {
    /// The sketch.
    pub sketch: &'a Sketch,
    /// Values of its symbols.
    pub hints: &'a Bindings,
    /// The device.
    pub target: &'a Target,
}

impl Space<'_> {
    /// Whether a configuration is complete and legal.
    pub fn contains(&self, knobs: &Knobs) -> bool {
        let declared = self.sketch.knobs();
        let legal = |k: &crate::sketch::Knob| knobs.get(&k.name).is_some_and(|v| k.values.contains(v));
        knobs.len() == declared.len() && declared.iter().all(legal) && self.seconds(knobs).is_some()
    }

    /// The time that the cost model gives a configuration; `None` if it is illegal.
    pub fn seconds(&self, knobs: &Knobs) -> Option<f64> {
        let program = self.sketch.elaborate(knobs, self.hints).ok()?;
        Some(cost(&program, self.hints, self.target).ok()?.seconds)
    }

    /// Knobs that belong together, because a kernel, a buffer or a requirement has them both. What is no knob in several
    /// kernels is in none of these groups.
    pub fn groups(&self) -> Vec<Vec<String>> {
        let tree = self.sketch.tree();
        // The knobs behind each name: a knob itself, or those in a definition or a buffer's extents.
        let mut behind: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let knobs_in = |behind: &BTreeMap<String, BTreeSet<String>>, text: &str| -> BTreeSet<String> {
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            words.filter_map(|w| behind.get(w)).flatten().cloned().collect()
        };
        let mut together: Vec<BTreeSet<String>> = Vec::new();
        for item in &tree.items {
            let inside = knobs_in(&behind, &item.node.to_string());
            match &item.node {
                Item::Knob { name, values, .. } => {
                    let own = BTreeSet::from([name.node.clone()]);
                    if values.len() > 1 {
                        together.push(own.clone());
                    }
                    behind.insert(name.node.clone(), own);
                }
                Item::Let { name, .. } => {
                    behind.insert(name.node.clone(), inside);
                }
                Item::Buffer { tensor, .. } => {
                    behind.insert(tensor.name.node.clone(), inside);
                }
                Item::Require(_) => together.push(inside),
                _ => {}
            }
        }
        together.extend(
            tree.kernels
                .iter()
                .map(|k| knobs_in(&behind, &k.node.to_string())),
        );
        let mut groups: Vec<BTreeSet<String>> = Vec::new();
        for mut set in together {
            let (joined, apart): (Vec<_>, Vec<_>) = groups.into_iter().partition(|g| !g.is_disjoint(&set));
            set.extend(joined.into_iter().flatten());
            groups = apart;
            groups.push(set);
        }
        let order = self.sketch.knobs();
        let in_order = |group: BTreeSet<String>| -> Vec<String> {
            let names = order
                .iter()
                .filter(|k| group.contains(&k.name) && k.values.len() > 1);
            names.map(|k| k.name.clone()).collect()
        };
        let groups = groups.into_iter().map(in_order);
        groups.filter(|g| !g.is_empty()).collect()
    }

    /// The legal configurations that differ from `base` in `group` alone, those that the cost model likes best first,
    /// with their times; of equal ones, those with earlier values first.
    pub fn ranked(&self, base: &Knobs, group: &[String]) -> Vec<(Knobs, f64)> {
        let knobs: Vec<_> = self.sketch.knobs();
        let knobs: Vec<_> = knobs.iter().filter(|k| group.contains(&k.name)).collect();
        let count = knobs.iter().fold(1usize, |n, k| n.saturating_mul(k.values.len()));
        let stride = count.div_ceil(MOST_POINTS).max(1);
        let point = |mut index: usize| {
            let mut point = base.clone();
            for knob in knobs.iter().rev() {
                let digit = index % knob.values.len();
                index /= knob.values.len();
                point.extend(knob.values.get(digit).map(|v| (knob.name.clone(), *v)));
            }
            point
        };
        let points: Vec<usize> = (0..count).step_by(stride).collect();
        let costed = points.into_par_iter().filter_map(|index| {
            let point = point(index);
            let seconds = (point != *base).then(|| self.seconds(&point))??;
            Some((point, seconds))
        });
        let mut ranked: Vec<(Knobs, f64)> = costed.collect();
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
        ranked
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::source::KnobValue;

    const TWO: &str = "sketch two(x: f32[4096]) -> y: f32[4096]\nknob A in {64, 128, 4096}\nlet HALF = A // 2\nknob B in {32, \
                       4096}\nknob ONE in {1}\nknob C in {64, 8}\nrequire C <= B\nbuffer h: f32[4096]\n\nkernel k0 over (p in \
                       ceildiv(4096, HALF)) {\n  a = load x[p*HALF :+ HALF]\n  store h[p*HALF :+ HALF] = a\n}\n\nkernel k1 \
                       over (p in ceildiv(4096, B)) {\n  a = load h[p*B :+ B]\n  store y[p*B :+ B] = a\n}\n";

    #[test]
    fn knobs_of_one_kernel_or_requirement_are_tuned_together_and_the_cheapest_come_first() {
        let sketch = Sketch::parse(TWO).unwrap();
        let (hints, mut target) = (Bindings::new(), Target::new("cpu", "x86_64"));
        target.cores = 4;
        let space = Space {
            sketch: &sketch,
            hints: &hints,
            target: &target,
        };
        assert_eq!(
            space.groups(),
            [vec!["A".to_owned()], vec!["B".into(), "C".into()]]
        );
        let base = sketch.default_knobs();
        assert!(!space.contains(&base), "C > B");
        let mut base = base;
        base.insert("C".into(), KnobValue::Int(8));
        assert!(space.contains(&base));
        let of = |group: usize| space.ranked(&base, &space.groups()[group]);
        let values = |knob: &str, points: &[(Knobs, f64)]| -> Vec<KnobValue> {
            points.iter().map(|(k, _)| k[knob]).collect()
        };
        // One program of 4096 elements leaves three cores idle.
        let a = of(0);
        assert_eq!(values("A", &a).last(), Some(&KnobValue::Int(4096)));
        assert!(a.is_sorted_by(|a, b| a.1 <= b.1), "{a:?}");
        let b = of(1);
        assert_eq!(values("B", &b), [KnobValue::Int(4096); 2]);
        assert!(b.iter().all(|(k, _)| k["A"] == base["A"] && space.contains(k)));
    }
}
