//! What a stored kernel takes on another task than its own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use akg::cpp::CppDsl;
use akg::designer::Design;
use akg::expr::Bindings;
use akg::session::present;
use akg::sketch::cost;
use akg::source::{Knobs, SourceForm};
use akg::timing::ContestPolicy;
use akg::{Dsl as _, Error, Result, Session, Target, Task, blocking};

/// Says what kernels take.
pub(super) trait Times {
    /// How, for people.
    fn name(&self) -> &str;

    /// Seconds of a design's kernel on a task with the same graph at another size; `None` if it is none of the task.
    fn seconds(&self, design: &Design, task: &Task, target: &Target) -> Result<Option<f64>>;
}

/// The cost model.
pub(super) struct Model;

impl Times for Model {
    fn name(&self) -> &str {
        "of the cost model"
    }

    fn seconds(&self, design: &Design, task: &Task, target: &Target) -> Result<Option<f64>> {
        Ok(model(design, &design.knobs, task, target))
    }
}

/// What the cost model expects of a configuration at a task's size.
pub(super) fn model(design: &Design, knobs: &Knobs, task: &Task, target: &Target) -> Option<f64> {
    let program = design.sketch.elaborate(knobs, &Bindings::new()).ok()?;
    Some(cost(&program, &task.contract.hints, target).ok()?.seconds)
}

/// The CPU itself, by way of C++: kernels are judged and then timed.
pub(super) struct Stopwatch {
    session: Session,
    target: Target,
    /// What was measured, by the task's hints and the source: several stored kernels become the same one.
    known: RefCell<HashMap<String, Option<f64>>>,
}

impl Stopwatch {
    pub(super) fn new(target: &Target) -> Result<Self> {
        let mut policy = ContestPolicy::default();
        policy.budget = Duration::from_secs(2);
        policy.patience = Duration::ZERO;
        let registry = akg::registry();
        let session = Session::new(registry.dsl("cpp")?, registry.backend("cpu")?);
        Ok(Self {
            session: session.with_timing(Some(policy)),
            target: target.clone(),
            known: RefCell::default(),
        })
    }
}

impl Times for Stopwatch {
    fn name(&self) -> &str {
        "measured"
    }

    fn seconds(&self, design: &Design, task: &Task, _: &Target) -> Result<Option<f64>> {
        let mut source = CppDsl::default().lower(&design.sketch, &design.knobs, &self.target)?;
        if let SourceForm::Lowered { plan } = &mut source.form
            && present(plan, task, design).is_err()
        {
            return Ok(None);
        }
        let key = format!("{} {:?} {}", task.name, task.contract.hints, source.text);
        if let Some(known) = self.known.borrow().get(&key) {
            return Ok(*known);
        }
        let (attempt, _) = blocking::judge(&self.session, source, task)?;
        let timing = attempt.timing.filter(|_| attempt.verdict.passed());
        let seconds = timing.and_then(|contest| contest.candidate()?.warm.median());
        self.known.borrow_mut().insert(key, seconds);
        Ok(seconds)
    }
}

/// This machine's CPU.
pub(super) fn this_machine() -> Result<Target> {
    let devices = blocking::devices(&*akg::registry().backend("cpu")?)?;
    let none = || Error::unexpected("the CPU is no device");
    devices.into_iter().next().ok_or_else(none)
}
