//! Bundles: the file, what is refused, and calls in this process.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod exports;
mod layouts;
mod program;
mod structures;
mod support;

use std::thread;

use akg::cpu::{LoadOptions, LoadedBundle};
use akg::expr::Bindings;
use akg::reference::{Options, evaluate};
use akg::verdict::{Failure, FailureKind};
use akg::{AnyView, AnyViewMut, Bundle, ErrorKind, Task, Tensor, TensorView, TensorViewMut};
use support::{build, bundle, host, inert, passed, reverse, scale_and_shift};

/// Loads a bundle that these tests have made.
fn load(bundle: &Bundle, threads: usize) -> LoadedBundle {
    unsafe { LoadedBundle::load(bundle, &LoadOptions::threads(threads)) }.unwrap()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: akg::Result<T>, kind: ErrorKind, words: &[&str]) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "`{word}` is not in: {error}");
    }
}

fn rows(n: usize) -> Vec<f32> {
    (0..4 * n).map(|i| (i % 17) as f32 / 8.0 - 1.0).collect()
}

const W: [f32; 4] = [0.5, -1.0, 0.25, 3.0];

/// What the reference makes of `rows(n)`.
fn expected(task: &Task, n: usize) -> Vec<f32> {
    let dims = Bindings::from([("N".into(), n as i64)]);
    let inputs = [
        Tensor::from_slice([n, 4], &rows(n)).unwrap(),
        Tensor::from_slice([4], &W).unwrap(),
    ];
    let graph = task.graph.bind(&dims).unwrap();
    let outputs = evaluate(&graph, &inputs, &Options::default()).unwrap();
    outputs[0].to_f64().into_iter().map(|v| v as f32).collect()
}

fn call(loaded: &LoadedBundle, n: usize) -> Vec<f32> {
    let (x, mut y) = (rows(n), vec![f32::NAN; 4 * n]);
    let shape = [n, 4];
    let inputs = [
        TensorView::new(&x, &shape).unwrap().into(),
        TensorView::new(&W, &[4]).unwrap().into(),
    ];
    let mut outputs = [TensorViewMut::new(&mut y, &shape).unwrap().into()];
    loaded.call(&inputs, &mut outputs).unwrap();
    y
}

#[test]
fn a_loaded_bundle_computes_what_the_reference_does() {
    let Some(bundle) = bundle(scale_and_shift()) else {
        return;
    };
    let bundle = Bundle::from_bytes(&bundle.to_bytes().unwrap()).unwrap();
    for threads in [1, 3] {
        let loaded = load(&bundle, threads);
        for n in [1, 2, 100, 7, 1000, 7] {
            assert_eq!(
                call(&loaded, n),
                expected(&bundle.task(), n),
                "{n} rows, {threads} threads"
            );
        }
        let x = Tensor::from_slice([5, 4], &rows(5)).unwrap();
        let w = Tensor::from_slice([4], &W).unwrap();
        let y = loaded.run(&[x, w]).unwrap();
        assert_eq!(y[0].as_slice::<f32>().unwrap(), expected(&bundle.task(), 5));
        let (x, mut y) = (rows(6), vec![0f32; 24]);
        let (inputs, outputs) = ([x.as_ptr().cast(), W.as_ptr().cast()], [y.as_mut_ptr().cast()]);
        unsafe { loaded.call_raw(&inputs, &outputs, &[6]) }.unwrap();
        assert_eq!(y, expected(&bundle.task(), 6));
        refused(
            unsafe { loaded.call_raw(&inputs, &outputs, &[]) },
            ErrorKind::InvalidInput,
            &["dims"],
        );
    }
}

#[test]
fn threads_call_at_the_same_time() {
    let Some(bundle) = bundle(scale_and_shift()) else {
        return;
    };
    for threads in [1, 2] {
        let loaded = load(&bundle, threads);
        thread::scope(|scope| {
            for caller in 1..6 {
                let (loaded, task) = (&loaded, bundle.task());
                scope.spawn(move || {
                    for round in 0..40 {
                        let n = caller * 7 + round % 3;
                        assert_eq!(call(loaded, n), expected(&task, n));
                    }
                });
            }
        });
    }
}

