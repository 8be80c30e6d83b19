//! Knobs, what goes wrong, hand-written sources, and what becomes of promoted sums.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod support;

use std::process::Command;
use std::time::Duration;

use akg_core::image::{Images, Parameter};
use akg_core::source::{KnobValue, Knobs, Source};
use akg_core::target::Residency;
use akg_core::verdict::FailureKind;
use akg_core::{Dsl, Error, ErrorKind, Sketch, Target};
use akg_dsl_triton::{TritonConfig, TritonDsl};

const DOUBLE: &str = "sketch double(x: f32[5]) -> y: f32[5]
kernel main over (i in 1) { store y[0 :+ 5] = 2 * (load x[0 :+ 5]) }";

fn product(body: &str) -> String {
    format!(
        "sketch product(x: f16[512, 512], w: f16[512, 512]) -> y: f32[512, 512]
kernel main over (m in 8, n in 8) {{
  acc = zeros f32[64, 64]
  for k in 0..512 step 64 {{
    a = load x[m*64 :+ 64, k :+ 64]
    c = load w[n*64 :+ 64, k :+ 64]
    {body}
  }}
  store y[m*64 :+ 64, n*64 :+ 64] = acc
}}"
    )
}

fn lower(text: &str, knobs: &[(&str, i64)]) -> Result<Source, Error> {
    lower_for(&support::h100(), text, knobs)
}

fn lower_for(target: &Target, text: &str, knobs: &[(&str, i64)]) -> Result<Source, Error> {
    let sketch = Sketch::parse(text).unwrap_or_else(|d| panic!("{}", d.render(text)));
    let knobs: Knobs = knobs
        .iter()
        .map(|(n, v)| ((*n).to_owned(), KnobValue::Int(*v)))
        .collect();
    TritonDsl::default().lower(&sketch, &knobs, target)
}

/// A hand-written source.
fn written(text: &str) -> Source {
    let plan = r#"# akg-launch: {"tensors": [{"name": "x", "dtype": "f32", "shape": [5], "role": "input", "align": 16},
# {"name": "y", "dtype": "f32", "shape": [5], "role": "output", "align": 16}],
# "launches": [{"kernel": "double", "grid": [1], "tensors": [0, 1]}]}
"#;
    TritonDsl::default().parse(&format!("{plan}{text}")).unwrap()
}

const RIGHT: &str = "import triton
import triton.language as tl

@triton.jit
def double(x_ptr, y_ptr, BLOCK: tl.constexpr = 8):
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, 2.0 * tl.load(x_ptr + offs, mask=offs < 5), mask=offs < 5)
";

fn failure(source: &Source) -> String {
    let built = TritonDsl::default().build(source, &support::h100()).unwrap();
    let failure = built.unwrap_err();
    assert_eq!(failure.kind, FailureKind::CompileFailed);
    failure.evidence
}

