//! Features of computations, retrieval, and what is learned from a store.
#![expect(clippy::unwrap_used, reason = "this is a test")]

use std::sync::Arc;

use akg_core::conformance;
use akg_core::conformance::random::Case;
use akg_core::graph::Family;
use akg_core::knowledge::embed::{HashedWords, embed, understand};
use akg_core::knowledge::mine::{Learned, learn};
use akg_core::knowledge::{
    Article, Body, Card, Embedder, Embedding, Features, KernelBody, Kind, Knowledge as _, KnowledgeExt as _,
    MemoryKnowledge, Problem, Query,
};
use akg_core::store::{
    CandidateRecord, MemoryStore, RunRecord, StepRecord, Store as _, StoreExt as _, TaskRecord, VerdictRecord,
};
use akg_core::verdict::{Failure, FailureKind};
use akg_core::{Accuracy, DType, Digest, Graph, Target, Task, Verdict};
use futures::executor::block_on;
use proptest::prelude::*;

/// `relu(x w1) + relu(x w2)`, with the two halves in either order and under any names.
fn halves(names: [&str; 4], swapped: bool, [rows, depth, columns]: [i64; 3]) -> Task {
    let mut g = Graph::new(names[0]);
    let x = g.input(names[1], DType::F32, [rows, depth]);
    let w1 = g.weight(names[2], DType::F32, [depth, columns]);
    let w2 = g.weight(names[3], DType::F32, [depth, columns]);
    let half = |g: &mut Graph, w, activate: bool| {
        let y = g.matmul(x, w).unwrap();
        if activate {
            g.relu(y).unwrap()
        } else {
            g.gelu(y).unwrap()
        }
    };
    let (a, b) = if swapped {
        let b = half(&mut g, w2, false);
        (half(&mut g, w1, true), b)
    } else {
        let a = half(&mut g, w1, true);
        (a, half(&mut g, w2, false))
    };
    let y = g.add(a, b).unwrap();
    g.output(y);
    Task::new(names[0], g)
}

fn unary(
    name: &str,
    op: fn(&mut Graph, akg_core::graph::ValueId) -> akg_core::graph::ValueId,
    shape: [i64; 2],
) -> Task {
    let mut g = Graph::new(name);
    let x = g.input("x", DType::F32, shape);
    let y = op(&mut g, x);
    g.output(y);
    Task::new(name, g)
}

fn softmax(shape: [i64; 2]) -> Task {
    unary("softmax", |g, x| g.softmax(x, -1).unwrap(), shape)
}

fn gelu(shape: [i64; 2]) -> Task {
    unary("gelu", |g, x| g.gelu(x).unwrap(), shape)
}

fn product([rows, depth, columns]: [i64; 3]) -> Task {
    let mut g = Graph::new("product");
    let a = g.input("a", DType::F32, [rows, depth]);
    let b = g.input("b", DType::F32, [depth, columns]);
    let y = g.matmul(a, b).unwrap();
    g.output(y);
    Task::new("product", g)
}

/// An article about a kernel of a task.
fn kernel(task: &Task) -> Article {
    let problem = Problem::of(task).unwrap();
    Article {
        card: Card {
            key: problem.task,
            kind: Kind::Kernel,
            name: task.name.clone(),
            dsl: None,
            backend: None,
            arch: None,
            skeleton: Some(Digest::of(task.name.as_bytes())),
            problem: Some(problem),
        },
        body: Body::Kernel(KernelBody {
            graph: task.graph.to_string(),
            sketch: String::new(),
            knobs: Default::default(),
            dsl: "cpp".to_owned(),
            device: "a CPU".to_owned(),
            accuracy: Accuracy::Fp32,
            seconds: None,
            speedup: None,
            tried: 0,
        }),
        embedding: None,
    }
}

fn shelf(tasks: &[Task]) -> MemoryKnowledge {
    let shelf = MemoryKnowledge::new();
    for task in tasks {
        shelf.shelve(&kernel(task)).unwrap();
    }
    shelf
}

fn query(task: &Task) -> Query {
    let mut query = Query::default();
    query.problem = Some(Problem::of(task).unwrap());
    query
}

