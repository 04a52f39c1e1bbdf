//! The same work on every core.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What `of` makes of each item, in their order. A core that is done takes the next item: series differ in length.
pub fn on_all<T: Sync, R: Send>(items: &[T], of: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(items.len()));
    let work = || {
        while let Some((at, item)) = take(items, &next) {
            let made = of(item);
            done.lock()
                .unwrap_or_else(|e| e.into_inner())
                .push((at, made));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..cores.min(items.len()) {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(|e| e.into_inner());
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, made)| made).collect()
}

fn take<'a, T>(items: &'a [T], next: &AtomicUsize) -> Option<(usize, &'a T)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    items.get(at).map(|item| (at, item))
}

#[cfg(test)]
mod tests {
    use super::on_all;

    #[test]
    fn every_item_once_and_in_order() {
        let items: Vec<usize> = (0..1000).collect();
        let squares: Vec<usize> = items.iter().map(|i| i * i).collect();
        assert_eq!(on_all(&items, |i| i * i), squares);
        assert!(on_all(&[] as &[usize], |i| *i).is_empty());
    }
}
