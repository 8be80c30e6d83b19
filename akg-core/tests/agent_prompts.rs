//! What coder, fixer, analyst and conductor tell a model, as reviewed; and what becomes of its replies.
#![expect(clippy::unwrap_used, reason = "this is a test")]

mod golden;

use std::sync::{Arc, Mutex};

use akg_core::analyst::{AnalyseContext, ModelAnalyst, Place, Recommendation, RuleAnalyst};
use akg_core::chat::{ChatCapability, ChatModel, ChatReply, ChatRequest, Content, Message};
use akg_core::coder::{CodeContext, ModelCoder};
use akg_core::conductor::{ConductContext, ModelConductor, Next, Tried};
use akg_core::designer::{DesignContext, Improve, Known, ModelDesigner, design};
use akg_core::digest::Digest;
use akg_core::dsl::{DslCapability, Stage};
use akg_core::fixer::{FixContext, ModelFixer, Wish};
use akg_core::pass::Pass;
use akg_core::profile::Subject;
use akg_core::source::{Artifact, Knobs, LaunchPlan, Source, SourceForm};
use akg_core::task_builder::{BuildContext, ModelTaskBuilder, ModuleTrial, RuleTaskBuilder};
use akg_core::trace::Trace;
use akg_core::verdict::{Failure, FailureKind};
use akg_core::{Agent as _, DType, Diagnostic, Dsl, Error, Graph, Profile, Result, Sketch, Target, Task};
use async_trait::async_trait;
use futures::executor::block_on;
use golden::Golden;
use serde_json::json;

/// A model that gives these replies one after the other.
#[derive(Debug, Clone)]
struct Scripted {
    replies: Vec<ChatReply>,
    asked: Arc<Mutex<Vec<ChatRequest>>>,
}

impl Scripted {
    fn new(replies: &[&str]) -> Self {
        Self {
            replies: replies.iter().map(|text| ChatReply::text(*text)).collect(),
            asked: Arc::default(),
        }
    }

    /// The texts of the messages of a request.
    fn asked(&self, at: usize) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        let text = |message: &Message| match message {
            Message::User { content } => {
                let texts = content.iter().map(|part| match part {
                    Content::Text { text } => text.as_str(),
                    Content::Image { .. } => "(a picture)",
                });
                texts.collect::<Vec<_>>().join("\n")
            }
            Message::System { text } | Message::Assistant { text, .. } | Message::Tool { text, .. } => {
                text.clone()
            }
        };
        asked[at].messages.iter().map(text).collect()
    }
}

#[async_trait]
impl ChatModel for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn capability(&self) -> ChatCapability {
        ChatCapability::ALL
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply> {
        let mut asked = self.asked.lock().unwrap();
        let reply = self.replies.get(asked.len()).cloned();
        asked.push(request.clone());
        reply.ok_or_else(|| Error::unexpected("the script is over"))
    }
}

/// A language whose texts begin with a plan, and must not hold the word `slow`.
#[derive(Debug)]
struct Toy(DslCapability);

impl Dsl for Toy {
    fn name(&self) -> &str {
        "toy"
    }

    fn capability(&self) -> &DslCapability {
        &self.0
    }

    fn lower(&self, sketch: &Sketch, knobs: &Knobs, _: &Target) -> Result<Source> {
        Ok(source(
            &format!("rows of {}\n", sketch.tree().name.node),
            knobs.clone(),
        ))
    }

    fn build(&self, _: &Source, _: &Target) -> Result<std::result::Result<Artifact, Failure>> {
        Err(Error::unsupported("nobody builds toys"))
    }

    fn toolchain(&self, _: &Target) -> Result<String> {
        Ok("toy 1".to_owned())
    }

    fn check(&self, source: &Source) -> Vec<Diagnostic> {
        let at = source.text.find("slow");
        at.map(|at| Diagnostic::error("`slow` is no word", at..at + 4))
            .into_iter()
            .collect()
    }

    fn guide(&self, stage: Stage, _: &Target) -> String {
        format!("(the guide for {stage:?})\n")
    }

    fn parse(&self, text: &str) -> Result<Source> {
        if !text.starts_with("plan\n") {
            return Err(Error::invalid("a text begins with `plan`"));
        }
        Ok(source(text, Knobs::new()))
    }

    fn export(&self, source: &Source, _: &str) -> Result<String> {
        Ok(format!("plan\n{}", source.text))
    }
}

