//! Telling which tensor a forbidden access was about.
//!
//! The handler of fatal signals looks the address up and answers the call that is being served with
//! [`Answer::Faulted`](crate::protocol::Answer), written without allocating. A refused system call is answered in the same
//! way.

use std::ffi::c_void;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use crate::protocol::Fault;
use crate::space::Zone;
use crate::{sandbox, team};

/// Where answers go, and the call that is being served.
static REPLIES: AtomicI32 = AtomicI32::new(-1);
static REQUEST: AtomicU64 = AtomicU64::new(0);

/// The reserved addresses.
static RESERVED_START: AtomicUsize = AtomicUsize::new(0);
static RESERVED_END: AtomicUsize = AtomicUsize::new(0);

/// The zones that are mapped now.
static ZONES: AtomicPtr<Zone> = AtomicPtr::new(std::ptr::null_mut());
static ZONE_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Says where answers go.
pub(crate) fn answer_on(replies: i32) {
    REPLIES.store(replies, Ordering::Relaxed);
}

/// The number of descriptors from 0 on that are the worker's: it opens that for answers last.
pub(crate) fn descriptors() -> u32 {
    u32::try_from(REPLIES.load(Ordering::Relaxed) + 1).unwrap_or(0)
}

/// Says which call is being served.
pub(crate) fn serving(request: u64) {
    REQUEST.store(request, Ordering::Relaxed);
}

/// Says which addresses are reserved for tensors.
pub(crate) fn reserved(range: Range<usize>) {
    RESERVED_START.store(range.start, Ordering::Relaxed);
    RESERVED_END.store(range.end, Ordering::Relaxed);
}

/// Says what is mapped now. The zones must stay where they are until something else is.
pub(crate) fn watch(zones: &[Zone]) {
    ZONE_COUNT.store(0, Ordering::SeqCst);
    ZONES.store(zones.as_ptr().cast_mut(), Ordering::SeqCst);
    ZONE_COUNT.store(zones.len(), Ordering::SeqCst);
}

/// Answers with the fault at `address` if it is among the tensors. Called in a signal handler.
pub(crate) fn report(address: usize, context: *const c_void) {
    let reserved = RESERVED_START.load(Ordering::Relaxed)..RESERVED_END.load(Ordering::Relaxed);
    if !reserved.contains(&address) {
        return;
    }
    let count = ZONE_COUNT.load(Ordering::SeqCst);
    // SAFETY: `watch` was given this many zones, which still exist.
    let zones = unsafe {
        match ZONES.load(Ordering::SeqCst) {
            zones if zones.is_null() => &[],
            zones => std::slice::from_raw_parts(zones, count),
        }
    };
    let mut frame = Frame::new();
    if frame.write(locate(address, zones), is_write(context)).is_ok() {
        frame.send();
    }
}

/// Answers that a candidate made a system call that ends it. Called in a signal handler.
pub(crate) fn report_call(call: libc::c_long) {
    let mut frame = Frame::new();
    if frame.write_call(call).is_ok() {
        frame.send();
    }
}

/// The tensor that is nearest to an address in or around its pages, and how far from its beginning that is.
fn locate(address: usize, zones: &[Zone]) -> Option<(usize, i64)> {
    let distance = |zone: &Zone| {
        let end = zone.address + zone.length;
        zone.address
            .saturating_sub(address)
            .max(address.saturating_sub(end))
    };
    let (index, zone) = zones.iter().enumerate().min_by_key(|(_, zone)| distance(zone))?;
    (distance(zone) <= crate::space::GUARD).then(|| (index, address as i64 - zone.tensor as i64))
}

/// A message that is made without allocating.
struct Frame {
    bytes: [u8; 512],
    length: usize,
}

/// Bytes of a frame's header.
const HEADER: usize = 4;

impl Frame {
    fn new() -> Self {
        Self {
            bytes: [0; 512],
            length: HEADER,
        }
    }