#[test]
fn a_shelf_in_memory_keeps_the_rules() {
    let shelf = Arc::new(MemoryKnowledge::new());
    conformance::knowledge(&|| Ok(shelf.clone())).assert_held();
}

#[test]
fn features_are_those_of_the_computation() {
    let here = Features::of(&halves(["f", "x", "a", "b"], false, [64, 128, 32])).unwrap();
    assert_eq!(
        here,
        Features::of(&halves(["g", "y", "w", "v"], true, [64, 128, 32])).unwrap()
    );
    assert_eq!(here.family, Family::Matmul);
    assert_eq!(here.product, Some([6.0, 5.0, 7.0]));
    assert_eq!(here.elements, 13.0);
    assert_eq!(here.edges["matmul.default > relu.default"], 1);
    // Other sizes are another problem of the same structure: one octave away in each input, and two in the output.
    let there = Features::of(&halves(["f", "x", "a", "b"], false, [128, 128, 16])).unwrap();
    assert_eq!(here.structure, there.structure);
    assert!(!here.is_same_problem(&there));
    assert_eq!(here.distance(&there), Some(1.0 + 1.0 + 1.0 + 2.0));

    let rows = Features::of(&softmax([256, 1024])).unwrap();
    assert_eq!(rows.reduction, Some([8.0, 10.0, 0.0]));
    let axis = |dim| {
        Features::of(&unary(
            "s",
            if dim == 1 {
                |g, x| g.softmax(x, 1).unwrap()
            } else {
                |g, x| g.softmax(x, 0).unwrap()
            },
            [256, 1024],
        ))
        .unwrap()
    };
    assert_eq!(
        axis(1).structure,
        rows.structure,
        "an axis counted from the end is the same axis"
    );
    assert_ne!(axis(0).structure, rows.structure);
    assert_eq!(axis(0).reduction, Some([0.0, 8.0, 10.0]));
}

#[test]
fn inputs_are_told_apart_by_what_is_done_with_them() {
    let of = |same: bool| {
        let mut g = Graph::new("g");
        let x = g.input("x", DType::F32, [8, 8]);
        let other = g.input("y", DType::F32, [8, 8]);
        let y = g.matmul(x, if same { x } else { other }).unwrap();
        g.output(y);
        Features::of(&Task::new("g", g)).unwrap().structure
    };
    assert_ne!(of(true), of(false));
}

#[test]
fn the_like_comes_first_and_the_very_problem_never() {
    let tasks = [
        softmax([1024, 1024]),
        softmax([1024, 4096]),
        softmax([64, 65536]),
        gelu([1024, 1024]),
        product([1024, 1024, 1024]),
        product([512, 512, 512]),
    ];
    let shelf = shelf(&tasks);
    let mut asked = query(&softmax([1024, 2048]));
    asked.diversity = 0.0;
    asked.most = 10;
    let found = shelf.search(&asked).unwrap();
    let order: Vec<Digest> = found.iter().map(|found| found.article.card.key).collect();
    let key = |task: &Task| task.fingerprint().unwrap();
    assert_eq!(order.len(), tasks.len());
    assert!(order[..2].contains(&key(&tasks[0])) && order[..2].contains(&key(&tasks[1])));
    assert_eq!(order[2], key(&tasks[2]));
    assert!(found[2].why.contains("octaves away"), "{}", found[2].why);

    // Under another name, and in another class, it is the same problem.
    let mut renamed = softmax([1024, 1024]);
    renamed.name = "other".to_owned();
    renamed.contract.accuracy = Accuracy::Half;
    asked = query(&renamed).at_most(10);
    let found = shelf.search(&asked).unwrap();
    assert!(found.iter().all(|found| found.article.card.key != key(&tasks[0])));
    assert_eq!(found.len(), tasks.len() - 1);
    asked.strict = true;
    let found = shelf.search(&asked).unwrap();
    assert_eq!(found.len(), tasks.len() - 3);
    assert!(found.iter().all(|found| found.article.card.name != "softmax"));
}

