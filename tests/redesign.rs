//! A design whose candidates compute wrong values goes back to the designer with what was wrong, until it has no other.
//! The test is its own worker, hence a `main` of its own.
#![expect(clippy::unwrap_used, clippy::panic, reason = "this is a test")]

use std::sync::{Arc, Mutex};

use akg::agent::Agent;
use akg::designer::{Design, DesignContext, Designer};
use akg::session::Outcome;
use akg::sketch::Sketch;
use akg::verdict::FailureKind;
use akg::{DType, Error, Graph, Result, Session, Task, blocking};
use async_trait::async_trait;
use libtest_mimic::{Arguments, Failed, Trial};

const RIGHT: &str = "max(t, 0.0)";
const TOO_LARGE: &str = "max(t, 0.0) * 1.02";
const TOO_SMALL: &str = "max(t, 0.0) * 0.98";

fn sketch(expression: &str) -> Sketch {
    let text = format!(
        "sketch relu(x: f32[64, 128]) -> y: f32[64, 128]
         knob R in {{1, 2}}

         kernel main over (m in ceildiv(64, R)) {{
           t = load x[m*R :+ R, 0 :+ 128]
           store y[m*R :+ R, 0 :+ 128] = {expression}
         }}\n"
    );
    Sketch::parse(&text).unwrap_or_else(|d| panic!("{}", d.render(&text)))
}

/// What a designer was told: the failures of its earlier designs, each time it was asked.
type Told = Arc<Mutex<Vec<Vec<FailureKind>>>>;

/// A designer with one idea after the other.
#[derive(Debug)]
struct Ideas {
    sketches: Vec<Sketch>,
    /// Whether it says that it has no other, or repeats the last.
    gives_up: bool,
    told: Told,
}

#[async_trait]
impl Agent<Designer> for Ideas {
    fn name(&self) -> &str {
        "ideas"
    }

    async fn step(&self, context: &DesignContext) -> Result<Design> {
        let failures = context.failed.iter().map(|failed| failed.failure.kind);
        self.told.lock().unwrap().push(failures.collect());
        for (failed, sketch) in context.failed.iter().zip(&self.sketches) {
            assert_eq!(failed.sketch.to_string(), sketch.to_string());
        }
        let sketch = match self.sketches.get(context.failed.len()) {
            Some(sketch) => sketch,
            None if self.gives_up => return Err(Error::unsupported("no other idea")),
            None => self.sketches.last().unwrap(),
        };
        Ok(Design {
            knobs: sketch.default_knobs(),
            sketch: sketch.clone(),
            kernels: Vec::new(),
            intermediates: Default::default(),
            rules: Vec::new(),
        })
    }
}

/// Runs a designer with these ideas. Returns what became of them, and what it was told.
fn run(expressions: &[&str], gives_up: bool) -> Result<(Outcome, Vec<Vec<FailureKind>>)> {
    let mut graph = Graph::new("relu");
    let x = graph.input("x", DType::F32, [64, 128]);
    let y = graph.relu(x)?;
    graph.output(y);
    let told = Told::default();
    let designer = Ideas {
        sketches: expressions.iter().map(|text| sketch(text)).collect(),
        gives_up,
        told: told.clone(),
    };
    let registry = akg::registry();
    let session = Session::new(registry.dsl("cpp")?, registry.backend("cpu")?)
        .with_timing(None)
        .with_designer(designer);
    let outcome = blocking::run(&session, &Task::new("relu", graph))?;
    let told = told.lock().unwrap().clone();
    Ok((outcome, told))
}

fn kinds(outcome: &Outcome) -> Vec<Option<FailureKind>> {
    let failures = outcome.attempts.iter().map(|a| a.verdict.failure.as_ref());
    failures.map(|failure| failure.map(|f| f.kind)).collect()
}

const WRONG: FailureKind = FailureKind::WrongValues;

fn later_ideas_are_judged() -> Result<(), Failed> {
    let (outcome, told) = run(&[TOO_LARGE, TOO_SMALL, RIGHT], true)?;
    assert_eq!(kinds(&outcome), [Some(WRONG), Some(WRONG), None]);
    assert_eq!(told, [vec![], vec![WRONG], vec![WRONG, WRONG]]);
    assert_eq!(outcome.winner, Some(2));
    assert_eq!(outcome.sketch, sketch(RIGHT).to_string());
    Ok(())
}

fn a_designer_without_another_idea_is_asked_once() -> Result<(), Failed> {
    for gives_up in [false, true] {
        let (outcome, told) = run(&[TOO_LARGE], gives_up)?;
        // The other value of the knob is tried then.
        assert_eq!(kinds(&outcome), [Some(WRONG), Some(WRONG)]);
        assert_eq!(told, [vec![], vec![WRONG]]);
        assert!(outcome.best().is_none());
        assert_eq!(outcome.sketch, sketch(TOO_LARGE).to_string());
    }
    Ok(())
}

fn main() {
    akg::worker::init();
    let trials = vec![
        Trial::test("later_ideas_are_judged", later_ideas_are_judged),
        Trial::test(
            "a_designer_without_another_idea_is_asked_once",
            a_designer_without_another_idea_is_asked_once,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
