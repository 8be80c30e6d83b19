//! Other designs of the rules, where something faster is looked for.

use async_trait::async_trait;
use futures::executor::block_on;

use super::{F, many_threads};
use crate::agent::Agent;
use crate::designer::{Design, DesignContext, Designer, Improve, Known, RuleDesigner, RulesFirst};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::Graph;
use crate::search::crossings;
use crate::search::fingerprint::of_sketch;
use crate::sketch::Sketch;
use crate::task::Task;

/// Two linear layers with a GELU between, on a device that splits products.
fn context() -> DesignContext {
    let mut g = Graph::new("mlp");
    let x = g.input("x", F, [16, 32]);
    let [w, v] = [g.weight("w", F, [64, 32]), g.weight("v", F, [32, 64])];
    let h = g.linear(x, w, None).unwrap();
    let h = g.gelu(h).unwrap();
    let y = g.linear(h, v, None).unwrap();
    g.output(y);
    DesignContext::new(Task::new("mlp", g), many_threads())
}

/// What a designer proposes beside what it proposed before, until it has nothing else.
fn all(designer: &impl Agent<Designer>, improve: Improve) -> (Vec<Design>, Error) {
    let mut context = context();
    let (mut improve, mut found) = (improve, Vec::new());
    loop {
        context.improve = Some(improve.clone());
        match block_on(designer.step(&context)) {
            Ok(design) => {
                assert!(!improve.has_tried(&design.sketch), "{}", design.sketch);
                improve.tried.push(of_sketch(&design.sketch));
                found.push(design);
            }
            Err(error) => return (found, error),
        }
    }
}

fn known(design: &Design) -> Known {
    Known {
        sketch: design.sketch.clone(),
        knobs: design.knobs.clone(),
        seconds: None,
    }
}

#[test]
fn the_rules_have_second_designs_that_compute_the_same() {
    let first = block_on(RuleDesigner.step(&context())).unwrap();
    let improve = Improve {
        tried: vec![of_sketch(&first.sketch)],
        ..Improve::default()
    };
    let (found, end) = all(&RuleDesigner, improve);
    assert!(!found.is_empty());
    assert_eq!(end.kind(), ErrorKind::Unsupported, "{end}");
    for design in found {
        let text = design.sketch.to_string();
        // Parsed, validated, interpreted and judged, as if somebody had written it.
        Design::from_text(&text, &context()).unwrap().unwrap();
    }
}

#[test]
fn two_parents_are_crossed_before_anything_else() {
    let context = context();
    let first = block_on(RuleDesigner.step(&context)).unwrap();
    let (others, _) = all(
        &RuleDesigner,
        Improve {
            tried: vec![of_sketch(&first.sketch)],
            ..Improve::default()
        },
    );
    let hints = &context.task.contract.hints;
    let crossed = |other: &Design| {
        let parents = [(&first.sketch, &first.knobs), (&other.sketch, &other.knobs)];
        crossings(parents[0], parents[1], hints, &context.target).collect::<Vec<_>>()
    };
    let other = others.iter().find(|other| !crossed(other).is_empty()).unwrap();
    let wanted: Vec<Sketch> = crossed(other).into_iter().map(|crossed| crossed.sketch).collect();
    let improve = Improve {
        parents: vec![known(&first), known(other)],
        tried: [&first, other].map(|design| of_sketch(&design.sketch)).into(),
        ..Improve::default()
    };
    let both = DesignContext {
        improve: Some(improve.clone()),
        ..context.clone()
    };
    assert_eq!(block_on(RuleDesigner.step(&both)).unwrap().sketch, wanted[0]);
    // From nothing, ideas are crossed.
    let fresh = DesignContext {
        improve: Some(Improve {
            parents: Vec::new(),
            inspirations: improve.parents.clone(),
            ..improve.clone()
        }),
        ..context.clone()
    };
    assert_eq!(block_on(RuleDesigner.step(&fresh)).unwrap().sketch, wanted[0]);
    // Who comes after the rules is asked once no crossing is new.
    let (found, end) = all(&RulesFirst::new(Nobody), improve);
    assert!(!found.is_empty() && found.iter().all(|design| wanted.contains(&design.sketch)));
    assert_eq!(end.to_string(), Error::unsupported("nobody knows").to_string());
    // Of one parent, it is asked at once.
    let (found, _) = all(
        &RulesFirst::new(Nobody),
        Improve {
            parents: vec![known(&first)],
            ..Improve::default()
        },
    );
    assert!(found.is_empty());
}

/// A designer without designs.
#[derive(Debug)]
struct Nobody;

#[async_trait]
impl Agent<Designer> for Nobody {
    fn name(&self) -> &str {
        "nobody"
    }

    async fn step(&self, _: &DesignContext) -> Result<Design> {
        Err(Error::unsupported("nobody knows"))
    }
}
