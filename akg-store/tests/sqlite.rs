//! The store in a file: the rules of every store, processes that are killed while they write, and files that are no store.
//! The test starts itself as the writer, hence a `main` of its own.
#![expect(clippy::unwrap_used, reason = "this is a test")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use akg_core::conformance;
use akg_core::digest::Digest;
use akg_core::error::{Error, ErrorKind};
use akg_core::knowledge::{Embedding, Knowledge as _, MemoryKnowledge};
use akg_core::store::{Entry, Store};
use akg_store::SqliteStore;
use libtest_mimic::{Arguments, Trial};
use proptest::prelude::{Just, ProptestConfig, Strategy as _};
use proptest::test_runner::TestRunner;
use proptest::{prop_assert, prop_assert_eq, prop_oneof};
use rand::RngExt as _;

/// In the environment of a writer: its file and its name.
const WRITER: [&str; 2] = ["AKG_STORE_TEST_FILE", "AKG_STORE_TEST_NAME"];

fn main() {
    if let [Ok(file), Ok(name)] = WRITER.map(std::env::var) {
        return write_until_killed(Path::new(&file), &name);
    }
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    let trials = vec![
        trial("the_rules_hold", the_rules_hold),
        trial("killed_writers_lose_only_their_last_step", killed_writers),
        trial("damaged_blobs_are_found_out_and_healed", damaged_blobs),
        trial("other_files_are_refused", other_files),
        trial("the_rules_of_knowledge_hold", knowledge),
        trial("knowledge_comes_to_older_stores", older_stores),
        trial("the_like_is_as_near_as_in_double_precision", nearness),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn the_rules_hold() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("not/yet/there.sqlite");
    conformance::store(&|| Ok(Arc::new(SqliteStore::open(&path)?))).assert_held();
}

/// Bytes of a writer's step, enough for several pages.
fn bytes_of(name: &str, step: usize) -> Vec<u8> {
    format!("{name} {step} ").repeat(1000).into_bytes()
}

/// Keeps a blob and then an entry that names it, again and again, and says when each step is done.
fn write_until_killed(file: &Path, name: &str) {
    let store = SqliteStore::open(file).unwrap();
    let group = Digest::of(name.as_bytes());
    let done = store.list("step", Some(group)).unwrap().len();
    for step in done.. {
        let blob = store.put_blob(&bytes_of(name, step)).unwrap();
        let entry = Entry {
            key: Digest::of(format!("{name} {step}").as_bytes()),
            group,
            value: blob.to_string(),
        };
        store.put("step", &entry).unwrap();
        println!("{}", step + 1);
    }
}

fn writer(file: &Path, name: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(WRITER[0], file).env(WRITER[1], name);
    command.stdout(Stdio::piped()).spawn().unwrap()
}

/// Kills two writers of one store at random moments, fifty times in all, and checks what they left.
fn killed_writers() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("store.sqlite");
    let names = ["one", "two"];
    let mut written = [0usize; 2];
    for round in 0..25 {
        let mut writers = names.map(|name| writer(&file, name));
        let mut outputs = writers
            .each_mut()
            .map(|w| BufReader::new(w.stdout.take().unwrap()).lines());
        let steps = rand::rng().random_range(0..6);
        let mut said = [0usize; 2];
        for (said, output) in said.iter_mut().zip(&mut outputs) {
            for line in output.take(steps) {
                *said = line.unwrap().parse().unwrap();
            }
        }
        // Somewhere within the next steps.
        let pause = rand::rng().random_range(0..8000);
        std::thread::sleep(std::time::Duration::from_micros(pause));
        for writer in &mut writers {
            writer.kill().unwrap();
            writer.wait().unwrap();
        }
        for (said, output) in said.iter_mut().zip(&mut outputs) {
            *said = output
                .map(|line| line.unwrap().parse().unwrap())
                .last()
                .unwrap_or(*said);
        }
        let store = SqliteStore::open(&file).unwrap();
        for ((name, said), before) in names.iter().zip(said).zip(&mut written) {
            let entries = store.list("step", Some(Digest::of(name.as_bytes()))).unwrap();
            let (count, known) = (entries.len(), said.max(*before));
            assert!(
                (known..=known + 1).contains(&count),
                "round {round}: {count} of {known}"
            );
            for (step, entry) in entries.iter().enumerate() {
                assert_eq!(entry.key, Digest::of(format!("{name} {step}").as_bytes()));
                let blob = store.blob(entry.value.parse().unwrap()).unwrap();
                assert_eq!(blob, Some(bytes_of(name, step)));
            }
            *before = count;
        }
    }
    assert!(written.iter().all(|n| *n > 0), "nobody wrote: {written:?}");
}

