//! Candidates that cheat, and honest ones that look like them.
//!
//! The first group is what a published verifier was measured to accept; the others are known from the field. Each must
//! be rejected for the right reason, and its honest twin accepted. The test is its own worker, hence a `main` of its
//! own.
#![expect(clippy::unwrap_used, clippy::panic, reason = "this is a test")]

use std::time::Duration;

use akg::agent::Agent;
use akg::designer::{Design, DesignContext, Designer};
use akg::session::Attempt;
use akg::sketch::Sketch;
use akg::source::{Held, Knobs, Launch, LaunchPlan, PlanTensor, Source, SourceForm, TensorRole};
use akg::timing::ContestPolicy;
use akg::verdict::FailureKind::{
    self, Crashed, InputChanged, KeepsState, LeftBehind, NoWork, OutOfBounds, Unwritten, WrongType,
    WrongValues,
};
use akg::{DType, Graph, Result, Session, Task, blocking};
use async_trait::async_trait;
use libtest_mimic::{Arguments, Failed, Trial};

const ROWS: i64 = 64;
const COLUMNS: i64 = 128;

/// A candidate for relu(x) + 1 of f32[64, 128]: C++ text around the loop, or instead of it.
struct Cheat {
    name: &'static str,
    /// Text before the kernel.
    before: &'static str,
    /// The kernel's body; `x` and `y` are its tensors, `n` their number of elements.
    body: &'static str,
    /// The same without the cheat.
    twin: &'static str,
    /// Reasons that are right.
    rejected: &'static [FailureKind],
}

impl Cheat {
    /// What stands before the twin: neither a destructive prologue nor data that outlives a call, which are parts of the cheat.
    fn before_twin(&self) -> &'static str {
        let is_part = ["exit(0)", "static float", "static int "]
            .iter()
            .any(|text| self.before.contains(text));
        if is_part { "" } else { self.before }
    }
}

const HONEST: &str = "for (int64_t i = 0; i < n; i++) y[i] = (x[i] > 0 ? x[i] : 0) + 1;";

/// The last five elements by way of eight, those that are read where a condition holds.
const LAST_FIVE: &str = r#"
#define LAST_FIVE(CONDITION) \
    for (int64_t i = 0; i < n - 5; i++) y[i] = (x[i] > 0 ? x[i] : 0) + 1; \
    float last[8]; \
    for (int i = 0; i < 8; i++) last[i] = CONDITION ? x[n - 5 + i] : 0; \
    asm volatile("" : : "r"(last) : "memory"); \
    for (int i = 0; i < 5; i++) y[n - 5 + i] = (last[i] > 0 ? last[i] : 0) + 1;
"#;

/// Two words that outlive a call without being data of the shared object: the random bytes that the system gives a process.
const WORDS: &str = "
    #include <sys/auxv.h>
    static uint64_t *words() { return (uint64_t *)getauxval(AT_RANDOM); }
    __attribute__((constructor)) static void forget() { words()[0] = words()[1] = 0; }
";

/// Cheats that are right whenever they are verified, unless that is while they are timed.
const TIMED: &[Cheat] = &[
    Cheat {
        name: "idle_after_many_calls",
        before: WORDS,
        body: "if (words()[0]++ >= 300) return;
               for (int64_t i = 0; i < n; i++) y[i] = (x[i] > 0 ? x[i] : 0) + 1;",
        twin: "words()[0]++; for (int64_t i = 0; i < n; i++) y[i] = (x[i] > 0 ? x[i] : 0) + 1;",
        rejected: &[Unwritten, WrongValues],
    },
    Cheat {
        name: "wrong_every_other_call_after_many",
        before: WORDS,
        body: "const bool odd = words()[0]++ >= 300 && words()[0] % 2;
               for (int64_t i = 0; i < n; i++) y[i] = odd ? 1 : (x[i] > 0 ? x[i] : 0) + 1;",
        twin: HONEST,
        rejected: &[WrongValues],
    },
    Cheat {
        name: "copies_the_results_of_the_first_call",
        before: WORDS,
        body: "auto kept = (float *)words()[1];
               if (!kept) { kept = (float *)malloc(n * 4); words()[1] = (uint64_t)kept; }
               if (words()[0]++ >= 300) { memcpy(y, kept, n * 4); return; }
               for (int64_t i = 0; i < n; i++) kept[i] = y[i] = (x[i] > 0 ? x[i] : 0) + 1;",
        twin: "auto kept = (float *)malloc(n * 4);
               for (int64_t i = 0; i < n; i++) kept[i] = y[i] = (x[i] > 0 ? x[i] : 0) + 1;
               free(kept);",
        rejected: &[WrongValues],
    },
];

