//! Bundles in other forms, judged by a C compiler and by PyTorch.

use std::path::Path;
use std::process::Command;

use akg::bundle::ModuleInput;
use akg::cpp::standalone;
use akg::cpu::modelnew;
use akg::python::{Config, Environment};
use akg::{Accuracy, Bundle, DType, ErrorKind, Graph, Task};

use crate::support::{bundle, inert, passed, reverse, scale_and_shift};
use crate::{W, expected, refused, rows};

/// Runs a program to its end; gives what it printed.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn c_array(values: &[f32]) -> String {
    let values: Vec<_> = values.iter().map(|v| format!("{v:?}f")).collect();
    format!("{{{}}}", values.join(", "))
}

#[test]
fn c_files_compile_and_compute_the_same() {
    let Some(bundle) = bundle(scale_and_shift()) else {
        return;
    };
    let files = standalone(&bundle).unwrap();
    assert_eq!(files.name, "scale_and_shift");
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(place.path().join(name), text).unwrap();
    write("scale_and_shift.h", &files.header);
    write("scale_and_shift.cpp", &files.source);
    let n = 23;
    write(
        "main.c",
        &format!(
            "#include <stdio.h>\n#include <stdlib.h>\n#include \"scale_and_shift.h\"\nint main(void) {{\n\
             static const float x[] = {}, w[] = {};\nfloat y[{}];\nvoid *scratch = malloc(scale_and_shift_scratch_bytes({n}));\n\
             if (!scale_and_shift(x, w, y, 0, scratch) || !scale_and_shift(x, w, y, 1001, scratch)) return 2;\n\
             if (scale_and_shift(x, w, y, {n}, scratch)) return 3;\n\
             for (int i = 0; i < {}; ++i) printf(\"%a\\n\", y[i]);\nfree(scratch);\nreturn 0;\n}}\n",
            c_array(&rows(n)),
            c_array(&W),
            4 * n,
            4 * n,
        ),
    );
    for flags in [
        &["-O2"][..],
        &["-O1", "-fopenmp"],
        &["-fsanitize=address,undefined"],
    ] {
        let here = |program: &str| {
            let mut command = Command::new(program);
            command.current_dir(place.path()).args(flags);
            command
        };
        run(here("cc").args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-c", "main.c"]));
        run(here("c++").args([
            "-std=c++17",
            "-Wall",
            "-Werror",
            "scale_and_shift.cpp",
            "main.o",
            "-o",
            "main",
        ]));
        let printed = run(&mut Command::new(place.path().join("main")));
        let exact: Vec<String> = printed.lines().map(str::to_owned).collect();
        let expected: Vec<f32> = expected(&bundle.task(), n);
        assert_eq!(exact.len(), expected.len());
        for (printed, expected) in exact.iter().zip(expected) {
            assert_eq!(hexadecimal(printed), f64::from(expected), "{printed}");
        }
    }
}

/// A number as `%a` prints it: `-0x1.8p+3`.
fn hexadecimal(text: &str) -> f64 {
    let (sign, rest) = text.strip_prefix('-').map_or((1.0, text), |rest| (-1.0, rest));
    let (mantissa, exponent) = rest.trim_start_matches("0x").split_once('p').unwrap();
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = i64::from_str_radix(&format!("{whole}{part}"), 16).unwrap();
    sign * digits as f64 * 2f64.powi(exponent.parse::<i32>().unwrap() - 4 * part.len() as i32)
}

#[test]
fn kernels_that_wait_for_each_other_have_no_other_form() {
    let Some(bundle) = bundle(reverse(&[0.0; 8])) else {
        return;
    };
    refused(
        standalone(&bundle),
        ErrorKind::Unsupported,
        &["`reverse`", "wait"],
    );
    refused(modelnew(&bundle), ErrorKind::Unsupported, &["`reverse`", "wait"]);
}

/// A Python with PyTorch, or a note on the terminal.
pub(crate) fn python() -> Option<Environment> {
    match Environment::find(&Config::default()) {
        Ok(environment) => Some(environment),
        Err(e) => {
            eprintln!("SKIPPED: {e}");
            None
        }
    }
}

/// Runs a script in which `m` is the exported module.
fn with_module(environment: &Environment, text: &str, script: &str) -> String {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("exported.py"), text).unwrap();
    let script = format!("import sys, torch\nsys.path.insert(0, '.')\nimport exported as m\n{script}");
    run(Command::new(environment.python())
        .arg("-c")
        .arg(script)
        .current_dir(place.path()))
}