#[test]
fn what_is_found_differs() {
    let mut tasks: Vec<Task> = (0..6).map(|i| softmax([1024, 1024 + i])).collect();
    tasks.push(gelu([1024, 1024]));
    let shelf = shelf(&tasks);
    let names = |diversity: f64| {
        let mut asked = query(&softmax([1024, 2048]));
        asked.diversity = diversity;
        let found = shelf.search(&asked).unwrap();
        found
            .into_iter()
            .map(|found| found.article.card.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(names(0.0), ["softmax", "softmax", "softmax"]);
    assert!(names(0.6).contains(&"gelu".to_owned()));
    assert_eq!(names(0.6)[0], "softmax");
}

#[test]
fn pages_hold_for_what_they_say() {
    let shelf = MemoryKnowledge::new();
    for page in akg_core::knowledge::pages::pages().unwrap() {
        shelf.shelve(&page).unwrap();
    }
    let mut asked = query(&softmax([64, 64])).for_dsl("triton").at_most(9);
    asked.backend = Some("cuda".to_owned());
    asked.arch = Some("sm_90a".to_owned());
    let names: Vec<String> = shelf
        .search(&asked)
        .unwrap()
        .into_iter()
        .map(|found| found.article.card.name)
        .collect();
    assert_eq!(names, ["NVIDIA H200", "fast Triton kernels"]);
}

/// What the embedder that counts words makes of texts.
fn counted(texts: &[&str]) -> Vec<Embedding> {
    let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
    let vectors = block_on(HashedWords::default().embed(&texts)).unwrap();
    let embedding = |vector| Embedding {
        embedder: HashedWords::default().name().to_owned(),
        vector,
    };
    vectors.into_iter().map(embedding).collect()
}

#[test]
fn texts_with_the_same_words_are_near() {
    let all = counted(&["the mask of the load", "a mask for the load", "sum of squares"]);
    let near = |a: usize, b: usize| all[a].cosine(&all[b]).unwrap();
    assert!(near(0, 1) > near(0, 2) + 0.3);
    let other = |embedder: &str, length| Embedding {
        embedder: embedder.to_owned(),
        vector: vec![1.0; length],
    };
    assert_eq!(all[0].cosine(&other("hashed-words", 1)), None);
    assert_eq!(all[0].cosine(&other("another", 256)), None);
}

fn guide(name: &str, text: &str) -> Article {
    akg_core::knowledge::pages::page(&format!("---\nkind: guide\nname: {name}\n---\n{text}\n")).unwrap()
}

#[test]
fn what_means_the_like_is_found_and_a_second_like_it_is_not() {
    let shelf = MemoryKnowledge::new();
    for (name, text) in [
        ("masks", "a mask for each load of the last block"),
        ("more masks", "a mask for each load of the last block, too"),
        ("banks", "shared memory has banks"),
    ] {
        shelf.shelve(&guide(name, text)).unwrap();
    }
    let embedder = HashedWords::default();
    assert_eq!(block_on(embed(&embedder, &shelf)).unwrap(), 3);
    assert_eq!(block_on(embed(&embedder, &shelf)).unwrap(), 0);
    let names = |query: Query| -> Vec<String> {
        let mut queries = [query.with_meaning("the mask of the load is wrong").at_most(2)];
        block_on(understand(&embedder, &mut queries)).unwrap();
        let found = shelf.search(&queries[0]).unwrap().into_iter();
        found.map(|found| found.article.card.name).collect()
    };
    let mut query = Query::default();
    query.diversity = 0.0;
    assert_eq!(names(query.clone()), ["masks", "more masks"]);
    query.diversity = 0.6;
    assert_eq!(names(query), ["masks", "banks"]);
}

#[test]
fn an_embedding_lasts_as_long_as_its_text() {
    let (shelf, embedder) = (MemoryKnowledge::new(), HashedWords::default());
    let page = guide("masks", "a mask");
    shelf.shelve(&page).unwrap();
    block_on(embed(&embedder, &shelf)).unwrap();
    let embedding = || shelf.article(page.card.key).unwrap().unwrap().embedding;
    shelf.renew(&page).unwrap();
    assert!(embedding().is_some());
    shelf.renew(&guide("masks", "another text")).unwrap();
    assert_eq!(embedding(), None);
}

/// An embedder that gives what it is told to.
#[derive(Debug)]
struct Odd(Vec<Vec<f32>>);

#[async_trait::async_trait]
impl Embedder for Odd {
    fn name(&self) -> &str {
        "odd"
    }

    async fn embed(&self, _: &[String]) -> akg_core::Result<Vec<Vec<f32>>> {
        Ok(self.0.clone())
    }
}

#[test]
fn what_an_embedder_gives_is_looked_at() {
    let shelf = MemoryKnowledge::new();
    for name in ["one", "two"] {
        shelf.shelve(&guide(name, "text")).unwrap();
    }
    for (vectors, word) in [
        (vec![vec![1.0]], "for each text"),
        (vec![vec![1.0], vec![1.0, 2.0]], "several lengths"),
        (vec![vec![], vec![]], "without entries"),
        (vec![vec![1.0], vec![f32::NAN]], "no numbers"),
    ] {
        let error = block_on(embed(&Odd(vectors), &shelf)).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("odd"), "{error}");
    }
}

#[test]
fn what_the_store_no_longer_bears_out_is_taken_off_the_shelf() {
    let (store, shelf) = (MemoryStore::new(), MemoryKnowledge::new());
    let (task, target) = (softmax([64, 40]), Target::new("cpu", "x86_64"));
    let fingerprint = task.fingerprint().unwrap();
    let known = TaskRecord {
        key: fingerprint,
        name: task.name.clone(),
        graph: store.put_blob(task.graph.to_json().unwrap().as_bytes()).unwrap(),
        contract: task.contract.clone(),
        at: 0,
    };
    store.save(&known).unwrap();
    let sketch = akg_core::designer::design(&task, &target)
        .unwrap()
        .sketch
        .to_string();
    let candidate = CandidateRecord {
        key: Digest::of(b"candidate"),
        task: fingerprint,
        name: task.name.clone(),
        source: Digest::of(b"source"),
        sketch: Some(store.put_blob(sketch.as_bytes()).unwrap()),
        dsl: "cpp".to_owned(),
        knobs: Default::default(),
        target: target.fingerprint(),
        backend: target.backend.clone(),
        device: target.name.clone(),
        toolchain: String::new(),
        at: 0,
    };
    store.save(&candidate).unwrap();
    let says = |judge: &str, verdict: Verdict| {
        let record = VerdictRecord {
            candidate: candidate.key,
            judge: Digest::of(judge.as_bytes()),
            verdict,
            seconds: 0.0,
            at: 0,
        };
        store.save(&record).unwrap();
    };
    let learned = |kernels, fixes, withdrawn| Learned {
        kernels,
        fixes,
        withdrawn,
    };
    assert_eq!(
        learn(&store, &shelf).unwrap(),
        learned(0, 0, 0),
        "nobody has judged it"
    );
    says("first", Verdict::new(Accuracy::Fp32));
    assert_eq!(learn(&store, &shelf).unwrap(), learned(1, 0, 0));
    let card = shelf.cards(&[Kind::Kernel]).unwrap().remove(0);
    assert_eq!(card.problem, Some(Problem::of(&task).unwrap()));
    let Body::Kernel(body) = shelf.article(card.key).unwrap().unwrap().body else {
        unreachable!("a kernel's article is about a kernel");
    };
    assert_eq!(body.sketch, sketch);
    // Another judge objects, and then the first again does not: who objects counts.
    let failure = Failure::new(FailureKind::Race, "programs 0 and 1");
    says("strict", Verdict::failed(Accuracy::Fp32, failure.clone()));
    says("first", Verdict::new(Accuracy::Fp32));
    assert_eq!(learn(&store, &shelf).unwrap(), learned(0, 0, 1));
    assert!(shelf.cards(&[Kind::Kernel]).unwrap().is_empty());

    // A fix of a task that nobody knows could not be kept from who is asked about that task.
    let run = |name: &str, task: Digest| {
        let key = Digest::of(name.as_bytes());
        let json = serde_json::json!({"key": key, "task": task, "name": name, "dsl": "cpp", "device": "", "agents": "", "at": 0});
        store
            .save(&serde_json::from_value::<RunRecord>(json).unwrap())
            .unwrap();
        for (number, failure) in [Some(&failure), None].into_iter().enumerate() {
            let parents: Vec<usize> = (0..number).collect();
            let json = serde_json::json!({
                "run": key, "number": number, "parents": parents, "role": "fixer", "agent": "", "at": 0, "failure": failure,
                "proposal": store.put_blob(name.as_bytes()).unwrap(), "candidate": key,
            });
            store
                .save(&serde_json::from_value::<StepRecord>(json).unwrap())
                .unwrap();
        }
    };
    run("known", fingerprint);
    run("unknown", Digest::of(b"another task"));
    assert_eq!(learn(&store, &shelf).unwrap(), learned(0, 1, 0));
}

/// The same graph with its independent nodes in another order and other names, by way of its JSON.
fn shuffled(graph: &Graph, seed: u64) -> Graph {
    let mut json: serde_json::Value = serde_json::from_str(&graph.to_json().unwrap()).unwrap();
    let nodes = json["nodes"].as_array().unwrap().clone();
    let made: Vec<Vec<String>> = nodes
        .iter()
        .map(|node| serde_json::from_value(node["outputs"].clone()).unwrap())
        .collect();
    let reads =
        |node: &serde_json::Value, name: &str| node["args"].to_string().contains(&format!("\"{name}\""));
    let (mut order, mut open): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..nodes.len()).collect());
    let mut state = seed;
    while !open.is_empty() {
        let ready: Vec<usize> = open
            .iter()
            .copied()
            .filter(|at| {
                open.iter()
                    .all(|other| made[*other].iter().all(|name| !reads(&nodes[*at], name)))
            })
            .collect();
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let next = ready[(state >> 33) as usize % ready.len()];
        order.push(next);
        open.retain(|at| *at != next);
    }
    json["nodes"] = order.iter().map(|at| nodes[*at].clone()).collect();
    json["name"] = "shuffled".into();
    rename(&mut json, &|name| {
        graph.find(name).map(|_| format!("{name}_{seed}"))
    });
    Graph::from_json(&json.to_string()).unwrap()
}

