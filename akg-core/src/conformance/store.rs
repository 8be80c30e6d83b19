//! What every store must do.

use std::sync::Arc;

use super::report::{Report, Tried, demand};
use crate::digest::Digest;
use crate::error::Result;
use crate::store::{BuildRecord, Entry, Made, Store, StoreExt as _};
use crate::verdict::{Failure, FailureKind};

const KIND: &str = "conformance";

/// Tries whether a store keeps the rules. `open` gives the same store, empty at first, through a new handle each time; one
/// that ends with its last handle gives the handle it has.
pub fn store(open: &dyn Fn() -> Result<Arc<dyn Store>>) -> Report {
    let mut report = Report::new("store");
    let rules: [(&str, Rule); 9] = [
        ("blobs have the hash of their bytes", blobs),
        ("large blobs come back", large_blobs),
        ("what was never put is not there", absent),
        ("values come back", values),
        ("a value is replaced in its place", replacement),
        ("lists are those of a group, in order", lists),
        ("kinds are apart", kinds),
        ("records come back", records),
        ("handles and threads share", sharing),
    ];
    for (name, rule) in rules {
        report.add(name, rule(open));
    }
    report
}

type Open<'a> = &'a dyn Fn() -> Result<Arc<dyn Store>>;
type Rule = fn(Open<'_>) -> Tried;

fn entry(name: &str, group: &str, value: &str) -> Entry {
    Entry {
        key: Digest::of(name.as_bytes()),
        group: Digest::of(group.as_bytes()),
        value: value.to_owned(),
    }
}

fn demand_equal<T: PartialEq + std::fmt::Debug>(got: T, wanted: T) -> Tried {
    demand(got == wanted, || format!("got {got:?}\nnot {wanted:?}"))
}

fn blobs(open: Open<'_>) -> Tried {
    let store = open()?;
    for bytes in [&b""[..], b"a", b"\0\xff\n", b"a"] {
        let digest = store.put_blob(bytes)?;
        demand_equal(digest, Digest::of(bytes))?;
        demand_equal(open()?.blob(digest)?, Some(bytes.to_vec()))?;
    }
    Ok(())
}

fn large_blobs(open: Open<'_>) -> Tried {
    let bytes: Vec<u8> = (0..8_000_000u32).flat_map(u32::to_le_bytes).collect();
    let digest = open()?.put_blob(&bytes)?;
    let back = open()?.blob(digest)?;
    demand(back.as_deref() == Some(&bytes), || {
        "32 MB do not come back".to_owned()
    })
}

fn absent(open: Open<'_>) -> Tried {
    let (store, nowhere) = (open()?, Digest::of(b"never put"));
    demand_equal(store.blob(nowhere)?, None)?;
    demand_equal(store.get("absent", nowhere)?, None)?;
    demand_equal(store.list("absent", None)?, Vec::new())?;
    demand_equal(store.list("absent", Some(nowhere))?, Vec::new())
}

fn values(open: Open<'_>) -> Tried {
    for (name, value) in [
        ("plain", "{}"),
        ("empty", ""),
        ("odd", "\"quote' ; -- \u{1f9ea}\n\""),
    ] {
        let entry = entry(name, "values", value);
        open()?.put(KIND, &entry)?;
        demand_equal(open()?.get(KIND, entry.key)?, Some(entry))?;
    }
    Ok(())
}

fn replacement(open: Open<'_>) -> Tried {
    let store = open()?;
    let (first, second) = (entry("r1", "old", "1"), entry("r2", "new", "2"));
    let replaced = entry("r1", "new", "3");
    for entry in [&first, &second, &replaced] {
        store.put("replacement", entry)?;
    }
    demand_equal(store.get("replacement", first.key)?, Some(replaced.clone()))?;
    demand_equal(store.list("replacement", Some(first.group))?, Vec::new())?;
    demand_equal(store.list("replacement", None)?, vec![replaced, second])
}

fn lists(open: Open<'_>) -> Tried {
    let store = open()?;
    let name = |i: u32| {
        entry(
            &format!("l{i}"),
            if i.is_multiple_of(3) { "third" } else { "other" },
            "0",
        )
    };
    for i in 0..50 {
        store.put("lists", &name(i))?;
    }
    let all: Vec<Entry> = (0..50).map(name).collect();
    demand_equal(store.list("lists", None)?, all)?;
    let thirds = (0..50).step_by(3).map(name).collect();
    demand_equal(store.list("lists", Some(Digest::of(b"third")))?, thirds)
}

fn kinds(open: Open<'_>) -> Tried {
    let store = open()?;
    let (one, other) = (entry("k", "g", "1"), entry("k", "g", "2"));
    store.put("kind one", &one)?;
    store.put("kind other", &other)?;
    demand_equal(store.get("kind one", one.key)?, Some(one.clone()))?;
    demand_equal(store.list("kind other", Some(one.group))?, vec![other])
}

fn records(open: Open<'_>) -> Tried {
    let record = BuildRecord {
        key: Digest::of(b"key"),
        source: Digest::of(b"source"),
        toolchain: "c++ 1.0".to_owned(),
        made: Made::Nothing(Failure::new(
            FailureKind::CompileFailed,
            "line 1: \u{201c}no\u{201d}",
        )),
        at: 1_700_000_000,
    };
    open()?.save(&record)?;
    demand_equal(open()?.load(record.key)?, Some(record.clone()))?;
    demand_equal(open()?.all(Some(record.source))?, vec![record])
}

fn sharing(open: Open<'_>) -> Tried {
    const THREADS: u32 = 4;
    const EACH: u32 = 25;
    let handles = (0..THREADS).map(|_| open()).collect::<Result<Vec<_>>>()?;
    let write = |store: &dyn Store, thread: u32| -> Result<()> {
        for i in 0..EACH {
            let digest = store.put_blob(format!("shared {i}").as_bytes())?;
            let entry = entry(&format!("{thread} {i}"), &thread.to_string(), &digest.to_string());
            store.put("sharing", &entry)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = handles
            .iter()
            .zip(0..)
            .map(|(store, thread)| scope.spawn(move || write(&**store, thread)))
            .collect();
        threads.into_iter().try_for_each(|t| t.join().unwrap_or(Ok(())))
    })?;
    let store = open()?;
    for thread in 0..THREADS {
        let group = Digest::of(thread.to_string().as_bytes());
        let got: Vec<String> = store
            .list("sharing", Some(group))?
            .into_iter()
            .map(|e| e.value)
            .collect();
        let blob = |i| Digest::of(format!("shared {i}").as_bytes()).to_string();
        demand_equal(got, (0..EACH).map(blob).collect())?;
    }
    demand_equal(store.list("sharing", None)?.len(), (THREADS * EACH) as usize)
}