const MODULE: &str = "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n    def __init__(self):\n        \
    super().__init__()\n        self.unused = nn.Linear(3, 3)\n        self.w = nn.Parameter(torch.randn(4))\n\n    def \
    forward(self, x):\n        return x + x + self.w\n";

#[test]
fn modelnew_is_the_module_with_other_kernels() {
    let (Some(bundle), Some(environment)) = (bundle(scale_and_shift()), python()) else {
        return;
    };
    let inputs = vec![ModuleInput::Argument(0), ModuleInput::Attribute("w".into())];
    let bundle = bundle.with_module(MODULE, inputs).unwrap();
    let text = modelnew(&bundle).unwrap();
    for word in ["pass", "try:", "except ", "import threading"] {
        assert!(!text.contains(word), "benchmarks refuse files with `{word}`");
    }
    with_module(
        &environment,
        &text,
        "
torch.manual_seed(42)
model = m.Model()
torch.manual_seed(42)
new = m.ModelNew()
assert all(torch.equal(p, q) for p, q in zip(model.parameters(), new.parameters(), strict=True))
def same(x):
    with torch.no_grad():
        assert torch.equal(model(x), new(x))
for threads in (1, 3):
    torch.set_num_threads(threads)
    for n in (1, 7, 1000):
        same(torch.randn(n, 4))
same(torch.randn(4, 9).t())
same(torch.randn(101)[1:].reshape(25, 4))
def refuses(words, *x):
    try:
        new(*x)
    except ValueError as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
refuses('float32', torch.zeros(2, 4, dtype=torch.float64))
refuses('shape', torch.zeros(2, 5))
refuses('from 1 to 1000', torch.zeros(1001, 4))
",
    );
}

/// `y = x + seed`.
const DRAW: &str = r#"// akg-launch: {"tensors": [
// {"name": "seed", "dtype": "i64", "shape": [], "role": "input", "align": 8},
// {"name": "x", "dtype": "i64", "shape": [3], "role": "input", "align": 8},
// {"name": "y", "dtype": "i64", "shape": [3], "role": "output", "align": 8}],
// "launches": [{"kernel": "draw", "grid": [3], "tensors": [0, 1, 2]}]}
#include <cstdint>
extern "C" void draw(void *const *tensors, const int64_t *, int64_t first, int64_t last) {
  const int64_t seed = *static_cast<const int64_t *>(tensors[0]);
  for (int64_t i = first; i < last; ++i)
    static_cast<int64_t *>(tensors[2])[i] = static_cast<const int64_t *>(tensors[1])[i] + seed;
}
"#;

#[test]
fn modelnew_draws_a_seed_for_each_call() {
    let mut graph = Graph::new("draw");
    let seed = graph.input("seed", DType::I64, [0i64; 0]);
    let x = graph.input("x", DType::I64, [3]);
    let y = graph.add(x, seed).unwrap();
    graph.output(y);
    let (Some(bundle), Some(environment)) = (bundle((Task::new("draw", graph), DRAW)), python()) else {
        return;
    };
    let module =
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x\n";
    let inputs = vec![ModuleInput::Seed {}, ModuleInput::Argument(0)];
    with_module(
        &environment,
        &modelnew(&bundle.with_module(module, inputs).unwrap()).unwrap(),
        "
x = torch.tensor([0, -1, -2])
torch.manual_seed(5)
seeds = [torch.randint(2**63 - 1, ()) for _ in range(2)]
torch.manual_seed(5)
assert seeds[0] != seeds[1]
for seed in seeds:
    assert torch.equal(m.ModelNew()(x), x + seed)
",
    );
}

