//! Cases in processes of their own, which may die.
//!
//! A child takes many cases, each on a thread with the stack of a pool's thread, and says before each which one it is. It has
//! so much memory and, for each case, so much processor time; so a busy machine changes nothing.

#![allow(dead_code, reason = "the test and the example use a part each")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::ops::Range;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::random::Random;
use crate::targets::{FuzzTarget, TARGETS, find};

/// The argument that makes a program a child.
const CHILD: &str = "--fuzz-child";

/// Bytes of address space that a child has.
const MEMORY: u64 = 3 << 30;

/// Seconds of processor time that a case has; those of a process are counted whole.
const SECONDS: u64 = 5;

/// The stack of a thread, unless somebody asks for another.
const STACK: usize = 2 << 20;

/// Signals by which the system ends a child.
const SIGXCPU: i32 = 24;

/// What went wrong in a case.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) case: u64,
    pub(crate) what: String,
}

/// The bytes of a case.
pub(crate) fn case(target: &FuzzTarget, seed: u64) -> Vec<u8> {
    (target.make)(&mut Random::new(seed))
}

/// Does what a parent asked for, if this process is a child.
pub(crate) fn serve() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, child, target, from, to, file] = arguments.as_slice() else {
        return;
    };
    if child != CHILD {
        return;
    }
    let target = find(target).unwrap();
    let cases: Range<u64> = from.parse().unwrap()..to.parse().unwrap();
    let memory = Rlimit {
        current: Some(MEMORY),
        maximum: Some(MEMORY),
    };
    setrlimit(Resource::As, memory).unwrap();
    for number in cases {
        let bytes = if file.is_empty() {
            case(target, number)
        } else {
            std::fs::read(file).unwrap()
        };
        allow(SECONDS);
        println!("{number}");
        std::io::stdout().flush().unwrap();
        let take = target.take;
        let thread = std::thread::Builder::new().stack_size(STACK);
        let thread = thread.spawn(move || take(&bytes)).unwrap();
        if thread.join().is_err() {
            std::process::exit(101);
        }
    }
    std::process::exit(0);
}

/// Lets this process use so many more seconds of its processors before the system ends it.
fn allow(seconds: u64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|f| f.parse::<u64>().unwrap()).sum();
    let mut limit = getrlimit(Resource::Cpu);
    limit.current = Some(ticks / 100 + 1 + seconds);
    setrlimit(Resource::Cpu, limit).unwrap();
}

/// Takes cases of a target, each once; whatever ends a child is found, and the rest goes on in another.
pub(crate) fn run(target: &FuzzTarget, cases: Range<u64>) -> Vec<Found> {
    let mut found = Vec::new();
    let mut next = cases.start;
    while next < cases.end {
        let Some(this) = run_child(target, next..cases.end, None) else {
            break;
        };
        next = this.case + 1;
        found.push(this);
    }
    found
}

/// Takes a file as a case.
pub(crate) fn run_file(target: &FuzzTarget, file: &Path) -> Option<Found> {
    run_child(target, 0..1, Some(file))
}

fn run_child(target: &FuzzTarget, cases: Range<u64>, file: Option<&Path>) -> Option<Found> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            CHILD,
            target.name,
            &cases.start.to_string(),
            &cases.end.to_string(),
        ])
        .arg(file.unwrap_or(Path::new("")))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = child.stderr.take().unwrap();
    // Read beside, so that a child that says much does not wait for a reader.
    let said = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stderr.by_ref().take(64 << 10).read_to_end(&mut text);
        let _ = std::io::copy(&mut stderr, &mut std::io::sink());
        String::from_utf8_lossy(&text).into_owned()
    });
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let last = lines
        .map_while(Result::ok)
        .filter_map(|line| line.parse().ok())
        .last();
    let status = child.wait().unwrap();
    let said = said.join().unwrap();
    if status.success() {
        return None;
    }
    Some(Found {
        case: last.unwrap_or(cases.start),
        what: format!(
            "{}: {}",
            ended(status),
            said.lines().take(4).collect::<Vec<_>>().join(" | ")
        ),
    })
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(101), _) => "panic".to_owned(),
        (_, Some(SIGXCPU)) => format!("more than {SECONDS} s"),
        (code, signal) => format!("ended (status {code:?}, signal {signal:?})"),
    }
}

/// The names of all targets.
pub(crate) fn names() -> Vec<&'static str> {
    TARGETS.iter().map(|target| target.name).collect()
}
