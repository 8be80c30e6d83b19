//! What every DSL must do.

use crate::backend::{Backend, BackendExt as _, Limits, Poison, RunRequest};
use crate::dsl::{Dsl, Severity, Stage};
use crate::error::{ErrorKind, Result};
use crate::expr::Bindings;
use crate::source::{Artifact, KnobValue, Source, SourceForm};
use crate::target::Target;
use crate::verdict::Failure;

use super::cases::{SketchCase, sketch_cases};
use super::report::{Report, Tried, broken, demand, skipped};

/// Text that no language takes for a kernel.
const NONSENSE: &str = "\n}} this is no kernel ((\n";

/// Judges a DSL: sketches that it lowers compute the right thing on `backend`'s device `target`, and what is wrong is
/// said in the way that callers expect.
///
/// A sketch that the DSL cannot lower must give [`ErrorKind::Unsupported`] and counts as skipped; if it lowers none, the
/// report says so as a broken rule. Takes as long as about a hundred builds.
pub async fn dsl(dsl: &dyn Dsl, backend: &dyn Backend, target: &Target) -> Report {
    let judge = Judge { dsl, backend, target };
    let mut report = Report::new(format!("DSL `{}` on backend `{}`", dsl.name(), backend.name()));
    report.add("its capability fits the backend", judge.capability());
    report.add("it guides every stage", judge.guides());
    report.add("text without launch data is refused", judge.text_without_plan());
    let cases = match sketch_cases() {
        Ok(cases) => cases,
        Err(error) => {
            report.add("the example sketches are read", Err(error.into()));
            return report;
        }
    };
    let example = judge.sketches(&cases, &mut report).await;
    let Some((case, source)) = example else {
        report.add("a sketch is lowered", judge.lowers_none());
        return report;
    };
    report.add(
        "lowering is repeatable and records what it was given",
        judge.repeatable(case, &source),
    );
    report.add("an unknown knob is refused", judge.unknown_knob(case));
    report.add("a right source passes the check", judge.check_right(&source));
    report.add(
        "the check finds what is wrong, and where",
        judge.check_wrong(&source),
    );
    report.add(
        "a source that cannot be built is a failure",
        judge.build_wrong(&source),
    );
    report.add(
        "a launch without a kernel is a failure",
        judge.missing_kernel(case, &source).await,
    );
    report.add("an exported stub is read back", judge.stub(&source));
    report.add(
        "it exports the forms that it names, and no others",
        judge.exports(&source),
    );
    report
}

struct Judge<'a> {
    dsl: &'a dyn Dsl,
    backend: &'a dyn Backend,
    target: &'a Target,
}

