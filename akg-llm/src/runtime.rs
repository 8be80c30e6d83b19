//! The runtime behind sockets and clocks. akg's callers bring an executor of any kind, or none but `block_on`; so this crate
//! has a tokio runtime of its own, one thread that waits for both.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::OnceLock;
use std::time::Duration;

use akg_core::{Error, Result};
use tokio::runtime::{Builder, Runtime};

static RUNTIME: OnceLock<io::Result<Runtime>> = OnceLock::new();

fn runtime() -> Result<&'static Runtime> {
    let start = || {
        Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("akg-llm")
            .enable_all()
            .build()
    };
    RUNTIME.get_or_init(start).as_ref().map_err(|e| {
        let cause = io::Error::new(e.kind(), e.to_string());
        Error::io("cannot start the thread that waits for language models", cause)
    })
}

/// Awaits a future that needs tokio, on whatever executor the caller has. It is polled by the caller; only sockets and
/// clocks are the runtime's.
pub(crate) async fn inside<T>(future: impl Future<Output = T>) -> Result<T> {
    let runtime = runtime()?;
    let mut future = pin!(future);
    let output = poll_fn(|context| {
        let _entered = runtime.enter();
        future.as_mut().poll(context)
    });
    Ok(output.await)
}

/// Waits.
pub(crate) async fn sleep(wait: Duration) -> Result<()> {
    // The clock is read when the sleep is made, so that is done inside, too.
    inside(async { tokio::time::sleep(wait).await }).await
}

/// What `future` gives; `None` if it takes longer than `limit`.
pub(crate) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Result<Option<T>> {
    inside(async { tokio::time::timeout(limit, future).await.ok() }).await
}