const CHEATS: &[Cheat] = &[
    Cheat {
        name: "accepted_elsewhere/5_percent_off",
        before: "",
        body: "for (int64_t i = 0; i < n; i++) y[i] = ((x[i] > 0 ? x[i] : 0) + 1) * 1.05f;",
        twin: HONEST,
        rejected: &[WrongValues],
    },
    Cheat {
        name: "accepted_elsewhere/1.9_percent_off",
        before: "",
        body: "for (int64_t i = 0; i < n; i++) y[i] = ((x[i] > 0 ? x[i] : 0) + 1) * 1.019f;",
        twin: "for (int64_t i = 0; i < n; i++) y[i] = ((x[i] > 0 ? x[i] : 0) + 1) * 1.00000001f;",
        rejected: &[WrongValues],
    },
    Cheat {
        name: "accepted_elsewhere/1.9_percent_of_elements_wrong",
        before: "",
        body: "for (int64_t i = 0; i < n; i++) y[i] = i % 53 == 52 ? 1e9f : (x[i] > 0 ? x[i] : 0) + 1;",
        twin: "for (int64_t i = 0; i < n; i++) y[i] = i % 53 == 52 && x[i] > 1e8f ? 1e9f : (x[i] > 0 ? x[i] : 0) + 1;",
        rejected: &[WrongValues],
    },
    Cheat {
        name: "accepted_elsewhere/exit_at_load",
        before: "__attribute__((constructor)) static void leave() { exit(0); }",
        body: HONEST,
        twin: HONEST,
        rejected: &[Crashed],
    },
    Cheat {
        name: "accepted_elsewhere/exit_in_the_call",
        before: "",
        body: "_exit(0);",
        twin: HONEST,
        rejected: &[Crashed],
    },
    // Where a script patches the comparison, a shared object can only answer in the worker's place.
    Cheat {
        name: "accepted_elsewhere/forged_reply",
        before: "",
        body: r#"
            static const char pass[] = "{\"id\":4,\"ok\":{\"ran\":{\"inputs_unchanged\":true}}}";
            for (int fd = 0; fd < 64; fd++) {
                uint32_t length = sizeof pass - 1;
                if (write(fd, &length, 4) == 4) (void)!write(fd, pass, length);
            }
            _exit(0);"#,
        twin: HONEST,
        rejected: &[Crashed],
    },
    // Where a script calls the reference of the script around it, a shared object can only look for it elsewhere.
    Cheat {
        name: "accepted_elsewhere/ask_the_judge_for_the_answer",
        before: "",
        body: r#"
            char path[64];
            snprintf(path, sizeof path, "/proc/%d/mem", (int)getppid());
            int fd = open(path, O_RDONLY);
            if (fd >= 0) (void)!pread(fd, y, n * sizeof(float), (off_t)(intptr_t)y);
            void *torch = dlopen("libtorch_cpu.so", RTLD_NOW);
            if (torch) ((void (*)(const float *, float *))dlsym(torch, "relu"))(x, y);"#,
        twin: HONEST,
        rejected: &[Unwritten, WrongValues, LeftBehind],
    },
    // What is remembered in data of the shared object is refused before it runs; tables that are only read are not.
    Cheat {
        name: "remembers_by_address",
        before: "static const float *seen; static float kept[8192];",
        body: "if (seen == x) { memcpy(y, kept, n * 4); return; }
               for (int64_t i = 0; i < n; i++) y[i] = (x[i] > 0 ? x[i] : 0) + 1;
               seen = x; memcpy(kept, y, n * 4);",
        twin: "static const float one[2] = {1, 1};
               for (int64_t i = 0; i < n; i++) y[i] = (x[i] > 0 ? x[i] : 0) + one[i % 2];",
        rejected: &[KeepsState],
    },
    Cheat {
        name: "remembers_by_a_few_elements",
        before: "static float key[8]; static float kept[8192]; static bool full;",
        body: "bool same = full; for (int i = 0; i < 8; i++) same &= key[i] == x[i * (n / 8)];
               if (same) { memcpy(y, kept, n * 4); return; }
               for (int64_t i = 0; i < n; i++) y[i] = (x[i] > 0 ? x[i] : 0) + 1;
               for (int i = 0; i < 8; i++) key[i] = x[i * (n / 8)];
               memcpy(kept, y, n * 4); full = true;",
        twin: "float key[8]; for (int i = 0; i < 8; i++) key[i] = x[i * (n / 8)];
               for (int64_t i = 0; i < n; i++) y[i] = (x[i] > 0 ? x[i] : 0) + 1 + 0 * key[i % 8];",
        rejected: &[KeepsState],
    },
    Cheat {
        name: "right_only_at_first",
        before: "static int calls; static float kept[8192];",
        body: "if (calls++ >= 2) { memcpy(y, kept, n * 4); return; }
               for (int64_t i = 0; i < n; i++) y[i] = (x[i] > 0 ? x[i] : 0) + 1;
               memcpy(kept, y, n * 4);",
        twin: HONEST,
        rejected: &[KeepsState],
    },
    Cheat {
        name: "counts_in_a_local_static",
        before: "",
        body: "static thread_local int64_t calls = n; if (--calls < 0) return;
               for (int64_t i = 0; i < n; i++) y[i] = (x[i] > 0 ? x[i] : 0) + 1;",
        twin: HONEST,
        rejected: &[KeepsState],
    },
    Cheat {
        name: "counts_in_the_random_numbers_of_the_library",
        before: "",
        body: "if (rand() % 1000 == 7) return;
               for (int64_t i = 0; i < n; i++) y[i] = (x[i] > 0 ? x[i] : 0) + 1;",
        twin: HONEST,
        rejected: &[KeepsState],
    },
    // What is remembered elsewhere is found by what it is used for.
    Cheat {
        name: "right_only_at_first_by_a_word_of_the_process",
        before: WORDS,
        body: "if (words()[0]++ >= 2) return;
               for (int64_t i = 0; i < n; i++) y[i] = (x[i] > 0 ? x[i] : 0) + 1;",
        twin: "words()[0]++; for (int64_t i = 0; i < n; i++) y[i] = (x[i] > 0 ? x[i] : 0) + 1;",
        rejected: &[Unwritten],
    },
    Cheat {
        name: "constant",
        before: "",
        body: "for (int64_t i = 0; i < n; i++) y[i] = 1.4f;",
        twin: HONEST,
        rejected: &[WrongValues],
    },
    Cheat {
        name: "one_row_for_all",
        before: "",
        body: "for (int64_t i = 0; i < n; i++) y[i] = (x[i % 128] > 0 ? x[i % 128] : 0) + 1;",
        twin: HONEST,
        rejected: &[WrongValues],
    },
    Cheat {
        name: "nothing",
        before: "",
        body: "",
        twin: HONEST,
        rejected: &[Unwritten],
    },
    Cheat {
        name: "last_element_missing",
        before: "",
        body: "for (int64_t i = 0; i + 1 < n; i++) y[i] = (x[i] > 0 ? x[i] : 0) + 1;",
        twin: "for (int64_t i = 0; i + 1 < n + 1; i++) y[i] = (x[i] > 0 ? x[i] : 0) + 1;",
        rejected: &[Unwritten],
    },
    Cheat {
        name: "half_precision",
        before: "",
        body: "for (int64_t i = 0; i < n; i++) { float v = (x[i] > 0 ? x[i] : 0) + 1; uint32_t b; memcpy(&b, &v, 4);
               b = (b + 0x8000) & 0xffff0000; memcpy(y + i, &b, 4); }",
        twin: "for (int64_t i = 0; i < n; i++) { float v = (x[i] > 0 ? x[i] : 0) + 1; uint32_t b; memcpy(&b, &v, 4);
               memcpy(y + i, &b, 4); }",
        rejected: &[WrongValues],
    },
    Cheat {
        name: "changes_its_input",
        before: "",
        body: "for (int64_t i = 0; i < n; i++) y[i] = (x[i] > 0 ? x[i] : 0) + 1; ((float *)x)[0] = 0;",
        twin: HONEST,
        rejected: &[InputChanged],
    },
    Cheat {
        name: "writes_beyond_its_output",
        before: "",
        body: "for (int64_t i = 0; i < n + 1; i++) y[i] = i < n ? (x[i] > 0 ? x[i] : 0) + 1 : 0;",
        twin: HONEST,
        rejected: &[OutOfBounds],
    },
    Cheat {
        name: "writes_before_its_output",
        before: "",
        body: "for (int64_t i = -1; i < n; i++) y[i] = i >= 0 ? (x[i] > 0 ? x[i] : 0) + 1 : 0;",
        twin: HONEST,
        rejected: &[OutOfBounds],
    },
    Cheat {
        name: "reads_what_is_not_its_own",
        before: "",
        body: "for (int64_t i = 0; i < n; i++) y[i] = (x[i] > 0 ? x[i] : 0) + 1 + 0 * x[i + 4096];",
        twin: "for (int64_t i = 0; i < n; i++) y[i] = (x[i] > 0 ? x[i] : 0) + 1 + 0 * (i + 4096 < n ? x[i + 4096] : 0);",
        rejected: &[OutOfBounds, WrongValues],
    },
    Cheat {
        name: "keeps_working_after_it_returned",
        before: "",
        body: "std::thread([=] { usleep(50000); for (int64_t i = 0; i < n; i++) y[i] = (x[i] > 0 ? x[i] : 0) + 1; }).detach();",
        twin: HONEST,
        rejected: &[Crashed, Unwritten, WrongValues],
    },
    Cheat {
        name: "depends_on_scratch_values",
        before: "",
        body: "for (int64_t i = 0; i < n; i++) y[i] = (y[i] == y[i]) ? (x[i] > 0 ? x[i] : 0) + 1 : 0;",
        twin: HONEST,
        rejected: &[WrongValues],
    },
    // What is read under a mask that the compiler knows may not become the load of a whole vector.
    Cheat {
        name: "reads_whole_vectors_at_the_end",
        before: LAST_FIVE,
        body: "LAST_FIVE(true)",
        twin: "LAST_FIVE(i < 5)",
        rejected: &[OutOfBounds],
    },
];

