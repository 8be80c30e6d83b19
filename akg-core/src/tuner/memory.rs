//! What earlier tuning found.

use std::collections::HashMap;

use crate::digest::Digest;
use crate::error::Result;
use crate::sketch::Sketch;
use crate::source::Knobs;
use crate::store::{Store, StoreExt as _, TuningRecord, now};
use crate::target::Target;
use crate::task::Task;
use crate::verdict::Failure;

/// What a kernel is, whatever its extents: the hash of the sketch's text without its name and without numbers.
pub fn kernel_of(sketch: &Sketch) -> Digest {
    let mut tree = sketch.tree().clone();
    tree.name.node.clear();
    tree.doc.clear();
    let mut skeleton = String::new();
    let mut before = ' ';
    for c in tree.to_string().chars() {
        let in_name = before.is_ascii_alphanumeric() || before == '_';
        let shown = if c.is_ascii_digit() && !in_name { '#' } else { c };
        if shown != '#' || before != '#' {
            skeleton.push(shown);
        }
        before = shown;
    }
    Digest::of(skeleton.as_bytes())
}

/// The extents of a task's inputs and outputs at its hints.
pub fn shape_of(task: &Task) -> Result<Vec<Vec<i64>>> {
    let graph = &task.graph;
    graph
        .ports()
        .map(|value| {
            let shape = graph.ty(value).concrete_shape(&task.contract.hints)?;
            Ok(shape.into_iter().map(|n| n as i64).collect())
        })
        .collect()
}

/// How far apart shapes are: the sum of the logarithms of the ratios of their extents. `None` if they cannot be compared.
fn distance(a: &[Vec<i64>], b: &[Vec<i64>]) -> Option<f64> {
    let alike = a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.len() == b.len());
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    let octaves = |(a, b): (&i64, &i64)| ((*a).max(1) as f64 / (*b).max(1) as f64).log2().abs();
    alike.then(|| pairs.map(octaves).sum())
}

/// Records of one kernel on one device, seen from one shape.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    /// What is to be tuned, as a record without a configuration.
    blank: TuningRecord,
    /// Configurations with the same key but for the knobs.
    same: HashMap<Knobs, TuningRecord>,
    /// Chosen configurations of other shapes or toolchains, nearest first.
    near: Vec<Knobs>,
}

impl Memory {
    /// What `store` has about a sketch for a task.
    pub(crate) fn recall(
        store: &dyn Store,
        task: &Task,
        sketch: &Sketch,
        target: &Target,
        (dsl, toolchain): (&str, &str),
    ) -> Result<Self> {
        let blank = TuningRecord {
            kernel: kernel_of(sketch),
            name: task.name.clone(),
            shape: shape_of(task)?,
            knobs: Knobs::new(),
            device: target.fingerprint(),
            device_name: target.name.clone(),
            dsl: dsl.to_owned(),
            toolchain: toolchain.to_owned(),
            accuracy: task.contract.accuracy,
            source: Digest::of(b""),
            failure: None,
            seconds: Vec::new(),
            challenged_seconds: Vec::new(),
            relative: None,
            faster: false,
            chosen: false,
            ended_by: None,
            disturbed: false,
            at: 0,
        };
        let (mut same, mut near) = (HashMap::new(), Vec::new());
        let of_device =
            |r: &TuningRecord| r.device == blank.device && r.dsl == blank.dsl && r.accuracy == blank.accuracy;
        let records = store.all::<TuningRecord>(Some(blank.kernel))?;
        for record in records.into_iter().filter(of_device) {
            if record.shape == blank.shape && record.toolchain == blank.toolchain {
                same.insert(record.knobs.clone(), record);
            } else if record.chosen
                && let Some(distance) = distance(&record.shape, &blank.shape)
            {
                near.push((distance, record.at, record.knobs));
            }
        }
        // The nearest shape, then the latest record.
        near.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let near = near.into_iter().map(|(_, _, knobs)| knobs).collect();
        Ok(Self { blank, same, near })
    }

