//! The candidates of a task: every structure that the rules and crossover know, at every value of its knobs.

use std::collections::BTreeSet;

use akg::agent::Agent as _;
use akg::designer::{DesignContext, FailedDesign, RuleDesigner};
use akg::diagnostic::Severity;
use akg::expr::Bindings;
use akg::search::{Features, crossings, fingerprint};
use akg::sketch::syntax::{Ex, Expression, Item, Spanned};
use akg::sketch::{self, ir};
use akg::source::{KnobValue, Knobs};
use akg::task::Accuracy;
use akg::verdict::{Failure, FailureKind};
use akg::{ErrorKind, Result, Sketch, Target, Task};
use futures::executor::block_on;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// Structures of a task at most.
const MOST_STRUCTURES: usize = 16;
/// Values of a knob at most.
const MOST_VALUES: usize = 6;
/// Designs that lose less than the fastest, for each class.
const CARE: usize = 2;

/// A structure: a sketch whose knobs have all values that are tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Structure {
    /// Who made it.
    pub(super) origin: String,
    pub(super) sketch: String,
    /// The knobs that are varied, with their values, that of the designer first.
    pub(super) knobs: Vec<(String, Vec<i64>)>,
    /// [`Features::family`] and [`Features::precision`], which its knobs do not change.
    pub(super) family: String,
    pub(super) precision: String,
}

impl Structure {
    /// How many points it has.
    pub(super) fn count(&self) -> usize {
        self.knobs.iter().map(|(_, values)| values.len()).product()
    }

    /// The places of values at a point, the last knob fastest.
    pub(super) fn digits(&self, mut point: usize) -> Vec<usize> {
        let mut digits: Vec<usize> = Vec::new();
        for (_, values) in self.knobs.iter().rev() {
            digits.push(point % values.len());
            point /= values.len();
        }
        digits.reverse();
        digits
    }

    /// The values of its knobs at such places.
    pub(super) fn values(&self, digits: &[usize]) -> Knobs {
        let pairs = self.knobs.iter().zip(digits);
        let value = |(knob, at): (&(String, Vec<i64>), &usize)| {
            let value = knob.1.get(*at)?;
            Some((knob.0.clone(), KnobValue::Int(*value)))
        };
        pairs.filter_map(value).collect()
    }
}

/// The structures of a task for `target`, with so many points together at most.
pub(super) fn structures(task: &Task, target: &Target, most: usize) -> Result<Vec<Structure>> {
    let designs = designs(task, target)?;
    let hints = Bindings::new();
    let mut found: Vec<(String, Sketch)> = Vec::new();
    let add = |found: &mut Vec<(String, Sketch)>, origin: String, sketch: Sketch| {
        let known = found
            .iter()
            .any(|(_, other)| fingerprint::of_sketch(other) == fingerprint::of_sketch(&sketch));
        if !known
            && found.len() < MOST_STRUCTURES
            && program(&sketch, &sketch.default_knobs(), target).is_some()
        {
            found.push((origin, sketch));
        }
    };
    for (origin, sketch) in &designs {
        add(&mut found, origin.clone(), sketch.clone());
    }
    let all = || designs.iter();
    let mut pairs: Vec<_> = all()
        .flat_map(|first| all().map(move |second| (first, second)))
        .collect();
    pairs.shuffle(&mut ChaCha8Rng::seed_from_u64(1));
    for ((a, first), (b, second)) in pairs {
        if found.len() >= MOST_STRUCTURES {
            break;
        }
        let [own, others] = [first, second].map(Sketch::default_knobs);
        for crossed in crossings((first, &own), (second, &others), &hints, target) {
            add(&mut found, format!("{a} with {b}"), crossed.sketch);
        }
    }
    let mut structures: Vec<Structure> = found
        .into_iter()
        .filter_map(|(origin, sketch)| widened(origin, &sketch, target))
        .collect();
    // The largest lose their most unusual values until all together are few enough.
    while structures.iter().map(Structure::count).sum::<usize>() > most {
        let Some(largest) = structures.iter_mut().max_by_key(|s| s.count()) else {
            break;
        };
        match largest
            .knobs
            .iter_mut()
            .rev()
            .max_by_key(|(_, values)| values.len())
        {
            Some((_, values)) if values.len() > 1 => values.truncate(values.len() - 1),
            _ => break,
        }
    }
    Ok(structures)
}

