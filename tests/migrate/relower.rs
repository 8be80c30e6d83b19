//! Re-lowering: a sketch means the same in every language that it is lowered to.

use akg::backend::{Limits, Poison, RunRequest};
use akg::cpp::CppDsl;
use akg::expr::Bindings;
use akg::graph::ValueId;
use akg::reference::{Options, evaluate};
use akg::sketch::interpret;
use akg::source::{Knobs, Launch, LaunchPlan, PlanTensor, TensorRole};
use akg::triton::TritonDsl;
use akg::{DType, Dsl as _, Graph, Sketch, Target, Task, Tensor, blocking, registry};
use akg_core::conformance::{SketchCase, sketch_cases};
use libtest_mimic::Failed;

use crate::triton;

/// The first element of a task's outputs that is not what the reference has, beyond what sums in another order lose.
pub(crate) fn differs(task: &Task, inputs: &[Tensor], outputs: &[Tensor]) -> Option<String> {
    let given = inputs.get(..task.graph.inputs().len()).unwrap();
    let exact = evaluate(&task.graph, given, &Options::default()).unwrap();
    outputs.iter().zip(&exact).find_map(|(got, exact)| {
        let (got, exact) = (got.to_f64().unwrap(), exact.to_f64());
        far(&got, &exact)
    })
}

fn far(got: &[f64], want: &[f64]) -> Option<String> {
    assert_eq!(got.len(), want.len());
    let size = (want.iter().map(|w| w * w).sum::<f64>() / want.len().max(1) as f64).sqrt();
    let mut pairs = got.iter().zip(want).enumerate();
    pairs.find_map(|(at, (got, want))| {
        let same = got == want || got.is_nan() && want.is_nan();
        let near = (got - want).abs() <= 1e-5 * (want.abs() + size);
        (!same && !near).then(|| format!("element {at} is {got} instead of {want}"))
    })
}

/// A sketch with inputs, and who says whether results are right.
struct Meaning {
    name: String,
    sketch: Sketch,
    knobs: Knobs,
    dims: Bindings,
    inputs: Vec<Tensor>,
    check: Check,
}

/// What is wrong with outputs, if anything is.
type Check = Box<dyn Fn(&[Tensor]) -> Option<String>>;

/// A name, a sketch, and values for its open extents.
type Golden = (&'static str, &'static str, &'static [(&'static str, i64)]);

/// Sketches of the DSLs' golden files that are small enough to interpret.
const GOLDEN: [Golden; 5] = [
    (
        "gemm_tail",
        include_str!("../../akg-dsl-cpp/tests/in/gemm_tail.sketch"),
        &[],
    ),
    (
        "moments",
        include_str!("../../akg-dsl-cpp/tests/in/moments.sketch"),
        &[],
    ),
    (
        "softmax",
        include_str!("../../akg-dsl-cpp/tests/in/softmax.sketch"),
        &[("R", 5)],
    ),
    (
        "twice",
        include_str!("../../akg-dsl-cpp/tests/in/twice.sketch"),
        &[],
    ),
    (
        "views",
        include_str!("../../akg-dsl-triton/tests/in/views.sketch"),
        &[],
    ),
];

/// Sketches of the library's examples, of golden files, and of the rules are printed, parsed, and lowered to C++ and to Triton: what
/// either computes is what the sketch interpreter computes.
pub(crate) fn all() -> Result<(), Failed> {
    let meanings: Vec<Meaning> = cases().chain(golden()).chain(designed()).collect();
    assert!(meanings.len() >= 30, "{} sketches", meanings.len());
    let mut failed = as_cpp(&meanings)?;
    failed.extend(as_triton(&meanings));
    if failed.is_empty() {
        return Ok(());
    }
    Err(failed.join("\n\n").into())
}

/// The last case of each of the library's sketches, with results of PyTorch.
fn cases() -> impl Iterator<Item = Meaning> {
    let mut last: Vec<SketchCase> = Vec::new();
    for case in sketch_cases().unwrap() {
        last.retain(|other| other.name != case.name);
        last.push(case);
    }
    last.into_iter().map(|case| Meaning {
        name: case.name.to_owned(),
        sketch: again(&case.sketch(&case.fixed_dims()).unwrap()),
        knobs: case.knobs.clone(),
        dims: case.dims.clone(),
        inputs: case.inputs.clone(),
        check: Box::new(move |outputs| case.check(outputs).err().map(|e| e.to_string())),
    })
}

/// A sketch after it was printed and parsed.
fn again(sketch: &Sketch) -> Sketch {
    let parsed = Sketch::parse(&sketch.to_string()).unwrap();
    assert_eq!(parsed, *sketch);
    parsed
}

