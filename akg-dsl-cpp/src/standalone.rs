//! Bundles as C++ files that need nothing else, with an interface in C.

use std::fmt::Write as _;

use akg_core::bundle::{Bundle, Manifest, Port};
use akg_core::dtype::DType;
use akg_core::error::{Error, Result};
use akg_core::expr::{Atom, Excess, Expr};
use akg_core::lower::loops::Names;
use akg_core::source::{LaunchPlan, PlanTensor, TensorRole, comment_lines};

use crate::names::RESERVED;

/// The least alignment of scratch tensors: a cache line, so that threads do not share one.
const LEAST_ALIGN: usize = 64;

/// A bundle as files to compile into a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standalone {
    /// The name of the entry function, and of the files without their extensions.
    pub name: String,
    /// The header `NAME.h`, in C.
    pub header: String,
    /// The source `NAME.cpp`, in C++17: the kernels and the entry function.
    pub source: String,
}

/// A bundle's kernels with one function that calls them.
///
/// It executes them on the calling thread, or on those of OpenMP if it is compiled with that.
///
/// # Errors
/// [`Unsupported`](akg_core::ErrorKind::Unsupported) for kernels in another language or whose programs wait for each
/// other, and for dims that are no extents of an input.
pub fn standalone(bundle: &Bundle) -> Result<Standalone> {
    let manifest = bundle.manifest();
    if manifest.dsl != "cpp" {
        return Err(Error::unsupported(format!(
            "the bundle's kernels are written in `{}`, which is no C++",
            manifest.dsl
        )));
    }
    if let Some(launch) = manifest.plan.launches.iter().find(|l| l.cooperative) {
        return Err(Error::unsupported(format!(
            "the programs of kernel `{}` wait for each other, which the C form cannot do",
            launch.kernel
        )));
    }
    let files = Files::new(bundle);
    Ok(Standalone {
        header: files.header()?,
        source: files.source()?,
        name: files.name,
    })
}

/// The files and the names in them.
struct Files<'a> {
    bundle: &'a Bundle,
    /// The plan, whose dims have names that C allows.
    plan: LaunchPlan,
    name: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
    has_scratch: bool,
}

impl<'a> Files<'a> {
    fn new(bundle: &'a Bundle) -> Self {
        let manifest = bundle.manifest();
        let mut names = Names::new(RESERVED);
        let kernels = manifest.plan.launches.iter().map(|launch| launch.kernel.as_str());
        for name in kernels.chain(["scratch", "offsets", "memory", "plan"]) {
            names.reserve(name);
        }
        let plan = manifest.plan.rename_dims(|dim| names.fresh(dim));
        let has_scratch = plan.with_role(TensorRole::Scratch).next().is_some();
        let mut fresh = |name: &str| names.fresh(name).to_string();
        Self {
            bundle,
            name: fresh(&manifest.name),
            inputs: manifest.inputs.iter().map(|port| fresh(&port.name)).collect(),
            outputs: manifest.outputs.iter().map(|port| fresh(&port.name)).collect(),
            has_scratch,
            plan,
        }
    }

