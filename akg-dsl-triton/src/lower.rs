//! From a typed sketch to a Triton module and its launch plan.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use akg_core::dtype::DType;
use akg_core::error::{Error, Result, ResultExt as _};
use akg_core::expr::{Bindings, Expr};
use akg_core::lower::tiles::{self, TileKernel, TileProgram, TileRules};
use akg_core::sketch::{Sketch, ir};
use akg_core::source::{Knobs, Launch, LaunchPlan, PlanTensor, Source, SourceForm, TensorRole, sketch_knobs};
use akg_core::target::Target;

use crate::dialect::Dialect;
use crate::names::Names;
use crate::options::{self, Options};
use crate::{alike, prelude, printer};

/// What Triton asks of tiles.
pub(crate) const RULES: TileRules = TileRules {
    power_of_two_extents: true,
    min_contraction: 16,
};

/// Every tensor starts at a multiple of so many bytes, as allocators of device memory give them: wide accesses and the copy
/// engine need it.
const ALIGN: usize = 16;

/// Begins the dictionary of a module that says how its kernels are compiled.
const LAUNCH_DOC: &str = "# How Triton compiles each kernel; `descriptors` says what parameters that are tensor descriptors \
                          describe.\n";

/// The program of `sketch` for Triton. Knobs of the DSL are passed over.
pub(crate) fn tile_program(sketch: &Sketch, knobs: &Knobs) -> Result<(TileProgram, Knobs)> {
    let mut all = sketch.default_knobs();
    all.extend(sketch_knobs(knobs));
    let program = sketch.elaborate(&all, &Bindings::new()).map_err(Error::from)?;
    all.extend(knobs.clone());
    Ok((tiles::map(&program, &RULES), all))
}

/// Prints a typed sketch as Triton for `target`. `knobs` are recorded as what it was elaborated with; those of the DSL are
/// followed.
pub fn lower_program(program: &ir::Program, target: &Target, knobs: &Knobs) -> Result<Source> {
    print(tiles::map(program, &RULES), target, knobs)
}

/// Prints a program for Triton.
pub(crate) fn print(mut program: TileProgram, target: &Target, knobs: &Knobs) -> Result<Source> {
    let dialect = Dialect::of(target)?;
    for tensor in &mut program.tensors {
        tensor.align = tensor.align.max(ALIGN);
    }
    options::check(knobs, &program.kernels)?;
    let mut names = Names::new();
    let mut used = BTreeSet::new();
    let mut functions = String::new();
    let mut launch: Vec<(String, Options)> = Vec::new();
    // Kernels that are the same but for names share a function.
    let mut known: HashMap<String, String> = HashMap::new();
    let mut printed_as = Vec::new();
    for kernel in &program.kernels {
        let name = names.fresh(&format!("{}_{}", program.name, kernel.name));
        let style = options::style(knobs, kernel, &dialect);
        let printed = printer::print(&program, kernel, &name, &dialect, style)
            .context("kernel", || kernel.name.clone())?;
        let options = options::options(knobs, kernel, printed.descriptors.clone(), target, &dialect);
        let likeness = alike::likeness(&program, kernel, &name, &printed, &options);
        let shared = known.entry(likeness).or_insert_with(|| name.clone()).clone();
        if shared == name {
            used.extend(printed.used);
            let _ = write!(functions, "\n\n{}", printed.text);
            launch.push((name, options));
        }
        let most = style.persistent.map(|each| each * i64::from(target.cores.max(1)));
        printed_as.push((shared, most));
    }
    let mut plan = program.plan();
    let clears = finish(&mut plan, &program.kernels, printed_as);
    if clears {
        let mut parameters = vec!["counter_ptr".to_owned()];
        let mut names = Names::new();
        parameters.extend(
            plan.dims
                .iter()
                .map(|dim| format!("{}: tl.int64", names.fresh(dim))),
        );
        let _ = write!(
            functions,
            "\n\n@triton.jit\ndef {CLEAR}({}):\n    tl.store(counter_ptr + tl.program_id(0), 0)\n",
            parameters.join(", ")
        );
        launch.push((
            CLEAR.to_owned(),
            Options {
                num_warps: 1,
                num_stages: 1,
                maxnreg: None,
                descriptors: BTreeMap::new(),
            },
        ));
    }
    let mut text = String::new();
    // Those of the DSL are what `LAUNCH` says.
    let own = sketch_knobs(knobs);
    if !own.is_empty() {
        let values: Vec<String> = own
            .iter()
            .map(|(name, value)| format!("{name} = {value}"))
            .collect();
        let _ = writeln!(text, "# Knobs: {}", values.join(", "));
    }
    text += "import triton\nimport triton.language as tl\n";
    if functions.contains("libdevice.")
        || used
            .iter()
            .any(|f| prelude::text(&[*f].into()).contains("libdevice."))
    {
        text += "from triton.language.extra import libdevice\n";
    }
    text += "\n";
    text += LAUNCH_DOC;
    text += &launch_dictionary(&launch)?;
    text += &prelude::text(&used);
    text += &functions;
    Ok(Source {
        dsl: crate::NAME.to_owned(),
        text,
        form: SourceForm::Lowered { plan },
        knobs: knobs.clone(),
    })
}

