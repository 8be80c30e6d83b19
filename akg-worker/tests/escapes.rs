//! Attempts to escape from confinement, with the harm looked for from outside.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;
#[path = "escapes/stage.rs"]
mod stage;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use akg_core::dtype::DType;
use akg_core::isolation::IsolationLevel;
use akg_core::source::{LaunchPlan, TensorRole};
use akg_core::{Expr, Tensor};
use akg_worker::process::{Mechanism, Program};
use stage::{Harm, Outcome, Stage};

/// Every attempt, what harm it is after, and whether the weakest `basic` stops it: one on a system with neither
/// namespaces nor Landlock nor seccomp.
const ATTEMPTS: &[(&str, Harm, bool)] = &[
    ("create", Harm::Files, false),
    ("overwrite", Harm::Files, false),
    ("append", Harm::Files, false),
    ("cut", Harm::Files, false),
    ("delete", Harm::Files, false),
    ("move", Harm::Files, false),
    ("fetch", Harm::Files, false),
    ("make_directory", Harm::Files, false),
    ("make_fifo", Harm::Files, false),
    ("mode", Harm::Files, false),
    ("times", Harm::Files, false),
    ("attribute", Harm::Files, false),
    ("traversal", Harm::Files, false),
    ("through_symlink", Harm::Files, false),
    ("through_hardlink", Harm::Files, false),
    ("through_root", Harm::Files, false),
    ("through_victim", Harm::Files, false),
    ("own_program", Harm::Program, false),
    ("shared_file", Harm::NamedFile("/dev/shm"), false),
    ("temporary_file", Harm::NamedFile("/tmp"), false),
    ("read_key", Harm::Secret, false),
    ("list", Harm::Secret, false),
    ("watch", Harm::Said, false),
    ("read_environment", Harm::Secret, false),
    ("read_arguments", Harm::Secret, false),
    ("read_memory", Harm::Said, false),
    ("open_memory", Harm::Said, false),
    ("attach", Harm::Said, false),
    ("steal_descriptor", Harm::Said, false),
    ("kill_victim", Harm::Victim, false),
    ("kill_by_name", Harm::Victim, false),
    ("kill_through_handle", Harm::Victim, false),
    ("slow_down", Harm::Victim, false),
    ("pin", Harm::Said, false),
    ("limit_victim", Harm::Victim, false),
    ("sacrifice", Harm::Victim, false),
    ("daemonize", Harm::Survivor, true),
    ("daemonize_below", Harm::Survivor, true),
    ("kill_supervisor", Harm::Survivor, false),
    ("hang", Harm::Survivor, true),
    ("fill_one", Harm::Said, true),
    ("fill_many", Harm::Said, true),
    ("fill_hidden", Harm::Said, false),
    ("fill_reserved", Harm::Said, true),
    ("fill_names", Harm::Said, true),
    ("fork_bomb", Harm::Said, true),
    ("thread_bomb", Harm::Said, true),
    ("memory_bomb", Harm::Said, true),
    ("shared_memory_bomb", Harm::Said, true),
    ("family_memory_bomb", Harm::Said, true),
    ("anonymous_file_bomb", Harm::Said, false),
    ("flood", Harm::Flood, true),
    ("raise_limits", Harm::Said, true),
    ("dump_core", Harm::Core, true),
    ("hurry", Harm::Said, true),
    ("leaked_descriptors", Harm::Leak, true),
    ("tcp", Harm::Heard, false),
    ("udp", Harm::Heard, false),
    ("unix_path", Harm::Heard, false),
    ("unix_abstract", Harm::Heard, false),
    ("listen_tcp", Harm::Said, false),
    ("netlink", Harm::Said, false),
    ("other_numbers", Harm::Said, false),
    ("system_memory", Harm::Said, false),
    ("system_queue", Harm::Said, false),
    ("mount_over", Harm::Said, true),
    ("new_root", Harm::Said, true),
    ("join_victim", Harm::Said, true),
    ("host_name", Harm::Said, true),
    ("from_memory", Harm::Said, false),
];

/// Attempts to reach parts of the kernel that a system may lack, or keep from ordinary users: only `strict` says
/// something about them.
const KERNEL: &[&str] = &[
    "new_user",
    "clone_user",
    "clone_user_again",
    "keys",
    "bpf",
    "io_uring",
    "perf",
    "fault_handling",
    "persona",
    "kernel_log",
];