#[test]
fn knobs_of_the_dsl_are_options_of_a_kernel() {
    let (target, dsl) = (support::h100(), TritonDsl::default());
    let names = |text: &str, target: &Target| -> Vec<String> {
        let knobs = dsl.knobs(&Sketch::parse(text).unwrap(), target).unwrap();
        knobs.into_iter().map(|k| k.name).collect()
    };
    let text = product("acc = dot(a, trans(c), acc) f16");
    assert_eq!(names(DOUBLE, &target), ["main.warps"]);
    assert_eq!(
        names(&text, &target),
        [
            "main.warps",
            "main.stages",
            "main.descriptors",
            "main.blocks",
            "main.persistent"
        ]
    );
    assert_eq!(
        names(&text, &Target::new("cuda", "sm_80")),
        ["main.warps", "main.stages", "main.blocks", "main.persistent"]
    );
    let newest = names(&text, &Target::new("cuda", "sm_100a"));
    assert_eq!(newest.last().unwrap(), "main.specialised");

    let plain = lower(&text, &[]).unwrap();
    assert!(plain.text.contains("x_desc.load([m * 64, k])"), "{}", plain.text);
    let chosen = lower(
        &text,
        &[("main.warps", 16), ("main.stages", 5), ("main.descriptors", 0)],
    )
    .unwrap();
    assert!(
        chosen.text.contains("{\"num_stages\": 5, \"num_warps\": 16}"),
        "{}",
        chosen.text
    );
    assert!(!chosen.text.contains("x_desc"));
    assert_eq!(chosen.knobs["main.warps"], KnobValue::Int(16));
    // What changes nothing is the same text.
    assert_eq!(lower(&text, &[("main.stages", 3)]).unwrap().text, plain.text);
    for (knob, value) in [
        ("main.warps", 3),
        ("main.colour", 1),
        ("other.warps", 4),
        ("NONE", 1),
    ] {
        let error = lower(&text, &[(knob, value)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{knob}: {error}");
    }
}

/// Layers of which the first two differ in names, the third in the type of what it reads, and the last in what it does.
const LAYERS: &str = "
sketch layers(x: f32[64, 128]) -> (y: f32[64, 128], z: f32[64, 128])
buffer h: f32[64, 128]
buffer g: f16[64, 128]
# the first
kernel first over (m in 64) {
  a = load x[m, 0 :+ 128]
  store h[m, 0 :+ 128] = max(f32(a), 0.0)
}
# the second
kernel second over (n in 64) {
  load_ = load h[n, 0 :+ 128]
  store y[n, 0 :+ 128] = max(f32(load_), 0.0)
}
kernel halve over (m in 64) {
  store g[m, 0 :+ 128] = f16(load y[m, 0 :+ 128])
}
kernel third over (m in 64) {
  a = load g[m, 0 :+ 128]
  store z[m, 0 :+ 128] = max(f32(a), 0.0)
}
";

#[test]
fn kernels_that_differ_in_names_alone_share_a_function() {
    let source = lower(LAYERS, &[]).unwrap();
    let launched: Vec<&str> = support::plan(&source)
        .launches
        .iter()
        .map(|l| l.kernel.as_str())
        .collect();
    assert_eq!(
        launched,
        ["layers_first", "layers_first", "layers_halve", "layers_third"]
    );
    let defined = source.text.matches("@triton.jit\ndef layers_").count();
    assert_eq!(defined, 3, "{}", source.text);
    // Copy engines are told the extents of what they move, so that it is not the same function where these differ.
    let product = |rows: i64| {
        format!(
            "kernel k{rows} over (m in ceildiv({rows}, 64)) {{
               acc = zeros f32[64, 64]
               for k in 0..256 step 64 {{
                 acc = dot(load x{rows}[m*64 :+ 64, k :+ 64] else 0, load w[k :+ 64, 0 :+ 64], acc) f16
               }}
               store y{rows}[m*64 :+ 64, 0 :+ 64] = acc
             }}\n"
        )
    };
    let text = format!(
        "sketch products(x200: f16[200, 256], x250: f16[250, 256], w: f16[256, 64]) -> (y200: f32[200, 64], y250: f32[250, 64])\n{}{}",
        product(200),
        product(250)
    );
    for (descriptors, functions) in [(1, 2), (0, 2)] {
        let knobs = [
            ("k200.descriptors", descriptors),
            ("k250.descriptors", descriptors),
        ];
        let source = lower(&text, &knobs).unwrap();
        assert_eq!(
            source.text.matches("def products_").count(),
            functions,
            "{}",
            source.text
        );
    }
}

