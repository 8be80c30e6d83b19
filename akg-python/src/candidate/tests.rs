use akg_core::DType;
use akg_core::Expr;
use akg_core::backend::Poison;
use akg_core::source::{PlanTensor, TensorRole};

use super::*;
use crate::environment::Config;

mod left_behind;

/// Lets a module pass that changes the worker: what is tested holds for one that also hides that.
const UNSEEN: &str = "from akg_worker import candidate\ncandidate.Candidate.left = lambda _: {}\n";

/// Ten results of all kinds from `x`, of 4 times 6 elements.
const KINDS: &str = "
import torch


class ModelNew:
    def __call__(self, x):
        turned = torch.view_as_complex(torch.stack((x, x), -1)).conj().imag
        y = x * 2
        return (x.T, x, x[1:3], x.half(), x.bfloat16(), x > 2, x.to(torch.int8), torch.empty(0, 3), [y, y], turned)
";

fn tensor(name: &str, dtype: DType, shape: &[i64], role: TensorRole) -> PlanTensor {
    PlanTensor {
        name: name.to_owned(),
        dtype,
        shape: shape.iter().map(|extent| Expr::from(*extent)).collect(),
        role,
        align: 64,
        holds: None,
        updates: None,
    }
}

/// Where Python is with PyTorch; none where there is none.
fn environment() -> Option<Environment> {
    let found = Environment::find(&Config::default());
    found.inspect_err(|why| eprintln!("SKIPPED: {why}")).ok()
}

/// A module from `x` to these outputs, where its results are read or fetched; none where there is no PyTorch.
fn load(text: &str, outputs: &[(DType, &[i64])], on_host: bool) -> Option<Result<ModuleExecutor, Failure>> {
    let environment = environment()?;
    let mut tensors = vec![tensor("x", DType::F32, &[4, 6], TensorRole::Input)];
    let outputs = outputs.iter().enumerate();
    tensors.extend(
        outputs.map(|(at, (dtype, shape))| tensor(&format!("y{at}"), *dtype, shape, TensorRole::Output)),
    );
    let interface = ModuleInterface {
        tensors,
        inputs: vec!["x".to_owned()],
        ..ModuleInterface::default()
    };
    let artifact = interface.artifact(text).unwrap();
    let mut limits = Limits::default();
    limits.time = Duration::from_secs(60);
    Some(ModuleExecutor::load_reading(environment, HOST, on_host, &artifact, limits).unwrap())
}

fn input(slot: usize) -> Tensor {
    let values: Vec<f32> = (0..24).map(|i| (i % 5 + slot) as f32).collect();
    Tensor::from_slice([4, 6], &values).unwrap()
}

/// Binds slots, calls each once, and takes these; or why not.
fn run(executor: &mut ModuleExecutor, count: usize, take: &[usize]) -> Result<Vec<RunOutput>, Failure> {
    let call = |slot| Tensors {
        inputs: vec![input(slot)],
        dims: Bindings::new(),
        poison: Poison::Ones,
        placement: 0,
    };
    executor.put((0..count).map(call).collect()).unwrap()?;
    executor.execute(count as u32, Cache::Warm).unwrap()?;
    executor.execute(0, Cache::Warm).unwrap()?;
    executor.look(take).unwrap()
}

fn values(output: &RunOutput, at: usize) -> Vec<f64> {
    output.outputs[at].to_f64().unwrap()
}

#[test]
fn results_of_all_kinds_are_read() {
    let outputs: [(DType, &[i64]); 11] = [
        (DType::F32, &[6, 4]),
        (DType::F32, &[4, 6]),
        (DType::F32, &[2, 6]),
        (DType::F16, &[4, 6]),
        (DType::BF16, &[4, 6]),
        (DType::Bool, &[4, 6]),
        (DType::I8, &[4, 6]),
        (DType::F32, &[0, 3]),
        (DType::F32, &[4, 6]),
        (DType::F32, &[4, 6]),
        (DType::F32, &[4, 6]),
    ];
    for on_host in [true, false] {
        let Some(executor) = load(KINDS, &outputs, on_host) else {
            return;
        };
        let mut executor = executor.unwrap();
        // Twice, in memory that is used again.
        for _ in 0..2 {
            let taken = run(&mut executor, 3, &[2, 0]).unwrap();
            for (output, slot) in taken.iter().zip([2, 0]) {
                assert!(output.inputs_unchanged);
                let x = input(slot).to_f64().unwrap();
                let turned: Vec<f64> = (0..24).map(|i| x[i % 4 * 6 + i / 4]).collect();
                assert_eq!(values(output, 0), turned);
                assert_eq!(values(output, 2), x[6..18]);
                for at in [1, 3, 4, 6] {
                    assert_eq!(values(output, at), x, "{at}");
                }
                let larger: Vec<f64> = x.iter().map(|v| f64::from(u8::from(*v > 2.0))).collect();
                assert_eq!(values(output, 5), larger);
                let double: Vec<f64> = x.iter().map(|v| 2.0 * v).collect();
                assert_eq!((values(output, 8), values(output, 9)), (double.clone(), double));
                assert_eq!(values(output, 10), x.iter().map(|v| -v).collect::<Vec<_>>());
            }
        }
    }
}

