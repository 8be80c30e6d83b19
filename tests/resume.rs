//! `akg bench` killed at random moments and resumed: nothing is judged twice, nothing verified is lost, and the verdicts
//! are those of a run that nobody disturbed.
//!
//! Three kills by default; `AKG_KILLS=50` for more, and `AKG_SEED` to repeat the moments of a run that failed.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test's helpers may fail the test"
)]

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use akg::digest::Digest;
use akg::sqlite::SqliteStore;
use akg::store::{CandidateRecord, Measurement, Record as _, Store, StoreExt as _, VerdictRecord};
use common::{Place, has_compiler};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

/// Problems that take seconds: one kernel and several, and one that no rule covers.
const PROBLEMS: [(&str, &str); 4] = [
    (
        "1_softmax",
        r#"{"akg_graph": 1, "name": "softmax",
            "inputs": [{"name": "x", "dtype": "f32", "shape": [6, 40]}],
            "nodes": [{"op": "aten.relu.default", "args": {"self": "x"}, "outputs": ["r"]},
                      {"op": "aten.softmax.int", "args": {"self": "r", "dim": -1}, "outputs": ["y"]}],
            "outputs": [{"value": "y"}]}"#,
    ),
    (
        "2_product",
        r#"{"akg_graph": 1, "name": "product",
            "inputs": [{"name": "a", "dtype": "f32", "shape": [48, 64]}, {"name": "b", "dtype": "f32", "shape": [64, 32]}],
            "nodes": [{"op": "aten.mm.default", "args": {"self": "a", "mat2": "b"}, "outputs": ["p"]},
                      {"op": "aten.relu.default", "args": {"self": "p"}, "outputs": ["y"]}],
            "outputs": [{"value": "y"}]}"#,
    ),
    (
        "3_sum",
        r#"{"akg_graph": 1, "name": "sum",
            "inputs": [{"name": "x", "dtype": "f32", "shape": [30, 50]}],
            "nodes": [{"op": "aten.sum.dim_IntList", "args": {"self": "x", "dim": [1]}, "outputs": ["y"]}],
            "outputs": [{"value": "y"}]}"#,
    ),
    (
        "4_scatter",
        r#"{"akg_graph": 1, "name": "scatter",
            "inputs": [{"name": "x", "dtype": "f32", "shape": [6, 8]}, {"name": "i", "dtype": "i64", "shape": [6, 1]}],
            "nodes": [{"op": "aten.scatter.value", "args": {"self": "x", "dim": -1, "index": "i", "value": 1.0}, "outputs": ["y"]}],
            "outputs": [{"value": "y"}]}"#,
    ),
];

/// Not every problem has a kernel.
const SOME_FAILED: i32 = 1;