/// The compiled attempts; `None`, said aloud, without a C compiler.
fn attempts(directory: &Path) -> Option<PathBuf> {
    std::env::var_os("AKG_TEST_ATTEMPTS").map_or_else(|| compile(directory, &[]), |path| Some(path.into()))
}

fn compile(directory: &Path, flags: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/escapes/attempts.c");
    let compiled = directory.join("attempts");
    let mut command = Command::new("cc");
    command
        .args(["-O1", "-o"])
        .arg(&compiled)
        .args(flags)
        .arg(source)
        .arg("-lpthread");
    match command.status() {
        Ok(status) => assert!(status.success()),
        Err(e) => {
            eprintln!("SKIPPED: no C compiler: {e}");
            return None;
        }
    }
    Some(compiled)
}

/// The outcomes of attempts, several at the same time: whether each did harm.
fn outcomes<'a>(
    program: &Path,
    attempts: &[(&'a str, Harm)],
    make: impl Fn(&Stage, &str) -> Outcome + Sync,
) -> BTreeMap<&'a str, bool> {
    let (next, harmful) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((name, harm)) = attempts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let harmed = Stage::new(program).attempt(name, *harm, &|stage| make(stage, name));
                    harmful.lock().unwrap().insert(*name, harmed);
                }
            });
        }
    });
    harmful.into_inner().unwrap()
}

/// Makes attempts as programs.
fn as_program(confine: impl Fn(Program) -> Program + Sync) -> impl Fn(&Stage, &str) -> Outcome + Sync {
    move |stage, name| stage.run(name, &confine)
}

/// Makes attempts as kernels of this shared object.
fn as_kernel(object: &Path) -> impl Fn(&Stage, &str) -> Outcome + Sync {
    const BYTES: usize = 4096;
    let object = std::fs::read(object).unwrap();
    move |stage, name| {
        let mut input = format!("{name}\0").into_bytes();
        for (name, value) in stage.environment() {
            input.extend(format!("{name}={value}\0").bytes());
        }
        input.resize(BYTES, 0);
        let shape = [Expr::constant(BYTES as i64)];
        let plan = LaunchPlan {
            dims: Vec::new(),
            tensors: vec![
                common::tensor("x", DType::U8, &shape, TensorRole::Input),
                common::tensor("y", DType::U8, &[Expr::constant(1)], TensorRole::Output),
            ],
            launches: vec![common::launch("kernel", Expr::constant(1), &[0, 1])],
        };
        let input = Tensor::from_slice([BYTES], &input).unwrap();
        let mut request = common::request(object.clone(), plan, vec![input]);
        request.limits.time = Duration::from_secs(10);
        request.limits.memory = 256 << 20;
        request.limits.isolation = IsolationLevel::Strict;
        // What an attempt remembers is not the question here.
        request.limits.may_keep_state = true;
        let succeeded = match common::run(&request) {
            Ok(output) => output.outputs.first().unwrap().bytes() == [1],
            // It crashed, hung or wrote over the protocol: what candidates do.
            Err(_) => false,
        };
        Outcome {
            output: if succeeded {
                stage::SAID.to_owned()
            } else {
                String::new()
            },
            core: false,
        }
    }
}

fn named() -> Vec<(&'static str, Harm)> {
    ATTEMPTS.iter().map(|(name, harm, _)| (*name, *harm)).collect()
}

fn all() -> Vec<(&'static str, Harm)> {
    let kernel = KERNEL.iter().map(|name| (*name, Harm::Said));
    named().into_iter().chain(kernel).collect()
}

fn reached() -> akg_core::isolation::Isolation {
    let program = Program::new("/bin/true").spawn().unwrap();
    program.isolation().clone()
}

fn verdict(harmed: Option<&bool>) -> &'static str {
    match harmed {
        Some(true) => "succeeds",
        Some(false) => "stopped",
        None => "-",
    }
}