/// The dictionary `LAUNCH` of a module.
pub(crate) fn launch_dictionary(launch: &[(String, Options)]) -> Result<String> {
    let mut text = "LAUNCH = {\n".to_owned();
    for (name, options) in launch {
        let json = serde_json::to_value(options)
            .map_err(|e| Error::unexpected("launch options cannot be written").caused_by(e))?;
        let fields = json.as_object().into_iter().flatten();
        let fields: Vec<String> = fields
            .map(|(key, value)| format!("\"{key}\": {}", spaced(value)))
            .collect();
        let _ = writeln!(text, "    \"{name}\": {{{}}},", fields.join(", "));
    }
    Ok(text + "}\n")
}

/// JSON with spaces after commas and colons, which is Python for what options hold.
fn spaced(value: &serde_json::Value) -> String {
    value.to_string().replace(',', ", ").replace(':', ": ")
}

/// The kernel that clears the counters of the barriers.
const CLEAR: &str = "akg_clear";

/// Gives the launches the names of their functions and as many programs as there may be at most, and every cooperative one a
/// counter for each of its teams, which are cleared before it. Whether there is one.
fn finish(plan: &mut LaunchPlan, kernels: &[TileKernel], printed: Vec<(String, Option<i64>)>) -> bool {
    let at = plan.tensors.len();
    let mut counters: Option<Expr> = None;
    let mut launches = Vec::with_capacity(plan.launches.len());
    for ((mut launch, (name, most)), kernel) in std::mem::take(&mut plan.launches)
        .into_iter()
        .zip(printed)
        .zip(kernels)
    {
        launch.kernel = name;
        if let Some(most) = most {
            launch.grid = vec![kernel.programs.minimum(&most.into())];
        }
        if let Some(teams) = &kernel.teams {
            launches.push(Launch {
                kernel: CLEAR.to_owned(),
                grid: vec![teams.count.clone()],
                tensors: vec![at],
                cooperative: false,
                doc: "Clears the counters of the barriers.".to_owned(),
            });
            launch.tensors.push(at);
            counters = Some(counters.map_or(teams.count.clone(), |n| n.maximum(&teams.count)));
        }
        launches.push(launch);
    }
    plan.launches = launches;
    let clears = counters.is_some();
    plan.tensors.extend(counters.map(|count| PlanTensor {
        name: "barrier_counters".to_owned(),
        dtype: DType::I32,
        shape: vec![count],
        role: TensorRole::Scratch,
        align: 16,
        holds: None,
        updates: None,
    }));
    clears
}
