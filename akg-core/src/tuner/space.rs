//! The configurations of a sketch.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use crate::expr::Bindings;
use crate::sketch::syntax::Item;
use crate::sketch::{Knob, Sketch, Warps, cost_with, knows_warps};
use crate::source::{KnobValue, Knobs, is_dsl_knob, sketch_knobs};
use crate::target::Target;

/// Configurations of a group that are looked at; of more, as many at equal distances.
const MOST_POINTS: usize = 1024;

/// The part of its time by which a configuration stands back for each better one that differs in nothing but hints.
const DOUBT: f64 = 0.01;

/// What a DSL calls its knob for the warps of a kernel's programs: `KERNEL.warps`.
pub const WARPS: &str = "warps";

/// The kernel whose warps a knob chooses.
fn kernel_with_warps(knob: &str) -> Option<&str> {
    let (kernel, name) = knob.split_once('.')?;
    (name == WARPS).then_some(kernel)
}

/// The configurations of a sketch on a device.
#[derive(Debug, Clone, Copy)]
pub struct Space<'a> {
    /// The sketch.
    pub sketch: &'a Sketch,
    /// The DSL's own knobs for it. A configuration that lacks one has its first value.
    pub own: &'a [Knob],
    /// Values of its symbols.
    pub hints: &'a Bindings,
    /// The device.
    pub target: &'a Target,
}