#[test]
fn described_tensors_come_with_their_extents() {
    if support::python().is_none() {
        return;
    }
    let source = lower(&product("acc = dot(a, trans(c), acc) f16"), &[]).unwrap();
    let artifact = TritonDsl::default()
        .build(&source, &support::h100())
        .unwrap()
        .unwrap();
    let images = Images::decode(&artifact).unwrap();
    let kernel = images.get("product_main").unwrap();
    assert_eq!(kernel.threads, 128);
    let constant = |value, bytes| Parameter::Constant { value, bytes };
    let [first, extents @ .., tensor, global, profile] = kernel.parameters.as_slice() else {
        panic!("{:?}", kernel.parameters)
    };
    let numbers = [
        constant(512, 4),
        constant(512, 4),
        constant(512, 8),
        constant(1, 8),
    ];
    assert!(
        matches!(first, Parameter::Descriptor(d) if d.tensor == 0 && d.block == [64, 64]),
        "{first:?}"
    );
    assert_eq!(extents[..4], numbers);
    assert!(
        matches!(&extents[4], Parameter::Descriptor(d) if d.tensor == 1),
        "{extents:?}"
    );
    assert_eq!(extents[5..], numbers);
    assert_eq!(*tensor, Parameter::Tensor(2));
    assert!(matches!(
        (global, profile),
        (Parameter::Scratch(_), Parameter::Scratch(_))
    ));
}

/// Products of tiles of rows with one tile of columns, in a loop that goes on as `how` says.
fn strip(columns: i64, how: &str) -> String {
    format!(
        "sketch strip(x: f16[512, 64], w: f16[64, {columns}]) -> y: f32[512, {columns}]
kernel main over (n in ceildiv({columns}, 64)) {{
  c = load w[0 :+ 64, n*64 :+ 64] else 0
  for m in 0..8 {how} {{
    a = load x[m*64 :+ 64, 0 :+ 64]
    store y[m*64 :+ 64, n*64 :+ 64] = dot(a, c) f16
  }}
}}"
    )
}

#[test]
fn the_copy_engine_stores_beside_products() {
    let stores = |text: &str, knobs: &[(&str, i64)]| {
        let text = lower(text, knobs).unwrap().text;
        text.contains("y_desc.store([m * 64, n * 64], ")
            && text.contains("\"y_desc\": {\"block_shape\": [64, 64]")
    };
    assert!(stores(&strip(512, "pipeline(2)"), &[]));
    // Boxes end where the tensor does.
    assert!(stores(&strip(500, "pipeline(2)"), &[]));
    assert!(!stores(&strip(512, "pipeline(2)"), &[("main.descriptors", 0)]));
    // What a tile's loop stores is on its way when that of the next tile would begin.
    let own = TritonDsl::default().knobs(
        &Sketch::parse(&strip(512, "pipeline(2)")).unwrap(),
        &support::h100(),
    );
    assert!(own.unwrap().iter().all(|knob| knob.name != "main.persistent"));
    // Nothing else is done meanwhile, or rows do not begin where the engine asks.
    assert!(!stores(&strip(512, ""), &[]));
    assert!(!stores(&strip(510, "pipeline(2)"), &[]));
    if support::python().is_none() {
        return;
    }
    let source = lower(&strip(500, "pipeline(2)"), &[]).unwrap();
    let artifact = TritonDsl::default()
        .build(&source, &support::h100())
        .unwrap()
        .unwrap();
    let images = Images::decode(&artifact).unwrap();
    let output = support::plan(&source).launches[0].tensors.len() - 1;
    let parameters = &images.get("strip_main").unwrap().parameters;
    let is_output = |p: &Parameter| matches!(p, Parameter::Descriptor(d) if d.tensor == output);
    assert!(parameters.iter().any(is_output), "{parameters:?}");
}

/// Additions of f32 in the machine code of a kernel that sums products.
fn additions(body: &str) -> usize {
    let source = lower(&product(body), &[]).unwrap();
    let artifact = TritonDsl::default()
        .build(&source, &support::h100())
        .unwrap()
        .unwrap();
    let code = &Images::decode(&artifact).unwrap().kernels[0].code.clone();
    let name = format!("product_{}.cubin", akg_core::Digest::of(body.as_bytes()));
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, code).unwrap();
    let script = "import os, subprocess, sys, triton\n\
                  tool = os.path.join(os.path.dirname(triton.__file__), 'backends/nvidia/bin/cuobjdump')\n\
                  sys.stdout.write(subprocess.run([tool, '-sass', sys.argv[1]], capture_output=True, text=True).stdout)";
    let output = Command::new(support::python().unwrap())
        .args(["-c", script])
        .arg(&file)
        .output()
        .unwrap();
    let assembly = String::from_utf8(output.stdout).unwrap();
    assert!(assembly.contains("HGMMA"), "{}", source.text);
    assembly.lines().filter(|line| line.contains(" FADD ")).count()
}

