//! Several at work at the same time.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use akg::Result;

/// Goes through `items` in order, `hands` of them at a time, each with the number of the hand that does it. Once `work`
/// gives `false` or fails, what is begun is finished and nothing else is begun.
///
/// # Errors
/// Those of `work`, of one hand if several fail.
pub(super) fn each<T: Sync>(
    items: &[T],
    hands: usize,
    work: impl Fn(usize, &T) -> Result<bool> + Sync,
) -> Result<()> {
    let (next, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let hand = |number: usize| -> Result<()> {
        while !over.load(Ordering::Relaxed)
            && let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let done = work(number, item);
            if !matches!(done, Ok(true)) {
                over.store(true, Ordering::Relaxed);
            }
            done?;
        }
        Ok(())
    };
    let hand = &hand;
    thread::scope(|scope| {
        let hands: Vec<_> = (0..hands.max(1))
            .map(|number| scope.spawn(move || hand(number)))
            .collect();
        let ends = hands
            .into_iter()
            .map(|hand| hand.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ends.collect::<Vec<_>>().into_iter().collect()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use akg::Error;

    use super::*;

    /// Works with three hands; gives what was done, in order.
    fn done(work: impl Fn(usize) -> Result<bool> + Sync) -> (Result<()>, Vec<usize>) {
        let items: Vec<usize> = (0..100).collect();
        let done = Mutex::new(Vec::new());
        let end = each(&items, 3, |hand, item| {
            assert!(hand < 3);
            done.lock().unwrap().push(*item);
            work(*item)
        });
        let mut done = done.into_inner().unwrap();
        done.sort_unstable();
        (end, done)
    }

    #[test]
    fn every_item_is_done_once() {
        let (end, done) = done(|_| Ok(true));
        assert_eq!((end.is_ok(), done), (true, (0..100).collect()));
    }

    #[test]
    fn nothing_begins_after_the_end() {
        let (end, stopped) = done(|item| Ok(item != 10));
        assert!(end.is_ok());
        assert!((11..=13).contains(&stopped.len()), "{stopped:?}");
        let (end, failed) = done(|item| match item {
            10 => Err(Error::invalid("the tenth")),
            _ => Ok(true),
        });
        assert_eq!(end.unwrap_err().message(), "the tenth");
        assert!((11..=13).contains(&failed.len()), "{failed:?}");
    }
}