fn damaged_blobs() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("store.sqlite");
    let store = SqliteStore::open(&path).unwrap();
    let digest = store.put_blob(b"kernel").unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    let changed = other.execute("UPDATE blob SET bytes = x'00'", []).unwrap();
    assert_eq!(changed, 1);
    let error = store.blob(digest).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains(&digest.to_string()), "{error}");
    store.put_blob(b"kernel").unwrap();
    assert_eq!(store.blob(digest).unwrap().unwrap(), b"kernel");
}

fn knowledge() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("store.sqlite");
    conformance::knowledge(&|| Ok(Arc::new(SqliteStore::open(&path)?))).assert_held();
}

/// A store as earlier versions wrote it keeps what it holds, and gets what it lacks.
fn older_stores() {
    let tables = ["article_vector", "article_words", "article"];
    for (version, later) in [(1, &tables[..]), (2, &tables[..1])] {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("store.sqlite");
        let digest = SqliteStore::open(&path).unwrap().put_blob(b"kernel").unwrap();
        let old = rusqlite::Connection::open(&path).unwrap();
        for table in later {
            old.execute_batch(&format!("DROP TABLE {table}")).unwrap();
        }
        old.pragma_update(None, "user_version", version).unwrap();
        drop(old);
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(store.blob(digest).unwrap().unwrap(), b"kernel");
        let mut page = akg_core::knowledge::pages::pages().unwrap().remove(0);
        page.embedding = Some(embedding(&[1.0, 2.0]));
        store.shelve(&page).unwrap();
        assert_eq!(store.article(page.card.key).unwrap(), Some(page));
    }
}

fn embedding(vector: &[f32]) -> Embedding {
    Embedding {
        embedder: "an embedder".to_owned(),
        vector: vector.to_vec(),
    }
}

/// sqlite-vec and the same in double precision agree, whatever the vectors.
fn nearness() {
    let place = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&place.path().join("store.sqlite")).unwrap();
    let page = akg_core::knowledge::pages::pages().unwrap().remove(0);
    let entry = || prop_oneof![4 => -1e3f32..1e3, 1 => Just(0.0f32), 1 => -1e-3f32..1e-3];
    let vectors = (1usize..300).prop_flat_map(move |length| {
        proptest::collection::vec(proptest::collection::vec(entry(), length), 2..6)
    });
    let mut runner = TestRunner::new(ProptestConfig::with_source_file(file!()));
    let agree = |vectors: Vec<Vec<f32>>| {
        let memory = MemoryKnowledge::new();
        for (number, vector) in vectors.iter().enumerate() {
            let mut page = page.clone();
            page.card.key = Digest::of(&[number as u8]);
            page.embedding = Some(embedding(vector));
            store.shelve(&page).unwrap();
            memory.shelve(&page).unwrap();
        }
        let asked = embedding(&vectors[0]);
        let (known, found) = (memory.near(&asked).unwrap(), store.near(&asked).unwrap());
        for (key, near) in &known {
            let (_, other) = found.iter().find(|(other, _)| other == key).unwrap();
            prop_assert!((near - other).abs() < 1e-4, "{near} and {other}");
        }
        for (key, _) in &known {
            store.withdraw(*key).unwrap();
        }
        prop_assert_eq!(known.len(), found.len());
        Ok(())
    };
    runner.run(&vectors, agree).unwrap();
}

fn other_files() {
    let place = tempfile::tempdir().unwrap();
    let refused = |name: &str, kind: ErrorKind, word: &str| {
        let path = place.path().join(name);
        let error: Error = SqliteStore::open(&path).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), kind, "{text}");
        assert!(text.contains(word) && text.contains(name), "{text}");
    };
    drop(SqliteStore::open(&place.path().join("newer.sqlite")).unwrap());
    let newer = rusqlite::Connection::open(place.path().join("newer.sqlite")).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    refused("newer.sqlite", ErrorKind::Unsupported, "version 99");
    let foreign = rusqlite::Connection::open(place.path().join("foreign.sqlite")).unwrap();
    foreign.execute("CREATE TABLE t (x)", []).unwrap();
    refused("foreign.sqlite", ErrorKind::InvalidInput, "no store of akg");
    std::fs::write(place.path().join("text.txt"), "not a database, ".repeat(100)).unwrap();
    refused("text.txt", ErrorKind::InvalidInput, "no store of akg");
    std::fs::create_dir(place.path().join("directory")).unwrap();
    refused("directory", ErrorKind::Io, "read or written");
}
