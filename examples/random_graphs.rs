//! Random graphs through design, validation and interpretation for two devices, and through C++ in a worker.
//!
//! ```text
//! cargo run --release --example random_graphs -- --seeds 0..10000 --out found [--cpp-every 10]
//! ```
//!
//! Every finished seed is a line of `found/seeds.tsv`: started again, the program goes on where it was. Several may share
//! a directory if they share no seeds. What is wrong with a seed is in a file of its name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::ops::Range;
use std::path::PathBuf;

use akg::conformance::random::{Case, Finding, check, run, shrink};
use akg::cpp::{CppConfig, CppDsl};
use akg::cpu::CpuBackend;
use akg::{Backend as _, DType, Error, Result, Target};
use futures::executor::block_on;

/// What is asked for.
struct Wish {
    seeds: Range<u64>,
    out: PathBuf,
    /// Every so many seeds one goes through C++; none if 0.
    cpp_every: u64,
}

impl Wish {
    fn read() -> Result<Self> {
        let usage =
            || Error::invalid("usage: random_graphs --seeds FIRST..END --out DIRECTORY [--cpp-every COUNT]");
        let number = |text: &str| text.parse::<u64>().map_err(|e| usage().caused_by(e));
        let mut wish = Self {
            seeds: 0..0,
            out: PathBuf::new(),
            cpp_every: 1,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(usage)?;
            match name.as_str() {
                "--seeds" => {
                    let (first, end) = value.split_once("..").ok_or_else(usage)?;
                    wish.seeds = number(first)?..number(end)?;
                }
                "--out" => wish.out = value.into(),
                "--cpp-every" => wish.cpp_every = number(&value)?,
                _ => return Err(usage()),
            }
        }
        if wish.seeds.is_empty() || wish.out.as_os_str().is_empty() {
            return Err(usage());
        }
        Ok(wish)
    }
}

/// Where seeds are tried.
struct Roads {
    targets: Vec<Target>,
    dsl: CppDsl,
    cpu: CpuBackend,
}

impl Roads {
    fn new() -> Result<Self> {
        let cpu = CpuBackend::builder().build();
        let host = block_on(cpu.devices())?.into_iter().next();
        let host = host.ok_or_else(|| Error::unexpected("this machine has no CPU"))?;
        let mut threads = Target::new("threads", "t1");
        (threads.cores, threads.threads) = (16, 2048);
        threads.peak = [(DType::F32, 1.0), (DType::F16, 16.0), (DType::BF16, 16.0)].into();
        let mut config = CppConfig::default();
        // Many kernels that run once: the compiler's time is all that counts.
        config.flags = vec!["-O1".to_owned()];
        Ok(Self {
            targets: vec![host, threads],
            dsl: CppDsl::new(config),
            cpu,
        })
    }

    /// The first finding that is not good, or the last.
    fn go(&self, case: &Case, with_cpp: bool) -> Result<Finding> {
        for target in &self.targets {
            let finding = check(case, target)?;
            if finding != Finding::Verified {
                return Ok(finding);
            }
        }
        match self.targets.first() {
            Some(host) if with_cpp => block_on(run(case, &self.dsl, &self.cpu, host)),
            _ => Ok(Finding::Verified),
        }
    }
}

/// What is said without what it is said of: extents and operators.
fn kind(why: &str) -> String {
    let first = why.lines().next().unwrap_or_default();
    let what = first.split(" (operator").next().unwrap_or_default();
    what.split_whitespace()
        .filter(|word| !word.contains(|c: char| c.is_ascii_digit()))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The seeds of a file that are done, and how often each outcome is in it.
fn done(lines: &str) -> (BTreeSet<u64>, BTreeMap<String, u64>) {
    let (mut seeds, mut counts) = (BTreeSet::new(), BTreeMap::new());
    for line in lines.lines() {
        if let Some((seed, outcome)) = line.split_once('\t')
            && let Ok(seed) = seed.parse()
        {
            seeds.insert(seed);
            *counts.entry(outcome.to_owned()).or_default() += 1;
        }
    }
    (seeds, counts)
}

fn main() -> Result<()> {
    akg::worker::init();
    let wish = Wish::read()?;
    let failed = |what: &'static str| move |e: std::io::Error| Error::invalid(what).caused_by(e);
    fs::create_dir_all(&wish.out).map_err(failed("cannot make the directory"))?;
    let list = wish.out.join("seeds.tsv");
    let (done_before, _) = done(&fs::read_to_string(&list).unwrap_or_default());
    let open = OpenOptions::new().create(true).append(true).open(&list);
    let mut file: File = open.map_err(failed("cannot write the list of seeds"))?;
    let roads = Roads::new()?;
    for seed in wish.seeds.filter(|seed| !done_before.contains(seed)) {
        let case = Case::new(seed)?;
        let with_cpp = wish.cpp_every > 0 && seed.is_multiple_of(wish.cpp_every);
        let outcome = match roads.go(&case, with_cpp)? {
            Finding::Verified if with_cpp => "verified, also in C++".to_owned(),
            Finding::Verified => "verified".to_owned(),
            Finding::Unsupported(why) => format!("unsupported: {}", kind(&why)),
            Finding::Wrong(_) => {
                let fails = |case: &Case| matches!(roads.go(case, with_cpp), Ok(Finding::Wrong(_)));
                let small = shrink(&case, &fails);
                let what = match roads.go(&small, with_cpp)? {
                    Finding::Wrong(what) => what,
                    other => format!("{other:?}"),
                };
                println!(
                    "seed {seed} is wrong: {}",
                    what.lines().next().unwrap_or_default()
                );
                let text = format!("{small}\n{what}\n\nwhich is a part of\n{case}");
                fs::write(wish.out.join(format!("{seed}.txt")), text)
                    .map_err(failed("cannot write what is wrong"))?;
                "wrong".to_owned()
            }
        };
        writeln!(file, "{seed}\t{outcome}").map_err(failed("cannot write the list of seeds"))?;
    }
    let (all, counts) = done(&fs::read_to_string(&list).map_err(failed("cannot read the list of seeds"))?);
    println!("{} seeds", all.len());
    for (outcome, count) in counts {
        println!("{count:6} {outcome}");
    }
    Ok(())
}