fn source(text: &str, knobs: Knobs) -> Source {
    Source {
        dsl: "toy".to_owned(),
        text: text.to_owned(),
        form: SourceForm::Lowered {
            plan: LaunchPlan::default(),
        },
        knobs,
    }
}

fn toy() -> Arc<dyn Dsl> {
    let mut capability = DslCapability::default();
    capability.lowers = true;
    capability.exports = vec!["source".to_owned()];
    Arc::new(Toy(capability))
}

fn task() -> Task {
    let mut graph = Graph::new("relu");
    let x = graph.input("x", DType::F32, [64, 128]);
    let y = graph.relu(x).unwrap();
    graph.output(y);
    Task::new("relu", graph)
}

fn target() -> Target {
    let mut target = Target::new("cuda", "sm_90a");
    "Some GPU".clone_into(&mut target.name);
    (target.cores, target.threads, target.tile_bytes) = (132, 2048, 227 << 10);
    (target.bandwidth, target.launch_seconds) = (3.3e12, 3e-6);
    target
}

fn code_context() -> CodeContext {
    let design = design(&task(), &target()).unwrap();
    CodeContext {
        task: task(),
        sketch: design.sketch,
        knobs: design.knobs,
        dsl: toy(),
        target: target(),
        trace: Trace::default(),
    }
}

fn fix_context(wish: Wish) -> FixContext {
    FixContext {
        task: task(),
        dsl: toy(),
        target: target(),
        source: source("plan\none\nslow two\nthree\n", Knobs::new()),
        wish,
        earlier: vec![Failure::new(
            FailureKind::CompileFailed,
            "3:1: error: expected `;`",
        )],
        trace: Trace::default(),
    }
}

fn advice() -> Recommendation {
    Recommendation {
        what: "Fuse `a` with `b`.".to_owned(),
        why: "`a` writes 32 kB that `b` reads.".to_owned(),
        gain: 1.5,
        place: Place::Sketch,
    }
}

/// Passes as runs leave them.
fn passes() -> Vec<Pass> {
    let advice = serde_json::to_value(advice()).unwrap();
    let failure = json!({"kind": "crashed", "evidence": "signal 11\nmore"});
    let endings = [
        json!({"faster": 1.25}),
        json!({"not-faster": 0.75}),
        json!({"failed": failure}),
        json!({"nothing": "what was proposed is known"}),
    ];
    let pass = |ending| json!({"recommendation": advice, "role": "designer", "ending": ending});
    endings
        .map(|ending| serde_json::from_value(pass(ending)).unwrap())
        .into()
}

fn analyse_context() -> AnalyseContext {
    let design = design(&task(), &target()).unwrap();
    let program = design
        .sketch
        .elaborate(&design.knobs, &Default::default())
        .unwrap();
    let launches = program.kernels.iter().map(|kernel| akg_core::source::Launch {
        kernel: kernel.name.clone(),
        grid: Vec::new(),
        tensors: Vec::new(),
        cooperative: false,
        doc: String::new(),
    });
    let artifact = Artifact {
        format: "toy".to_owned(),
        bytes: Vec::new(),
        plan: LaunchPlan {
            dims: Vec::new(),
            launches: launches.collect(),
            tensors: program.tensors,
        },
        metadata: [].into(),
    };
    let profile = Profile::estimate(&Subject {
        task: &task(),
        artifact: &artifact,
        sketch: Some((&design.sketch, &design.knobs)),
        target: &target(),
    });
    AnalyseContext {
        task: task(),
        source: source("plan\nrows\n", Knobs::new()),
        sketch: design.sketch,
        profile,
        report: "warning: unused variable".to_owned(),
        bound_seconds: Some(2e-8),
        pictures: vec![b"png".to_vec()],
        passes: passes(),
        trace: Trace::default(),
    }
}

fn conduct_context() -> ConductContext {
    let tried = |text: &str, repairs| Tried {
        knobs: Knobs::new(),
        source: Digest::of(text.as_bytes()),
        lowered: false,
        repairs,
        failure: Some(Failure::new(
            FailureKind::WrongValues,
            format!("at [0, 3] of {text}"),
        )),
    };
    ConductContext {
        points: Vec::new(),
        tried: vec![tried("a", 0), tried("b", 1)],
        designs: 1,
        redesigns: true,
        fixes: true,
        exhausted: false,
        trace: Trace::default(),
    }
}

/// Takes modules that say `class Model: ...`.
#[derive(Debug)]
struct Dots;