/// Two outputs, one of which is the new content of a buffer.
const COUNT: &str = r#"// akg-launch: {"tensors": [
// {"name": "x", "dtype": "f32", "shape": [6], "role": "input", "align": 4},
// {"name": "w", "dtype": "f32", "shape": [6], "role": "input", "align": 4},
// {"name": "seen", "dtype": "i64", "shape": [], "role": "input", "align": 8},
// {"name": "c", "dtype": "f32", "shape": [6], "role": "input", "align": 4},
// {"name": "y", "dtype": "f32", "shape": [6], "role": "output", "align": 512},
// {"name": "next", "dtype": "i64", "shape": [], "role": "output", "align": 8}],
// "launches": [{"kernel": "count", "grid": [1], "tensors": [0, 1, 2, 3, 4, 5]}]}
#include <cstdint>
extern "C" void count(void *const *tensors, const int64_t *, int64_t, int64_t) {
  float *y = static_cast<float *>(tensors[4]);
  if (reinterpret_cast<uintptr_t>(y) % 512 != 0) return;
  for (int i = 0; i < 6; ++i)
    y[i] = static_cast<const float *>(tensors[0])[i] * static_cast<const float *>(tensors[1])[i] +
           static_cast<const float *>(tensors[3])[i];
  *static_cast<int64_t *>(tensors[5]) = *static_cast<const int64_t *>(tensors[2]) + 1;
}
"#;

fn count() -> Task {
    let mut graph = Graph::new("2 count/it");
    let x = graph.input("x", DType::F32, [6]);
    let w = graph.weight("w", DType::F32, [6]);
    let seen = graph.state("seen", DType::I64, [0i64; 0]);
    let values = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    let c = graph.constant("c", akg::Tensor::from_slice([6], &values).unwrap());
    let scaled = graph.mul(x, w).unwrap();
    let y = graph.add(scaled, c).unwrap();
    let arguments = [("self", seen.into()), ("other", 1i64.into())];
    let next = graph.call("aten.add.Scalar", arguments).unwrap()[0];
    graph.output(y);
    graph.update(seen, next).unwrap();
    Task::new("2 count/it", graph)
}

#[test]
fn weights_constants_and_state_without_a_module() {
    let Some(bundle) = bundle((count(), COUNT)) else {
        return;
    };
    let bundle = Bundle::from_bytes(&bundle.to_bytes().unwrap()).unwrap();
    assert_eq!(bundle.manifest().outputs[1].updates.as_deref(), Some("seen"));
    let files = standalone(&bundle).unwrap();
    assert_eq!(files.name, "v2_count_it");
    let compiled = compiles(&files.source, &files.header, &files.name);
    assert!(compiled, "{}", files.source);
    let Some(environment) = python() else { return };
    with_module(
        &environment,
        &modelnew(&bundle).unwrap(),
        "
torch.manual_seed(1)
new = m.ModelNew()
torch.manual_seed(1)
assert torch.equal(new.w, torch.randn(6)) and [n for n, _ in new.named_buffers()] == ['seen']
for calls in (1, 2):
    x = torch.randn(6)
    y = new(x)
    assert torch.equal(y, x * new.w + torch.arange(1.0, 7.0)), y
    assert int(new.seen) == calls
",
    );
}

fn compiles(source: &str, header: &str, name: &str) -> bool {
    let place = tempfile::tempdir().unwrap();
    let path = |extension: &str| place.path().join(name).with_extension(extension);
    std::fs::write(path("h"), header).unwrap();
    std::fs::write(path("cpp"), source).unwrap();
    let compiler = |file: &Path| {
        let mut command = Command::new("c++");
        command
            .args(["-std=c++17", "-Wall", "-Werror", "-c", "-o", "/dev/null"])
            .arg(file);
        command.status().unwrap().success()
    };
    compiler(&path("cpp"))
}

#[test]
fn what_is_no_cpp_has_no_c_form() {
    let plan = {
        let source = akg::Dsl::parse(&akg::cpp::CppDsl::default(), scale_and_shift().1).unwrap();
        let akg::source::SourceForm::Lowered { plan } = source.form else {
            panic!("no plan")
        };
        plan
    };
    let mut candidate = inert(plan);
    candidate.source.dsl = "poem".into();
    candidate.artifact.format = "paper".into();
    let mut evidence = passed();
    evidence.verdict.accuracy = Accuracy::Fp32;
    let bundle = Bundle::new(&scale_and_shift().0, &crate::host(), candidate, "", evidence).unwrap();
    refused(standalone(&bundle), ErrorKind::Unsupported, &["`poem`"]);
    refused(modelnew(&bundle), ErrorKind::Unsupported, &["`paper`"]);
}
