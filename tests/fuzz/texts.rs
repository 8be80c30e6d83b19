//! Texts of akg's languages, right and wrong: deep, wide, doubling, near the ends of numbers, and damaged.

use akg::conformance::random::Case;
use serde_json::{Value, json};

use crate::random::{Random, mutate};

const SYMBOLS: [&str; 8] = ["N", "M", "K", "batch", "x.y", "_", "NULL", "ceildiv"];

const EXPR_WORDS: [&str; 16] = [
    "(",
    ")",
    "+",
    "-",
    "*",
    "//",
    "%",
    "min(",
    "max(",
    "ceildiv(",
    ",",
    "N",
    "9223372036854775807",
    "0",
    "-",
    " ",
];

/// An integer expression.
pub(crate) fn expression(random: &mut Random) -> String {
    let count = random.count();
    match random.below(10) {
        0 => wrapped(random, count),
        1 => {
            let terms = (0..count.min(4000)).map(|i| format!("{}*x{i}", random.integer()));
            terms.collect::<Vec<_>>().join(" + ")
        }
        2 => {
            let factor = |random: &mut Random| {
                let terms = 1 + random.below(9);
                let symbols: Vec<_> = (0..terms).map(|_| *random.pick(&SYMBOLS)).collect();
                format!("({})", symbols.join(" + "))
            };
            let factors: Vec<_> = (0..=count.min(200)).map(|_| factor(random)).collect();
            factors.join(" * ")
        }
        3 => {
            let mut text = "N".to_owned();
            for i in 0..random.below(14) {
                text = format!(
                    "{}({text}, ({text}) // {})",
                    random.pick(&["min", "max", "ceildiv"]),
                    i + 2
                );
            }
            text
        }
        4 => {
            let text = tree(random, 6);
            mutate(random, &text, &EXPR_WORDS)
        }
        5 => (0..random.below(60)).map(|_| *random.pick(&EXPR_WORDS)).collect(),
        _ => {
            let depth = random.below(9);
            tree(random, depth)
        }
    }
}

fn wrapped(random: &mut Random, count: usize) -> String {
    let shapes = [
        ("(", ")"),
        ("-", ""),
        ("min(M, ", ")"),
        ("max(", ", 3)"),
        ("(", " // 2)"),
        ("ceildiv(", ", K)"),
        ("(1 + ", ") % 7"),
    ];
    let (open, close) = random.pick(&shapes);
    let close_count = if random.one_in(6) {
        random.below(count + 1)
    } else {
        count
    };
    format!("{}N{}", open.repeat(count), close.repeat(close_count))
}

fn tree(random: &mut Random, depth: usize) -> String {
    if depth == 0 || random.one_in(5) {
        return if random.one_in(2) {
            random.integer().to_string()
        } else {
            (*random.pick(&SYMBOLS)).to_owned()
        };
    }
    let (a, b) = (tree(random, depth - 1), tree(random, depth - 1));
    match random.below(8) {
        0 => format!("({a}) // ({b})"),
        1 => format!("({a}) % ({b})"),
        2 => format!("ceildiv({a}, {b})"),
        3 => format!("min({a}, {b})"),
        4 => format!("max({a}, {b})"),
        5 => format!("({a}) * ({b})"),
        6 => format!("({a}) - ({b})"),
        _ => format!("{a} + {b}"),
    }
}

const SKETCH_WORDS: [&str; 41] = [
    "sketch",
    "kernel",
    "param",
    "let",
    "knob",
    "hint",
    "require",
    "buffer",
    "updates",
    "for",
    "if",
    "else",
    "load",
    "store",
    "zeros",
    "full",
    "dot",
    "barrier",
    "combine",
    "None",
    "over",
    "in",
    "step",
    "by",
    "f32",
    "f16",
    "i64",
    "bool",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ":+",
    "..",
    "inf",
    "cooperative",
    "grouped",
    "seeing",
    "9223372036854775807",
];