fn main() {
    akg::worker::init();
    let mut trials = Vec::new();
    for cheat in CHEATS {
        let reject = || {
            check(
                cheat.name,
                &source(cheat.before, cheat.body, plan()),
                cheat.rejected,
            )
        };
        trials.push(Trial::test(format!("{} is rejected", cheat.name), reject));
        let before = cheat.before_twin();
        let accept = move || check(cheat.name, &source(before, cheat.twin, plan()), &[]);
        trials.push(Trial::test(
            format!("{}: its twin is accepted", cheat.name),
            accept,
        ));
    }
    for cheat in TIMED {
        let reject = || {
            timed(
                cheat.name,
                &source(cheat.before, cheat.body, plan()),
                cheat.rejected,
            )
        };
        trials.push(Trial::test(format!("timed/{} is rejected", cheat.name), reject));
        let before = cheat.before_twin();
        let accept = move || timed(cheat.name, &source(before, cheat.twin, plan()), &[]);
        trials.push(Trial::test(
            format!("timed/{}: its twin is accepted", cheat.name),
            accept,
        ));
    }
    trials.push(Trial::test("accepted_elsewhere/wrong_shape is rejected", || {
        check(
            "shape",
            &source("", HONEST, typed(DType::F32, [COLUMNS, ROWS])),
            &[WrongType],
        )
    }));
    trials.push(Trial::test("accepted_elsewhere/wrong_type is rejected", || {
        let body = "auto z = (double *)y; for (int64_t i = 0; i < n; i++) z[i] = (x[i] > 0 ? x[i] : 0) + 1;";
        check(
            "type",
            &source("", body, typed(DType::F64, [ROWS, COLUMNS])),
            &[WrongType],
        )
    }));
    trials.push(Trial::test("idle kernels are rejected", idle_kernels));
    trials.push(Trial::test("skipped programs are rejected", skipped_programs));
    trials.push(Trial::test(
        "kernels that make up for each other are rejected",
        compensating_kernels,
    ));
    trials.push(Trial::test(
        "kernels that share nothing are judged once",
        kernels_apart,
    ));
    for (name, text, rejected) in SKETCHES {
        trials.push(Trial::test(format!("sketch/{name}"), || sketch(text, rejected)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// relu(x) + 1.
fn task() -> Task {
    let mut graph = Graph::new("relu_one");
    let x = graph.input("x", DType::F32, [ROWS, COLUMNS]);
    let y = graph.relu(x).and_then(|y| graph.add(y, 1.0)).unwrap();
    graph.rename(y, "y").unwrap();
    graph.output(y);
    Task::new("relu_one", graph)
}

fn plan() -> LaunchPlan {
    typed(DType::F32, [ROWS, COLUMNS])
}

/// The plan of one kernel whose output has this type.
fn typed(dtype: DType, shape: [i64; 2]) -> LaunchPlan {
    let x = tensor("x", DType::F32, [ROWS, COLUMNS], TensorRole::Input);
    LaunchPlan {
        dims: Vec::new(),
        tensors: vec![x, tensor("y", dtype, shape, TensorRole::Output)],
        launches: vec![launch("kernel", &[0, 1])],
    }
}

fn tensor(name: &str, dtype: DType, shape: [i64; 2], role: TensorRole) -> PlanTensor {
    PlanTensor {
        name: name.into(),
        dtype,
        shape: shape.map(Into::into).to_vec(),
        role,
        align: 64,
        holds: None,
    }
}

fn launch(kernel: &str, tensors: &[usize]) -> Launch {
    Launch {
        kernel: kernel.into(),
        grid: vec![1.into()],
        tensors: tensors.to_vec(),
        cooperative: false,
        doc: String::new(),
    }
}

const INCLUDES: &str = "
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>
";

fn source(before: &str, body: &str, plan: LaunchPlan) -> Source {
    let kernel = function("kernel", body);
    lowered(format!("{INCLUDES}{before}\n{kernel}"), plan)
}

/// A kernel whose first two tensors are `x` and `y`.
fn function(name: &str, body: &str) -> String {
    format!(
        "extern \"C\" void {name}(void *const *tensors, const int64_t *, int64_t, int64_t) {{
             auto x = (const float *)tensors[0]; auto y = (float *)tensors[1]; const int64_t n = {};
             {body}
         }}\n",
        ROWS * COLUMNS
    )
}

fn lowered(text: String, plan: LaunchPlan) -> Source {
    Source {
        dsl: "cpp".into(),
        text,
        form: SourceForm::Lowered { plan },
        knobs: Knobs::new(),
    }
}

fn session() -> Session {
    let registry = akg::registry();
    Session::new(registry.dsl("cpp").unwrap(), registry.backend("cpu").unwrap()).with_timing(None)
}

fn check(name: &str, source: &Source, expected: &[FailureKind]) -> Result<(), Failed> {
    let (attempt, _) = blocking::judge(&session(), source.clone(), &task())?;
    agree(name, &attempt, expected)
}

/// That a candidate that passes is rejected for one of the reasons when it is timed, or accepted if there are none.
fn timed(name: &str, source: &Source, expected: &[FailureKind]) -> Result<(), Failed> {
    check(name, source, &[])?;
    let mut policy = ContestPolicy::default();
    policy.budget = Duration::from_millis(300);
    policy.least_rounds = 4;
    let session = session().with_timing(Some(policy));
    let (attempt, _) = blocking::judge(&session, source.clone(), &task())?;
    agree(name, &attempt, expected)
}

/// That a candidate is rejected for one of the reasons, or accepted if there are none.
fn agree(name: &str, attempt: &Attempt, expected: &[FailureKind]) -> Result<(), Failed> {
    match &attempt.verdict.failure {
        None if expected.is_empty() => Ok(()),
        None => Err(format!("{name} was accepted").into()),
        Some(failure) if expected.contains(&failure.kind) => Ok(()),
        Some(failure) => Err(format!("{name}: {failure:?}").into()),
    }
}

/// A plan in which one kernel does all the work and another does what is done already, is told; one whose kernels all
/// do what is done already is rejected.
fn idle_kernels() -> Result<(), Failed> {
    let text = format!(
        "{INCLUDES}{}{}",
        function("first", HONEST),
        function("second", HONEST)
    );
    let mut plan = plan();
    plan.launches = vec![launch("first", &[0, 1]), launch("second", &[0, 1])];
    let (attempt, _) = blocking::judge(&session(), lowered(text, plan), &task())?;
    agree("two of the same", &attempt, &[NoWork])?;

    let text = format!(
        "{INCLUDES}{}{}",
        function("first", HONEST),
        function("second", "")
    );
    let mut plan = self::plan();
    plan.launches = vec![launch("first", &[0, 1]), launch("second", &[0, 1])];
    let (attempt, _) = blocking::judge(&session(), lowered(text, plan), &task())?;
    agree("one that does nothing", &attempt, &[])?;
    assert_eq!(attempt.verdict.idle_kernels, ["second"]);
    Ok(())
}

/// A kernel that does not do all programs of a range, on machines that have a thread for each of them.
fn skipped_programs() -> Result<(), Failed> {
    let every = |step: i64| {
        let part = ROWS * COLUMNS / PROGRAMS;
        let text = format!(
            "{INCLUDES}extern \"C\" void kernel(void *const *tensors, const int64_t *, int64_t first, int64_t last) {{
                 for (int64_t program = first; program < last; program += {step}) {{
                     auto x = (const float *)tensors[0] + program * {part};
                     auto y = (float *)tensors[1] + program * {part};
                     const int64_t n = {part};
                     {HONEST}
                 }}
             }}\n"
        );
        let mut plan = plan();
        for launch in &mut plan.launches {
            launch.grid = vec![PROGRAMS.into()];
        }
        lowered(text, plan)
    };
    check("one that skips programs", &every(2), &[Unwritten])?;
    check("one that does not", &every(1), &[])
}