/// What the sketch interpreter makes of a sketch.
fn interpreted(name: String, sketch: &Sketch, dims: Bindings) -> Meaning {
    let sketch = again(sketch);
    let program = sketch.elaborate(&sketch.default_knobs(), &dims).unwrap();
    let input = |(_, tensor): (_, &PlanTensor)| {
        let shape: Vec<usize> = tensor
            .shape
            .iter()
            .map(|e| e.eval(&dims).unwrap() as usize)
            .collect();
        let count = shape.iter().product::<usize>();
        let values: Vec<f32> = (0..count)
            .map(|i| ((i * 37 + 11) % 101) as f32 / 25.25 - 2.0)
            .collect();
        match tensor.dtype {
            DType::F32 => Tensor::from_slice(shape, &values).unwrap(),
            DType::F16 => {
                let halves: Vec<half::f16> = values.into_iter().map(half::f16::from_f32).collect();
                Tensor::from_slice(shape, &halves).unwrap()
            }
            other => panic!("no inputs of {other}"),
        }
    };
    let inputs: Vec<Tensor> = program.with_role(TensorRole::Input).map(input).collect();
    let results = interpret(&program, &inputs, &dims).unwrap();
    Meaning {
        name,
        knobs: sketch.default_knobs(),
        sketch,
        dims,
        inputs,
        check: Box::new(move |outputs| {
            let mut pairs = outputs.iter().zip(&results);
            pairs.find_map(|(got, want)| far(&got.to_f64().unwrap(), &want.to_f64().unwrap()))
        }),
    }
}

fn golden() -> impl Iterator<Item = Meaning> {
    GOLDEN.into_iter().map(|(name, text, dims)| {
        let sketch = Sketch::parse(text).unwrap_or_else(|d| panic!("{name}: {}", d.render(text)));
        let dims = dims
            .iter()
            .map(|(name, value)| ((*name).into(), *value))
            .collect();
        interpreted(format!("golden {name}"), &sketch, dims)
    })
}

type Build = fn(&mut Graph) -> akg::Result<ValueId>;

const GRAPHS: [(&str, Build); 6] = [
    ("gelu", |g| {
        let x = g.input("x", DType::F32, [33, 100]);
        g.gelu(x)
    }),
    ("softmax", |g| {
        let x = g.input("x", DType::F32, [19, 203]);
        g.softmax(x, 1)
    }),
    ("layer_norm", |g| {
        let x = g.input("x", DType::F32, [12, 130]);
        g.layer_norm(x, [130], None, None, 1e-5)
    }),
    ("mean_middle", |g| {
        let x = g.input("x", DType::F32, [6, 70, 33]);
        g.mean(x, &[1], false)
    }),
    ("linear_relu", |g| {
        let x = g.input("x", DType::F32, [37, 45]);
        let w = g.weight("w", DType::F32, [50, 45]);
        let y = g.linear(x, w, None)?;
        g.relu(y)
    }),
    ("cumsum", |g| {
        let x = g.input("x", DType::F32, [5, 140]);
        g.cumsum(x, 1)
    }),
];

/// What the rules design for a processor, which then goes to a GPU as well.
fn designed() -> impl Iterator<Item = Meaning> {
    GRAPHS.into_iter().map(|(name, build)| {
        let mut graph = Graph::new(name);
        let y = build(&mut graph).unwrap();
        graph.output(y);
        let target = Target::new("cpu", std::env::consts::ARCH);
        let design = akg::designer::design(&Task::new(name, graph), &target).unwrap();
        interpreted(format!("designed {name}"), &design.sketch, Bindings::new())
    })
}

fn as_cpp(meanings: &[Meaning]) -> Result<Vec<String>, Failed> {
    if !crate::has_compiler() {
        return Ok(Vec::new());
    }
    let dsl = CppDsl::default();
    let cpu = registry().backend("cpu")?;
    let host = blocking::devices(&*cpu)?.remove(0);
    let mut failed = Vec::new();
    for meaning in meanings {
        let source = dsl.lower(&meaning.sketch, &meaning.knobs, &host)?;
        let artifact = dsl.build(&source, &host)?.map_err(|f| f.evidence)?;
        let request = RunRequest {
            artifact,
            inputs: meaning.inputs.clone(),
            dims: meaning.dims.clone(),
            poison: Poison::Ones,
            limits: Limits::default(),
        };
        let wrong = match blocking::run_once(&*cpu, request)? {
            Ok(output) => (meaning.check)(&output.outputs),
            Err(failure) => Some(failure.evidence),
        };
        failed.extend(wrong.map(|wrong| format!("{} as C++: {wrong}", meaning.name)));
    }
    Ok(failed)
}

/// By Triton's interpreter, which runs the programs of a kernel one after the other: sketches whose programs meet are left out.
fn as_triton(meanings: &[Meaning]) -> Vec<String> {
    let Some(python) = triton::python() else {
        return Vec::new();
    };
    let (dsl, target) = (TritonDsl::default(), triton::h100());
    let (mut jobs, mut checks) = (Vec::new(), Vec::new());
    for meaning in meanings {
        let source = dsl.lower(&meaning.sketch, &meaning.knobs, &target).unwrap();
        let meet = |l: &Launch| l.cooperative && LaunchPlan::programs(l, &meaning.dims).unwrap() > 1;
        if triton::plan(&source).launches.iter().any(meet) {
            continue;
        }
        let label = format!("relowered_{}", meaning.name.replace(' ', "_"));
        jobs.push(triton::run_job(&label, &source, &meaning.dims, &meaning.inputs));
        checks.push((meaning, source));
    }
    let results = triton::interpret(python, &jobs);
    let wrong = checks
        .iter()
        .zip(results)
        .filter_map(|((meaning, source), result)| {
            let outputs = triton::outputs(source, &meaning.dims, &result);
            let wrong = (meaning.check)(&outputs)?;
            Some(format!("{} as Triton: {wrong}", meaning.name))
        });
    wrong.collect()
}
