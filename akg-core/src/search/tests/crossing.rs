//! Crossover of designs.

use super::super::{crossings, mixed};
use crate::designer::{self, Design};
use crate::expr::Bindings;
use crate::graph::Graph;
use crate::reference::{Options, evaluate};
use crate::sketch::{Sketch, interpret, validate};
use crate::source::{KnobValue, Knobs};
use crate::target::Target;
use crate::task::{Accuracy, Task};
use crate::{DType, Tensor};

/// Two linear layers with a GELU between.
fn mlp() -> Task {
    let mut g = Graph::new("mlp");
    let x = g.input("x", DType::F32, [16, 32]);
    let [w, v] = [
        g.weight("w", DType::F32, [64, 32]),
        g.weight("v", DType::F32, [32, 64]),
    ];
    let h = g.linear(x, w, None).unwrap();
    let h = g.gelu(h).unwrap();
    let y = g.linear(h, v, None).unwrap();
    g.output(y);
    Task::new("mlp", g)
}

/// A device whose cores multiply halves fast, for which products are split.
fn halves() -> Target {
    let mut target = Target::new("threads", "t1");
    (target.cores, target.threads) = (16, 2048);
    target.peak = [(DType::F32, 1.0), (DType::F16, 16.0), (DType::BF16, 16.0)].into();
    target
}

fn design(accuracy: Accuracy, target: &Target) -> Design {
    let mut task = mlp();
    task.contract.accuracy = accuracy;
    designer::design(&task, target).unwrap()
}

/// The largest deviation of what a sketch computes from the reference.
fn deviation(sketch: &Sketch, knobs: &Knobs) -> f64 {
    let task = mlp();
    let inputs: Vec<Tensor> = task
        .graph
        .inputs()
        .iter()
        .map(|given| {
            let shape = task
                .graph
                .ty(given.value)
                .concrete_shape(&Bindings::new())
                .unwrap();
            let count: usize = shape.iter().product();
            let values: Vec<f32> = (0..count)
                .map(|i| ((i * 37 % 101) as f32 - 50.0) / 100.0)
                .collect();
            Tensor::from_slice(shape, &values).unwrap()
        })
        .collect();
    let right = evaluate(&task.graph, &inputs, &Options::default()).unwrap()[0].to_f64();
    let program = sketch.elaborate(knobs, &Bindings::new()).unwrap();
    let output = interpret(&program, &inputs, &Bindings::new()).unwrap()[0]
        .to_f64()
        .unwrap();
    let size = right.iter().fold(0.0f64, |most, r| most.max(r.abs()));
    output
        .iter()
        .zip(&right)
        .fold(0.0f64, |most, (o, r)| most.max((o - r).abs()))
        / size
}

#[test]
fn designs_for_different_devices_make_valid_sketches_that_compute_the_same() {
    let (cpu, threads) = (Target::new("cpu", "x86_64"), halves());
    let hints = Bindings::new();
    let mut found = 0;
    for accuracy in [Accuracy::Fp32, Accuracy::Half] {
        let [plain, split] = [design(Accuracy::Fp32, &cpu), design(accuracy, &threads)];
        let parents = [(&plain.sketch, &plain.knobs), (&split.sketch, &split.knobs)];
        for [first, second] in [parents, [parents[1], parents[0]]] {
            for crossed in crossings(first, second, &hints, &threads) {
                let text = crossed.sketch.to_string();
                assert_eq!(Sketch::parse(&text).unwrap(), crossed.sketch, "{text}");
                assert!(crossed.sketch != *first.0 && crossed.sketch != *second.0);
                let program = crossed.sketch.elaborate(&crossed.knobs, &hints).unwrap();
                assert!(!validate(&program, Some(&threads)).has_errors(), "{text}");
                let deviation = deviation(&crossed.sketch, &crossed.knobs);
                let allowed = if accuracy == Accuracy::Fp32 { 1e-5 } else { 2e-2 };
                assert!(deviation < allowed, "{deviation}\n{text}");
                found += 1;
            }
        }
    }
    assert!(found >= 4, "{found}");
}

#[test]
fn knobs_of_both_parents_keep_their_values() {
    let (cpu, threads) = (Target::new("cpu", "x86_64"), halves());
    let [mut plain, mut split] = [design(Accuracy::Fp32, &cpu), design(Accuracy::Fp32, &threads)];
    // The last value of each, where that is legal.
    for design in [&mut plain, &mut split] {
        for knob in design.sketch.knobs() {
            let mut other = design.knobs.clone();
            other.insert(knob.name.clone(), *knob.values.last().unwrap());
            if design.sketch.elaborate(&other, &Bindings::new()).is_ok() {
                design.knobs = other;
            }
        }
    }
    let hints = Bindings::new();
    let all: Vec<_> = crossings(
        (&plain.sketch, &plain.knobs),
        (&split.sketch, &split.knobs),
        &hints,
        &threads,
    )
    .collect();
    assert!(!all.is_empty());
    for crossed in all {
        for (name, value) in &crossed.knobs {
            let own = plain.knobs.get(name);
            let others = split
                .knobs
                .iter()
                .filter(|(other, _)| name == *other || name.starts_with(&format!("{other}_")));
            let others: Vec<&KnobValue> = others.map(|(_, value)| value).collect();
            assert!(own == Some(value) || others.contains(&value), "{name} = {value}");
        }
    }
}

#[test]
fn sketches_of_different_tasks_are_not_crossed() {
    let target = Target::new("cpu", "x86_64");
    let mlp = design(Accuracy::Fp32, &target);
    let mut g = Graph::new("other");
    let x = g.input("x", DType::F32, [16, 32]);
    let y = g.softmax(x, -1).unwrap();
    g.output(y);
    let other = designer::design(&Task::new("other", g), &target).unwrap();
    let hints = Bindings::new();
    let parents = [(&mlp.sketch, &mlp.knobs), (&other.sketch, &other.knobs)];
    let mut crossed = crossings(parents[0], parents[1], &hints, &target);
    assert!(crossed.next().is_none());
}

#[test]
fn values_are_mixed_within_what_is_required() {
    let text = "sketch s(x: f32[64]) -> y: f32[64]\nknob A in {8, 16, 32}\nknob B in {8, 16, 32}\nrequire A >= B\n\nkernel k over (p in \
                ceildiv(64, A)) {\n  store y[p*A :+ A] = load x[p*A :+ A]\n}\n";
    let sketch = Sketch::parse(text).unwrap();
    let of = |a: i64, b: i64| -> Knobs {
        [("A".into(), KnobValue::Int(a)), ("B".into(), KnobValue::Int(b))].into()
    };
    let hints = Bindings::new();
    // Only A = 32 with B = 8 is new and legal.
    for seed in 0..10 {
        if let Some(mixture) = mixed(&sketch, [&of(8, 8), &of(32, 32)], &hints, seed) {
            assert_eq!(mixture, of(32, 8));
        }
    }
    assert_eq!(mixed(&sketch, [&of(8, 8), &of(8, 8)], &hints, 1), None);
}
