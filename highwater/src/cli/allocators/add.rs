//! Adding: as many at once as there are processors, since a configure script and a download keep one
//! of them waiting.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::Result;

use super::entry::Entry;
use super::{Verb, parsed};
use crate::cli::exit;
use allocators::{Library, Spec, Step, catalogue};

impl Verb {
    /// Adds each and goes on after a failure; each is said when it is there.
    pub(super) fn add(&self, specs: &[String], client: Option<&str>) -> Result<ExitCode> {
        let Some(specs) = parsed(specs) else {
            return Ok(ExitCode::from(exit::USAGE));
        };
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let done = at_once(processors, &specs, |spec| {
            self.heard(self.add_one(spec, client))
        });
        self.conclude(done)
    }

    fn add_one(&self, spec: &Spec, client: Option<&str>) -> Result<Entry> {
        self.warn_of_slow(spec);
        let bar = self.bar(spec);
        let progress = |step: Step| {
            bar.set_position(step.number());
            bar.set_message(step.to_string());
        };
        let library = match spec {
            Spec::Catalogued(recipe) if !recipe.is_system() => {
                self.cache.add(recipe, client, &progress)
            }
            _ => self.cache.ensure(spec, &progress),
        };
        bar.finish_and_clear();
        let library = library?;
        self.tell(&format!("{spec}  {}", whence(&library)))?;
        for defect in &library.defects {
            self.complain(&format!("{spec} has a known defect: {}", defect.text));
        }
        Ok(Entry::of(library))
    }

    /// Every name that can be added on this machine.
    pub(super) fn offered(&self, slow: bool) -> Vec<String> {
        let offered = catalogue()
            .iter()
            .filter(|r| !r.is_system() && (slow || r.opt_in.is_none()));
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            offered.partition(|recipe| self.cache.refuses(recipe).is_none());
        for recipe in elsewhere {
            let why = self.cache.refuses(recipe).unwrap_or_default();
            self.complain(&format!("{} is left out: {why}", recipe.label()));
        }
        here.iter().map(|recipe| recipe.label()).collect()
    }

    /// Says that a build takes long, before it does.
    fn warn_of_slow(&self, spec: &Spec) {
        let Some(why) = spec.recipe().and_then(|r| r.opt_in.as_deref()) else {
            return;
        };
        if !self.quiet && matches!(self.cache.installed(spec), Ok(None)) {
            self.complain(&format!("{spec} takes a while: {why}"));
        }
    }
}

/// Where a library comes from, and where it is.
fn whence(library: &Library) -> String {
    let place = match (&library.path, &library.loader) {
        (Some(path), _) => path,
        (None, Some(loader)) => &loader.program,
        (None, None) => return "is on this machine already".to_owned(),
    };
    format!("{}  {}", library.source, place.display())
}

/// Does one thing for each item, `count` of them at once; the answers in the order of the items.
/// What a thread starts it also waits for: builders end when the thread that started them does.
fn at_once<T: Sync, R: Send>(count: usize, items: &[T], act: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, answers) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((number, item)) = {
            let number = next.fetch_add(1, Ordering::Relaxed);
            items.get(number).map(|item| (number, item))
        } {
            let answer = act(item);
            let mut answers = answers.lock().expect("no thread panics with the lock held");
            answers.push((number, answer));
        }
    };
    thread::scope(|scope| {
        for _ in 0..count.min(items.len()) {
            scope.spawn(work);
        }
    });
    let mut answers = answers
        .into_inner()
        .expect("no thread panics with the lock held");
    answers.sort_by_key(|(number, _)| *number);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..50).collect();
        for count in [1, 3, 80] {
            let doubled = at_once(count, &items, |n| n * 2);
            assert!(doubled.iter().zip(&items).all(|(d, n)| *d == n * 2));
            assert_eq!(doubled.len(), 50);
        }
        assert!(at_once(4, &[], |n: &u32| *n).is_empty());
    }
}