#[test]
fn cooperative_kernels_and_constants_and_other_types() {
    let constants = [0.5, 9.0, 2.5, 3.5, 4.5, 1.0, -1.0, 0.0];
    let Some(bundle) = bundle(reverse(&constants)) else {
        return;
    };
    let bundle = Bundle::from_bytes(&bundle.to_bytes().unwrap()).unwrap();
    let loaded = load(&bundle, 1);
    let x: Vec<i64> = (0..8).collect();
    let expected: Vec<bool> = x
        .iter()
        .rev()
        .zip(constants)
        .map(|(x, c)| (*x as f64) < c)
        .collect();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut y = [true; 8];
                loaded
                    .call(
                        &[TensorView::new(&x, &[8]).unwrap().into()],
                        &mut [TensorViewMut::new(&mut y, &[8]).unwrap().into()],
                    )
                    .unwrap();
                assert_eq!(y, *expected);
            });
        }
    });
    let y = loaded.run(&[Tensor::from_slice([8], &x).unwrap()]).unwrap();
    let expected: Vec<f64> = expected.into_iter().map(|b| f64::from(u8::from(b))).collect();
    assert_eq!(y[0].to_f64().unwrap(), expected);
}

#[test]
fn code_that_is_gone_is_not_taken_for_new_code() {
    let (task, text) = scale_and_shift();
    let Some(first) = bundle((task.clone(), text)) else {
        return;
    };
    let second = bundle((task, &text.replace("2 * x[i]", "3 * x[i]"))).unwrap();
    for _ in 0..3 {
        for (bundle, factor) in [(&first, 2.0), (&second, 3.0)] {
            let y = call(&load(bundle, 1), 1);
            assert_eq!(y[1], factor * rows(1)[1] + W[1]);
        }
    }
    let (one, other) = (load(&first, 1), load(&second, 1));
    assert_ne!(call(&one, 1), call(&other, 1));
}

#[test]
fn tensors_that_are_not_those_of_the_contract_are_refused() {
    let Some(bundle) = bundle(scale_and_shift()) else {
        return;
    };
    let loaded = load(&bundle, 1);
    let x = rows(8);
    let view = |shape| TensorView::new(&x, shape).unwrap().into();
    let w = || AnyView::from(TensorView::new(&W, &[4]).unwrap());
    let attempt = |inputs: &[AnyView<'_>]| {
        let mut y = vec![0f32; 32];
        let mut outputs = [TensorViewMut::new(&mut y, &[8, 4]).unwrap().into()];
        let result = loaded.call(inputs, &mut outputs);
        assert!(
            result.is_ok() || y.iter().all(|v| *v == 0.0),
            "a refused call wrote"
        );
        result
    };
    attempt(&[view(&[8, 4]), w()]).unwrap();
    let wrong = ErrorKind::InvalidInput;
    refused(attempt(&[view(&[8, 4])]), wrong, &["2 inputs", "1 and 1"]);
    refused(
        attempt(&[view(&[4, 8]), w()]),
        wrong,
        &["`x`", "[4, 4]", "[4, 8]"],
    );
    refused(attempt(&[view(&[32]), w()]), wrong, &["`x`"]);
    refused(attempt(&[view(&[2, 4, 4]), w()]), wrong, &["`x`", "[2, 4, 4]"]);
    let scalar = TensorView::new(&x[..1], &[]).unwrap().into();
    refused(attempt(&[scalar, w()]), wrong, &["`x`", "no such extent"]);
    let integers = [0i32; 32];
    let integers = TensorView::new(&integers, &[8, 4]).unwrap().into();
    refused(
        attempt(&[integers, w()]),
        wrong,
        &["`x`", "f32[8, 4]", "i32[8, 4]"],
    );
    let columns = TensorView::with_strides(&x, &[8, 4], &[1, 8]).unwrap().into();
    refused(attempt(&[columns, w()]), wrong, &["`x`", "row-major", "[1, 8]"]);
    let dense = TensorView::with_strides(&x, &[8, 4], &[4, 1]).unwrap().into();
    attempt(&[dense, w()]).unwrap();

    // 16 bytes are asked for; one of these two begins at such an address, the other does not.
    let more = rows(9);
    let begin = usize::from((more.as_ptr() as usize).is_multiple_of(16));
    let odd = TensorView::new(&more[begin..begin + 32], &[8, 4]).unwrap().into();
    refused(attempt(&[odd, w()]), wrong, &["`x`", "16 bytes", "0x"]);

    let mut y = vec![0f32; 16];
    let other = TensorViewMut::new(&mut y, &[4, 4]).unwrap();
    refused(
        loaded.call(&[view(&[8, 4]), w()], &mut [other.into()]),
        wrong,
        &["output `add_1`", "f32[8, 4]", "f32[4, 4]"],
    );
    let mut y = vec![0f64; 32];
    let other = TensorViewMut::new(&mut y, &[8, 4]).unwrap();
    refused(
        loaded.call(&[view(&[8, 4]), w()], &mut [other.into()]),
        wrong,
        &["output `add_1`", "f64"],
    );

    let none: [f32; 0] = [];
    let empty = TensorView::new(&none, &[0, 4]).unwrap().into();
    refused(attempt(&[empty, w()]), wrong, &["`N` is 0", "from 1 to 1000"]);
    let many = vec![0f32; 4004];
    let many = TensorView::new(&many, &[1001, 4]).unwrap().into();
    refused(attempt(&[many, w()]), wrong, &["`N` is 1001"]);
}