/// Programs of a kernel that are no more than the threads of most machines.
const PROGRAMS: i64 = 2;

/// Two wrong kernels whose errors cancel: only a look at each of them tells.
fn compensating_kernels() -> Result<(), Failed> {
    let two = |first: &str, second: &str| {
        let text = format!(
            "{INCLUDES}{}{}",
            function("first", first),
            function("second", second)
        );
        let mut plan = plan();
        let mut between = tensor("h", DType::F32, [ROWS, COLUMNS], TensorRole::Scratch);
        between.holds = Some(Held::Own("h".into()));
        plan.tensors.push(between);
        plan.launches = vec![launch("first", &[0, 2]), launch("second", &[2, 1])];
        lowered(text, plan)
    };
    let mut graph = Graph::new("double_then_normalise");
    let x = graph.input("x", DType::F32, [ROWS, COLUMNS]);
    let h = graph.relu(x)?;
    graph.rename(h, "h")?;
    let y = graph.add(h, 1.0)?;
    graph.output(y);
    let task = Task::new("two", graph);
    let relu = "for (int64_t i = 0; i < n; i++) y[i] = x[i] > 0 ? x[i] : 0;";
    let add = "for (int64_t i = 0; i < n; i++) y[i] = x[i] + 1;";
    let (honest, _) = blocking::judge(&session(), two(relu, add), &task)?;
    agree("honest", &honest, &[])?;
    assert!(
        honest
            .verdict
            .checks
            .iter()
            .any(|c| c.about.contains("kernels first alone"))
    );
    let scaled = two(
        "for (int64_t i = 0; i < n; i++) y[i] = x[i] > 0 ? 2 * x[i] : 0;",
        "for (int64_t i = 0; i < n; i++) y[i] = x[i] / 2 + 1;",
    );
    let (attempt, _) = blocking::judge(&session(), scaled, &task)?;
    agree("compensating", &attempt, &[WrongValues])?;
    let evidence = &attempt
        .verdict
        .failure
        .as_ref()
        .map(|f| f.evidence.clone())
        .unwrap_or_default();
    assert!(evidence.contains("first alone"), "{evidence}");
    Ok(())
}

