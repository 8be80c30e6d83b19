//! Kernels that somebody wrote in C++ or CUDA C++, as sources that akg builds and executes to see what they compute.

use std::fmt::Write as _;

use akg_core::dtype::DType;
use akg_core::error::{Error, Result};
use akg_core::expr::Expr;
use akg_core::lift::{Interface, Invocation, Language, Port, Value};
use akg_core::source::{Knobs, Source, SourceForm, TensorRole};

use crate::standalone::{EXTENTS, extent};

/// The entry function.
const ENTRY: &str = "akg_original";

/// The address of integers of 64 bits, by either of their names.
const LONGS: &str = "struct akg_longs {
  void *address;
  operator long *() const { return static_cast<long *>(address); }
  operator long long *() const { return static_cast<long long *>(address); }
  operator const long *() const { return static_cast<long *>(address); }
  operator const long long *() const { return static_cast<long long *>(address); }
};
";

/// The execution model of CUDA on a processor.
const CUDA: &str = include_str!("cuda.hpp");

/// A source that makes an interface's calls of a text.
///
/// CUDA C++ is executed by a header that has the language's words: the threads of a block take turns, and change places where
/// they wait for each other. It has blocks and grids of three dimensions, static shared memory, barriers, shuffles and votes of
/// warps, atomics and the usual functions; what it lacks (dynamic shared memory, textures, tensor cores, machine code) does not
/// compile.
///
/// # Errors
/// [`Unsupported`](akg_core::ErrorKind::Unsupported) for other languages and element types that C++ lacks.
pub fn original(language: Language, text: &str, interface: &Interface) -> Result<Source> {
    let mut out = String::from("#include <cmath>\n#include <cstdint>\n#include <cstring>\n");
    match language {
        Language::Cpp => {}
        Language::Cuda => out.push_str(CUDA),
        other => {
            return Err(Error::unsupported(format!("{} is not C++", other.title())));
        }
    }
    let _ = write!(
        out,
        "\n#line 1 \"original\"\n{}\n#line 1 \"calls\"\nnamespace {{\n{EXTENTS}{LONGS}}}\n",
        text.trim_end()
    );
    let _ = writeln!(
        out,
        "extern \"C\" void {ENTRY}(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {{\n  if (first >= last) return;"
    );
    for (at, name) in interface.dims.keys().enumerate() {
        let _ = writeln!(out, "  [[maybe_unused]] const int64_t {name} = dims[{at}];");
    }
    for (at, (role, port)) in interface.tensors().enumerate() {
        if port.zeroed && role != TensorRole::Input {
            let count: Vec<_> = port.shape.iter().map(|e| format!("({})", extent(e))).collect();
            let size = port.dtype.size();
            let _ = writeln!(out, "  memset(tensors[{at}], 0, {size} * {});", product(&count));
        }
    }
    for call in &interface.calls {
        let arguments = arguments(call, interface)?;
        let called = format!("{}({arguments})", call.function);
        let _ = match language {
            Language::Cuda => {
                let grid = corners(call.grid.iter().map(extent));
                let block = corners(call.block.iter().map(u32::to_string));
                writeln!(
                    out,
                    "  akg_launch(dim3({grid}), dim3({block}), [=] {{ {called}; }});"
                )
            }
            _ => writeln!(out, "  {called};"),
        };
    }
    out.push_str("}\n");
    Ok(Source {
        dsl: "cpp".to_owned(),
        text: out,
        form: SourceForm::Lowered {
            plan: interface.plan(ENTRY),
        },
        knobs: Knobs::new(),
    })
}

fn product(factors: &[String]) -> String {
    if factors.is_empty() {
        "1".to_owned()
    } else {
        factors.join(" * ")
    }
}

fn corners(numbers: impl Iterator<Item = String>) -> String {
    numbers.collect::<Vec<_>>().join(", ")
}

/// The arguments of a call as C++ writes them.
fn arguments(call: &Invocation, interface: &Interface) -> Result<String> {
    let ports: Vec<&Port> = interface.tensors().map(|(_, port)| port).collect();
    let written = call.arguments.iter().map(|argument| {
        Ok(match interface.value(argument)? {
            Value::Integer(expr) => integer(&expr),
            Value::Float(number) => format!("{number:?}"),
            // 64 bits are `long` here and `long long` there.
            Value::Tensor(at) if ports.get(at).is_some_and(|port| port.dtype == DType::I64) => {
                format!("akg_longs{{tensors[{at}]}}")
            }
            Value::Tensor(at) => {
                let ty = ports.get(at).map(|port| element(port.dtype)).transpose()?;
                format!("static_cast<{} *>(tensors[{at}])", ty.unwrap_or("void"))
            }
        })
    });
    Ok(written.collect::<Result<Vec<_>>>()?.join(", "))
}

fn integer(expr: &Expr) -> String {
    format!("({})", extent(expr))
}

/// The type of elements that a text of C++ has, other than integers of 64 bits.
fn element(dtype: DType) -> Result<&'static str> {
    Ok(match dtype {
        DType::Bool => "bool",
        DType::U8 => "uint8_t",
        DType::I8 => "int8_t",
        DType::I16 => "int16_t",
        DType::I32 => "int32_t",
        DType::F32 => "float",
        DType::F64 => "double",
        other => {
            return Err(Error::unsupported(format!(
                "the interface has tensors of {other}, which C++ has no type for"
            )));
        }
    })
}