impl Judge<'_> {
    fn capability(&self) -> Tried {
        let (mine, other) = (self.dsl.capability(), self.backend.capability());
        demand(!self.dsl.name().is_empty(), || {
            "the DSL's name is empty".to_owned()
        })?;
        demand(mine.backends.iter().any(|b| b == self.backend.name()), || {
            format!(
                "it writes for {:?}, not for `{}`",
                mine.backends,
                self.backend.name()
            )
        })?;
        demand(mine.formats.iter().any(|f| other.formats.contains(f)), || {
            format!(
                "it builds {:?}, but the backend loads {:?}",
                mine.formats, other.formats
            )
        })
    }

    fn guides(&self) -> Tried {
        for stage in [Stage::Write, Stage::Fix, Stage::Optimise] {
            let guide = self.dsl.guide(stage, self.target);
            demand(!guide.trim().is_empty(), || {
                format!("there is no guide for {stage:?}")
            })?;
        }
        Ok(())
    }

    fn text_without_plan(&self) -> Tried {
        for text in ["", NONSENSE] {
            if self.dsl.parse(text).is_ok() {
                return broken(format!("`parse` makes a source of {text:?}"));
            }
        }
        Ok(())
    }

    /// Tries every case with its open extents as symbols, and the first knob point of each shape with all extents fixed.
    /// Gives the first source that ran.
    async fn sketches<'c>(
        &self,
        cases: &'c [SketchCase],
        report: &mut Report,
    ) -> Option<(&'c SketchCase, Source)> {
        let mut example = None;
        let mut built: Option<(Source, Artifact)> = None;
        let mut fixed_shape = None;
        for case in cases {
            let shape = (case.name, &case.dims);
            let is_first = fixed_shape.replace(shape) != Some(shape);
            let all = (case.dims.clone(), "fixed");
            let symbolic = (case.fixed_dims(), "symbolic");
            for (bound, extents) in [Some(symbolic), is_first.then_some(all)].into_iter().flatten() {
                let name = format!("sketch `{}`, {extents} extents {}", case.name, choices(case));
                let tried = self.sketch(case, &bound, &mut built).await;
                if tried.is_ok() && example.is_none() {
                    example = built.as_ref().map(|(source, _)| (case, source.clone()));
                }
                report.add(name, tried);
            }
        }
        example
    }

    /// Lowers, builds and runs one case. `built` is the last source with what was built from it.
    async fn sketch(
        &self,
        case: &SketchCase,
        bound: &Bindings,
        built: &mut Option<(Source, Artifact)>,
    ) -> Tried {
        let sketch = case.sketch(bound)?;
        let source = match self.dsl.lower(&sketch, &case.knobs, self.target) {
            Ok(source) => source,
            Err(error) if error.kind() == ErrorKind::Unsupported => return skipped(error.to_string()),
            Err(error) => return Err(error.into()),
        };
        demand(self.dsl.capability().lowers, || {
            "it lowers, but its capability says that it does not".to_owned()
        })?;
        if built.as_ref().is_none_or(|(last, _)| *last != source) {
            *built = match self.dsl.build(&source, self.target)? {
                Ok(artifact) => Some((source, artifact)),
                Err(failure) => return broken(describe(&failure)),
            };
        }
        let Some((_, artifact)) = built else { return Ok(()) };
        demand(self.dsl.capability().formats.contains(&artifact.format), || {
            format!(
                "it builds format `{}`, which its capability does not name",
                artifact.format
            )
        })?;
        match self.run(case, artifact).await? {
            Ok(outputs) => Ok(case.check(&outputs)?),
            Err(failure) => broken(describe(&failure)),
        }
    }

    async fn run(
        &self,
        case: &SketchCase,
        artifact: &Artifact,
    ) -> Result<Result<Vec<crate::Tensor>, Failure>> {
        let request = RunRequest {
            artifact: artifact.clone(),
            inputs: case.inputs.clone(),
            dims: case.dims.clone(),
            poison: Poison::Ones,
            limits: Limits::default(),
        };
        Ok(self.backend.run(request).await?.map(|run| run.outputs))
    }

    fn lowers_none(&self) -> Tried {
        if self.dsl.capability().lowers {
            return broken(
                "its capability says that it lowers, but no example sketch was lowered and ran right",
            );
        }
        skipped("its capability says that it does not lower: sources come from agents")
    }

    fn repeatable(&self, case: &SketchCase, source: &Source) -> Tried {
        let bound = [case.fixed_dims(), case.dims.clone()];
        let again = bound.iter().any(|dims| {
            let lowered = case
                .sketch(dims)
                .and_then(|s| self.dsl.lower(&s, &case.knobs, self.target));
            lowered.is_ok_and(|lowered| lowered == *source)
        });
        demand(again, || {
            "lowering the same sketch again gives another source".to_owned()
        })?;
        demand(source.dsl == self.dsl.name(), || {
            format!("the source's DSL is `{}`", source.dsl)
        })?;
        let recorded = case
            .knobs
            .iter()
            .all(|(name, value)| source.knobs.get(name) == Some(value));
        demand(recorded, || {
            format!(
                "the source records knobs {:?}, given were {:?}",
                source.knobs, case.knobs
            )
        })
    }

    fn unknown_knob(&self, case: &SketchCase) -> Tried {
        let mut knobs = case.knobs.clone();
        knobs.insert("NO_SUCH_KNOB".to_owned(), KnobValue::Int(1));
        match self.dsl.lower(&case.sketch(&case.dims)?, &knobs, self.target) {
            Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
            Err(error) => broken(format!("the error is no invalid input: {error:?}")),
            Ok(_) => broken("a value for a knob that the sketch lacks is passed over"),
        }
    }

    fn check_right(&self, source: &Source) -> Tried {
        let errors = self
            .dsl
            .check(source)
            .into_iter()
            .filter(|d| d.severity == Severity::Error);
        match errors.map(|d| d.message).reduce(|a, b| format!("{a}\n{b}")) {
            Some(messages) => broken(messages),
            None => Ok(()),
        }
    }

    fn check_wrong(&self, source: &Source) -> Tried {
        let source = spoiled(source);
        let found = self.dsl.check(&source);
        let errors = found.iter().filter(|d| d.severity == Severity::Error);
        demand(errors.count() > 0, || {
            format!("nothing is found wrong in\n{}", source.text)
        })?;
        let outside = found
            .iter()
            .find(|d| d.span.start > d.span.end || d.span.end > source.text.len());
        demand(outside.is_none(), || {
            format!(
                "a diagnostic points outside the text of {} bytes: {outside:?}",
                source.text.len()
            )
        })
    }

    fn build_wrong(&self, source: &Source) -> Tried {
        match self.dsl.build(&spoiled(source), self.target)? {
            Ok(_) => broken("it is built without complaint"),
            Err(failure) => demand(!failure.evidence.trim().is_empty(), || {
                format!("the failure `{}` has no evidence", failure.kind.name())
            }),
        }
    }

    async fn missing_kernel(&self, case: &SketchCase, source: &Source) -> Tried {
        let mut source = source.clone();
        let SourceForm::Lowered { plan } = &mut source.form else {
            return skipped("the source has no launch plan");
        };
        for launch in &mut plan.launches {
            launch.kernel = "akg_no_such_kernel".into();
        }
        let Ok(artifact) = self.dsl.build(&source, self.target)? else {
            return Ok(());
        };
        match self.run(case, &artifact).await? {
            Ok(_) => broken("neither `build` nor a run notices that the text lacks the kernel of a launch"),
            Err(_) => Ok(()),
        }
    }

    fn stub(&self, source: &Source) -> Tried {
        if !self.dsl.capability().exports.iter().any(|form| form == "stub") {
            return skipped("it exports no stubs");
        }
        let text = self.dsl.export(source, "stub")?;
        let read = self.dsl.parse(&text)?;
        demand(read.form == source.form, || {
            format!(
                "the launch plan changed on the way: it was\n{:?}\nand is\n{:?}",
                source.form, read.form
            )
        })?;
        demand(read.dsl == self.dsl.name(), || {
            format!("the source's DSL is `{}`", read.dsl)
        })?;
        match self.dsl.build(&read, self.target)? {
            Ok(_) => Ok(()),
            Err(failure) => broken(format!("the stub is not built: {}\n{text}", describe(&failure))),
        }
    }

    fn exports(&self, source: &Source) -> Tried {
        for form in &self.dsl.capability().exports {
            let text = self.dsl.export(source, form)?;
            demand(!text.trim().is_empty(), || format!("form `{form}` is empty"))?;
        }
        match self.dsl.export(source, "no-such-form") {
            Ok(_) => broken("a form that does not exist is exported"),
            Err(_) => Ok(()),
        }
    }
}

/// `M=37 N=50, knobs BM=16`.
fn choices(case: &SketchCase) -> String {
    let dims: Vec<_> = case
        .dims
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let knobs: Vec<_> = case
        .knobs
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    format!(
        "{}, knobs {}",
        dims.join(" "),
        if knobs.is_empty() {
            "as by default".into()
        } else {
            knobs.join(" ")
        }
    )
}

fn spoiled(source: &Source) -> Source {
    let text = format!("{}{NONSENSE}", source.text);
    Source {
        text,
        ..source.clone()
    }
}

fn describe(failure: &Failure) -> String {
    format!("{}: {}", failure.kind.name(), failure.evidence)
}