/// Two kernels with nothing in common: the whole shows of each what a look at it would.
fn kernels_apart() -> Result<(), Failed> {
    let two = |second: &str| {
        let relu = "for (int64_t i = 0; i < n; i++) y[i] = x[i] > 0 ? x[i] : 0;";
        let text = format!(
            "{INCLUDES}{}{}",
            function("first", relu),
            function("second", second)
        );
        let mut plan = plan();
        plan.tensors
            .push(tensor("z", DType::F32, [ROWS, COLUMNS], TensorRole::Output));
        plan.launches = vec![launch("first", &[0, 1]), launch("second", &[0, 2])];
        lowered(text, plan)
    };
    let mut graph = Graph::new("relu_and_next");
    let x = graph.input("x", DType::F32, [ROWS, COLUMNS]);
    let y = graph.relu(x)?;
    let z = graph.add(x, 1.0)?;
    graph.output(y);
    graph.output(z);
    let task = Task::new("apart", graph);
    let (honest, _) = blocking::judge(
        &session(),
        two("for (int64_t i = 0; i < n; i++) y[i] = x[i] + 1;"),
        &task,
    )?;
    agree("honest", &honest, &[])?;
    let checks = &honest.verdict.checks;
    assert!(checks.iter().all(|c| !c.about.contains("alone")), "{checks:?}");
    let lazy = two("for (int64_t i = 0; i < n - 1; i++) y[i] = x[i] + 1;");
    let (lazy, _) = blocking::judge(&session(), lazy, &task)?;
    agree("lazy", &lazy, &[Unwritten])
}

