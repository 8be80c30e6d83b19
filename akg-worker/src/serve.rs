//! The worker's side: reads calls, executes them, answers.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd as _, OwnedFd};

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::verdict::Failure;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::engine::{Engine, Prepared};
use crate::layout::Slots;
use crate::protocol::{Answer, Call};
use crate::{crash, describe, fault, frame, process, protocol};

/// A kind of worker that another crate brings, for programs that [`init_with`](crate::init_with) it.
#[derive(Debug, Clone, Copy)]
pub struct Service {
    /// What callers ask for. A service whose calls change gets another name.
    pub name: &'static str,
    /// Serves, by [`answer_calls`], and ends the process.
    pub serve: fn() -> !,
}

/// Executes artifacts on this machine's processor.
pub(crate) fn serve() -> ! {
    crash::install();
    let mut server = Server::default();
    let status = status_of(serve_calls(|call, descriptors| server.answer(call, descriptors)));
    // With a candidate in it, this process may neither end its threads nor undo what the runtime has set up.
    // SAFETY: always safe to call.
    unsafe { libc::_exit(status) }
}

/// Answers calls in the envelope of [`process`](crate::process) until the caller closes the connection, then ends the
/// process. `answer` gets each call with the descriptors that came with it; an error is an answer too.
pub fn answer_calls<C: DeserializeOwned, A: Serialize>(
    answer: impl FnMut(C, Vec<OwnedFd>) -> Result<A>,
) -> ! {
    std::process::exit(status_of(serve_calls(answer)))
}

fn status_of(served: Result<()>) -> i32 {
    match served {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("akg-worker: {error}");
            1
        }
    }
}

#[derive(Deserialize)]
struct Request {
    version: u32,
    id: u64,
    call: serde_json::Value,
}

#[derive(Serialize)]
struct Reply<A> {
    id: u64,
    #[serde(flatten)]
    outcome: Outcome<A>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome<A> {
    Ok(A),
    Error { kind: ErrorKind, message: String },
}

fn serve_calls<C: DeserializeOwned, A: Serialize>(
    mut answer: impl FnMut(C, Vec<OwnedFd>) -> Result<A>,
) -> Result<()> {
    let pipes = take_over_pipes().map_err(|e| Error::io("cannot set up the worker", e))?;
    // They close with the process: closing them is what a candidate may not do.
    let (calls, replies) = &mut *ManuallyDrop::new(pipes);
    fault::answer_on(replies.as_raw_fd());
    while let Some(Request { version, id, call }) = frame::read(calls)? {
        fault::serving(id);
        let outcome = check_version(version)
            .and_then(|()| {
                serde_json::from_value(call).map_err(|e| {
                    Error::new(ErrorKind::Protocol, "the worker does not know this call").caused_by(e)
                })
            })
            .and_then(|call| answer(call, calls.take_descriptors()));
        let outcome = match outcome {
            Ok(answer) => Outcome::Ok(answer),
            Err(error) => Outcome::Error {
                kind: error.kind(),
                message: error.to_string(),
            },
        };
        frame::write(replies, &Reply { id, outcome })?;
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
            Call::Describe => Ok(Answer::Device(Box::new(describe::target()?))),
            Call::Prepare { .. } if self.prepared.is_some() || self.engine.is_some() => Err(Error::new(
                ErrorKind::Protocol,
                "the worker has an artifact already, and what was loaded cannot be unloaded reliably",
            )),
            Call::Prepare {
                artifact,
                cooperative,
            } => Ok(judged(Prepared::new(artifact, cooperative)?, |prepared| {
                let unlocked = prepared.unlocked.clone();
                let (guards, tensors) = (prepared.guards.clone(), prepared.tensors());
                self.prepared = Some(prepared);
                Answer::Prepared {
                    unlocked,
                    guards,
                    tensors,
                }
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
            Call::Place {
                dims,
                placement,
                slots,
                shared,
            } => {
                let engine = self.engine()?;
                engine.place(&dims, placement, Slots { slots, shared }, &descriptors)?;
                Ok(Answer::Placed)
            }
            Call::Execute { first, calls } => {
                let engine = self.engine()?;
                let elapsed = engine.execute(first, calls)?;
                Ok(Answer::Executed {
                    nanoseconds: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
                    left_behind: engine.left_behind(),
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