#[test]
fn promoted_sums_are_rounded_before_they_are_added() {
    if support::python().is_none() {
        return;
    }
    // 64 * 64 sums in 128 threads.
    assert_eq!(additions("acc = dot(a, trans(c), acc) f16"), 0);
    assert!(additions("acc = dot(a, trans(c), acc) f16 promote(64)") >= 32);
    assert!(additions("acc = acc + dot(a, trans(c)) f16") >= 32);
}

#[test]
fn stubs_are_read_back_and_built() {
    let (dsl, target) = (TritonDsl::default(), support::h100());
    let source = lower(DOUBLE, &[]).unwrap();
    for form in ["stub", "source"] {
        let read = dsl.parse(&dsl.export(&source, form).unwrap()).unwrap();
        assert_eq!(read.form, source.form, "{form}");
        if support::python().is_some() {
            assert!(dsl.check(&read).is_empty(), "{form}: {:?}", dsl.check(&read));
            dsl.build(&read, &target).unwrap().unwrap();
        }
    }
    assert!(dsl.export(&source, "poem").is_err());
    for text in [
        "",
        "import triton",
        "# akg-launch:",
        "# akg-launch: {\"tensors\": [], \"launches\": []}",
    ] {
        assert_eq!(
            dsl.parse(text).unwrap_err().kind(),
            ErrorKind::InvalidInput,
            "{text}"
        );
    }
}