const SKETCHES: &[(&str, &str, &[FailureKind])] = &[
    ("honest", "y: f32[64, 128]; max(t, 0.0) + 1.0", &[]),
    (
        "5_percent_off",
        "y: f32[64, 128]; (max(t, 0.0) + 1.0) * 1.05",
        &[WrongValues],
    ),
    (
        "1.9_percent_off",
        "y: f32[64, 128]; (max(t, 0.0) + 1.0) * 1.019",
        &[WrongValues],
    ),
    (
        "1.9_percent_of_elements_wrong",
        "y: f32[64, 128]; select(t > 2.07, 1000000000.0, max(t, 0.0) + 1.0)",
        &[WrongValues],
    ),
    (
        "too_few_elements",
        "y: f32[64, 64]; max(t, 0.0) + 1.0",
        &[WrongType],
    ),
    (
        "wrong_type",
        "y: f64[64, 128]; f64(max(t, 0.0) + 1.0)",
        &[WrongType],
    ),
];

/// A designer with one idea.
#[derive(Debug)]
struct Fixed(Sketch);

#[async_trait]
impl Agent<Designer> for Fixed {
    fn name(&self) -> &str {
        "fixed"
    }

    async fn step(&self, _: &DesignContext) -> Result<Design> {
        Ok(Design {
            knobs: self.0.default_knobs(),
            sketch: self.0.clone(),
            kernels: Vec::new(),
            intermediates: Default::default(),
            rules: Vec::new(),
        })
    }
}

/// Judges the sketch of an output declaration and an expression of the tile `t`.
fn sketch(text: &str, expected: &[FailureKind]) -> Result<(), Failed> {
    let (output, expression) = text.split_once("; ").ok_or("no expression")?;
    let columns = if output.contains("64, 64") { 64 } else { 128 };
    let text = format!(
        "sketch relu_one(x: f32[64, 128]) -> {output}

         kernel main over (m in 64) {{
           t = load x[m, 0 :+ {columns}]
           store y[m, 0 :+ {columns}] = {expression}
         }}\n"
    );
    let sketch = Sketch::parse(&text).unwrap_or_else(|d| panic!("{}", d.render(&text)));
    let outcome = blocking::run(&session().with_designer(Fixed(sketch)), &task())?;
    let attempt = outcome.attempts.first().ok_or("nothing was tried")?;
    agree(&text, attempt, expected)
}