    fn manifest(&self) -> &'a Manifest {
        self.bundle.manifest()
    }

    fn plan(&self) -> &LaunchPlan {
        &self.plan
    }

    /// `int64_t N, int64_t M`, or `void`.
    fn dim_parameters(&self) -> String {
        let dims: Vec<_> = self.plan().dims.iter().map(|d| format!("int64_t {d}")).collect();
        if dims.is_empty() {
            "void".to_owned()
        } else {
            dims.join(", ")
        }
    }

    fn entry(&self) -> String {
        let manifest = self.manifest();
        let inputs = manifest.inputs.iter().zip(&self.inputs);
        let inputs = inputs.map(|(port, name)| format!("const {} *{name}", c_type(port.dtype)));
        let outputs = manifest.outputs.iter().zip(&self.outputs);
        let outputs = outputs.map(|(port, name)| format!("{} *{name}", c_type(port.dtype)));
        let dims = self.plan().dims.iter().map(|d| format!("int64_t {d}"));
        let scratch = self.has_scratch.then(|| "void *scratch".to_owned());
        let parameters: Vec<_> = inputs.chain(outputs).chain(dims).chain(scratch).collect();
        format!("int {}({})", self.name, parameters.join(", "))
    }

    fn header(&self) -> Result<String> {
        let manifest = self.manifest();
        let guard = format!("{}_H", self.name.to_uppercase());
        let mut text = format!(
            "/* {} in accuracy class {}. Made by akg {} from the bundle\n   {}. */\n#ifndef {guard}\n#define {guard}\n\n\
             #include <stddef.h>\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n",
            comment(&manifest.name),
            manifest.contract.accuracy,
            comment(&manifest.akg),
            self.bundle.content_hash()?,
        );
        if self.has_scratch {
            let _ = writeln!(
                text,
                "/* Bytes of scratch memory that a call needs. */\nsize_t {}_scratch_bytes({});\n",
                self.name,
                self.dim_parameters()
            );
        }
        text.push_str("/* Computes the outputs from the inputs. All tensors are dense and row-major.\n\n");
        for (port, name) in manifest.inputs.iter().zip(&self.inputs) {
            let _ = writeln!(text, "   {name}: {}", describe(port));
        }
        let tensors = self.plan().with_role(TensorRole::Output);
        for ((port, name), (_, tensor)) in manifest.outputs.iter().zip(&self.outputs).zip(tensors) {
            let input = tensor.updates.and_then(|input| self.input(input));
            let place = input.map_or_else(String::new, |input| {
                format!("in place if it is `{input}` itself; else ")
            });
            let _ = writeln!(
                text,
                "   {name}: {}, written; {place}overlaps nothing else",
                describe(port)
            );
        }
        if self.has_scratch {
            let _ = writeln!(
                text,
                "   scratch: {}_scratch_bytes of memory; one call at a time may use it",
                self.name
            );
        }
        let range = if self.plan().dims.is_empty() {
            "Returns 0."
        } else {
            "Returns 0, or 1 if a dim has a value that the contract excludes; then nothing is computed."
        };
        let _ = write!(
            text,
            "\n   {range} */\n{};\n\n#ifdef __cplusplus\n}}\n#endif\n\n#endif\n",
            self.entry()
        );
        Ok(text)
    }

    fn source(&self) -> Result<String> {
        let manifest = self.manifest();
        let source = self.bundle.candidate().source.text;
        let built = |key: &str| manifest.toolchain.get(key).map_or("", |v| v.as_str());
        let mut text = format!(
            "// {} in accuracy class {}. Made by akg {} from the bundle\n// {}.\n//\n// Verified as built by: {}\n// with: {}\n\n\
             #include \"{}.h\"\n\n#include <cstring>\n\n#ifdef _OPENMP\n#include <omp.h>\n#endif\n\n{source}\n",
            comment(&manifest.name),
            manifest.contract.accuracy,
            comment(&manifest.akg),
            self.bundle.content_hash()?,
            comment(built("compiler")),
            comment(built("flags")),
            self.name,
        );
        text.push_str(SUPPORT);
        if !self.plan().dims.is_empty() {
            text.push_str(EXTENTS);
        }
        for (i, constant) in self.bundle.graph().constants().iter().enumerate() {
            let bytes = constant.tensor.bytes();
            let values: Vec<_> = bytes.iter().map(ToString::to_string).collect();
            let lines: Vec<_> = values
                .chunks(24)
                .map(|line| format!("  {},", line.join(", ")))
                .collect();
            let _ = writeln!(
                text,
                "alignas(64) const unsigned char akg_constant_{i}[] = {{\n{}\n}};\n",
                if lines.is_empty() {
                    "  0".to_owned()
                } else {
                    lines.join("\n")
                }
            );
        }
        if self.has_scratch {
            self.place(&mut text);
        }
        text.push_str("}  // namespace\n\n");
        if self.has_scratch {
            let _ = writeln!(
                text,
                "extern \"C\" size_t {}_scratch_bytes({}) {{\n{}  size_t offsets[{}];\n  return akg_place(dims, offsets);\n}}\n",
                self.name,
                self.dim_parameters(),
                self.dims_array(),
                self.plan().with_role(TensorRole::Scratch).count()
            );
        }
        self.call(&mut text);
        Ok(text)
    }

    /// The name of an input by its position in the plan.
    fn input(&self, tensor: usize) -> Option<&str> {
        let at = self
            .plan()
            .with_role(TensorRole::Input)
            .position(|(at, _)| at == tensor)?;
        self.inputs.get(at).map(String::as_str)
    }

    /// The dims as kernels take them.
    fn dims_array(&self) -> String {
        let dims: Vec<&str> = self.plan().dims.iter().map(|d| &**d).collect();
        let dims = if dims.is_empty() {
            "0".to_owned()
        } else {
            dims.join(", ")
        };
        format!("  const int64_t dims[] = {{{dims}}};\n")
    }

    /// The function that says where scratch tensors lie.
    fn place(&self, text: &mut String) {
        text.push_str(
            "// Where scratch tensors lie; gives the bytes of all, with room to align the first.\n",
        );
        text.push_str("size_t akg_place(const int64_t *dims, size_t *offsets) {\n  size_t end = 0;\n");
        self.dim_names(text);
        for (i, (_, tensor)) in self.plan().with_role(TensorRole::Scratch).enumerate() {
            let align = alignment(tensor);
            let extents = tensor.shape.iter().map(|e| format!("size_t({})", extent(e)));
            let bytes: Vec<_> = std::iter::once(tensor.dtype.size().to_string())
                .chain(extents)
                .collect();
            let _ = writeln!(
                text,
                "  end = (end + {}) / {align} * {align};  // {}\n  offsets[{i}] = end;\n  end += {};",
                align - 1,
                comment(&tensor.name),
                bytes.join(" * ")
            );
        }
        let _ = writeln!(text, "  return end + {};\n}}\n", self.scratch_align() - 1);
    }

    fn scratch_align(&self) -> usize {
        let tensors = self.plan().with_role(TensorRole::Scratch);
        tensors
            .map(|(_, tensor)| alignment(tensor))
            .max()
            .unwrap_or(LEAST_ALIGN)
    }

    fn dim_names(&self, text: &mut String) {
        for (i, dim) in self.plan().dims.iter().enumerate() {
            let _ = writeln!(text, "  const int64_t {dim} = dims[{i}];\n  (void){dim};");
        }
        if self.plan().dims.is_empty() {
            text.push_str("  (void)dims;\n");
        }
    }

    /// The entry function.
    fn call(&self, text: &mut String) {
        let plan = self.plan();
        let _ = writeln!(text, "extern \"C\" {} {{", self.entry());
        for (dim, name) in plan.dims.iter().zip(&self.manifest().plan.dims) {
            let range = self.manifest().contract.ranges.get(name);
            let (lo, hi) = range.map_or((1, i64::MAX), |r| (r.lo, r.hi));
            let _ = writeln!(text, "  if ({dim} < {lo} || {dim} > INT64_C({hi})) return 1;");
        }
        text.push_str(&self.dims_array());
        if self.has_scratch {
            let (count, align) = (plan.with_role(TensorRole::Scratch).count(), self.scratch_align());
            let _ = writeln!(
                text,
                "  size_t offsets[{count}];\n  akg_place(dims, offsets);\n  char *const memory = reinterpret_cast<char *>(\
                 (reinterpret_cast<uintptr_t>(scratch) + {}) / {align} * {align});",
                align - 1
            );
        }
        let mut inputs = self.inputs.iter();
        let mut outputs = self.outputs.iter();
        let (mut constants, mut scratch) = (0.., 0..);
        text.push_str("  void *const plan[] = {\n");
        for tensor in &plan.tensors {
            let value = match tensor.role {
                TensorRole::Input => match inputs.next() {
                    Some(name) => format!("akg_pointer({name})"),
                    None => format!("akg_pointer(akg_constant_{})", constants.next().unwrap_or(0)),
                },
                TensorRole::Output => outputs.next().cloned().unwrap_or_default(),
                TensorRole::Scratch => format!("memory + offsets[{}]", scratch.next().unwrap_or(0)),
            };
            let _ = writeln!(text, "      {value},");
        }
        text.push_str("  };\n");
        for (output, input) in plan.updates() {
            let Some(tensor) = plan.tensors.get(output) else {
                continue;
            };
            let extents = tensor.shape.iter().map(|e| format!("size_t({})", extent(e)));
            let bytes = std::iter::once(tensor.dtype.size().to_string()).chain(extents);
            let bytes: Vec<String> = bytes.collect();
            let _ = writeln!(
                text,
                "  if (plan[{output}] != plan[{input}]) std::memcpy(plan[{output}], plan[{input}], {});",
                bytes.join(" * ")
            );
        }
        for launch in &plan.launches {
            let tensors: Vec<_> = launch.tensors.iter().map(|i| format!("plan[{i}]")).collect();
            let count = |e: &Expr| match e.as_const() {
                Some(count) => count.max(0).to_string(),
                None => format!("akg_at_least_0({})", extent(e)),
            };
            let programs: Vec<_> = launch.grid.iter().map(count).collect();
            let programs = if programs.is_empty() {
                "1".to_owned()
            } else {
                programs.join(" * ")
            };
            let _ = writeln!(
                text,
                "  {{\n    void *const tensors[] = {{{}}};\n    akg_launch({}, tensors, dims, {programs});\n  }}",
                tensors.join(", "),
                launch.kernel
            );
        }
        text.push_str("  return 0;\n}\n");
    }
}

