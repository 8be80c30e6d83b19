//! Bundles of small kernels.

use akg_core::bundle::Evidence;
use akg_core::conformance::Probe;
use akg_core::source::{Artifact, Launch, LaunchPlan, PlanTensor, Source, SourceForm, TensorRole};
use akg_core::task::SizeRange;
use akg_core::verdict::Verdict;
use akg_core::{Accuracy, Bundle, Candidate, DType, Expr, Graph, Target, Task, Tensor};

/// `N` is at most this in [`twice_reversed`].
pub(crate) const MOST: usize = 4000;

/// The plan of `y = reverse(2 x)` by the kernels `twice` and `reverse`, with a scratch tensor between.
pub(crate) fn twice_reversed_plan() -> LaunchPlan {
    let mut plan = Probe::TwoKernels.plan();
    for (launch, name) in plan.launches.iter_mut().zip(["twice", "reverse"]) {
        launch.kernel = name.into();
    }
    plan
}

/// The bundle of an artifact with the plan [`twice_reversed_plan`], for an architecture.
pub(crate) fn twice_reversed(arch: &str, artifact: Artifact) -> Bundle {
    let mut graph = Graph::new("twice_reversed");
    let x = graph.input("x", DType::F32, [Expr::symbol("N")]);
    let doubled = graph.add(x, x).unwrap();
    let arguments = [("self", doubled.into()), ("dims", (&[0i64]).into())];
    let y = graph.call("aten.flip.default", arguments).unwrap()[0];
    graph.output(y);
    let mut task = Task::new("twice_reversed", graph);
    task.contract.hints.insert("N".into(), 100);
    let range = SizeRange {
        lo: 1,
        hi: MOST as i64,
    };
    task.contract.ranges.insert("N".into(), range);
    bundle(&task, arch, artifact)
}

/// What [`twice_reversed`] makes of `x`.
pub(crate) fn expected(x: &[f32]) -> Vec<f32> {
    x.iter().rev().map(|x| 2.0 * x).collect()
}

/// The plan of `z = (x + c) + w` for six elements, where `c` is a constant of the graph, by the kernel `add` twice.
pub(crate) fn sum_plan() -> LaunchPlan {
    let tensor = |name: &str, role| PlanTensor {
        name: name.to_owned(),
        dtype: DType::F32,
        shape: vec![6.into()],
        role,
        align: 16,
        holds: None,
        updates: None,
    };
    let launch = |tensors: [usize; 3]| Launch {
        kernel: "add".into(),
        grid: vec![6.into()],
        tensors: tensors.to_vec(),
        cooperative: false,
        doc: String::new(),
    };
    LaunchPlan {
        dims: Vec::new(),
        tensors: vec![
            tensor("x", TensorRole::Input),
            tensor("w", TensorRole::Input),
            tensor("c", TensorRole::Input),
            tensor("t", TensorRole::Scratch),
            tensor("z", TensorRole::Output),
        ],
        launches: vec![launch([0, 2, 3]), launch([3, 1, 4])],
    }
}

/// The bundle of an artifact with the plan [`sum_plan`].
pub(crate) fn sum(arch: &str, artifact: Artifact, constant: &[f32; 6]) -> Bundle {
    let mut graph = Graph::new("sum");
    let x = graph.input("x", DType::F32, [6]);
    let w = graph.weight("w", DType::F32, [6]);
    let c = graph.constant("c", Tensor::from_slice([6], constant).unwrap());
    let t = graph.add(x, c).unwrap();
    let z = graph.add(t, w).unwrap();
    graph.output(z);
    bundle(&Task::new("sum", graph), arch, artifact)
}

/// A bundle that is believed without evidence.
pub(crate) fn bundle(task: &Task, arch: &str, artifact: Artifact) -> Bundle {
    let source = Source {
        dsl: "test".into(),
        text: String::new(),
        form: SourceForm::Lowered {
            plan: artifact.plan.clone(),
        },
        knobs: Default::default(),
    };
    let evidence = Evidence {
        verdict: Verdict::new(Accuracy::Fp32),
        timing: None,
        bound_seconds: None,
        kernels: Vec::new(),
    };
    let candidate = Candidate { source, artifact };
    let bundle = Bundle::new(task, &Target::new("cuda", arch), candidate, "", evidence).unwrap();
    Bundle::from_bytes(&bundle.to_bytes().unwrap()).unwrap()
}
