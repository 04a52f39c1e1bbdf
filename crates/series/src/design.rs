//! What was worked out of a window before there were readings, kept for the next window with the same times: the
//! processes of one run, or of one file, are read together. It saves work and changes no bit of a verdict.

use std::cell::RefCell;

use super::columns::Columns;
use super::linear::Window;
use super::noise::{Noise, hypotheses};
use super::whitened::Whitened;

/// Columns, and the ground of each hypothesis on the noise.
#[derive(Clone)]
pub struct Design {
    pub columns: Columns,
    /// `None` where the nuisance columns say the same.
    pub grounds: Vec<Option<Whitened>>,
}

/// So many windows in a row must have other times than those that are kept before theirs are: among many series of one
/// rhythm some have gaps.
const MISSES: u32 = 16;

/// The times of a window, with what is known of them.
struct Kept {
    x: Vec<f64>,
    gap: Vec<f64>,
    thin: Vec<f64>,
    design: Design,
    missed: u32,
}

thread_local! {
    static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

impl Kept {
    fn is_of(&self, window: &Window) -> bool {
        (&self.x, &self.gap, &self.thin) == (&window.x, &window.gap, &window.thin)
    }
}

impl Design {
    /// What is known of the times of this window.
    pub fn of(window: &Window) -> Design {
        if !window.nuisance.is_empty() {
            return Design::new(window);
        }
        let known = KEPT.with_borrow_mut(|kept| {
            let kept = kept.as_mut()?;
            let same = kept.is_of(window);
            kept.missed = if same {
                0
            } else {
                kept.missed.saturating_add(1)
            };
            same.then(|| kept.design.clone())
        });
        known.unwrap_or_else(|| Design::new(window))
    }

    fn new(window: &Window) -> Design {
        let whitened = |noise: &Noise| Whitened::new(window, noise);
        Design {
            columns: Columns::over(&window.x),
            grounds: hypotheses().iter().map(whitened).collect(),
        }
    }
}

/// Keeps a design for the windows to come on this thread, unless another is still in use.
pub fn keep(window: &Window, design: impl FnOnce() -> Design) {
    if !window.nuisance.is_empty() {
        return;
    }
    KEPT.with_borrow_mut(|kept| {
        let used = kept
            .as_ref()
            .is_some_and(|kept| (1..MISSES).contains(&kept.missed));
        if !used {
            *kept = Some(Kept {
                x: window.x.clone(),
                gap: window.gap.clone(),
                thin: window.thin.clone(),
                design: design(),
                missed: 0,
            });
        }
    });
}