fn bench(program: &Path, root: &Path, out: &Path, resume: bool) -> Command {
    let mut command = Command::new(program);
    command
        .args(["bench", "kernelbench", "--no-baseline", "--secret", "7"])
        .args(["--tune", "500ms", "--contest-seconds", "100ms", "--root"])
        .arg(root)
        .arg("--out")
        .arg(out)
        .args(resume.then_some("--resume"))
        .env_remove("AKG_WORKER")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// What a run left at some moment.
struct Left {
    /// Records of finished problems, as they are on disk.
    records: BTreeMap<PathBuf, String>,
    verdicts: BTreeMap<Digest, VerdictRecord>,
    /// Contests with nobody to challenge, by candidate: how many.
    contests: BTreeMap<Digest, usize>,
}

impl Left {
    fn read(out: &Path) -> Self {
        let mut left = Self {
            records: BTreeMap::new(),
            verdicts: BTreeMap::new(),
            contests: BTreeMap::new(),
        };
        for entry in std::fs::read_dir(out).into_iter().flatten() {
            let path = entry.unwrap().path().join("record.json");
            if let Ok(text) = std::fs::read_to_string(&path) {
                left.records.insert(path, text);
            }
        }
        let file = out.join("store.sqlite");
        if file.exists() {
            let store = SqliteStore::open(&file).unwrap();
            for record in store.all::<VerdictRecord>(None).unwrap() {
                left.verdicts.insert(record.key(), record);
            }
            for contest in store.all::<Measurement>(None).unwrap() {
                if contest.challenged.is_none() {
                    *left.contests.entry(contest.candidate).or_default() += 1;
                }
            }
            each_candidate_is_whole(&store, &left);
        }
        left
    }

    /// The verdict on each candidate, by the candidate's source.
    fn by_source(&self, out: &Path) -> BTreeMap<Digest, bool> {
        let store = SqliteStore::open(&out.join("store.sqlite")).unwrap();
        let source = |v: &VerdictRecord| {
            store
                .load::<CandidateRecord>(v.candidate)
                .unwrap()
                .unwrap()
                .source
        };
        self.verdicts
            .values()
            .map(|v| (source(v), v.verdict.passed()))
            .collect()
    }

    /// What became of each problem.
    fn statuses(&self) -> BTreeMap<String, String> {
        let status = |text: &String| {
            let record: Value = serde_json::from_str(text).unwrap();
            let field = |name: &str| record[name].as_str().unwrap().to_owned();
            (field("problem"), field("status"))
        };
        self.records.values().map(status).collect()
    }
}

/// What has a verdict can be read back: its source is there with all its bytes.
fn each_candidate_is_whole(store: &dyn Store, left: &Left) {
    for verdict in left.verdicts.values() {
        let candidate: CandidateRecord = store.load(verdict.candidate).unwrap().unwrap();
        assert!(store.blob(candidate.source).unwrap().is_some(), "{candidate:?}");
    }
}

/// Kills a run after some time; whether it had ended by itself with this status.
fn kill_after(mut run: Child, delay: Duration) -> Option<i32> {
    let start = Instant::now();
    while start.elapsed() < delay {
        if let Some(status) = run.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    None
}

/// Processes that run the program, of which none is left soon after a kill.
fn processes_of(program: &Path) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let runs = processes.filter_map(|p| std::fs::read_link(p.path().join("exe")).ok());
    runs.filter(|exe| exe == program).count()
}

#[test]
fn a_killed_run_goes_on_where_it_was() {
    if !has_compiler() {
        return;
    }
    let number = |name: &str, default| {
        let value = std::env::var(name);
        value.map_or(default, |text| text.parse::<u64>().unwrap())
    };
    let (kills, seed) = (number("AKG_KILLS", 3), number("AKG_SEED", 1));
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let place = Place::new();
    let root = place.path("problems");
    // Workers are the program itself, and nobody else runs this copy.
    let program = place.path("").canonicalize().unwrap().join("akg");
    std::fs::copy(env!("CARGO_BIN_EXE_akg"), &program).unwrap();
    for (name, graph) in PROBLEMS {
        place.file(&format!("problems/level1/{name}.json"), graph);
    }

    let calm = place.path("calm");
    let start = Instant::now();
    let status = bench(&program, &root, &calm, false).status().unwrap();
    let whole = start.elapsed();
    assert_eq!(status.code(), Some(SOME_FAILED));
    let expected = Left::read(&calm);
    assert_eq!(expected.records.len(), PROBLEMS.len());
    let verdicts = expected.by_source(&calm);
    assert!(verdicts.values().any(|passed| *passed));

    let (mut killed, mut runs) = (0, 0);
    while killed < kills {
        runs += 1;
        let out = place.path(format!("run{runs}"));
        let mut left = Left::read(&out);
        loop {
            let run = bench(&program, &root, &out, out.join("bench.json").exists())
                .spawn()
                .unwrap();
            let delay = if killed < kills {
                whole.mul_f64(rng.random_range(0.0..0.8))
            } else {
                20 * whole + Duration::from_secs(120)
            };
            let ended = kill_after(run, delay);
            let now = Left::read(&out);
            let context = format!("AKG_SEED={seed}, run {runs}, kill {killed}, after {delay:?}");
            for (path, record) in &left.records {
                assert_eq!(
                    Some(record),
                    now.records.get(path),
                    "{context}: a finished problem was repeated"
                );
            }
            for (key, verdict) in &left.verdicts {
                // A second judgement would show: it takes another time.
                assert!(
                    now.verdicts.get(key) == Some(verdict),
                    "{context}: a verdict was lost or made again: candidate {}",
                    verdict.candidate
                );
            }
            for (candidate, contests) in &left.contests {
                assert_eq!(
                    now.contests.get(candidate),
                    Some(contests),
                    "{context}: a contest was held again"
                );
            }
            left = now;
            if let Some(status) = ended {
                assert_eq!(status, SOME_FAILED, "{context}");
                break;
            }
            killed += 1;
            let patience = Instant::now();
            while processes_of(&program) > 0 {
                assert!(
                    patience.elapsed() < Duration::from_secs(10),
                    "{context}: workers live on"
                );
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        assert_eq!(left.statuses(), expected.statuses());
        // Which configurations were judged depends on the clock; what was decided about them does not.
        for (source, passed) in left.by_source(&out) {
            if let Some(calm) = verdicts.get(&source) {
                assert_eq!(
                    passed, *calm,
                    "AKG_SEED={seed}, run {runs}: another verdict about {source}"
                );
            }
        }
    }
}