/// What a module does in the place of `x * 2`, and how that ends where results are read, and where they are fetched.
const HOSTILE: [(&str, Option<FailureKind>, Option<FailureKind>); 6] = [
    (
        // The same memory for every call, which is no misdeed once akg knows it.
        "kept.append(0)\n        space.copy_(x * 2)\n        return space\nspace, kept = torch.empty(4, 6), []",
        None,
        None,
    ),
    (
        "return x * 2\nreal = torch.Tensor.cpu\ntorch.Tensor.cpu = lambda tensor: real(tensor) + 1",
        None,
        Some(FailureKind::ClockMismatch),
    ),
    (
        "return x * 2\nfrom akg_worker import candidate\ncandidate.digests = lambda tensors: [[0, 0] for _ in tensors]",
        None,
        Some(FailureKind::ClockMismatch),
    ),
    (
        "return x * 2\nfrom akg_worker import candidate\ncandidate.CALLS['run'] = lambda message: {}",
        Some(FailureKind::Crashed),
        Some(FailureKind::Crashed),
    ),
    (
        "return x * 2\nfrom akg_worker import candidate\nplaces = lambda called: [(slot, [16]) for slot, _ in called]\n\
         candidate.located = lambda called: {'types': candidate.types_of(called), 'places': places(called)}",
        Some(FailureKind::WrongType),
        Some(FailureKind::WrongType),
    ),
    (
        "return (x * 2).double()",
        Some(FailureKind::WrongType),
        Some(FailureKind::WrongType),
    ),
];

#[test]
fn nothing_is_believed_that_a_module_says_of_its_results() {
    for (body, read, fetched) in HOSTILE {
        let text = format!(
            "import torch\n\n\nclass ModelNew:\n    def __call__(self, x):\n        {body}\n{UNSEEN}"
        );
        for (on_host, expected) in [(true, read), (false, fetched)] {
            let Some(executor) = load(&text, &[(DType::F32, &[4, 6])], on_host) else {
                return;
            };
            let mut executor = executor.unwrap();
            // The first run is the one in which a module shows that it keeps memory.
            let _ = run(&mut executor, 2, &[1]);
            let taken = run(&mut executor, 2, &[0, 1]);
            let failure = taken.as_ref().err().map(|failure| failure.kind);
            assert_eq!(failure, expected, "{body}: {taken:?}");
            for (slot, output) in taken.iter().flatten().enumerate() {
                let double: Vec<f64> = input(slot).to_f64().unwrap().iter().map(|v| 2.0 * v).collect();
                assert_eq!(values(output, 0), double, "{body}");
            }
        }
    }
}

#[test]
fn inputs_that_were_changed_are_seen_by_the_judge() {
    let text = "class ModelNew:\n    def __call__(self, x):\n        y = x * 2\n        x[0, 0] += 1\n        return y\n";
    for on_host in [true, false] {
        let Some(executor) = load(text, &[(DType::F32, &[4, 6])], on_host) else {
            return;
        };
        let taken = run(&mut executor.unwrap(), 2, &[1]).unwrap();
        assert!(!taken[0].inputs_unchanged);
    }
}

#[test]
fn a_module_cannot_make_the_constant_long() {
    let text = "import time\n\n\nclass ModelNew:\n    def __call__(self, x):\n        return x * 2\n\n\n\
                from akg_worker import candidate\nreal = candidate.CALLS['run']\ndef slow(message):\n    \
                if not message['slots']: time.sleep(2)\n    return real(message)\ncandidate.CALLS['run'] = slow\n";
    let Some(executor) = load(text, &[(DType::F32, &[4, 6])], true) else {
        return;
    };
    let mut executor = executor.unwrap();
    run(&mut executor, 1, &[0]).unwrap();
    let (most, call) = (
        executor.trip * MOST_TRIPS,
        Tensors {
            inputs: vec![input(0)],
            dims: Bindings::new(),
            poison: Poison::Ones,
            placement: 0,
        },
    );
    executor.put(vec![call]).unwrap().unwrap();
    assert!(executor.execute(0, Cache::Warm).unwrap().unwrap() <= most);
}