#[test]
fn attempts_are_stopped_as_each_level_promises() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = attempts(directory.path()) else {
        return;
    };
    let isolation = reached();
    let named = named();
    let all = all();
    let basic = outcomes(&program, &named, as_program(|p| p.at_most(IsolationLevel::Basic)));
    let strict = if isolation.level == IsolationLevel::Strict {
        outcomes(
            &program,
            &all,
            as_program(|p| p.isolation(IsolationLevel::Strict)),
        )
    } else {
        eprintln!("SKIPPED: this system reaches {isolation}");
        BTreeMap::new()
    };
    println!("{:24}{:12}strict", "attempt", "basic");
    for (name, _) in &all {
        println!(
            "{name:24}{:12}{}",
            verdict(basic.get(name)),
            verdict(strict.get(name))
        );
    }
    let escaped: Vec<_> = strict.iter().filter(|(_, harmed)| **harmed).collect();
    assert!(escaped.is_empty(), "escaped from strict: {escaped:?}");
    let missed: Vec<_> = ATTEMPTS
        .iter()
        .filter(|(name, _, stopped)| *stopped && basic.get(name) == Some(&true))
        .collect();
    assert!(missed.is_empty(), "escaped from basic: {missed:?}");
}

/// The executor of kernels gives up more than other programs.
#[test]
fn no_kernel_escapes() {
    let directory = tempfile::tempdir().unwrap();
    let Some(object) = compile(directory.path(), &["-shared", "-fPIC", "-DKERNEL"]) else {
        return;
    };
    if reached().level < IsolationLevel::Strict {
        eprintln!("SKIPPED: this system reaches {}", reached());
        return;
    }
    let outcomes = outcomes(&object, &all(), as_kernel(&object));
    assert!(outcomes.len() > 40);
    let escaped: Vec<_> = outcomes.iter().filter(|(_, harmed)| **harmed).collect();
    assert!(escaped.is_empty(), "escaped: {escaped:?}");
    let say = Stage::new(&object).attempt("say", Harm::Said, &|stage| as_kernel(&object)(stage, "say"));
    assert!(say, "kernels cannot tell that they succeed");
}

/// What one mechanism alone stops, where the system lacks the others.
#[test]
fn each_mechanism_stops_something_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = attempts(directory.path()) else {
        return;
    };
    if reached().level < IsolationLevel::Strict {
        eprintln!("SKIPPED: this system reaches {}", reached());
        return;
    }
    let alone = |kept: Mechanism| {
        as_program(move |p| {
            let others = Mechanism::ALL.into_iter().filter(|m| *m != kept);
            others.fold(p, Program::without)
        })
    };
    let files = [("create", Harm::Files), ("read_key", Harm::Secret)];
    assert!(
        outcomes(&program, &files, alone(Mechanism::Landlock))
            .values()
            .all(|harmed| !harmed)
    );
    let calls = [
        ("attach", Harm::Said),
        ("tcp", Harm::Heard),
        ("steal_descriptor", Harm::Said),
    ];
    assert!(
        outcomes(&program, &calls, alone(Mechanism::Seccomp))
            .values()
            .all(|harmed| !harmed)
    );
    let ids = [
        ("kill_victim", Harm::Victim),
        ("kill_supervisor", Harm::Survivor),
        ("mode", Harm::Files),
        ("fill_hidden", Harm::Said),
    ];
    assert!(
        outcomes(&program, &ids, alone(Mechanism::Namespaces))
            .values()
            .all(|harmed| !harmed)
    );
}

/// The superuser runs the attempts again as an ordinary user.
#[test]
fn ordinary_users_are_confined_as_well() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    const NOBODY: u32 = 65534;
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = attempts(directory.path()) else {
        return;
    };
    let readable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), readable.clone()).unwrap();
    let copy = |from: &Path, name: &str| {
        let to = directory.path().join(name);
        std::fs::copy(from, &to).unwrap();
        std::fs::set_permissions(&to, readable.clone()).unwrap();
        to
    };
    let test = copy(&std::env::current_exe().unwrap(), "escapes");
    let worker = copy(Path::new(env!("CARGO_BIN_EXE_akg-worker")), "akg-worker");
    let output = Command::new(test)
        .args([
            "--exact",
            "attempts_are_stopped_as_each_level_promises",
            "--nocapture",
        ])
        .env("AKG_WORKER", worker)
        .env("AKG_TEST_ATTEMPTS", program)
        .env_remove("HOME")
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text.contains("1 passed"), "{text}");
}
