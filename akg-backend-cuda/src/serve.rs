//! The worker's side: answers calls.

use std::env;
use std::fs::File;

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::verdict::Failure;
use akg_worker::{Service, answer_calls};

use crate::driver::{self, Device};
use crate::engine::{Context, Engine, Slots};
use crate::protocol::{self, Answer, Call};
use crate::{describe, replay};

/// What makes a program a worker of this backend: [`akg_worker::init_with`] takes it.
pub const SERVICE: Service = Service {
    name: protocol::SERVICE,
    serve,
};

fn serve() -> ! {
    // The program, what makes it a worker, and the name of the service.
    if let Some(directory) = env::args_os().nth(3) {
        replay::serve(&directory);
    }
    let mut server = Server::default();
    answer_calls(|call, descriptors| {
        let files: Vec<File> = descriptors.into_iter().map(File::from).collect();
        server.answer(call, &files)
    })
}

#[derive(Default)]
struct Server {
    context: Option<Context>,
    engine: Option<Engine>,
}

impl Server {
    fn answer(&mut self, call: Call, files: &[File]) -> Result<Answer> {
        match call {
            Call::Describe => match driver::start() {
                Ok(count) => {
                    let describe = |ordinal| describe::target(Device::get(ordinal)?);
                    let devices: driver::Result<Vec<_>> = (0..count).map(describe).collect();
                    Ok(Answer::Devices(devices?))
                }
                Err(why) => Ok(Answer::Absent(why)),
            },
            Call::Open { device } => match driver::device(device) {
                Ok(device) => {
                    self.context = Some(Context::open(device)?);
                    Ok(Answer::Opened)
                }
                Err(why) => Ok(Answer::Absent(why)),
            },
            Call::Load { artifact, memory } => {
                let context = self
                    .context
                    .take()
                    .ok_or_else(|| out_of_order("a device is opened"))?;
                Ok(judged(Engine::load(context, artifact, memory)?, |engine| {
                    self.engine = Some(engine);
                    Answer::Loaded
                }))
            }
            Call::Bind {
                dims,
                placement,
                poison,
                slot,
                slots,
                shared,
            } => {
                let slots = Slots {
                    slot,
                    count: slots,
                    shared,
                };
                let bound = self.engine()?.bind(&dims, placement, poison, &slots, files)?;
                Ok(judged(bound, |()| Answer::Bound))
            }
            Call::Execute { first, calls, cache } => {
                let executed = self.engine()?.execute(first, calls, cache)?;
                Ok(judged(executed, |elapsed| Answer::Executed {
                    nanoseconds: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
                }))
            }
            Call::Observe { calls } => Ok(judged(self.engine()?.observe(calls)?, Answer::Observed)),
            Call::LookForUntouched { used } => Ok(Answer::Untouched(self.engine()?.untouched(used)?)),
            Call::Take { slot } => {
                let taken = self.engine()?.take(slot, files)?;
                Ok(judged(taken, |inputs_unchanged| Answer::Taken {
                    inputs_unchanged,
                }))
            }
        }
    }

    fn engine(&mut self) -> Result<&mut Engine> {
        self.engine
            .as_mut()
            .ok_or_else(|| out_of_order("an artifact is loaded"))
    }
}

fn judged<T>(outcome: Result<T, Failure>, answer: impl FnOnce(T) -> Answer) -> Answer {
    outcome.map_or_else(Answer::Failed, answer)
}

fn out_of_order(what: &str) -> Error {
    Error::new(
        ErrorKind::Protocol,
        format!("the worker was called before {what}"),
    )
}