/// What every source has between the kernels and the entry function.
const SUPPORT: &str = "namespace {

typedef void (*akg_kernel)(void *const *tensors, const int64_t *dims, int64_t first, int64_t last);

// Executes all programs of a kernel.
void akg_launch(akg_kernel kernel, void *const *tensors, const int64_t *dims, int64_t programs) {
#ifdef _OPENMP
#pragma omp parallel
  {
    const int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
    const int64_t first = programs * thread / threads, last = programs * (thread + 1) / threads;
    if (first < last) kernel(tensors, dims, first, last);
  }
#else
  if (programs > 0) kernel(tensors, dims, 0, programs);
#endif
}

// Kernels take all tensors alike, and write no input.
inline void *akg_pointer(const void *input) { return const_cast<void *>(input); }

";

/// What extents with dims are computed by.
pub(crate) const EXTENTS: &str = "inline int64_t akg_at_least_0(int64_t value) { return value > 0 ? value : 0; }
inline int64_t akg_extent_floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
inline int64_t akg_extent_ceil_div(int64_t a, int64_t b) { return -akg_extent_floor_div(-a, b); }
inline int64_t akg_extent_mod(int64_t a, int64_t b) { return a - b * akg_extent_floor_div(a, b); }
inline int64_t akg_extent_min(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t akg_extent_max(int64_t a, int64_t b) { return a > b ? a : b; }

";

fn alignment(tensor: &PlanTensor) -> usize {
    tensor.align.max(LEAST_ALIGN)
}

/// An extent of a plan.
pub(crate) fn extent(expr: &Expr) -> String {
    let call = |name: &str, a: &Expr, b: &Expr| format!("akg_extent_{name}({}, {})", extent(a), extent(b));
    let atom = |atom: &Atom| match atom {
        Atom::Sym(name) => name.to_string(),
        Atom::FloorDiv(a, b) => call("floor_div", a, b),
        Atom::CeilDiv(a, b) => call("ceil_div", a, b),
        Atom::Mod(a, b) => call("mod", a, b),
        Atom::Min(a, b) => call("min", a, b),
        Atom::Max(a, b) => call("max", a, b),
        Atom::Excess(_) => Excess::IDENTIFIER.to_owned(),
    };
    let terms = expr.terms().iter().map(|term| {
        let coefficient = (term.coefficient != 1 || term.factors.is_empty())
            .then(|| format!("INT64_C({})", term.coefficient));
        let factors = term.factors.iter().map(atom);
        coefficient
            .into_iter()
            .chain(factors)
            .collect::<Vec<_>>()
            .join(" * ")
    });
    match (expr.as_const(), terms.collect::<Vec<_>>().as_slice()) {
        (Some(value), _) => value.to_string(),
        (None, terms) => terms.join(" + "),
    }
}

/// The type of elements in C; 16-bit floats as their bits.
fn c_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool | DType::U8 => "uint8_t",
        DType::I8 => "int8_t",
        DType::I16 => "int16_t",
        DType::I32 => "int32_t",
        DType::I64 => "int64_t",
        DType::F32 => "float",
        DType::F64 => "double",
        _ => "uint16_t",
    }
}

fn describe(port: &Port) -> String {
    let shape: Vec<_> = port.shape.iter().map(ToString::to_string).collect();
    format!(
        "{}[{}], aligned to {} bytes",
        port.dtype,
        shape.join(", "),
        port.align
    )
}

/// Text for a comment, in one line.
fn comment(text: &str) -> String {
    comment_lines(text).collect::<Vec<_>>().join(" ")
}
