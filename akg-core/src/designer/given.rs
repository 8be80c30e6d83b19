//! The designer that has a sketch already.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::text::signature;
use super::{Design, DesignContext, Designer, KernelSummary};
use crate::agent::Agent;
use crate::diagnostic::Diagnostics;
use crate::error::{Error, Result};
use crate::expr::Bindings;
use crate::sketch::ir::Program;
use crate::sketch::{Sketch, cost, validate};
use crate::source::Knobs;

/// Legal knob values among which the target's are chosen.
const MOST_POINTS: usize = 64;

/// The designer that has a sketch already: what a sketch means does not depend on the language that it is lowered to, nor on the
/// device.
///
/// Of the legal values of its knobs, it chooses those that the validator has nothing against on the target, and of these the ones that
/// the cost model expects to be fastest there.
#[derive(Debug, Clone)]
pub struct SketchDesigner {
    sketch: Sketch,
}

impl SketchDesigner {
    /// The designer of this sketch.
    pub fn new(sketch: Sketch) -> Self {
        Self { sketch }
    }

    /// The design for a context's task and target.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a sketch that is not one of the task, or is wrong whatever its knobs are;
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if no knob values suit the target.
    pub fn design(&self, context: &DesignContext) -> Result<Design> {
        let sketch = &self.sketch;
        let mut refused = None;
        let mut best: Option<(f64, Knobs, Program)> = None;
        for knobs in self.points(context) {
            let program = match sketch.elaborate(&knobs, &Bindings::new()) {
                Ok(program) => program,
                Err(found) => {
                    refused.get_or_insert(found);
                    continue;
                }
            };
            if let Some(wrong) = signature(&program, context) {
                return Err(Error::invalid(format!(
                    "the sketch is not one of the task: {wrong}"
                )));
            }
            let found = validate(&program, Some(&context.target));
            if found.has_errors() {
                refused.get_or_insert(found);
                continue;
            }
            // Where rates are unknown, the first values are as good as any.
            let hints = &context.task.contract.hints;
            let seconds = cost(&program, hints, &context.target).map_or(f64::INFINITY, |cost| cost.seconds);
            if best.as_ref().is_none_or(|(least, ..)| seconds < *least) {
                best = Some((seconds, knobs, program));
            }
        }
        let Some((_, knobs, program)) = best else {
            return Err(self.unsuitable(context, &refused.unwrap_or_default()));
        };
        let kernels = program.kernels.iter().map(|kernel| KernelSummary {
            name: kernel.name.clone(),
            rule: String::new(),
            operators: Vec::new(),
        });
        Ok(Design {
            kernels: kernels.collect(),
            knobs,
            intermediates: BTreeMap::new(),
            rules: Vec::new(),
            sketch: sketch.clone(),
        })
    }

    /// Values to choose from, the defaults first.
    fn points(&self, context: &DesignContext) -> Vec<Knobs> {
        let mut points = vec![self.sketch.default_knobs()];
        let legal = self.sketch.legal_points(&context.task.contract.hints);
        points.extend(
            legal
                .take(MOST_POINTS)
                .filter(|point| *point != self.sketch.default_knobs()),
        );
        points
    }

    fn unsuitable(&self, context: &DesignContext, found: &Diagnostics) -> Error {
        let target = &context.target.name;
        Error::unsupported(format!(
            "no values of the sketch's knobs suit {target}; give its knobs other values\n{}",
            found.render(&self.sketch.to_string()).trim_end()
        ))
    }
}

#[async_trait]
impl Agent<Designer> for SketchDesigner {
    fn name(&self) -> &str {
        "sketch"
    }

    /// # Errors
    /// Those of [`design`](SketchDesigner::design), and [`Unsupported`](crate::ErrorKind::Unsupported) once it has failed: there is no
    /// other.
    async fn step(&self, context: &DesignContext) -> Result<Design> {
        if context.has_failed(&self.sketch) {
            return Err(Error::unsupported("the sketch failed, and there is no other"));
        }
        self.design(context)
    }
}
