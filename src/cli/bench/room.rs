//! Memory of a device, for problems that are worked on at the same time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use akg::{Result, Task};

/// What the processes of a problem have on the device beside tensors.
const CONTEXTS: u64 = 1 << 30;

/// Copies of inputs and outputs that the judge and the candidate have at the same time: what is checked, what it is checked
/// against in twice the precision, and the candidate's own.
const JUDGED: u64 = 3;

/// Copies that PyTorch has: the module's own, those of a contest, and what its allocator keeps.
const RIVALS: u64 = 3;

/// Copies that it has in addition if it also computes at the precision of a class: 28.7 GB were seen for weights of 4.3 GB.
const MORE_RIVALS: u64 = 4;

/// Which sides PyTorch has in a contest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rivals {
    None,
    Fp32,
    /// In fp32, and at the precision of the class.
    TwoPrecisions,
}

/// Bytes that all processes of a problem together take of the device at most, as far as its tensors say.
///
/// # Errors
/// If its tensors are too large for any memory.
pub(super) fn need(task: &Task, rivals: Rivals) -> Result<u64> {
    let copies = JUDGED
        + match rivals {
            Rivals::None => 0,
            Rivals::Fp32 => RIVALS,
            Rivals::TwoPrecisions => RIVALS + MORE_RIVALS,
        };
    let tensors = task.traffic()?.saturating_mul(copies);
    Ok(CONTEXTS.saturating_add(tensors).saturating_add(task.footprint()?))
}

/// Memory that several share. Who needs more than there is gets it alone.
#[derive(Debug)]
pub(super) struct Memory {
    bytes: u64,
    taken: u64,
    holders: usize,
}

impl Memory {
    /// That of a device with so much, of which a part is never given away: what anybody needs is an estimate.
    pub(super) fn of(memory_bytes: u64) -> Self {
        Self::new(memory_bytes / 100 * 85)
    }

    pub(super) fn new(bytes: u64) -> Self {
        Self {
            bytes,
            taken: 0,
            holders: 0,
        }
    }

    /// Whether so many bytes can be taken at present.
    pub(super) fn has(&self, bytes: u64) -> bool {
        self.holders == 0 || self.taken.saturating_add(bytes) <= self.bytes
    }

    pub(super) fn take(&mut self, bytes: u64) {
        self.holders += 1;
        self.taken = self.taken.saturating_add(bytes);
    }

    /// Gives back what was taken.
    pub(super) fn give(&mut self, bytes: u64) {
        self.holders -= 1;
        self.taken = self.taken.saturating_sub(bytes);
    }
}

/// The memory of one device. Whoever asks first gets it first.
#[derive(Debug)]
pub(super) struct Room {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    memory: Memory,
    /// Of the next that asks, and of the next whose turn it is.
    tickets: u64,
    turn: u64,
}

impl Room {
    /// The room in a device with so much memory.
    pub(super) fn of(memory_bytes: u64) -> Self {
        let state = State {
            memory: Memory::of(memory_bytes),
            tickets: 0,
            turn: 0,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Whether so many bytes are there at present.
    pub(super) fn has(&self, bytes: u64) -> bool {
        self.lock().memory.has(bytes)
    }

    /// Waits until there are so many bytes, and has them until the end of what is returned.
    pub(super) fn take(&self, bytes: u64) -> Place<'_> {
        let mut state = self.lock();
        let ticket = state.tickets;
        state.tickets += 1;
        let must_wait = |state: &mut State| state.turn != ticket || !state.memory.has(bytes);
        state = self
            .changed
            .wait_while(state, must_wait)
            .unwrap_or_else(PoisonError::into_inner);
        state.turn += 1;
        state.memory.take(bytes);
        drop(state);
        self.changed.notify_all();
        Place { room: self, bytes }
    }

    /// A panic elsewhere leaves nothing half done here.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Memory that someone has.
#[derive(Debug)]
pub(super) struct Place<'a> {
    room: &'a Room,
    bytes: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.room.lock().memory.give(self.bytes);
        self.room.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    use std::thread;

    use akg::{DType, Graph};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_more_is_taken_than_there_is(needs in prop::collection::vec(0u64..150, 1..24)) {
            let room = Room::of(100);
            let (taken, holders) = (AtomicU64::new(0), AtomicUsize::new(0));
            thread::scope(|scope| {
                for &need in &needs {
                    let (room, taken, holders) = (&room, &taken, &holders);
                    scope.spawn(move || {
                        let _place = room.take(need);
                        let beside = holders.fetch_add(1, Ordering::SeqCst);
                        let all = taken.fetch_add(need, Ordering::SeqCst) + need;
                        assert!(beside == 0 || all <= 85, "{all} bytes, {beside} others");
                        thread::yield_now();
                        taken.fetch_sub(need, Ordering::SeqCst);
                        holders.fetch_sub(1, Ordering::SeqCst);
                    });
                }
            });
            let state = room.lock();
            let memory = &state.memory;
            prop_assert_eq!((memory.taken, memory.holders, state.turn), (0, 0, needs.len() as u64));
        }
    }

    #[test]
    fn a_large_one_is_not_passed_by() {
        let room = Room::of(100);
        let first = room.take(50);
        thread::scope(|scope| {
            let large = scope.spawn(|| drop(room.take(500)));
            while room.lock().tickets < 2 {
                thread::yield_now();
            }
            let small = scope.spawn(|| drop(room.take(1)));
            while room.lock().tickets < 3 {
                thread::yield_now();
            }
            assert_eq!(room.lock().turn, 1, "nobody has come in beside the first");
            assert!(!large.is_finished() && !small.is_finished());
            drop(first);
        });
    }

    #[test]
    fn more_rivals_need_more() {
        let mut graph = Graph::new("relu");
        let x = graph.input("x", DType::F32, [1 << 20]);
        let y = graph.relu(x).unwrap();
        graph.output(y);
        let task = Task::new("relu", graph);
        let need = |rivals| need(&task, rivals).unwrap() - CONTEXTS;
        let tensors = 8 << 20;
        assert_eq!(need(Rivals::None), 4 * tensors);
        assert_eq!(need(Rivals::Fp32), 7 * tensors);
        assert_eq!(need(Rivals::TwoPrecisions), 11 * tensors);
    }
}