/// Gives values other names wherever they are named.
fn rename(json: &mut serde_json::Value, other: &dyn Fn(&str) -> Option<String>) {
    match json {
        serde_json::Value::String(text) => *text = other(text).unwrap_or_else(|| text.clone()),
        serde_json::Value::Array(all) => all.iter_mut().for_each(|one| rename(one, other)),
        serde_json::Value::Object(all) => {
            // These hold words that are no names, and might be spelt like one.
            let words = [
                "op",
                "dtype",
                "kind",
                "approximate",
                "mode",
                "padding",
                "equation",
                "rounding_mode",
                "data",
            ];
            let named = all.iter_mut().filter(|(key, _)| !words.contains(&key.as_str()));
            named.for_each(|(_, one)| rename(one, other));
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(32) })]

    /// Names and the order of what is independent are no features.
    #[test]
    fn order_and_names_are_no_features(seed in any::<u64>(), order in any::<u64>()) {
        let graph = Case::new(seed).unwrap().task.graph;
        let other = shuffled(&graph, order);
        let of = |graph: Graph| Features::of(&Task::new("t", graph)).unwrap();
        prop_assert_eq!(of(graph), of(other));
    }

    /// Whatever is asked, the answer to it is not among what is found, and a likeness is one.
    #[test]
    fn answers_never_come_back(seeds in prop::collection::vec(any::<u64>(), 1..5), diversity in 0.0..1.0, strict: bool) {
        let tasks: Vec<Task> = seeds.iter().map(|seed| Case::new(*seed).unwrap().task).collect();
        let shelf = shelf(&tasks);
        for task in &tasks {
            let mut asked = query(task).at_most(tasks.len());
            (asked.diversity, asked.strict) = (diversity, strict);
            let features = Features::of(task).unwrap();
            for found in shelf.search(&asked).unwrap() {
                let of = found.article.card.problem.unwrap().features;
                prop_assert!(!of.is_same_problem(&features));
                prop_assert!(!strict || of.structure != features.structure);
                let likeness = of.likeness(&features);
                prop_assert!((0.0..1.0 + 1e-9).contains(&likeness));
                prop_assert_eq!(likeness, features.likeness(&of));
                prop_assert!((0.0..1.0 + 1e-9).contains(&found.score));
            }
            prop_assert!((features.likeness(&features) - 1.0).abs() < 1e-9);
        }
    }
}
