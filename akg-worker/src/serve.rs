//! The worker's side: reads calls, executes them, answers.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::verdict::Failure;
use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::engine::{Engine, Prepared};
use crate::protocol::{Answer, Call};
use crate::{crash, describe, fault, frame, process, protocol};

/// Serves until the caller closes the pipe, then ends the process.
pub(crate) fn serve() -> ! {
    let status = match serve_calls() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("akg-worker: {error}");
            1
        }
    };
    std::process::exit(status)
}

#[derive(Deserialize)]
struct Request {
    version: u32,
    id: u64,
    call: serde_json::Value,
}

#[derive(Serialize)]
struct Reply {
    id: u64,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Ok(Answer),
    Error { kind: ErrorKind, message: String },
}

fn serve_calls() -> Result<()> {
    let (mut calls, mut replies) = take_over_pipes().map_err(|e| Error::io("cannot set up the worker", e))?;
    crash::install();
    fault::answer_on(replies.as_raw_fd());
    let mut server = Server::default();
    while let Some(Request { version, id, call }) = frame::read(&mut calls)? {
        fault::serving(id);
        let outcome = check_version(version)
            .and_then(|()| {
                serde_json::from_value(call).map_err(|e| {
                    Error::new(ErrorKind::Protocol, "the worker does not know this call").caused_by(e)
                })
            })
            .and_then(|call| server.answer(call, calls.take_descriptors()));
        let outcome = match outcome {
            Ok(answer) => Outcome::Ok(answer),
            Err(error) => Outcome::Error {
                kind: error.kind(),
                message: error.to_string(),
            },
        };
        frame::write(&mut replies, &Reply { id, outcome })?;
    }
    Ok(())
}

/// Moves the pipes away from the standard descriptors, where a candidate's prints would get between the messages.
fn take_over_pipes() -> std::io::Result<(Channel, File)> {
    let calls = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let replies = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((Channel::new(calls), replies.into()))
}

fn check_version(version: u32) -> Result<()> {
    if version == process::VERSION {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Protocol,
        format!(
            "the caller speaks version {version} of the protocol, this worker {}",
            process::VERSION
        ),
    ))
}

#[derive(Default)]
struct Server {
    prepared: Option<Prepared>,
    engine: Option<Engine>,
}

impl Server {
    fn answer(&mut self, call: Call, descriptors: Vec<OwnedFd>) -> Result<Answer> {
        match call {
            Call::Hello { .. } => Ok(Answer::Hello {
                protocol: protocol::VERSION,
            }),
            Call::Describe => Ok(Answer::Device(describe::target()?)),
            Call::Prepare { .. } if self.prepared.is_some() || self.engine.is_some() => Err(Error::new(
                ErrorKind::Protocol,
                "the worker has an artifact already, and what was loaded cannot be unloaded reliably",
            )),
            Call::Prepare {
                artifact,
                cooperative,
            } => Ok(judged(Prepared::new(artifact, cooperative)?, |prepared| {
                let unlocked = prepared.unlocked.clone();
                self.prepared = Some(prepared);
                Answer::Prepared { unlocked }
            })),
            Call::Load => {
                let prepared = self.prepared.take().ok_or_else(|| {
                    Error::new(
                        ErrorKind::Protocol,
                        "the worker was not given an artifact to load",
                    )
                })?;
                Ok(judged(prepared.load(), |engine| {
                    self.engine = Some(engine);
                    Answer::Loaded
                }))
            }
            Call::Place { dims, placement } => {
                self.engine()?.place(&dims, placement, &descriptors)?;
                Ok(Answer::Placed)
            }
            Call::Execute { calls } => {
                let elapsed = self.engine()?.execute(calls)?;
                Ok(Answer::Executed {
                    nanoseconds: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
                })
            }
        }
    }

    fn engine(&mut self) -> Result<&mut Engine> {
        self.engine.as_mut().ok_or_else(|| {
            Error::new(
                ErrorKind::Protocol,
                "the worker was asked to execute before it loaded anything",
            )
        })
    }
}

fn judged<T>(outcome: Result<T, Failure>, answer: impl FnOnce(T) -> Answer) -> Answer {
    outcome.map_or_else(Answer::Failed, answer)
}