impl ModuleTrial for Dots {
    fn run(&self, module: &str) -> Result<std::result::Result<(), String>> {
        let runs = module.contains("class Model: ...");
        Ok(if runs {
            Ok(())
        } else {
            Err("line 1: no dots".to_owned())
        })
    }
}

fn build_context() -> BuildContext {
    BuildContext {
        request: "The sum of each row of a matrix.".to_owned(),
        trial: Arc::new(Dots),
        trace: Trace::default(),
    }
}

/// `AKG_BLESS=1 cargo test -p akg-core --test agent_prompts` accepts other texts.
#[test]
fn prompts_are_as_reviewed() {
    let mut golden = Golden::default();
    let mut both = |role: &str, asked: &[String]| {
        golden.check(&format!("{role}/system.md"), &asked[0]);
        golden.check(&format!("{role}/task.md"), &asked[1]);
    };
    let model = Scripted::new(&["```\nplan\nrows\n```"]);
    block_on(ModelCoder::new(model.clone()).unwrap().step(&code_context())).unwrap();
    both("coder", &model.asked(0));

    let failure = Failure::new(
        FailureKind::WrongValues,
        "output `relu`: at [0, 3] got 1, expected 0",
    );
    let model = Scripted::new(&["<<<<<<< SEARCH\nslow two\n=======\ntwo\n>>>>>>> REPLACE"]);
    let fixer = ModelFixer::new(model.clone()).unwrap();
    let fixed = block_on(fixer.step(&fix_context(Wish::Repair(failure)))).unwrap();
    assert_eq!(fixed.unwrap().text, "plan\none\ntwo\nthree\n");
    both("fixer", &model.asked(0));

    let model = Scripted::new(&["<<<<<<< SEARCH\nslow two\n=======\ntwo\n>>>>>>> REPLACE"]);
    let fixer = ModelFixer::new(model.clone()).unwrap();
    block_on(fixer.step(&fix_context(Wish::Faster(advice())))).unwrap();
    both("fixer_faster", &model.asked(0));

    let model = Scripted::new(&[&serde_json::to_string(&advice()).unwrap()]);
    let analyst = ModelAnalyst::new(model.clone()).unwrap();
    assert_eq!(
        block_on(analyst.step(&analyse_context())).unwrap(),
        Some(advice())
    );
    both("analyst", &model.asked(0));

    let model = Scripted::new(&["{\"next\": \"design\", \"why\": \"It comes no nearer.\"}"]);
    let conductor = ModelConductor::new(model.clone()).unwrap();
    assert_eq!(
        block_on(conductor.step(&conduct_context())).unwrap(),
        Next::Design
    );
    both("conductor", &model.asked(0));

    let model = Scripted::new(&["```python\nclass Model: ...\n```"]);
    let builder = ModelTaskBuilder::new(model.clone()).unwrap();
    block_on(builder.step(&build_context())).unwrap();
    both("task-builder", &model.asked(0));

    let sketch = design(&task(), &target()).unwrap().sketch;
    let known = |seconds| Known {
        sketch: sketch.clone(),
        knobs: sketch.default_knobs(),
        seconds,
    };
    let mut context = DesignContext::new(task(), target());
    for (name, parents) in [
        ("improve", vec![known(Some(2e-5))]),
        ("cross", vec![known(Some(2e-5)), known(None)]),
        ("fresh", Vec::new()),
    ] {
        context.improve = Some(Improve {
            parents,
            inspirations: vec![known(Some(3e-5))],
            recommendation: Some(advice()),
            passes: passes(),
            ..Improve::default()
        });
        let model = Scripted::new(&[&format!("```\n{sketch}```")]);
        block_on(ModelDesigner::new(model.clone()).unwrap().step(&context)).unwrap();
        golden.check(&format!("designer/{name}.md"), &model.asked(0)[1]);
    }
    golden.assert();
}

#[test]
fn a_model_is_asked_only_where_rules_cannot_tell() {
    let model = Scripted::new(&[]);
    let conductor = ModelConductor::new(model.clone()).unwrap();
    let mut context = conduct_context();
    context.tried.truncate(1);
    assert_eq!(block_on(conductor.step(&context)).unwrap(), Next::Fix);
    context.tried[0].failure = None;
    assert!(matches!(
        block_on(conductor.step(&context)).unwrap(),
        Next::Stop(_)
    ));
    assert!(model.asked.lock().unwrap().is_empty());
    // Who has nothing right to say does not hold up the rules.
    let model = Scripted::new(&["perhaps"; 9]);
    let conductor = ModelConductor::new(model.clone()).unwrap();
    assert_eq!(block_on(conductor.step(&conduct_context())).unwrap(), Next::Fix);
}

