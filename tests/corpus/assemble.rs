//! Kernels of the parts that corpus files have.

use std::fmt::Write as _;

use akg::image::{Images, KernelImage, Parameter, Report};
use akg::source::{Artifact, Knobs, Launch, LaunchPlan, PlanTensor, Source, SourceForm, TensorRole};
use akg::{DType, Task};

use crate::entry::Form;
use crate::sections::{File, Section};

pub(crate) const INCLUDES: &str = "
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>
";

/// A C++ kernel: `compute`, which is given the tensors and a range of programs, is called by the kernel itself or by the
/// function `run` of a wrapper.
pub(crate) fn kernel(
    task: &Task,
    head: &Section,
    compute: &str,
    section: &Section,
    wrapper: Option<&str>,
) -> Form {
    let mut plan = plan(task, head);
    let scratch = section.options.iter().filter(|(key, _)| key == "scratch");
    for (_, declared) in scratch {
        let index = plan.tensors.len();
        plan.tensors.push(scratch_tensor(declared));
        plan.launches[0].tensors.push(index);
    }
    if let Some(programs) = section.option("programs") {
        plan.launches[0].grid = vec![programs.parse::<i64>().unwrap().into()];
    }
    let entry = if wrapper.is_some() { "run" } else { "compute" };
    let text = format!(
        "{INCLUDES}{}{compute}\n{}\n\
         extern \"C\" void kernel(void *const *tensors, const int64_t *, int64_t first, int64_t last) {{\n    \
             {entry}(Tensors(tensors), first, last);\n}}\n",
        tensors(&plan),
        wrapper.unwrap_or_default(),
    );
    Form::Source(Box::new(Source {
        dsl: "cpp".into(),
        text,
        form: SourceForm::Lowered { plan },
        knobs: Knobs::new(),
    }))
}

/// The text of a section: alone, or in its place in the file's head.
pub(crate) fn text(file: &File, section: &Section) -> String {
    if file.head.text.contains("@SECTION@") {
        file.head.text.replace("@SECTION@", &section.text)
    } else {
        section.text.clone()
    }
}

/// A kernel in CUDA C++ whose parameters are the tensors of the task.
pub(crate) fn cuda(task: &Task, file: &File, section: &Section) -> Form {
    let option = |key: &str| section.option(key).or(file.head.option(key));
    let number = |key: &str, other: i64| option(key).map_or(other, |n| n.parse::<i64>().unwrap());
    let mut plan = plan(task, &file.head);
    plan.launches[0].grid = vec![number("programs", 1).into()];
    let image = KernelImage {
        kernel: "kernel".into(),
        symbol: "kernel".into(),
        threads: number("threads", 256) as u32,
        cluster: 1,
        shared_bytes: number("shared", 0) as u32,
        parameters: (0..plan.tensors.len()).map(Parameter::Tensor).collect(),
        report: Report::default(),
        code: section.text.clone().into_bytes(),
    };
    let images = Images { kernels: vec![image] };
    Form::Cuda(Box::new(Artifact {
        format: "cuda-c++".into(),
        bytes: images.encode().unwrap(),
        plan,
        metadata: [].into(),
    }))
}

fn plan(task: &Task, head: &Section) -> LaunchPlan {
    let tensors = PlanTensor::of(&task.graph);
    let programs = head.option("programs").map_or(1, |n| n.parse::<i64>().unwrap());
    LaunchPlan {
        dims: Vec::new(),
        launches: vec![Launch {
            kernel: "kernel".into(),
            grid: vec![programs.into()],
            tensors: (0..tensors.len()).collect(),
            cooperative: false,
            doc: String::new(),
        }],
        tensors,
    }
}

/// `s f32 64 128`.
fn scratch_tensor(declared: &str) -> PlanTensor {
    let mut words = declared.split_whitespace();
    let (name, dtype) = (words.next().unwrap(), words.next().unwrap());
    PlanTensor {
        name: name.into(),
        dtype: serde_json::from_value(dtype.into()).unwrap(),
        shape: words
            .map(|extent| extent.parse::<i64>().unwrap().into())
            .collect(),
        role: TensorRole::Scratch,
        align: 64,
        holds: None,
        updates: None,
    }
}

/// The struct of a plan's tensors by name, and the number of elements of each: `x` and `x_size`.
fn tensors(plan: &LaunchPlan) -> String {
    let mut text = String::new();
    for tensor in &plan.tensors {
        let size = tensor.shape.iter().try_fold(1, |n, extent| {
            extent.eval(&[].into()).ok().map(|extent| n * extent)
        });
        if let Some(size) = size {
            writeln!(text, "constexpr int64_t {}_size = {size};", tensor.name).unwrap();
        }
    }
    text.push_str("struct Tensors {\n    void *const *raw;\n");
    let mut bodies = String::new();
    for (index, tensor) in plan.tensors.iter().enumerate() {
        let (name, ty) = (&tensor.name, element(tensor.dtype));
        let constant = if tensor.role == TensorRole::Input {
            "const "
        } else {
            ""
        };
        writeln!(text, "    {constant}{ty} *{name};").unwrap();
        write!(bodies, ", {name}(({constant}{ty} *)raw[{index}])").unwrap();
    }
    writeln!(
        text,
        "    explicit Tensors(void *const *raw) : raw(raw){bodies} {{}}\n}};"
    )
    .unwrap();
    text
}

fn element(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float",
        DType::F64 => "double",
        DType::F16 => "_Float16",
        DType::BF16 | DType::I16 => "int16_t",
        DType::Bool | DType::U8 => "uint8_t",
        DType::I8 => "int8_t",
        DType::I32 => "int32_t",
        DType::I64 => "int64_t",
        other => panic!("the corpus has no tensors of {other}"),
    }
}