#[test]
fn outputs_overlap_nothing() {
    let Some(bundle) = bundle(scale_and_shift()) else {
        return;
    };
    let loaded = load(&bundle, 1);
    let mut memory = rows(16);
    let pointer = memory.as_mut_ptr();
    let view = |offset: usize| unsafe {
        AnyView::from_raw(akg::DType::F32, pointer.add(offset).cast(), &[8, 4], None)
    };
    let output = |offset: usize| unsafe {
        AnyViewMut::from_raw(akg::DType::F32, pointer.add(offset).cast(), &[8, 4], None)
    };
    let w = AnyView::from(TensorView::new(&W, &[4]).unwrap());
    for (input, out) in [(0, 0), (0, 31), (32, 1), (0, 16)] {
        let result = loaded.call(&[view(input), w], &mut [output(out)]);
        refused(result, ErrorKind::InvalidInput, &["`add_1`", "`x`", "overlaps"]);
    }
    loaded.call(&[view(0), w], &mut [output(32)]).unwrap();
}

#[test]
fn other_machines_are_refused_with_what_they_lack() {
    let Some(candidate) = build(scale_and_shift().1) else {
        return;
    };
    let task = scale_and_shift().0;
    let load = |change: &dyn Fn(&mut akg::Target, &mut akg::source::Artifact)| {
        let (mut target, mut candidate) = (host(), candidate.clone());
        change(&mut target, &mut candidate.artifact);
        let bundle = Bundle::new(&task, &target, candidate, "", passed()).unwrap();
        unsafe { LoadedBundle::load(&bundle, &LoadOptions::default()) }
    };
    load(&|_, _| {}).unwrap();
    let unsupported = ErrorKind::Unsupported;
    refused(
        load(&|t, _| t.arch = "pdp11".into()),
        unsupported,
        &["pdp11", std::env::consts::ARCH, "akg run"],
    );
    refused(load(&|t, _| t.backend = "cuda".into()), unsupported, &["`cuda`"]);
    refused(load(&|_, a| a.format = "cubin".into()), unsupported, &["`cubin`"]);
    let features = |names: &'static str| {
        load(&move |_, a| {
            a.metadata.insert("features".into(), names.into());
        })
    };
    refused(
        features("vector-9000 mmx-2"),
        unsupported,
        &["mmx-2, vector-9000", "processor lacks"],
    );
    features("").unwrap();
    // Without word from the toolchain, everything that the target has counts.
    let silent = load(&|t, a| {
        a.metadata.remove("features");
        t.features.insert("vector-9000".into());
    });
    refused(silent, unsupported, &["vector-9000"]);
    refused(
        load(&|_, a| a.bytes.truncate(100)),
        ErrorKind::InvalidInput,
        &["does not load", "scale_and_shift"],
    );
    refused(
        load(&|_, a| a.plan.launches[0].kernel = "scalene".into()),
        ErrorKind::InvalidInput,
        &["no kernel `scalene`"],
    );
    let none = unsafe { LoadedBundle::load(&bundle(scale_and_shift()).unwrap(), &LoadOptions::threads(0)) };
    refused(none, ErrorKind::InvalidInput, &["one thread"]);
}

#[test]
fn sizes_that_no_machine_has_are_errors() {
    let Some(candidate) = build(scale_and_shift().1) else {
        return;
    };
    let (mut task, _) = scale_and_shift();
    task.contract.ranges.clear();
    for scratch in [1i64 << 56, i64::MAX] {
        let mut candidate = candidate.clone();
        candidate.artifact.plan.tensors[2].shape = vec![scratch.into()];
        let bundle = Bundle::new(&task, &host(), candidate, "", passed()).unwrap();
        let loaded = load(&bundle, 1);
        let x = Tensor::from_slice([2, 4], &rows(2)).unwrap();
        let error = loaded
            .run(&[x, Tensor::from_slice([4], &W).unwrap()])
            .unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::OutOfResources | ErrorKind::InvalidInput),
            "{error}"
        );
    }
}

