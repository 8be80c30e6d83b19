//! Supervision of worker processes, with shell scripts as workers.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use akg_core::ErrorKind;
use akg_worker::process::{Ended, Process, Program, RequestError, ResourceLimits};

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

/// Whether the process whose id `file` holds is gone, or will be within two seconds.
fn ends(file: &Path) -> bool {
    let pid = std::fs::read_to_string(file).unwrap();
    let stat = format!("/proc/{}/stat", pid.trim());
    (0..200).any(|_| {
        thread::sleep(Duration::from_millis(10));
        // A killed orphan may stay a zombie where nobody reaps it.
        std::fs::read_to_string(&stat).map_or(true, |s| s.contains(") Z "))
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
fn a_missed_deadline_kills_the_whole_group() {
    let mut process = spawn("sleep 1000 & echo $! > child; echo $$ > self; wait");
    let (child, own) = (process.scratch().join("child"), process.scratch().join("self"));
    assert!(matches!(
        request(&mut process, 1),
        Err(RequestError::TimedOut { .. })
    ));
    assert!(ends(&child) && ends(&own));
    assert!(!process.is_alive());
}

#[test]
fn dropping_kills_the_group_and_removes_the_scratch_directory() {
    let mut process = spawn(
        &(String::from("sleep 1000 & echo $! > $TMPDIR/child; ") + &says(r#"{"id":1,"ok":1}"#) + "wait"),
    );
    request(&mut process, 20).unwrap();
    let scratch = process.scratch().to_owned();
    let kept = tempfile::tempdir().unwrap();
    let child = kept.path().join("child");
    std::fs::copy(scratch.join("child"), &child).unwrap();
    drop(process);
    assert!(ends(&child));
    assert!(!scratch.exists());
}

#[test]
fn a_worker_outlives_the_thread_that_started_it() {
    let mut process = thread::spawn(|| spawn(&("sleep 0.2; ".to_owned() + &says(r#"{"id":1,"ok":5}"#))))
        .join()
        .unwrap();
    assert_eq!(request(&mut process, 20).unwrap(), 5);
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
    let error = request(&mut spawn("yes >&2"), 1).unwrap_err();
    assert!(matches!(error, RequestError::TimedOut { .. }));
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