/// Sketch text.
pub(crate) fn sketch(random: &mut Random) -> String {
    let examples = akg::sketch::examples();
    let count = random.count();
    match random.below(9) {
        0 => {
            let mut lets = "let a0 = min(N, 3)\n".to_owned();
            for i in 1..count.min(200) {
                let op = *random.pick(&["+", "*", "//", "-"]);
                lets += &format!("let a{i} = max(a{}, a{} {op} M)\n", i - 1, i - 1);
            }
            let last = count.clamp(1, 200) - 1;
            format!(
                "sketch s(x: f32[N, M]) -> y: f32[N, M]\n{lets}kernel k over (m in a{last}) {{ store y[m, 0] = load x[m, 0] else 0 }}\n"
            )
        }
        1 => {
            let mut body = "  c0 = m < N\n".to_owned();
            for i in 1..count.min(200) {
                body += &format!("  c{i} = c{} {} !c{}\n", i - 1, random.pick(&["&", "|"]), i - 1);
            }
            let last = count.clamp(1, 200) - 1;
            format!(
                "sketch s(x: f32[N]) -> y: f32[N]\nkernel k over (m in N) {{\n{body}  if c{last} {{ store y[m] = load x[m] }}\n}}\n"
            )
        }
        2 => {
            let (open, close) = *random.pick(&[
                ("if m > 0 {\n", "}\n"),
                ("for i{} in 0..4 {\n", "}\n"),
                ("if m > 0 { } else {\n", "}\n"),
            ]);
            let opened: String = (0..count).map(|i| open.replace("{}", &i.to_string())).collect();
            format!(
                "sketch s(x: f32[N]) -> y: f32[N]\nkernel k over (m in N) {{\n{opened}store y[m] = load x[m]\n{}}}\n",
                close.repeat(count)
            )
        }
        3 => {
            let (open, close) = *random.pick(&[
                ("(", ")"),
                ("-", ""),
                ("exp(", ")"),
                ("(1 + ", ")"),
                ("max(t, ", ")"),
            ]);
            let chain = random
                .pick(&[" + t", " * 2", "", "[:, None]", " // 3"])
                .repeat(random.below(200));
            let mut value = "t".to_owned();
            for _ in 0..random.below(40) {
                value = format!("({value}{chain})");
            }
            format!(
                "sketch s(x: f32[N]) -> y: f32[N]\nkernel k over (m in N) {{\n  t = load x[m]\n  store y[m] = {}{value}{}\n}}\n",
                open.repeat(count),
                close.repeat(count)
            )
        }
        4 => {
            let (a, b, c) = (random.integer(), random.integer(), random.integer());
            format!(
                "sketch s(x: f32[{a}]) -> y: f32[N]\nkernel k over (m in {b}, n in N) {{\n  for i in {a}..{c} step {} {{\n    {}\n  }}\n  store y[m*{c} :+ {}] = load x[{a} :+ {} by {c}] else 0\n}}\n",
                random.integer(),
                random.pick(&["u = i + 1", "t = load x[i] else 0", "barrier"]),
                random.below(70),
                random.below(70)
            )
        }
        5 => {
            let rows: Vec<String> = (0..count.min(9000)).map(|_| "(x, N)".to_owned()).collect();
            let knobs: Vec<String> = (0..random.below(30))
                .map(|i| format!("knob K{i} in {{1, 2, 3, 4}}\n"))
                .collect();
            let knobs = knobs.concat();
            format!(
                "sketch s(x: f32[N]) -> y: f32[N]\n{knobs}require {}\nkernel k for (X, R) in {{{}}} over (m in R) {{ store y[m] = load X[m] }}\n",
                random.pick(&["1 > 2", "K0 * K1 < 5", "N > 0"]),
                rows.join(", ")
            )
        }
        6 => format!(
            "sketch s(x: f32[{}]) -> y: f32[{}]\nkernel k over (m in {}) {{ store y[m] = load x[{}] else 0 }}\n",
            expression(random),
            expression(random),
            expression(random),
            expression(random)
        ),
        _ => {
            let (_, text) = *random.pick(examples);
            mutate(random, text, &SKETCH_WORDS)
        }
    }
}

const JSON_WORDS: [&str; 20] = [
    "null",
    "true",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"f32\"",
    "\"N\"",
    "1e999",
    "-0",
    "\"inf\"",
    "\"aten.linear.default\"",
    "\"min(N, 3)\"",
    "99999999999999999999",
    "\"\"",
    "\"state\"",
    "\"updates\"",
    "0.5",
];

