//! Supervision of worker processes, with shell scripts as workers.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::thread;
use std::time::{Duration, Instant};

use akg_core::ErrorKind;
use akg_core::isolation::IsolationLevel;
use akg_worker::process::{Ended, Mechanism, Process, Program, RequestError, ResourceLimits};

fn shell(script: &str) -> Program {
    Program::new("/bin/sh").arg("-c").arg(script)
}

fn spawn(script: &str) -> Process {
    shell(script).spawn().unwrap()
}

/// The shell command that writes one frame.
fn says(json: &str) -> String {
    let header: String = (json.len() as u32)
        .to_le_bytes()
        .iter()
        .fold(String::new(), |text, b| text + &format!("\\{b:03o}"));
    format!("printf '{header}'; printf '%s' '{json}'; ")
}

fn request(process: &mut Process, seconds: u64) -> Result<i64, RequestError> {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    process.request(&"go", deadline, &mut |_| {})
}

fn ended(error: RequestError) -> (Ended, String) {
    match error {
        RequestError::Ended { how, stderr } => (how, stderr),
        other => panic!("expected the worker to end, not: {other}"),
    }
}

/// A number of seconds to sleep that no other process sleeps.
fn unique(number: u32) -> String {
    format!("1{:07}.{number}", std::process::id())
}

/// How many processes have `argument` on their command lines. They may have other ids inside their confinement.
fn running(argument: &str) -> usize {
    let mut count = 0;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        // A process may end meanwhile; a zombie has no command line.
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut arguments = line.split(|b| *b == 0);
        count +=
            usize::from(arguments.next() == Some(b"sleep") && arguments.any(|a| a == argument.as_bytes()));
    }
    count
}

/// Whether a condition holds, or will within twenty seconds.
fn soon(condition: impl Fn() -> bool) -> bool {
    (0..2000).any(|_| {
        let holds = condition();
        if !holds {
            thread::sleep(Duration::from_millis(10));
        }
        holds
    })
}

