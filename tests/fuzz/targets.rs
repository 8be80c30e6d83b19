//! What is fuzzed: how a case is made of a seed, and what is done with it.

use akg::chat::{Block, ChatReply};
use akg::cpp::{CppConfig, CppDsl};
use akg::edit::Edit;
use akg::environment::Action;
use akg::expr::Bindings;
use akg::sketch::validate;
use akg::sqlite::SqliteStore;
use akg::store::{MemoryStore, StoreExt as _, TuningRecord};
use akg::triton::{TritonConfig, TritonDsl};
use akg::worker::frame::{self, Decoder};
use akg::worker::protocol::{Answer, Call};
use akg::{Bundle, Dsl, Expr, Graph, Sketch, Target, Task, tuner};

use crate::random::{Random, mutate, mutate_bytes};
use crate::texts;
use crate::valid;

/// A target: its name, the case of a seed, and what takes it.
pub(crate) struct FuzzTarget {
    pub(crate) name: &'static str,
    pub(crate) make: fn(&mut Random) -> Vec<u8>,
    pub(crate) take: fn(&[u8]),
}

/// Every target.
pub(crate) const TARGETS: [FuzzTarget; 9] = [
    FuzzTarget {
        name: "expression",
        make: |random| texts::expression(random).into_bytes(),
        take: |bytes| expression(&String::from_utf8_lossy(bytes)),
    },
    FuzzTarget {
        name: "sketch",
        make: |random| texts::sketch(random).into_bytes(),
        take: |bytes| sketch(&String::from_utf8_lossy(bytes)),
    },
    FuzzTarget {
        name: "graph",
        make: |random| texts::graph(random).into_bytes(),
        take: |bytes| graph(&String::from_utf8_lossy(bytes)),
    },
    FuzzTarget {
        name: "source",
        make: |random| texts::source(random).into_bytes(),
        take: |bytes| source(&String::from_utf8_lossy(bytes)),
    },
    FuzzTarget {
        name: "reply",
        make: |random| texts::reply(random).into_bytes(),
        take: |bytes| reply(&String::from_utf8_lossy(bytes)),
    },
    FuzzTarget {
        name: "line",
        make: |random| texts::line(random).into_bytes(),
        take: |bytes| line(&String::from_utf8_lossy(bytes)),
    },
    FuzzTarget {
        name: "bundle",
        make: make_bundle,
        take: bundle,
    },
    FuzzTarget {
        name: "store",
        make: make_store,
        take: store,
    },
    FuzzTarget {
        name: "frame",
        make: make_frame,
        take: frames,
    },
];

/// The target of that name.
pub(crate) fn find(name: &str) -> Option<&'static FuzzTarget> {
    TARGETS.iter().find(|target| target.name == name)
}

fn expression(text: &str) {
    let Ok(expr) = Expr::parse(text) else {
        return;
    };
    assert!(expr.check().is_ok(), "the parser let an excess through");
    let printed = expr.to_string();
    assert_eq!(Expr::parse(&printed).ok(), Some(expr.clone()), "{printed}");
    let some = Bindings::from([("N".into(), i64::MAX), ("M".into(), -3), ("K".into(), 0)]);
    let _ = expr.eval(&some);
    let value = expr.bind(&some);
    let range = |name: &str| (name != "K").then_some((i64::MIN, i64::MAX));
    let _ = (expr.bounds(&range), expr.divisibility(&|_| 8), expr.symbols());
    let mut met = value.minimum(&expr);
    for _ in 0..12 {
        met = &met * &expr + met.ceil_div(&expr).maximum(&met);
        met = met.substitute(&|_| Some(expr.clone())).modulo(&expr);
    }
    let _ = (met.eval(&some), met.to_string(), met.exact_div(&expr));
}

fn sketch(text: &str) {
    let sketch = match Sketch::parse(text) {
        Ok(sketch) => sketch,
        Err(found) => {
            let _ = found.render(text);
            return;
        }
    };
    let printed = sketch.to_string();
    if let Err(found) = Sketch::parse(&printed) {
        // The canonical form may be longer than the text, and so beyond a limit that the text kept.
        let said = found.render(&printed);
        assert!(said.contains("more than"), "the printed sketch is none: {said}");
    }
    let _ = sketch.legal_points(&Bindings::new()).next();
    let program = match sketch.elaborate(&sketch.default_knobs(), &Bindings::new()) {
        Ok(program) => program,
        Err(found) => {
            let _ = found.render(text);
            return;
        }
    };
    let found = validate(&program, None);
    let _ = found.render(text);
    if !found.has_errors() {
        let _ = akg::cpp::lower_program(&program, &Target::new("cpu", "x86_64"), &sketch.default_knobs());
    }
}

