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

    /// What so many hands do, in order, and how it ends.
    fn done(hands: usize, work: impl Fn(usize) -> Result<bool> + Sync) -> (Result<()>, Vec<usize>) {
        let items: Vec<usize> = (0..100).collect();
        let done = Mutex::new(Vec::new());
        let end = each(&items, hands, |hand, item| {
            assert!(hand < hands);
            done.lock().unwrap().push(*item);
            work(*item)
        });
        let mut done = done.into_inner().unwrap();
        done.sort_unstable();
        (end, done)
    }

    #[test]
    fn every_item_is_done_once() {
        for hands in [1, 3, 200] {
            let (end, done) = done(hands, |_| Ok(true));
            assert_eq!((end.is_ok(), done), (true, (0..100).collect()));
        }
    }

    #[test]
    fn nothing_begins_after_the_end() {
        let stops = |item| Ok(item != 10);
        let fails = |item| match item {
            10 => Err(Error::invalid("the tenth")),
            _ => Ok(true),
        };
        let (end, stopped) = done(1, stops);
        assert_eq!((end.is_ok(), stopped), (true, (0..=10).collect()));
        let (end, failed) = done(1, fails);
        assert_eq!(
            (end.unwrap_err().message(), failed),
            ("the tenth", (0..=10).collect())
        );
        // Others may be ahead by then, but leave nothing out.
        let (end, failed) = done(3, fails);
        assert_eq!(end.unwrap_err().message(), "the tenth");
        assert!(failed.len() > 10);
        assert_eq!(failed, (0..failed.len()).collect::<Vec<_>>());
    }
}