#[test]
fn answers_and_progress_arrive() {
    let script = says(r#"{"id":1,"progress":"half"}"#) + &says(r#"{"id":1,"ok":5}"#) + "exec cat >/dev/null";
    let mut process = spawn(&script);
    let mut heard = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(20);
    let answer: i64 = process
        .request(&"go", deadline, &mut |text| heard.push(text.to_owned()))
        .unwrap();
    assert_eq!((answer, heard.as_slice()), (5, &["half".to_owned()][..]));
    assert!(process.is_alive());
}

#[test]
fn the_answer_of_a_worker_that_then_ends_counts() {
    let mut process = spawn(&says(r#"{"id":1,"ok":5}"#));
    assert_eq!(request(&mut process, 20).unwrap(), 5);
    assert!(matches!(
        request(&mut process, 20),
        Err(RequestError::Ended { .. })
    ));
}

#[test]
fn reported_errors_keep_their_kind() {
    let reply = r#"{"id":1,"error":{"kind":"unsupported","message":"no such operator"}}"#;
    let error = request(&mut spawn(&says(reply)), 20).unwrap_err();
    let error = akg_core::Error::from(error);
    assert_eq!(
        (error.kind(), error.message()),
        (ErrorKind::Unsupported, "no such operator")
    );
}

#[test]
fn death_is_told_with_its_cause_and_last_words() {
    let (how, stderr) = ended(request(&mut spawn("echo oh no >&2; exit 3"), 20).unwrap_err());
    assert!(matches!(how, Ended::Exited(status) if status.code() == Some(3)));
    assert_eq!(stderr, "oh no\n");

    let (how, _) = ended(request(&mut spawn("kill -SEGV $$"), 20).unwrap_err());
    assert!(how.to_string().contains("SIGSEGV"), "{how}");

    let (how, _) = ended(request(&mut spawn("exec >&- <&-; sleep 60"), 20).unwrap_err());
    assert_eq!(how, Ended::Silent);
}

#[test]
fn a_missed_deadline_ends_all_that_the_worker_started() {
    for level in IsolationLevel::ALL {
        let marker = unique(level as u32);
        let script =
            format!("sleep {marker} & setsid sh -c 'trap \"\" TERM; sleep {marker} & sleep {marker}' & wait");
        let mut process = shell(&script).at_most(level).spawn().unwrap();
        assert!(soon(|| running(&marker) == 3), "{level}");
        assert!(matches!(
            request(&mut process, 0),
            Err(RequestError::TimedOut { .. })
        ));
        assert_eq!(running(&marker), 0, "{level}");
        assert!(!process.is_alive());
    }
}

#[test]
fn dropping_ends_all_that_the_worker_started_and_removes_the_scratch_directory() {
    for level in IsolationLevel::ALL {
        let marker = unique(10 + level as u32);
        let script = format!(
            "echo $TMPDIR >&2; echo x > $TMPDIR/file; (setsid sleep {marker} &); {} exec cat >/dev/null",
            says(r#"{"id":1,"ok":1}"#)
        );
        let mut process = shell(&script).at_most(level).spawn().unwrap();
        request(&mut process, 20).unwrap();
        let scratch = process.scratch().to_owned();
        assert!(soon(|| running(&marker) == 1), "{level}");
        assert_eq!(std::fs::read(scratch.join("file")).unwrap(), b"x\n");
        drop(process);
        assert_eq!(running(&marker), 0, "{level}");
        assert!(!scratch.exists());
    }
}

#[test]
fn nothing_outlives_a_worker_that_ends_by_itself() {
    for level in IsolationLevel::ALL {
        let marker = unique(20 + level as u32);
        let script = format!("(setsid sleep {marker} >/dev/null 2>&1 &); exit 4");
        let (how, _) = ended(request(&mut shell(&script).at_most(level).spawn().unwrap(), 20).unwrap_err());
        assert!(
            matches!(how, Ended::Exited(status) if status.code() == Some(4)),
            "{how}"
        );
        assert_eq!(running(&marker), 0, "{level}");
    }
}

#[test]
fn less_isolation_than_required_is_refused_with_what_is_missing() {
    for (without, name) in [
        (Mechanism::Namespaces, "namespaces"),
        (Mechanism::Landlock, "Landlock"),
        (Mechanism::Seccomp, "seccomp"),
    ] {
        let program = shell("exit 0").without(without);
        let reached = program.clone().spawn().unwrap().isolation().clone();
        assert_eq!(reached.level, IsolationLevel::Basic);
        assert!(reached.missing.iter().any(|m| m.contains(name)), "{reached:?}");
        let error = program.isolation(IsolationLevel::Strict).spawn().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(name), "{error}");
    }
    let capped = shell("exit 0").at_most(IsolationLevel::None);
    assert_eq!(capped.spawn().unwrap().isolation().level, IsolationLevel::None);
    assert!(capped.isolation(IsolationLevel::Basic).spawn().is_err());
}

#[test]
fn a_supervisor_that_is_none_is_an_error() {
    let error = shell("exit 0").supervisor("/bin/true").spawn().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    let error = shell("exit 0").supervisor("/no/such/worker").spawn().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ToolMissing, "{error}");
}

#[test]
fn a_tool_runs_to_its_end() {
    let script = "cat given; cp given made; ln -s /etc/passwd link; exit 5";
    let program = shell(script).file("given", "abc\n");
    let finished = program.run(Duration::from_secs(20), 1000).unwrap();
    assert_eq!(finished.status().code(), Some(5));
    assert_eq!(finished.output(), "abc\n");
    assert_eq!(finished.file("made", 10).unwrap(), b"abc\n");
    assert_eq!(finished.file("made", 3).unwrap_err().kind(), ErrorKind::Protocol);
    assert!(finished.file("link", 1 << 20).is_err());
    assert_eq!(
        finished.file("absent", 10).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn a_tool_is_bounded_in_time_and_output() {
    let flood = shell("yes | head -c 3000000")
        .run(Duration::from_secs(60), 1000)
        .unwrap();
    assert_eq!(flood.output().len(), 1000);
    let marker = unique(30);
    let late = shell(&format!("sleep {marker} & sleep {marker}")).run(Duration::from_millis(300), 10);
    assert_eq!(late.unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(running(&marker), 0);
}

#[test]
fn a_worker_outlives_the_thread_that_started_it() {
    let mut process = thread::spawn(|| spawn(&("sleep 0.2; ".to_owned() + &says(r#"{"id":1,"ok":5}"#))))
        .join()
        .unwrap();
    assert_eq!(request(&mut process, 20).unwrap(), 5);
}

#[test]
fn a_service_that_a_worker_lacks_is_named() {
    let worker = std::path::Path::new(env!("CARGO_BIN_EXE_akg-worker"));
    let mut process = akg_worker::find(Some(worker))
        .unwrap()
        .arg("tpu-7")
        .spawn()
        .unwrap();
    let (how, stderr) = ended(request(&mut process, 20).unwrap_err());
    assert!(matches!(how, Ended::Exited(_)), "{how:?}");
    assert!(
        stderr.contains("`tpu-7`") && stderr.contains("akg::worker::init"),
        "{stderr}"
    );
}

#[test]
fn broken_messages_are_protocol_errors() {
    let wrong_id = says(r#"{"id":7,"ok":5}"#);
    let wrong_type = says(r#"{"id":1,"ok":"five"}"#);
    for script in [
        "echo this is no frame; sleep 60",
        &wrong_id,
        &wrong_type,
        "printf '\\0\\0\\0\\0'; sleep 60",
    ] {
        let error = request(&mut spawn(script), 20).unwrap_err();
        assert!(
            matches!(error, RequestError::Protocol { .. }),
            "{script}: {error}"
        );
    }
}

#[test]
fn floods_are_bounded() {
    let (_, stderr) = ended(request(&mut spawn("yes | head -c 3000000 >&2; echo end >&2"), 60).unwrap_err());
    assert!(stderr.len() <= 64 << 10 && stderr.ends_with("y\nend\n"));
    // A worker that floods is ended at the limit, not at the deadline.
    let RequestError::Protocol { error, .. } = request(&mut spawn("yes >&2"), 600).unwrap_err() else {
        panic!("the flood had another end");
    };
    assert!(error.to_string().contains("standard output or error"), "{error}");
}

#[test]
fn a_worker_that_never_reads_cannot_block_the_caller() {
    let mut process = spawn("sleep 60");
    let deadline = Instant::now() + Duration::from_secs(1);
    let long = "x".repeat(10 << 20);
    let outcome: Result<i64, _> = process.request(&long, deadline, &mut |_| {});
    assert!(matches!(outcome, Err(RequestError::TimedOut { .. })));
}

#[test]
fn only_chosen_variables_are_passed_on() {
    // Set for every test of this program; cargo sets it.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let reply = says(r#"{"id":1,"ok":1}"#);
    let script = format!("[ -z \"$CARGO_MANIFEST_DIR\" ] && [ -n \"$PATH\" ] && [ \"$X\" = y ] && {reply}");
    assert!(request(&mut shell(&script).env("X", "y").spawn().unwrap(), 20).is_ok());
    let passed = shell(&script).env("X", "y").inherit("CARGO_MANIFEST_DIR");
    assert!(request(&mut passed.spawn().unwrap(), 20).is_err());
}

#[test]
fn limits_hold() {
    let limits = ResourceLimits {
        file_size: Some(1000),
        address_space: Some(1 << 30),
        ..ResourceLimits::default()
    };
    let script =
        "[ $(ulimit -c) = 0 ] && [ $(ulimit -v) = 1048576 ] && head -c 5000 /dev/zero > big; wc -c < big >&2";
    let (_, stderr) = ended(request(&mut shell(script).limits(limits).spawn().unwrap(), 20).unwrap_err());
    assert!(stderr.trim_end().ends_with("1000"), "{stderr}");
}

#[test]
fn a_missing_program_is_a_missing_tool() {
    let error = Program::new("/no/such/program").spawn().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ToolMissing);
}

#[test]
fn workers_die_with_their_caller() {
    for level in IsolationLevel::ALL {
        let marker = unique(40 + level as u32);
        let mut caller = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_caller_to_be_killed", "--ignored"])
            .env("AKG_TEST_SLEEP", &marker)
            .env("AKG_TEST_LEVEL", level.name())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        assert!(soon(|| running(&marker) == 2), "{level}");
        caller.kill().unwrap();
        caller.wait().unwrap();
        assert!(soon(|| running(&marker) == 0), "{level}");
    }
}

#[test]
#[ignore = "run and killed by the other test"]
fn a_caller_to_be_killed() {
    let marker = std::env::var("AKG_TEST_SLEEP").unwrap();
    let level = std::env::var("AKG_TEST_LEVEL").unwrap().parse().unwrap();
    let script = format!("setsid sleep {marker} & trap '' TERM; sleep {marker}");
    let mut process = shell(&script).at_most(level).spawn().unwrap();
    assert!(request(&mut process, 60).is_err());
}