    fn write(&mut self, place: Option<(usize, i64)>, write: Option<bool>) -> std::fmt::Result {
        let id = REQUEST.load(Ordering::Relaxed);
        write!(self, r#"{{"id":{id},"ok":{{"faulted":{{"tensor":"#)?;
        match place {
            Some((tensor, offset)) => write!(self, r#"{tensor},"offset":{offset}"#)?,
            None => write!(self, r#"null,"offset":0"#)?,
        }
        match write {
            Some(write) => write!(self, r#","write":{write}}}}}}}"#)?,
            None => write!(self, r#","write":null}}}}}}"#)?,
        }
        self.finish();
        Ok(())
    }

    fn write_call(&mut self, call: libc::c_long) -> std::fmt::Result {
        let id = REQUEST.load(Ordering::Relaxed);
        let (name, kind) = sandbox::refused_call(call);
        let (kind, thread) = (kind.name(), team::current());
        write!(
            self,
            r#"{{"id":{id},"ok":{{"failed":{{"kind":"{kind}","evidence":""#
        )?;
        write!(
            self,
            "the candidate called `{name}` (system call {call}) in {thread}: {}",
            match kind {
                "crashed" => "kernels start no threads or processes",
                _ => "what it changes would stay behind",
            }
        )?;
        write!(self, r#""}}}}}}"#)?;
        self.finish();
        Ok(())
    }

    /// Fills in the header.
    fn finish(&mut self) {
        let header = ((self.length - HEADER) as u32).to_le_bytes();
        if let Some(place) = self.bytes.first_chunk_mut() {
            *place = header;
        }
    }

    fn send(&self) {
        let bytes = self.bytes();
        // SAFETY: the bytes are there, and writing is allowed in signal handlers.
        unsafe {
            libc::write(
                REPLIES.load(Ordering::Relaxed),
                bytes.as_ptr().cast(),
                bytes.len(),
            )
        };
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

impl std::fmt::Write for Frame {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        let place = self.bytes.get_mut(self.length..end).ok_or(std::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Whether the access was a write.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn is_write(context: *const c_void) -> Option<bool> {
    /// The bit of the page fault's error code.
    const WRITE: i64 = 1 << 1;
    // SAFETY: signal handlers are given a `ucontext_t`, or nothing.
    let context = unsafe { context.cast::<libc::ucontext_t>().as_ref() }?;
    let error = context.uc_mcontext.gregs.get(libc::REG_ERR as usize)?;
    Some(error & WRITE != 0)
}

/// This processor does not say.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn is_write(_: *const c_void) -> Option<bool> {
    None
}

impl Fault {
    /// What happened, for people; `name` and `bytes` are the tensor's.
    pub(crate) fn evidence(self, name: &str, bytes: usize) -> String {
        let verb = match self.write {
            Some(true) => "wrote",
            Some(false) => "read",
            None => "accessed",
        };
        let bytes_i64 = i64::try_from(bytes).unwrap_or(i64::MAX);
        if self.offset < 0 {
            let before = self.offset.unsigned_abs();
            format!("a kernel {verb} {before} bytes before the beginning of `{name}`")
        } else if self.offset >= bytes_i64 {
            format!(
                "a kernel {verb} at byte {} of `{name}`, which has {bytes} bytes",
                self.offset
            )
        } else {
            format!("a kernel {verb} byte {} of `{name}`", self.offset)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONES: [Zone; 2] = [
        Zone {
            address: 0x40_0000,
            length: 0x2000,
            tensor: 0x40_0100,
        },
        Zone {
            address: 0x60_0000,
            length: 0x1000,
            tensor: 0x60_0000,
        },
    ];

    #[test]
    fn the_nearest_tensor_is_meant() {
        assert_eq!(locate(0x3f_ffff, &ZONES), Some((0, -0x101)));
        assert_eq!(locate(0x40_0180, &ZONES), Some((0, 0x80)));
        assert_eq!(locate(0x40_2000, &ZONES), Some((0, 0x1f00)));
        assert_eq!(locate(0x5f_fff0, &ZONES), Some((1, -16)));
        assert_eq!(locate(0x90_0000, &ZONES), None);
        assert_eq!(locate(0x40_0000, &[]), None);
    }

    #[test]
    fn refused_calls_are_failures() {
        use akg_core::verdict::FailureKind;
        for (call, kind, text) in [
            (libc::SYS_umask, FailureKind::LeftBehind, "called `umask`"),
            (libc::SYS_clone3, FailureKind::Crashed, "kernels start no threads"),
            (
                libc::SYS_sched_setscheduler,
                FailureKind::LeftBehind,
                "the main thread",
            ),
        ] {
            let mut frame = Frame::new();
            frame.write_call(call).unwrap();
            let value: serde_json::Value = crate::frame::read(&mut frame.bytes()).unwrap().unwrap();
            let failure: akg_core::verdict::Failure =
                serde_json::from_value(value["ok"]["failed"].clone()).unwrap();
            assert_eq!(failure.kind, kind);
            assert!(failure.evidence.contains(text), "{}", failure.evidence);
        }
    }

    #[test]
    fn the_answer_is_what_callers_read() {
        let cases = [
            (Some((3, -64)), Some(true)),
            (Some((0, i64::MAX)), None),
            (None, Some(false)),
        ];
        for (place, write) in cases {
            let mut frame = Frame::new();
            frame.write(place, write).unwrap();
            let value: serde_json::Value = crate::frame::read(&mut frame.bytes()).unwrap().unwrap();
            let fault: Fault = serde_json::from_value(value["ok"]["faulted"].clone()).unwrap();
            let (tensor, offset) = place.map_or((None, 0), |(t, o)| (Some(t), o));
            assert_eq!(
                fault,
                Fault {
                    tensor,
                    offset,
                    write
                }
            );
        }
    }
}