/// A graph in JSON form.
pub(crate) fn graph(random: &mut Random) -> String {
    let count = random.count();
    let input = |shape: Value| json!([{"name": "x", "dtype": "f32", "shape": shape, "kind": "activation"}]);
    let finished = |nodes: Vec<Value>, outputs: Vec<Value>, inputs: Value| {
        json!({"akg_graph": 1, "name": "g", "inputs": inputs, "nodes": nodes, "outputs": outputs}).to_string()
    };
    let last = |nodes: &[Value]| {
        vec![
            json!({"value": if nodes.is_empty() { "x".to_owned() } else { format!("v{}", nodes.len() - 1) }}),
        ]
    };
    let before = |i: usize| {
        if i == 0 {
            "x".to_owned()
        } else {
            format!("v{}", i - 1)
        }
    };
    match random.below(8) {
        0 => {
            let nodes: Vec<Value> = (0..count)
                .map(|i| json!({"op": "aten.cat.default", "args": {"tensors": [before(i), before(i)], "dim": 0}, "outputs": [format!("v{i}")]}))
                .collect();
            let outputs = last(&nodes);
            finished(
                nodes,
                outputs,
                input(json!([random.pick(&[json!("N"), json!(1), json!(i64::MAX)])])),
            )
        }
        1 => {
            let nodes: Vec<Value> = (0..count.min(3000))
                .map(|i| {
                    let size = format!("max({} // 2, N)", random.integer());
                    json!({"op": "aten.view.default", "args": {"self": before(i), "size": [-1, size]}, "outputs": [format!("v{i}")]})
                })
                .collect();
            let outputs = last(&nodes);
            finished(nodes, outputs, input(json!(["N", "M", 4])))
        }
        2 => {
            let outputs = (0..count * 6).map(|_| json!({"value": "x"})).collect();
            finished(Vec::new(), outputs, input(json!(["N"])))
        }
        3 => {
            let shape: Vec<Value> = (0..count).map(|_| json!(expression_of(random))).collect();
            finished(Vec::new(), vec![json!({"value": "x"})], input(json!(shape)))
        }
        4 => {
            let ops = [
                "aten.slice.Tensor",
                "aten.flip.default",
                "aten.permute.default",
                "aten.expand.default",
                "aten.sum.dim_IntList",
                "aten.constant_pad_nd.default",
            ];
            let node = |i: usize, random: &mut Random| {
                let list: Vec<i64> = (0..random.below(6)).map(|_| random.integer()).collect();
                json!({"op": random.pick(&ops), "args": {"self": before(i), "dim": random.integer(), "start": random.integer(), "end": random.integer(), "step": random.integer(), "dims": list, "size": list, "pad": list}, "outputs": [format!("v{i}")]})
            };
            let nodes: Vec<Value> = (0..count.min(2000)).map(|i| node(i, random)).collect();
            let outputs = last(&nodes);
            finished(nodes, outputs, input(json!(["N", 7])))
        }
        5 => {
            let deep = count.min(100_000);
            format!(
                "{{\"akg_graph\": 1, \"name\": {}{}",
                "[".repeat(deep),
                "]".repeat(deep)
            )
        }
        _ => {
            let seed = random.below(400) as u64;
            match Case::new(seed).and_then(|case| case.task.graph.to_json()) {
                Ok(text) => mutate(random, &text, &JSON_WORDS),
                Err(_) => String::new(),
            }
        }
    }
}

fn expression_of(random: &mut Random) -> Value {
    if random.one_in(3) {
        json!(random.integer())
    } else {
        let depth = random.below(5);
        json!(tree(random, depth))
    }
}

/// A hand-written source with its launch plan.
pub(crate) fn source(random: &mut Random) -> String {
    let count = random.count();
    let tensor = json!({"name": random.pick(&["x", "NULL", "a\\", "int"]), "dtype": "f32", "shape": [expression(random)], "role": "input", "align": 64});
    let launch = json!({"kernel": random.pick(&["k", "main", "é"]), "grid": [expression(random), expression_of(random)], "tensors": [0, random.below(3)], "doc": "text \\"});
    let plan = json!({
        "dims": (0..random.below(4)).map(|i| SYMBOLS[i]).collect::<Vec<_>>(),
        "tensors": copies(tensor, if random.one_in(4) { count } else { 2 }),
        "launches": copies(launch, if random.one_in(4) { count } else { 1 }),
    });
    let body = match random.below(3) {
        0 => "(".repeat(count),
        1 => "if True:\n ".repeat(count.min(3000)),
        _ => "void k(void *const *t, const int64_t *d, int64_t a, int64_t b) {}\n".to_owned(),
    };
    let comment = *random.pick(&["//", "#"]);
    let text = format!("{comment} akg-launch: {plan}\n{body}\n");
    if random.one_in(2) {
        mutate(random, &text, &JSON_WORDS)
    } else {
        text
    }
}

/// Copies of a value, of a few megabytes together at most: it may have a long expression.
fn copies(value: serde_json::Value, count: usize) -> Vec<serde_json::Value> {
    let most = (4 << 20) / (1 + value.to_string().len());
    vec![value; count.min(most.max(1))]
}

/// A model's reply.
pub(crate) fn reply(random: &mut Random) -> String {
    let count = random.count();
    let inner = match random.below(4) {
        0 => sketch(random),
        1 => source(random),
        2 => format!("{}{}", "{\"a\": ".repeat(count), "}".repeat(count)),
        _ => "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n".repeat(count.min(2000)),
    };
    let fence = "`".repeat(random.below(6));
    let text = format!(
        "{}text\n{fence}{}\n{inner}\n{fence}\nmore",
        "> ".repeat(random.below(40)),
        random.pick(&["", "sketch", "json", "cpp"])
    );
    if random.one_in(2) {
        mutate(
            random,
            &text,
            &["```", "\n", "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE", "~~~"],
        )
    } else {
        text
    }
}

/// A line that a learner sends to `akg env`.
pub(crate) fn line(random: &mut Random) -> String {
    let count = random.count();
    let text = match random.below(3) {
        0 => json!({"id": random.integer(), "sketch": sketch(random), "knobs": {"BM": random.integer()}})
            .to_string(),
        1 => json!({"id": [[]], "source": source(random)}).to_string(),
        _ => format!(
            "{{\"id\": {}1{}, \"next\": true}}",
            "[".repeat(count),
            "]".repeat(count)
        ),
    };
    if random.one_in(2) {
        mutate(random, &text, &JSON_WORDS)
    } else {
        text
    }
}