#[test]
fn the_check_says_what_is_wrong_and_where() {
    if support::python().is_none() {
        return;
    }
    let check = |text: &str| {
        let source = written(text);
        let found = TritonDsl::default().check(&source);
        found
            .into_iter()
            .map(|d| {
                (
                    d.message,
                    source.text[d.span.start..]
                        .lines()
                        .next()
                        .unwrap_or_default()
                        .to_owned(),
                )
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(check(RIGHT), []);
    for (text, message, place) in [
        (
            RIGHT.replace("x_ptr +", "x_ptr + +/"),
            "invalid syntax",
            "/ offs, mask=offs < 5)",
        ),
        (
            format!("import os\n{RIGHT}"),
            "`os` cannot be imported",
            "import os",
        ),
        (
            RIGHT.replace("def double", "def other"),
            "starts kernel `double`",
            "# akg-launch",
        ),
        (
            RIGHT
                .replace("def double", "def double2")
                .replace("@triton.jit\n", ""),
            "is no kernel",
            "def double2",
        ),
        (
            RIGHT.replace("2.0 *", "eval('2.0') *"),
            "`eval` has no place",
            "eval('2.0')",
        ),
        (RIGHT.replace(" = 8", ""), "no default value", "BLOCK"),
        (
            RIGHT.replace("x_ptr, y_ptr, BLOCK: tl.constexpr = 8", "x_ptr"),
            "has 1 parameters",
            "def double",
        ),
    ] {
        let found = check(&text);
        let hit = found
            .iter()
            .any(|(m, p)| m.contains(message) && p.contains(place));
        assert!(hit, "{message} at {place} is not in {found:#?}");
    }
}

#[test]
fn machine_code_has_no_variables_that_nothing_refers_to() {
    let text = RIGHT.replace(
        "    tl.store(y_ptr + offs, 2.0 * tl.load(x_ptr + offs, mask=offs < 5), mask=offs < 5)",
        "    x = tl.load(x_ptr + offs, mask=offs < 5)
    tl.store(y_ptr + offs, libdevice.exp(x), mask=offs < 5)",
    );
    let text = text.replace(
        "import triton.language as tl\n",
        "import triton.language as tl\nfrom triton.language.extra.cuda import libdevice\n",
    );
    let built = TritonDsl::default().build(&written(&text), &support::h100());
    let images = Images::decode(&built.unwrap().unwrap()).unwrap();
    let code = &images.kernels[0].code;
    assert!(code.starts_with(b"\x7fELF"));
    // The option that libdevice asks for.
    assert!(!code.windows(10).any(|part| part == b"__CUDA_FTZ"));
}

#[test]
fn rejected_texts_are_failures_with_their_line() {
    if support::python().is_none() {
        return;
    }
    TritonDsl::default()
        .build(&written(RIGHT), &support::h100())
        .unwrap()
        .unwrap();
    let line = |text: &str, part: &str| {
        let text = written(text).text;
        text.lines().position(|l| l.contains(part)).unwrap() + 1
    };
    for (text, part, words) in [
        (
            RIGHT.replace("tl.arange(0, BLOCK)", "tl.arange(0, 5)"),
            "arange",
            "power of 2",
        ),
        (RIGHT.replace("tl.load(", "tl.lode("), "lode", "lode"),
        (RIGHT.replace("x_ptr +", "x_ptr + +/"), "+/", "syntax"),
        (format!("{RIGHT}\n1 / 0\n"), "1 / 0", "ZeroDivisionError"),
    ] {
        let evidence = failure(&written(&text));
        let line = format!("line {}", line(&text, part));
        assert!(
            evidence.contains(&line) && evidence.contains(words),
            "{line}, {words}: {evidence}"
        );
    }
    let evidence = failure(&written(&RIGHT.replace("def double", "def other")));
    assert!(evidence.contains("there is no kernel `double`"), "{evidence}");
}

#[test]
fn a_text_that_ends_or_stalls_the_compiler_harms_no_other() {
    if support::python().is_none() {
        return;
    }
    let mut config = TritonConfig::default();
    config.time_limit = Duration::from_secs(20);
    let dsl = TritonDsl::new(&config);
    let target = support::h100();
    for (text, words) in [
        ("import os\nos._exit(0)", "no result"),
        ("import os\nos.abort()", "status -6"),
        ("import triton\ntriton.jit = None\nraise SystemExit", "SystemExit"),
        ("while True:\n    n = 1", "longer than 20 s"),
    ] {
        let failure = dsl.build(&written(text), &target).unwrap().unwrap_err();
        assert_eq!(failure.kind, FailureKind::CompileFailed);
        assert!(failure.evidence.contains(words), "{words}: {}", failure.evidence);
        dsl.build(&written(RIGHT), &target).unwrap().unwrap();
    }
}

#[test]
fn too_much_shared_memory_is_a_failure() {
    if support::python().is_none() {
        return;
    }
    let source = lower(
        &product("acc = dot(a, trans(c), acc) f16"),
        &[("main.stages", 16)],
    )
    .unwrap();
    let evidence = failure(&source);
    assert!(evidence.contains("bytes of shared memory"), "{evidence}");
}

#[test]
fn a_device_that_triton_does_not_know_is_unsupported() {
    let sketch = Sketch::parse(DOUBLE).unwrap();
    let error = TritonDsl::default().lower(&sketch, &Knobs::new(), &Target::new("cpu", "x86_64"));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn programs_that_meet_all_fit_on_the_device() {
    let text = include_str!("in/teams.sketch");
    let sketch = Sketch::parse(text).unwrap();
    let mut target = support::h100();
    target.residency = Some(Residency {
        programs: 32,
        threads_of_program: 1024,
        registers: 65536,
        tile_bytes: 233_472,
        reserved_bytes: 1024,
    });
    let options = |target: &Target, warps: i64| {
        let knobs = Knobs::from([("main.warps".to_owned(), KnobValue::Int(warps))]);
        let source = TritonDsl::default().lower(&sketch, &knobs, target).unwrap();
        let line = source
            .text
            .lines()
            .find(|l| l.contains("\"teams_main\""))
            .unwrap();
        (line.trim().to_owned(), source)
    };
    // 104 programs of 132 cores may have all that a thread can use.
    let (plain, source) = options(&target, 0);
    assert_eq!(plain, "\"teams_main\": {\"num_stages\": 3, \"num_warps\": 8},");
    target.cores = 26;
    let (four, crowded) = options(&target, 0);
    assert_eq!(
        four,
        "\"teams_main\": {\"maxnreg\": 64, \"num_stages\": 3, \"num_warps\": 8},"
    );
    assert!(options(&target, 16).0.contains("\"maxnreg\": 32"));
    assert!(!options(&Target::new("hip", "gfx942"), 0).0.contains("maxnreg"));
    let plan = support::plan(&source);
    assert!(plan.launches[1].cooperative && !plan.launches[0].cooperative);
    assert_eq!(plan.launches[0].grid, [13.into()], "a counter for each team");
    if support::python().is_none() {
        return;
    }
    let artifact = TritonDsl::default().build(&crowded, &target).unwrap().unwrap();
    let images = Images::decode(&artifact).unwrap();
    let report = &images.get("teams_main").unwrap().report;
    assert!(report.registers.is_some_and(|n| n <= 64), "{report:?}");
    assert_eq!(report.spilled_bytes, Some(0));
}

/// Rows that teams of two programs go over.
fn rows(tile: &str, hint: &str) -> String {
    format!(
        "sketch rows(x: f32[16, 2048]) -> y: f32[16, 2048]
buffer sums: f32[16, 2]

kernel main over (team in 2, q in 2) cooperative along q {{
  for n in team..16 step 2 {hint} {{
    v = load x[n, {tile}] else 0.0
    store sums[n, q] = reduce_sum(v, 0)
    barrier
    store y[n, {tile}] = v - reduce_sum(load sums[n, 0 :+ 2], 0)
  }}
}}"
    )
}

#[test]
fn the_next_row_is_asked_for_where_programs_meet() {
    let asked = |target: &Target, tile: &str, hint: &str| {
        let text = lower_for(target, &rows(tile, hint), &[]).unwrap().text;
        let of = text
            .split("    akg_prefetch(")
            .nth(1)
            .and_then(|rest| rest.split("    akg_barrier(").next());
        assert_eq!(text.contains("evict_first"), of.is_some(), "{text}");
        of.map(|of| of.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let h100 = support::h100();
    assert_eq!(
        asked(&h100, "q*1024 :+ 1024", "pipeline(2)").unwrap(),
        "x_ptr + tl.minimum(n + 2, 15) * 2048 + offs_q_2)"
    );
    // Tiles that end beyond the row.
    let beyond = asked(&h100, "q*1536 :+ 1536", "pipeline(2)").unwrap();
    assert!(
        beyond.contains("(tl.arange(0, 64) < 48) & (offs_q_2 < 2048)"),
        "{beyond}"
    );
    assert_eq!(asked(&h100, "q*1024 :+ 1024", "pipeline(1)"), None);
    assert_eq!(asked(&h100, "q*1024 :+ 1024", ""), None);
    let other = Target::new("hip", "gfx942");
    assert_eq!(asked(&other, "q*1024 :+ 1024", "pipeline(2)"), None);
}

#[test]
fn a_product_is_complete_before_its_factor_is_made_anew() {
    let product = |left: &str, method: &str, target: &Target| {
        let text = format!(
            "sketch product(a: f32[128, 512], b: {}[512, 128]) -> c: f32[128, 128]

kernel main over (p in 1) {{
  sum = zeros f32[128, 128]
  for k in 0..512 step 64 pipeline(3) {{
    x = load a[0 :+ 128, k :+ 64]
    y = load b[k :+ 64, 0 :+ 128]
    sum = dot({left}, y, sum) {method}
  }}
  store c[0 :+ 128, 0 :+ 128] = sum
}}",
            if method == "tf32" { "f32" } else { method }
        );
        let source = lower_for(target, &text, &[]).unwrap();
        source.text.contains("= akg_settled(tl.dot(")
    };
    assert!(product("f16(x)", "f16", &support::h100()));
    assert!(product("x", "tf32", &support::h100()), "it is rounded");
    assert!(!product("f16(x)", "f16", &Target::new("cuda", "sm_80")));
}
