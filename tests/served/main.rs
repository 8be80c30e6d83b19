//! Whole runs with models behind independent servers over real HTTP: aimock, and the proxy of litellm in front of it. Whatever
//! the servers do, a run ends right, within what it may spend, and nothing is lost. The test is its own worker, hence a `main`
//! of its own. Without Node or Python it is skipped, and says so.
#![allow(clippy::unwrap_used, clippy::panic, reason = "this is a test")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../../akg-llm/tests/servers/install.rs"]
mod install;
#[path = "../agents/kernel.rs"]
mod kernel;
mod program;
mod runs;
mod scripts;

use std::sync::Arc;

use install::{Absence, Server};
use libtest_mimic::{Arguments, Failed, Trial};

/// A way to aimock.
#[derive(Debug, Clone, Copy)]
struct Way {
    name: &'static str,
    /// Whether replies stream.
    streams: bool,
}

const WHOLE: Way = Way {
    name: "whole",
    streams: false,
};

const STREAMED: Way = Way {
    name: "streamed",
    streams: true,
};

const LITELLM: Way = Way {
    name: "litellm",
    streams: true,
};

const WAYS: [Way; 3] = [WHOLE, STREAMED, LITELLM];

type Test = fn(Way, &Server);

/// What is tried, and in which ways.
const TESTS: [(&str, Test, &[Way]); 6] = [
    ("two_fixes_through_all_troubles", runs::two_fixes, &WAYS),
    ("a_server_that_stays_away", runs::stays_away, &[WHOLE, LITELLM]),
    ("what_may_be_spent", runs::tokens_and_money, &[STREAMED]),
    ("the_time_is_over", runs::time, &[WHOLE]),
    ("the_program", program::hybrid, &[WHOLE, LITELLM]),
    ("what_is_known_is_embedded", program::knowing, &[WHOLE, LITELLM]),
];

fn main() {
    akg::worker::init();
    let arguments = Arguments::from_args();
    let [aimock, litellm] = install::both(&scripts::fixtures(), arguments.list).map(Arc::new);
    let mut trials = Vec::new();
    for (name, test, ways) in TESTS {
        for way in ways {
            let server = if way.name == LITELLM.name {
                &litellm
            } else {
                &aimock
            };
            let missing = matches!(**server, Err(Absence::Missing(_)));
            let server = Arc::clone(server);
            let run = move || match &*server {
                Ok(server) => {
                    test(*way, server);
                    Ok(())
                }
                Err(Absence::Missing(why) | Absence::Broken(why)) => Err(Failed::from(why)),
            };
            trials.push(Trial::test(format!("{}_{name}", way.name), run).with_ignored_flag(missing));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    // The servers end before the process does.
    drop((aimock, litellm));
    conclusion.exit();
}
