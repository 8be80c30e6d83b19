//! Tuning records as text, to move between stores: JSON lines, one record each, with the version of the form.

use std::io::{BufRead, Read as _, Write};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::file::MAX_TEXT;
use crate::store::{Record as _, Store, StoreExt as _, TuningRecord};

/// The version of the form.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Line {
    version: u32,
    #[serde(flatten)]
    record: TuningRecord,
}

/// Writes every tuning record of a store, oldest first; gives their number.
pub fn export(store: &dyn Store, to: &mut dyn Write) -> Result<usize> {
    let records = store.all::<TuningRecord>(None)?;
    let count = records.len();
    for record in records {
        let version = VERSION;
        let line = serde_json::to_string(&Line { version, record })
            .map_err(|e| Error::unexpected("cannot write a tuning record as JSON").caused_by(e))?;
        writeln!(to, "{line}").map_err(|e| Error::io("cannot write tuning records", e))?;
    }
    to.flush()
        .map_err(|e| Error::io("cannot write tuning records", e))?;
    Ok(count)
}

/// Reads tuning records into a store; gives the number of those that it did not have, or had an older form of. Nothing is
/// kept if any line cannot be read.
pub fn import(store: &dyn Store, from: &mut dyn BufRead) -> Result<usize> {
    let mut records = Vec::new();
    for (line, number) in from.take(MAX_TEXT).lines().zip(1..) {
        let text = line.map_err(|e| Error::io("cannot read tuning records", e))?;
        if !text.trim().is_empty() {
            records.push(read(&text).map_err(|e| e.with("line", number))?);
        }
    }
    let mut count = 0;
    for record in records {
        let known = store.load::<TuningRecord>(record.key())?;
        if known.is_none_or(|k| k.at < record.at) {
            store.save(&record)?;
            count += 1;
        }
    }
    Ok(count)
}

fn read(text: &str) -> Result<TuningRecord> {
    let bad = |e| Error::invalid("this is no tuning record").caused_by(e);
    let value: serde_json::Value = serde_json::from_str(text).map_err(bad)?;
    let version = value.get("version").and_then(serde_json::Value::as_u64);
    match version {
        Some(v) if v == u64::from(VERSION) => Ok(serde_json::from_value::<Line>(value).map_err(bad)?.record),
        Some(other) => Err(Error::unsupported(format!(
            "the record has version {other}; this akg reads version {VERSION}"
        ))),
        None => Err(Error::invalid("this is no tuning record: it has no version")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;
    use proptest::strategy::ValueTree as _;

    use super::*;
    use crate::dtype::DType;
    use crate::error::ErrorKind;
    use crate::source::KnobValue;
    use crate::store::MemoryStore;
    use crate::task::Accuracy;
    use crate::verdict::{Failure, FailureKind};
    use crate::{Digest, Result};

    fn records() -> impl Strategy<Value = Vec<TuningRecord>> {
        let knob = prop_oneof![
            any::<i64>().prop_map(KnobValue::Int),
            Just(KnobValue::DType(DType::F16))
        ];
        let seconds = || vec(1e-9f64..10.0, 0..5);
        let what = (any::<u8>(), ".*", vec(vec(0i64..1 << 40, 0..4), 0..3));
        let knobs = proptest::collection::btree_map("[A-Z]{1,3}", knob, 0..4);
        let found = (
            option::of(".*"),
            seconds(),
            seconds(),
            option::of(1e-3f64..1e3),
            any::<bool>(),
        );
        let record = (what, knobs, 0usize..3, found, 0u64..1 << 50);
        let record = record.prop_map(|((kernel, text, shape), knobs, class, found, at)| {
            let (evidence, seconds, challenged_seconds, relative, chosen) = found;
            TuningRecord {
                kernel: Digest::of(&[kernel]),
                name: text.clone(),
                shape,
                knobs,
                device: Digest::of(text.as_bytes()),
                device_name: text.clone(),
                dsl: "cpp".to_owned(),
                toolchain: text,
                accuracy: Accuracy::ALL[class],
                source: Digest::of(&[kernel, 1]),
                failure: evidence.map(|e| Failure::new(FailureKind::WrongValues, e)),
                seconds,
                challenged_seconds,
                relative,
                faster: relative.is_some_and(|r| r < 1.0),
                chosen,
                ended_by: relative.filter(|_| chosen),
                disturbed: chosen && at % 2 == 0,
                at,
            }
        });
        vec(record, 0..6)
    }

    fn written(store: &MemoryStore) -> String {
        let mut text = Vec::new();
        export(store, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    fn read_into(store: &MemoryStore, text: &str) -> Result<usize> {
        import(store, &mut text.as_bytes())
    }

    proptest! {
        #[test]
        fn what_is_exported_is_imported(records in records()) {
            let (from, to) = (MemoryStore::new(), MemoryStore::new());
            for record in &records {
                from.save(record).unwrap();
            }
            let text = written(&from);
            let kept: Vec<TuningRecord> = from.all(None).unwrap();
            prop_assert_eq!(read_into(&to, &text).unwrap(), kept.len());
            prop_assert_eq!(to.all::<TuningRecord>(None).unwrap(), kept);
            // A second time brings nothing.
            prop_assert_eq!(read_into(&to, &text).unwrap(), 0);
            prop_assert_eq!(written(&to), text);
        }
    }

    #[test]
    fn one_bad_line_keeps_everything_out() {
        let store = MemoryStore::new();
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let record = loop {
            let tree = records().new_tree(&mut runner).unwrap();
            if let Some(record) = tree.current().first() {
                break record.clone();
            }
        };
        store.save(&record).unwrap();
        let good = written(&store);
        let other = MemoryStore::new();
        for (bad, kind, word) in [
            ("{", ErrorKind::InvalidInput, "line: 2"),
            ("{}", ErrorKind::InvalidInput, "no version"),
            (r#"{"version": 2}"#, ErrorKind::Unsupported, "version 2"),
            (
                r#"{"version": 1, "kernel": "x"}"#,
                ErrorKind::InvalidInput,
                "no tuning record",
            ),
        ] {
            let error = read_into(&other, &format!("{good}{bad}\n")).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(word), "{error}");
            assert!(other.all::<TuningRecord>(None).unwrap().is_empty());
        }
    }
}