impl Space<'_> {
    /// Whether a configuration is complete and legal.
    pub fn contains(&self, knobs: &Knobs) -> bool {
        let declared = self.sketch.knobs();
        let complete = declared.iter().all(|k| knobs.contains_key(&k.name));
        let legal = |(name, value): (&String, &KnobValue)| {
            let mut all = declared.iter().chain(self.own);
            all.any(|k| k.name == *name && k.values.contains(value))
        };
        complete && knobs.iter().all(legal) && self.seconds(knobs).is_some()
    }

    /// The time that the cost model gives a configuration; `None` if it is illegal. Of the DSL's own knobs it knows the
    /// [`WARPS`] of kernels that multiply.
    pub fn seconds(&self, knobs: &Knobs) -> Option<f64> {
        let program = self.sketch.elaborate(&sketch_knobs(knobs), self.hints).ok()?;
        let warps = knobs.iter().filter_map(|(name, value)| match value {
            KnobValue::Int(warps) if *warps > 0 => Some((kernel_with_warps(name)?.to_owned(), *warps as u32)),
            _ => None,
        });
        let warps: Warps = warps.collect();
        Some(cost_with(&program, self.hints, self.target, &warps).ok()?.seconds)
    }

    /// Knobs that belong together, because a kernel, a buffer or a requirement has them both. What is no knob in several
    /// kernels is in none of these groups. The DSL's own come last, in a group for each kernel, except those that the cost
    /// model knows, which belong to the knobs of their kernel.
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
        let costed = self.costed();
        together.extend(tree.kernels.iter().map(|k| {
            let own = costed
                .iter()
                .filter(|n| kernel_with_warps(n) == Some(&k.node.name.node));
            let mut knobs = knobs_in(&behind, &k.node.to_string());
            knobs.extend(own.cloned());
            knobs
        }));
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
                .chain(self.own)
                .filter(|k| group.contains(&k.name) && k.values.len() > 1);
            names.map(|k| k.name.clone()).collect()
        };
        let groups = groups.into_iter().map(in_order);
        groups
            .filter(|g| !g.is_empty())
            .chain(self.own_groups(&costed))
            .collect()
    }

    /// Those of the DSL's own knobs that the cost model knows.
    fn costed(&self) -> BTreeSet<String> {
        let point = self.sketch.legal_points(self.hints).next().unwrap_or_default();
        let Ok(program) = self.sketch.elaborate(&point, self.hints) else {
            return BTreeSet::new();
        };
        let known = program.kernels.iter().filter(|k| knows_warps(k, self.target));
        let known: BTreeSet<&str> = known.map(|k| k.name.as_str()).collect();
        let is_costed = |k: &&Knob| kernel_with_warps(&k.name).is_some_and(|kernel| known.contains(kernel));
        self.own
            .iter()
            .filter(is_costed)
            .map(|k| k.name.clone())
            .collect()
    }

    /// The DSL's own knobs but these, by what stands before the `.` in their names.
    fn own_groups(&self, others: &BTreeSet<String>) -> Vec<Vec<String>> {
        let kernel = |name: &str| name.split_once('.').map(|(kernel, _)| kernel.to_owned());
        let mut groups: Vec<Vec<String>> = Vec::new();
        let own = self.own.iter().filter(|k| k.values.len() > 1);
        for knob in own.filter(|k| !others.contains(&k.name)) {
            match groups.last_mut() {
                Some(group) if group.first().map(|n| kernel(n)) == Some(kernel(&knob.name)) => {
                    group.push(knob.name.clone());
                }
                _ => groups.push(vec![knob.name.clone()]),
            }
        }
        groups
    }

    /// The legal configurations that differ from `base` in `group` alone, those that the cost model likes best first,
    /// with their times; of equal ones, those with fewer of the DSL's own choices and those with earlier values first.
    /// Configurations that differ in nothing but hints stand back a little behind the best of them, because the model can
    /// be wrong about all of them together.
    pub fn ranked(&self, base: &Knobs, group: &[String]) -> Vec<(Knobs, f64)> {
        let mut knobs: Vec<Knob> = self.sketch.knobs();
        knobs.extend(self.own.iter().cloned());
        knobs.retain(|k| group.contains(&k.name));
        let is_costed = knobs.iter().any(|k| !is_dsl_knob(&k.name));
        for own in knobs.iter_mut().filter(|k| is_costed && is_dsl_knob(&k.name)) {
            // To leave the choice to the lowering is no choice that the model knows.
            own.values.remove(0);
        }
        let count = knobs.iter().fold(1usize, |n, k| n.saturating_mul(k.values.len()));
        let stride = count.div_ceil(MOST_POINTS).max(1);
        let point = |mut index: usize| {
            let mut point = base.clone();
            for knob in knobs.iter().rev() {
                let digit = index % knob.values.len();
                index /= knob.values.len();
                if digit == 0 && !is_costed && is_dsl_knob(&knob.name) {
                    point.remove(&knob.name);
                } else {
                    point.extend(knob.values.get(digit).map(|v| (knob.name.clone(), *v)));
                }
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
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.len().cmp(&b.0.len())));
        let tiles: Vec<&str> = knobs
            .iter()
            .filter(|k| !k.hint)
            .map(|k| k.name.as_str())
            .collect();
        let mut alike: BTreeMap<Vec<KnobValue>, u32> = BTreeMap::new();
        let mut behind: Vec<(f64, (Knobs, f64))> = Vec::with_capacity(ranked.len());
        for (point, seconds) in ranked {
            let tiles = tiles.iter().filter_map(|name| point.get(*name).copied());
            let before = alike.entry(tiles.collect()).or_insert(0);
            behind.push((seconds * (1.0 + DOUBT * f64::from(*before)), (point, seconds)));
            *before += 1;
        }
        behind.sort_by(|a, b| a.0.total_cmp(&b.0));
        behind.into_iter().map(|(_, ranked)| ranked).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::target::Residency;

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
            own: &[],
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

    #[test]
    fn choices_of_the_dsl_come_last_and_one_at_a_time_first() {
        let sketch = Sketch::parse(TWO).unwrap();
        let (hints, target) = (Bindings::new(), Target::new("cpu", "x86_64"));
        let knob = |name: &str, values: &[i64]| Knob {
            name: name.to_owned(),
            values: values.iter().map(|v| KnobValue::Int(*v)).collect(),
            hint: true,
        };
        let own = [
            knob("k0.warps", &[0, 4, 8]),
            knob("k0.stages", &[0, 2]),
            knob("k1.warps", &[0, 4]),
        ];
        let space = Space {
            sketch: &sketch,
            own: &own,
            hints: &hints,
            target: &target,
        };
        let groups = space.groups();
        assert_eq!(
            groups[2..],
            [
                vec!["k0.warps".to_owned(), "k0.stages".into()],
                vec!["k1.warps".into()]
            ]
        );
        let mut base = sketch.default_knobs();
        base.insert("C".into(), KnobValue::Int(8));
        let ranked = space.ranked(&base, &groups[2]);
        let choices: Vec<Vec<&str>> = ranked
            .iter()
            .map(|(k, _)| k.keys().filter(|n| is_dsl_knob(n)).map(String::as_str).collect())
            .collect();
        let (one, both) = (vec!["k0.warps"], vec!["k0.stages", "k0.warps"]);
        assert_eq!(choices, [vec!["k0.stages"], one.clone(), one, both.clone(), both]);
        assert!(ranked.iter().all(|(k, _)| space.contains(k)));
        base.insert("k0.warps".into(), KnobValue::Int(3));
        assert!(!space.contains(&base), "no program has 3 warps");
    }

    const PRODUCT: &str = "sketch product(x: f16[512, 512], w: f16[512, 512]) -> y: f32[512, 512]\nknob BM in {64, 128}\nhint \
                           STAGES in {2, 3}\nbuffer h: f16[512, 512]\n\nkernel copy over (p in 512) {\n  store h[p, 0 :+ 512] = load \
                           x[p, 0 :+ 512]\n}\n\nkernel main over (p in ceildiv(512, BM), q in 4) {\n  sum = zeros f32[BM, 128]\n  for \
                           r in 0..512 step 64 pipeline(STAGES) {\n    a = load h[p*BM :+ BM, r :+ 64]\n    b = load w[r :+ 64, \
                           q*128 :+ 128]\n    sum = dot(a, b, sum) f16\n  }\n  store y[p*BM :+ BM, q*128 :+ 128] = sum\n}\n";

    #[test]
    fn warps_of_what_multiplies_on_a_gpu_belong_to_its_tiles() {
        let sketch = Sketch::parse(PRODUCT).unwrap();
        let (hints, mut target) = (Bindings::new(), Target::new("cuda", "sm_90a"));
        let knob = |name: &str, values: &[i64]| Knob {
            name: name.to_owned(),
            values: values.iter().map(|v| KnobValue::Int(*v)).collect(),
            hint: true,
        };
        let own = [
            knob("copy.warps", &[0, 4]),
            knob("main.warps", &[0, 1, 4, 8]),
            knob("main.stages", &[0, 2]),
        ];
        let groups = |target: &Target| {
            let (sketch, own, hints) = (&sketch, &own[..], &hints);
            let space = Space {
                sketch,
                own,
                hints,
                target,
            };
            let groups = space.groups();
            let first = space.ranked(&sketch.default_knobs(), &groups[0]);
            (groups.iter().map(|g| g.join(" ")).collect::<Vec<_>>(), first)
        };
        // Nothing is known of the device's cores.
        assert_eq!(
            groups(&target).0,
            ["BM STAGES", "copy.warps", "main.warps main.stages"]
        );
        (target.cores, target.threads, target.clock) = (100, 2048, 1e9);
        target.residency = Some(Residency {
            programs: 32,
            threads_of_program: 1024,
            registers: 65536,
            tile_bytes: 228 << 10,
            reserved_bytes: 1024,
        });
        let (names, ranked) = groups(&target);
        assert_eq!(names, ["BM STAGES main.warps", "copy.warps", "main.stages"]);
        assert_eq!(ranked.len(), 2 * 2 * 3);
        // 512 sums do not fit the registers of a thread.
        let last = &ranked.last().unwrap().0;
        assert_eq!(
            (last["BM"], last["main.warps"]),
            (KnobValue::Int(128), KnobValue::Int(1))
        );
    }
}