/// The designs of the rules: for this device and for others, in the task's class and stricter ones, with more care, and one in
/// the class that is next, which may be too rough.
fn designs(task: &Task, target: &Target) -> Result<Vec<(String, Sketch)>> {
    let mut narrow = target.clone();
    (narrow.tile_bytes, narrow.vector_bytes, narrow.cores) = (target.tile_bytes / 16, 16, 4);
    let mut threads = target.clone();
    (threads.cores, threads.threads, threads.tile_bytes) = (16, 2048, 160 << 10);
    let plain = threads.peak.get(&akg::DType::F32).copied().unwrap_or(1e11);
    threads.peak.insert(akg::DType::F16, 16.0 * plain);
    threads.peak.insert(akg::DType::BF16, 16.0 * plain);
    let rougher = Accuracy::ALL
        .into_iter()
        .find(|class| *class > task.contract.accuracy);
    let mut found = Vec::new();
    for (name, device) in [("here", target), ("narrow", &narrow), ("threads", &threads)] {
        let task_class = task.contract.accuracy;
        for accuracy in Accuracy::ALL {
            let mut task = task.clone();
            task.contract.accuracy = accuracy;
            let mut context = DesignContext::new(task, device.clone());
            let is_rough = accuracy > task_class;
            if is_rough && (Some(accuracy) != rougher || name != "threads") {
                continue;
            }
            for care in 0..if is_rough { 1 } else { CARE } {
                let design = match block_on(RuleDesigner.step(&context)) {
                    Ok(design) => design,
                    Err(error) if error.kind() == ErrorKind::Unsupported => break,
                    Err(error) => return Err(error),
                };
                context.failed.push(FailedDesign {
                    sketch: design.sketch.clone(),
                    knobs: design.knobs,
                    failure: Failure::new(FailureKind::WrongValues, "more care, please"),
                });
                found.push((format!("{name} {accuracy} {care}"), design.sketch));
            }
        }
    }
    Ok(found)
}

/// A sketch's program, if it is right and its programs do not wait for each other.
pub(super) fn program(sketch: &Sketch, knobs: &Knobs, target: &Target) -> Option<ir::Program> {
    let program = sketch.elaborate(knobs, &Bindings::new()).ok()?;
    let found = sketch::validate(&program, Some(target));
    let is_right = !found.iter().any(|finding| finding.severity == Severity::Error);
    let is_plain = program.kernels.iter().all(|kernel| kernel.cooperative.is_none());
    (is_right && is_plain).then_some(program)
}

/// The sketch with more values for its tiles: knobs, and definitions that are numbers. A value is one more if the sketch is
/// right with it where all other knobs have their first values.
fn widened(origin: String, sketch: &Sketch, target: &Target) -> Option<Structure> {
    let mut tree = sketch.tree().clone();
    let mut knobs: Vec<(String, Vec<i64>)> = Vec::new();
    for item in &mut tree.items {
        let (name, first) = match &item.node {
            Item::Knob {
                name,
                values,
                hint: false,
            } => (name, values.first()),
            Item::Let { name, value } => (name, Some(value)),
            _ => continue,
        };
        let Some(Expression::Int(first)) = first.map(|first| &*first.node) else {
            continue;
        };
        let (name, values) = (name.clone(), ladder(*first));
        knobs.push((name.node.clone(), values.clone()));
        let values = values
            .into_iter()
            .map(|value| Ex::new(Box::new(Expression::Int(value)), 0..0));
        item.node = Item::Knob {
            name,
            values: values.collect(),
            hint: false,
        };
    }
    let open = Sketch::from(tree.clone());
    let defaults = open.default_knobs();
    for (name, values) in &mut knobs {
        let is_right = |value: &i64| {
            let mut point = defaults.clone();
            point.insert(name.clone(), KnobValue::Int(*value));
            program(&open, &point, target).is_some()
        };
        values.retain(is_right);
        values.truncate(MOST_VALUES);
    }
    let varied: BTreeSet<String> = knobs
        .iter()
        .filter(|k| k.1.len() > 1)
        .map(|k| k.0.clone())
        .collect();
    // What has one value is a definition again.
    for item in &mut tree.items {
        if let Item::Knob {
            name,
            values,
            hint: false,
        } = &item.node
            && !varied.contains(&name.node)
            && let Some(value) = values.first()
        {
            *item = Spanned::new(
                Item::Let {
                    name: name.clone(),
                    value: value.clone(),
                },
                0..0,
            );
        }
    }
    let sketch = Sketch::from(tree);
    let features = Features::of(&program(&sketch, &sketch.default_knobs(), target)?);
    knobs.retain(|knob| varied.contains(&knob.0));
    Some(Structure {
        origin,
        sketch: sketch.to_string(),
        knobs,
        family: features.family,
        precision: features.precision,
    })
}

/// A size, and then powers of two, the nearest first.
fn ladder(size: i64) -> Vec<i64> {
    let distance = |value: i64| ((value as f64).log2() - (size.max(1) as f64).log2()).abs();
    let mut powers: Vec<i64> = (0..10)
        .map(|power| 1 << power)
        .filter(|value| *value != size)
        .collect();
    powers.sort_by(|a, b| distance(*a).total_cmp(&distance(*b)));
    powers.insert(0, size);
    powers
}
