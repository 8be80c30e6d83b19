//! The same command a second time, with a compiler that does not compile any more: everything is known.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test's helpers may fail the test"
)]

mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use akg::sqlite::SqliteStore;
use akg::store::{BuildRecord, CandidateRecord, Measurement, StoreExt as _, TuningRecord, VerdictRecord};
use common::{Place, compiler, expect};

const PASS: i32 = 0;

/// A product, which has knobs to tune.
const PRODUCT: &str = r#"{"akg_graph": 1, "name": "product",
  "inputs": [{"name": "a", "dtype": "f32", "shape": [96, 64]}, {"name": "b", "dtype": "f32", "shape": [64, 80]}],
  "nodes": [{"op": "aten.mm.default", "args": {"self": "a", "mat2": "b"}, "outputs": ["y"]}],
  "outputs": [{"value": "y"}]}"#;

const SUM: &str = r#"{"akg_graph": 1, "name": "sum",
  "inputs": [{"name": "x", "dtype": "f32", "shape": [30, 50]}],
  "nodes": [{"op": "aten.sum.dim_IntList", "args": {"self": "x", "dim": [1]}, "outputs": ["y"]}],
  "outputs": [{"value": "y"}]}"#;

/// A place with problems, and a compiler that says which it is and refuses to compile once that is wanted.
struct Workshop {
    place: Place,
    real: &'static str,
}

impl Workshop {
    fn new() -> Option<Self> {
        let workshop = Self {
            place: Place::with(&[
                ("root/level1/1_product.json", PRODUCT),
                ("root/level1/2_sum.json", SUM),
            ]),
            real: compiler()?,
        };
        workshop.install("");
        Some(workshop)
    }

    fn install(&self, before: &str) {
        let real = self.real;
        let text = format!(
            "#!/bin/sh\ncase \"$*\" in *--version*) exec {real} \"$@\";; esac\n{before}\nexec {real} \"$@\"\n"
        );
        let compiler = self.place.file("bin/some-c++", &text);
        std::fs::set_permissions(compiler, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// From now on nothing compiles.
    fn refuse(&self) {
        self.install("echo refused >&2; exit 1");
    }

    fn akg(&self, args: &[&str]) -> Command {
        let mut command = self.place.akg();
        command.args(args).env("CXX", self.place.path("bin/some-c++"));
        command
    }

    fn task(&self) -> std::path::PathBuf {
        self.place.path("root/level1/1_product.json")
    }

    /// How many things of each kind a store holds.
    fn known(&self, store: &str) -> [usize; 5] {
        let store = SqliteStore::open(&self.place.path(store)).unwrap();
        [
            store.all::<CandidateRecord>(None).unwrap().len(),
            store.all::<BuildRecord>(None).unwrap().len(),
            store.all::<VerdictRecord>(None).unwrap().len(),
            store.all::<Measurement>(None).unwrap().len(),
            store.all::<TuningRecord>(None).unwrap().len(),
        ]
    }
}

#[test]
fn a_second_run_looks_everything_up_and_its_bundle_is_not_built_again() {
    let Some(workshop) = Workshop::new() else { return };
    let run = |bundle: &str| {
        let args = [
            "run",
            "--no-baseline",
            "--tune",
            "2s",
            "--contest-seconds",
            "200ms",
            "--bundle",
        ];
        let mut command = workshop.akg(&args);
        command.arg(workshop.place.path(bundle)).arg(workshop.task());
        expect(&command.output().unwrap(), PASS, &["verdict: pass"])
    };
    run("first.akg");
    let known = workshop.known("store.sqlite");
    assert!(known.iter().all(|n| *n > 0), "{known:?}");
    workshop.refuse();
    let second = run("second.akg");
    assert!(second.contains("by an earlier run"), "{second}");
    assert_eq!(workshop.known("store.sqlite"), known);
    let hash = |bundle: &str| akg::bundle::Bundle::read(workshop.place.path(bundle)).unwrap();
    assert_eq!(
        hash("first.akg").candidate().artifact,
        hash("second.akg").candidate().artifact
    );
}

#[test]
fn a_benchmark_with_the_store_of_another_looks_everything_up() {
    let Some(workshop) = Workshop::new() else { return };
    let bench = |out: &str| -> Output {
        let args = ["bench", "kernelbench", "--no-baseline", "--tune", "2s"];
        let mut command = workshop.akg(&args);
        command.args(["--contest-seconds", "200ms", "--store"]);
        command.arg(workshop.place.path("shared.sqlite")).arg("--root");
        command.arg(workshop.place.path("root")).arg("--out");
        command.arg(workshop.place.path(out)).output().unwrap()
    };
    expect(&bench("first"), PASS, &["all: 2 of 2 verified"]);
    let known = workshop.known("shared.sqlite");
    workshop.refuse();
    expect(&bench("second"), PASS, &["all: 2 of 2 verified"]);
    assert_eq!(workshop.known("shared.sqlite"), known);
    let knobs = |out: &str, problem: &str| {
        let record = workshop
            .place
            .path(Path::new(out).join(problem).join("record.json"));
        let record: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(record).unwrap()).unwrap();
        (
            record["knobs"].clone(),
            record["sides"].clone(),
            record["timed_at"].clone(),
        )
    };
    for problem in ["1-1", "1-2"] {
        assert_eq!(knobs("first", problem), knobs("second", problem));
    }
}

#[test]
fn a_verdict_about_a_source_is_kept_where_a_store_is_given() {
    let Some(workshop) = Workshop::new() else { return };
    let run = workshop
        .akg(&["run", "--no-store", "--no-baseline", "--tune", "0", "--out"])
        .arg(workshop.place.path("out"))
        .arg(workshop.task())
        .output()
        .unwrap();
    expect(&run, PASS, &[]);
    let text = workshop
        .akg(&["export", "--form", "stub", "--task"])
        .arg(workshop.task())
        .output()
        .unwrap();
    let stub = expect(&text, PASS, &[]);
    let header: Vec<&str> = stub.lines().take_while(|l| l.starts_with("//")).collect();
    let source = format!(
        "{}\n#include <cstdint>\nextern \"C\" void kernel(void *const *t, const int64_t *, int64_t, int64_t) {{\n\
         for (int i = 0; i < 96; i++) for (int j = 0; j < 80; j++) {{ double s = 0; \
         for (int k = 0; k < 64; k++) s += (double)((float *)t[0])[i*64+k] * ((float *)t[1])[k*80+j]; \
         ((float *)t[2])[i*80+j] = s; }} }}\n",
        header.join("\n")
    );
    let source = workshop.place.file("kernel.cpp", &source);
    let verify = |more: &[&str]| {
        let mut command = workshop.akg(&["verify", "--no-baseline", "--contest-seconds", "100ms", "--task"]);
        command
            .arg(workshop.task())
            .arg(&source)
            .args(more)
            .output()
            .unwrap()
    };
    let store = workshop.place.path("judged.sqlite");
    let store = ["--store", store.to_str().unwrap()];
    expect(&verify(&store), PASS, &["verdict: pass"]);
    let known = workshop.known("judged.sqlite");
    workshop.refuse();
    expect(&verify(&store), PASS, &["by an earlier run"]);
    assert_eq!(workshop.known("judged.sqlite"), known);
    // Without one, everything is done anew.
    expect(&verify(&[]), 1, &["compile-failed", "refused"]);
}