    /// The configuration that earlier tuning ended with, the latest if there are several.
    pub(crate) fn chosen(&self) -> Option<&TuningRecord> {
        let chosen = self.same.values().filter(|r| r.chosen && r.failure.is_none());
        chosen.max_by(|a, b| a.at.cmp(&b.at).then_with(|| b.knobs.cmp(&a.knobs)))
    }

    /// What is known of a configuration whose source has this hash.
    pub(crate) fn of(&self, knobs: &Knobs, source: Digest) -> Option<&TuningRecord> {
        self.same.get(knobs).filter(|r| r.source == source)
    }

    /// Configurations that were chosen for other shapes or by other toolchains, nearest first.
    pub(crate) fn near(&self) -> &[Knobs] {
        &self.near
    }

    /// Keeps a record.
    pub(crate) fn keep(&mut self, store: &dyn Store, record: TuningRecord) -> Result<()> {
        store.save(&record)?;
        self.same.insert(record.knobs.clone(), record);
        Ok(())
    }

    /// Keeps that a configuration failed, if anything is recorded of it.
    pub(crate) fn fail(&mut self, store: &dyn Store, knobs: &Knobs, failure: &Failure) -> Result<()> {
        let Some(mut record) = self.same.get(knobs).cloned() else {
            return Ok(());
        };
        record.failure = Some(failure.clone());
        record.chosen = false;
        self.keep(store, record)
    }

    /// Keeps that tuning ended with a configuration: its time over that of the first, and how it ended.
    pub(crate) fn choose(
        &mut self,
        store: &dyn Store,
        (knobs, source): (&Knobs, Digest),
        relative: f64,
        ending: Ending,
    ) -> Result<()> {
        let known = self.of(knobs, source).cloned();
        let mut record = known.unwrap_or_else(|| self.record(knobs, source));
        record.relative = Some(relative);
        record.chosen = true;
        record.ended_by = ending.budget;
        record.disturbed = ending.disturbed;
        record.at = now();
        self.keep(store, record)
    }

    /// An empty record of a configuration.
    pub(crate) fn record(&self, knobs: &Knobs, source: Digest) -> TuningRecord {
        TuningRecord {
            knobs: knobs.clone(),
            source,
            at: now(),
            ..self.blank.clone()
        }
    }
}

/// How tuning ended.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ending {
    /// The seconds that ended it; `None` if it ended by itself.
    pub(crate) budget: Option<f64>,
    /// Whether all duels were disturbed, which proves nothing.
    pub(crate) disturbed: bool,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn kernel(text: &str) -> Digest {
        kernel_of(&Sketch::parse(text).unwrap())
    }

    #[test]
    fn extents_and_names_of_sketches_do_not_make_other_kernels() {
        let text = "sketch double(x: f32[1000]) -> y: f32[1000]\nknob B in {64, 128}\n\nkernel k0 over (p0 in \
                    ceildiv(1000, B)) {\n  x1 = load x[p0*B :+ B]\n  y2 = x1 * 2.0\n  store y[p0*B :+ B] = y2\n}\n";
        let same = [
            text.replace("1000", "77"),
            text.replace("double", "two"),
            text.replace("{64, 128}", "{8, 4}"),
        ];
        for other in same {
            assert_eq!(kernel(text), kernel(&other), "{other}");
        }
        let others = [
            text.replace("f32", "f16"),
            text.replace("x1 * 2.0", "x1 + 2.0"),
            text.replace("{64, 128}", "{8, 4, 2}"),
            text.replace("y2", "y3"),
        ];
        for other in others {
            assert_ne!(kernel(text), kernel(&other), "{other}");
        }
    }

    #[test]
    fn distance_counts_octaves() {
        assert_eq!(distance(&[vec![64, 3]], &[vec![16, 6]]), Some(3.0));
        assert_eq!(distance(&[vec![64]], &[vec![64], vec![1]]), None);
        assert_eq!(distance(&[vec![64]], &[vec![64, 1]]), None);
    }
}
