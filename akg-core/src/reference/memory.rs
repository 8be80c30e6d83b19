//! Memory for the elements of large values.

use super::strided::Item;

/// Bytes from which on memory is worth large pages.
#[cfg(target_os = "linux")]
const LARGE: usize = 8 << 20;

/// So many elements of value zero, to be overwritten.
///
/// Large ones lie in large pages where the system grants them: the first write to a page of 4 KiB takes it longer than
/// the evaluation takes for what is written there.
pub(super) fn zeros<E: Item>(len: usize) -> Vec<E> {
    let zeros = vec![E::default(); len];
    #[cfg(target_os = "linux")]
    if size_of_val(zeros.as_slice()) >= LARGE {
        ask_for_large_pages(&zeros);
    }
    zeros
}

#[cfg(target_os = "linux")]
fn ask_for_large_pages<E>(elements: &[E]) {
    let page = rustix::param::page_size();
    let bytes = elements.as_ptr_range();
    let start = bytes.start.addr().next_multiple_of(page);
    let length = (bytes.end.addr() / page * page).saturating_sub(start);
    let first = bytes.start.with_addr(start).cast_mut().cast();
    // SAFETY: the pages from `first` on lie within `elements`, and this advice changes nothing that they hold.
    let granted = unsafe { rustix::mm::madvise(first, length, rustix::mm::Advice::LinuxHugepage) };
    // Small pages are as good, but slower.
    granted.ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_any_length_are_zero() {
        for len in [0, 1, (1 << 20) + 1, (3 << 20) - 1] {
            let mut values = zeros::<f64>(len);
            assert_eq!(values.len(), len);
            assert!(values.iter().all(|v| *v == 0.0));
            values.fill(1.0);
            assert!(values.iter().all(|v| *v == 1.0));
        }
    }
}