#[test]
fn only_what_fits_together_is_bundled() {
    let (task, text) = scale_and_shift();
    let plan = {
        use akg::Dsl as _;
        let source = akg::cpp::CppDsl::default().parse(text).unwrap();
        let akg::source::SourceForm::Lowered { plan } = source.form else {
            panic!("no plan")
        };
        plan
    };
    let make = |plan, evidence| Bundle::new(&task, &host(), inert(plan), "", evidence);
    make(plan.clone(), passed()).unwrap();
    let mut failed = passed();
    failed.verdict.failure = Some(Failure::new(FailureKind::WrongValues, "y[3] is 4, not 5"));
    refused(
        make(plan.clone(), failed),
        ErrorKind::InvalidInput,
        &["wrong-values", "y[3] is 4"],
    );
    let mut other = passed();
    other.verdict.accuracy = akg::Accuracy::Half;
    refused(
        make(plan.clone(), other),
        ErrorKind::InvalidInput,
        &["class half", "fp32"],
    );
    let changed = |change: &dyn Fn(&mut akg::source::LaunchPlan)| {
        let mut plan = plan.clone();
        change(&mut plan);
        make(plan, passed())
    };
    let wrong = ErrorKind::InvalidInput;
    refused(
        changed(&|p| p.tensors[0].dtype = akg::DType::F64),
        wrong,
        &["`x`"],
    );
    refused(changed(&|p| p.tensors.truncate(3)), wrong, &["Output"]);
    refused(changed(&|p| p.dims.clear()), wrong, &["`N`"]);
    refused(changed(&|p| p.tensors[2].align = 48), wrong, &["48"]);
    refused(
        changed(&|p| p.launches[1].tensors[0] = 9),
        wrong,
        &["`shift`", "9"],
    );
}

#[test]
fn files_come_back_as_they_were() {
    let Some(bundle) = bundle(scale_and_shift()) else {
        return;
    };
    let bundle = bundle.with_module(
        "class Model: ...",
        vec![
            akg::bundle::ModuleInput::Argument(0),
            akg::bundle::ModuleInput::Attribute("w".into()),
        ],
    );
    let bundle = bundle.unwrap();
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("kernel.akg");
    bundle.write(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(
        std::fs::read_dir(place.path()).unwrap().count(),
        1,
        "only the bundle is left"
    );
    assert!(Bundle::is_bundle(&bytes));
    let back = Bundle::read(&path).unwrap();
    assert_eq!(back.manifest(), bundle.manifest());
    assert_eq!(back.evidence(), bundle.evidence());
    assert_eq!(back.module(), bundle.module());
    assert_eq!(back.candidate().source, bundle.candidate().source);
    assert_eq!(back.candidate().artifact, bundle.candidate().artifact);
    assert_eq!(back.to_bytes().unwrap(), bytes, "equal content gives equal bytes");
    assert_eq!(back.content_hash().unwrap(), bundle.content_hash().unwrap());
    refused(
        Bundle::read(place.path().join("none.akg")),
        ErrorKind::NotFound,
        &["none.akg"],
    );

    let listed = std::process::Command::new("tar").arg("tf").arg(&path).output();
    if let Ok(listed) = listed {
        let names = String::from_utf8(listed.stdout).unwrap();
        let members = [
            "akg-bundle",
            "manifest.json",
            "evidence.json",
            "graph.json",
            "sketch.txt",
            "source.txt",
        ];
        assert!(
            members.iter().all(|m| names.contains(m)) && names.contains("module.py"),
            "{names}"
        );
        assert!(listed.status.success());
    }
}

#[test]
fn no_byte_can_change() {
    let Some(bundle) = bundle(scale_and_shift()) else {
        return;
    };
    let bytes = bundle.to_bytes().unwrap();
    let positions = (0..bytes.len()).filter(|i| *i < 1200 || i % 101 == 0 || *i + 10 > bytes.len());
    for position in positions {
        for bit in [0x01, 0x80] {
            let mut changed = bytes.clone();
            changed[position] ^= bit;
            assert!(
                Bundle::from_bytes(&changed).is_err(),
                "byte {position} may change"
            );
        }
    }
    for length in (0..bytes.len()).filter(|i| *i < 1200 || i % 499 == 0) {
        assert!(
            Bundle::from_bytes(&bytes[..length]).is_err(),
            "{length} bytes are enough"
        );
    }
    let mut longer = bytes.clone();
    longer.push(0);
    refused(Bundle::from_bytes(&longer), ErrorKind::InvalidInput, &["hash"]);
    let text = String::from_utf8_lossy(&bytes[512..600]).into_owned();
    let mut newer = bytes.clone();
    let at = 512 + text.find(":1,").unwrap() + 1;
    newer[at] = b'7';
    refused(
        Bundle::from_bytes(&newer),
        ErrorKind::Unsupported,
        &["version 7", "version 1"],
    );
    refused(
        Bundle::from_bytes(b"PK\x03\x04"),
        ErrorKind::InvalidInput,
        &["no bundle"],
    );
}
