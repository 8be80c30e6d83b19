//! The devices that share a run.

use std::collections::BTreeSet;
use std::sync::Arc;

use akg::error::ErrorKind;
use akg::{Backend, Error, Result, Target, blocking};

use super::numbers::Numbers;

/// Problems that are worked on at the same time for each device, unless the command line says otherwise.
const MOST_EACH: usize = 4;

/// Devices of one kind, a backend for each.
pub(super) struct Pool {
    pub(super) target: Target,
    pub(super) backends: Vec<Arc<dyn Backend>>,
}

impl Pool {
    /// The devices of `backend` at the chosen positions, by default the one that it has.
    ///
    /// # Errors
    /// If there is no such device, or if they are not of one kind.
    pub(super) fn of(backend: Arc<dyn Backend>, chosen: Option<&Numbers>) -> Result<Self> {
        let name = backend.name().to_owned();
        let targets = blocking::devices(&*backend)?;
        let there: BTreeSet<u32> = (0..targets.len() as u32).collect();
        let none = |what: String| Error::new(ErrorKind::NotFound, what);
        if there.is_empty() {
            return Err(none(format!("backend `{name}` finds no device")));
        }
        if let Some(missing) = chosen.and_then(|chosen| chosen.missing(&there)) {
            let count = there.len();
            return Err(none(format!(
                "backend `{name}` finds {count} devices, numbered from 0, but none with number {missing}"
            )));
        }
        let is_chosen = |position: usize| match chosen {
            Some(chosen) => chosen.contains(position as u32),
            None => position == backend.position(),
        };
        let mut pool: Option<Self> = None;
        for (position, target) in targets.into_iter().enumerate().filter(|(n, _)| is_chosen(*n)) {
            let own = (position == backend.position()).then(|| backend.clone());
            let own = own.or_else(|| backend.at(position)).ok_or_else(|| {
                Error::unsupported(format!("backend `{name}` cannot use device {position}"))
            })?;
            match &mut pool {
                None => {
                    let backends = vec![own];
                    pool = Some(Self { target, backends });
                }
                Some(pool) if pool.target.fingerprint() == target.fingerprint() => pool.backends.push(own),
                Some(pool) => {
                    return Err(Error::invalid(format!(
                        "results of different devices do not belong together: device {position} is {}, another is {}",
                        target.name, pool.target.name
                    )));
                }
            }
        }
        pool.ok_or_else(|| none(format!("backend `{name}` finds no device at its own position")))
    }

    /// How many problems are worked on at the same time.
    ///
    /// # Errors
    /// If more were asked for than leave times as they are.
    pub(super) fn jobs(&self, asked: Option<u16>) -> Result<usize> {
        let apart = self.backends.iter().all(|b| b.capability().own_processors);
        let devices = self.backends.len();
        match asked.map(usize::from) {
            Some(jobs) if jobs > 1 && !apart => Err(Error::invalid(
                "kernels run on the processors that prepare them: a second job would disturb the times; leave --jobs out",
            )),
            Some(jobs) => Ok(jobs),
            None if !apart => Ok(1),
            None => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                Ok((cores / 4).clamp(devices, MOST_EACH * devices))
            }
        }
    }
}