#[test]
fn recommendations_are_checked() {
    let of = |gain: f64| Recommendation { gain, ..advice() };
    let text = |advice: &Recommendation| serde_json::to_string(advice).unwrap();
    let step = |replies: &[&str]| {
        let model = Scripted::new(replies);
        let advice = block_on(ModelAnalyst::new(model.clone()).unwrap().step(&analyse_context()));
        let asked = model.asked.lock().unwrap().len();
        (advice.unwrap(), asked)
    };
    // Nothing is worth trying.
    assert_eq!(step(&[&text(&of(1.0))]), (None, 1));
    // No estimate, no JSON, something else: each goes back.
    let right = text(&advice());
    let fenced = format!("I think so:\n```json\n{right}\n```");
    for wrong in [
        text(&of(1e9)),
        "Fuse them.".to_owned(),
        right.replace("sketch", "compiler"),
    ] {
        assert_eq!(step(&[&wrong, &fenced]), (Some(advice()), 2), "{wrong}");
    }
}

#[test]
fn the_rules_recommend_what_helps_against_the_bottleneck_and_what_was_tried_last() {
    let mut context = analyse_context();
    context.passes.clear();
    // A launch that takes no longer than an empty one cannot be made faster by itself.
    assert_eq!(block_on(RuleAnalyst.step(&context)).unwrap(), None);
    let launch = &mut context.profile.launches[0];
    launch.finding.bottleneck = akg_core::profile::Bottleneck::Memory;
    context.profile.seconds = 1e-4;
    context.bound_seconds = Some(2e-5);
    let advice = block_on(RuleAnalyst.step(&context)).unwrap().unwrap();
    assert!(
        advice.what.contains("Move fewer bytes") && advice.gain > 1.5,
        "{advice:?}"
    );
    // What was tried comes last: a shorter launch is next, and then the longest again.
    let mut shorter = context.profile.launches[0].clone();
    (shorter.kernel, shorter.share) = ("shorter".to_owned(), 0.25);
    context.profile.launches.insert(0, shorter);
    for shorter in [false, true, false] {
        let advice = block_on(RuleAnalyst.step(&context)).unwrap().unwrap();
        assert_eq!(advice.what.contains("shorter"), shorter, "{advice:?}");
        let told = json!({"recommendation": advice, "role": "designer", "ending": {"not-faster": 1.0}});
        context.passes.push(serde_json::from_value(told).unwrap());
    }
    // What the device can hardly do better is left alone.
    context.passes.clear();
    context.bound_seconds = Some(9e-5);
    assert_eq!(block_on(RuleAnalyst.step(&context)).unwrap(), None);
}

#[test]
fn tasks_are_run_before_they_are_taken() {
    let model = Scripted::new(&[
        "```\nclass Model: pass\n```",
        "It has a\n```\nclass Model: ...\n```",
    ]);
    let module = block_on(
        ModelTaskBuilder::new(model.clone())
            .unwrap()
            .step(&build_context()),
    );
    assert_eq!(module.unwrap(), "class Model: ...\n");
    let objection = model.asked(1).pop().unwrap();
    assert!(objection.contains("line 1: no dots"), "{objection}");
    // What is a task already needs no model, and words are none.
    let error = block_on(RuleTaskBuilder.step(&build_context())).unwrap_err();
    assert_eq!(error.kind(), akg_core::ErrorKind::Unsupported);
    let mut context = build_context();
    "class Model: ...".clone_into(&mut context.request);
    assert_eq!(block_on(RuleTaskBuilder.step(&context)).unwrap(), context.request);
}

#[test]
fn what_a_coder_sends_is_read_and_checked() {
    let model = Scripted::new(&[
        "```\nrows\n```",
        "```\nplan\nslow rows\n```",
        "```\nplan\nrows\n```",
    ]);
    let source = block_on(ModelCoder::new(model.clone()).unwrap().step(&code_context())).unwrap();
    assert_eq!(source.text, "plan\nrows\n");
    let asked = |at: usize| model.asked(at).pop().unwrap();
    assert!(asked(1).contains("a text begins with `plan`"), "{}", asked(1));
    assert!(
        asked(2).contains("`slow` is no word") && asked(2).contains("^^^^"),
        "{}",
        asked(2)
    );
    let error = block_on(ModelCoder::new(Scripted::new(&[])).unwrap().step(&code_context())).unwrap_err();
    assert!(error.to_string().contains("the script is over"), "{error}");
}