fn graph(text: &str) {
    let Ok(graph) = Graph::from_json(text) else {
        return;
    };
    let _ = graph.to_string();
    let again = graph.to_json().and_then(|json| Graph::from_json(&json));
    assert!(again.is_ok(), "the written graph is none: {:?}", again.err());
    let task = Task::new("fuzz", graph);
    let _ = (task.traffic(), task.footprint(), task.fingerprint());
}

fn source(text: &str) {
    let languages: [&dyn Dsl; 2] = [
        &CppDsl::new(CppConfig::default()),
        &TritonDsl::new(&TritonConfig::default()),
    ];
    for language in languages {
        if let Ok(source) = language.parse(text) {
            let _ = language.check(&source);
            let _ = language.export(&source, "stub");
        }
    }
}

fn reply(text: &str) {
    let block = Block::last(text, |_| true).unwrap_or(text);
    let _ = Sketch::parse(block).map_err(|found| found.render(block));
    let _ = serde_json::from_str::<serde_json::Value>(block);
    let _ = serde_json::from_str::<ChatReply>(text);
    if let Ok(edits) = Edit::parse(text) {
        let _ = Edit::apply(&edits, block);
    }
}

fn line(text: &str) {
    let Ok(Action::Judge { proposal, .. }) = Action::parse(text) else {
        return;
    };
    sketch(proposal.text());
    source(proposal.text());
}

fn make_bundle(random: &mut Random) -> Vec<u8> {
    let mut members = valid::members();
    let at = random.below(members.len());
    let content = &mut members[at].1;
    if random.one_in(3) {
        mutate_bytes(random, content);
    } else {
        let text = String::from_utf8_lossy(content).into_owned();
        *content = mutate(random, &text, &["null", "\"N\"", "{", "]", "1e999", "[]"]).into_bytes();
    }
    let mut bytes = valid::pack(&members);
    if random.one_in(4) {
        mutate_bytes(random, &mut bytes);
    }
    bytes
}

fn bundle(bytes: &[u8]) {
    if let Ok(bundle) = Bundle::from_bytes(bytes) {
        let _ = (bundle.to_bytes(), bundle.candidate());
        let _ = (akg::cpp::standalone(&bundle), akg::cpu::modelnew(&bundle));
    }
}

fn make_store(random: &mut Random) -> Vec<u8> {
    if random.one_in(2) {
        let mut bytes = valid::store();
        mutate_bytes(random, &mut bytes);
        return bytes;
    }
    let text = valid::records();
    let words = ["null", "{", "[", "\"version\":1", "-1", "1e400", "\"knobs\""];
    mutate(random, &text, &words).into_bytes()
}

fn store(bytes: &[u8]) {
    let _ = tuner::import(&MemoryStore::default(), &mut &bytes[..]);
    let Ok(directory) = tempfile::tempdir() else {
        return;
    };
    let path = directory.path().join("store.sqlite");
    if std::fs::write(&path, bytes).is_ok()
        && let Ok(store) = SqliteStore::open(&path)
    {
        let _ = store.all::<TuningRecord>(None);
        let _ = tuner::export(&store, &mut Vec::new());
    }
}

fn make_frame(random: &mut Random) -> Vec<u8> {
    let text = match random.below(3) {
        0 => format!("{{\"prepare\":{}}}", texts::source(random)),
        1 => texts::line(random),
        _ => serde_json::json!({"place": {"dims": {"N": random.integer()}, "placement": random.integer()}})
            .to_string(),
    };
    let body = mutate(random, &text, &["null", "{", "]", "\"hello\"", "9e99"]);
    let length = if random.one_in(3) {
        random.integer() as u32
    } else {
        body.len() as u32
    };
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend(body.into_bytes());
    if random.one_in(3) {
        mutate_bytes(random, &mut bytes);
    }
    bytes
}

fn frames(bytes: &[u8]) {
    let _ = frame::read::<Call>(&mut &bytes[..]);
    let _ = frame::read::<Answer>(&mut &bytes[..]);
    let mut decoder = Decoder::default();
    for chunk in bytes.chunks(7) {
        decoder.push(chunk);
        if !matches!(decoder.next::<Call>(), Ok(None)) {
            break;
        }
    }
}
