//! The answer in one sentence, from where the arms stand.
//!
//! The rule, in order: nothing could be judged; the control could not be judged; the control does
//! not grow (nothing to fix); the control grows and some allocator does not (the allocator holds
//! the memory); every allocator grows and a changed program does not (the cause is in the program);
//! nothing stops the growth.

use super::Finding;
use super::phrases::{
    clause, costs, level, list, lowest, name, names, slope, slope_range, times, verb,
};
use super::standing::{Change, Class, Standing};
use crate::Label;
use record::run::Run;
use units::written;

pub struct Answer {
    pub headline: String,
    pub decided: bool,
    pub needs: Option<String>,
}

/// A change that leaves less than this share of the control's growth has found most of its cause.
const SLOWER: f64 = 0.5;

/// "`fixed` slows it to 0.003x (+288 KiB/h)".
fn slows(standing: &Standing) -> Option<String> {
    let ratio = written::digits(standing.slope_ratio?);
    let (name, rate) = (name(standing), slope(standing));
    Some(format!("{name} slows it to {ratio}x ({rate})"))
}

/// All arms, with the control first at hand.
struct Scene<'a> {
    run: &'a Run,
    all: &'a [Standing<'a>],
    control: &'a Standing<'a>,
}

pub fn answer(run: &Run, all: &[Standing], findings: &[Finding]) -> Answer {
    let control = all
        .iter()
        .find(|standing| standing.change == Change::Control);
    let mut answer = match control {
        None => undecided("there is no control arm to compare with".to_string(), None),
        Some(control) => Scene { run, all, control }.answer(),
    };
    let weakened = match findings.len() {
        0 => return answer,
        1 => "one finding weakens this".to_string(),
        n => format!("{n} findings weaken this"),
    };
    let sentence = answer.headline.trim_end_matches('.');
    answer.headline = format!("{sentence}; {weakened}.");
    answer
}

fn undecided(why: String, needs: Option<String>) -> Answer {
    Answer {
        headline: format!("Undecided: {why}."),
        decided: false,
        needs,
    }
}

impl Scene<'_> {
    fn answer(&self) -> Answer {
        match self.control.class {
            _ if self.all.iter().all(|s| s.class == Class::Ended) => self.nothing_ran(),
            _ if self
                .all
                .iter()
                .all(|s| matches!(s.class, Class::Undecided | Class::Ended)) =>
            {
                undecided(
                    "no arm's memory can be classified yet".to_string(),
                    self.needs(),
                )
            }
            Class::Undecided | Class::Ended => self.control_untold(),
            Class::Unclear => self.control_unclear(),
            Class::Bounded => self.finish(self.nothing_to_fix()),
            Class::Growing => self.finish(self.growing()),
        }
    }

    fn nothing_ran(&self) -> Answer {
        let why = self.control.row.aborted.as_deref().unwrap_or("it ended");
        let name = name(self.control);
        undecided(
            format!(
                "no arm lived long enough to be classified; the control {name}: {}",
                clause(why)
            ),
            Some("arms that stay alive: see their logs in the run folder".to_string()),
        )
    }

    /// The other arms may still be told; nothing can be said against the control.
    fn control_untold(&self) -> Answer {
        let control = name(self.control);
        let (why, own_need) = match (self.control.class, self.control.row.aborted.as_deref()) {
            (Class::Ended, Some(why)) => (
                format!("ended too early to be classified ({})", clause(why)),
                Some(format!(
                    "{control}: a control that stays alive, see its log in the run folder"
                )),
            ),
            _ => ("cannot be classified yet".to_string(), None),
        };
        let others = [
            (Class::Growing, "grows", "grow"),
            (Class::Bounded, "does not grow", "do not grow"),
        ];
        let mut words = format!("the control {control} {why}");
        for (class, one, many) in others {
            let arms = self.with(|s| s.class == class);
            if !arms.is_empty() {
                words += &format!("; {} {}", names(&arms), verb(&arms, one, many));
            }
        }
        let needs: Vec<String> = own_need.into_iter().chain(self.needs()).collect();
        undecided(
            words,
            Some(needs.join("; ")).filter(|needs| !needs.is_empty()),
        )
    }

    fn control_unclear(&self) -> Answer {
        let name = name(self.control);
        let memory = &self.control.row.memory;
        if memory.label == Label::Stepped {
            return undecided(
                format!(
                    "the control {name} moves in steps, flat between them: whether it grows depends on the next{}",
                    self.lower_by_now()
                ),
                Some("a run long enough to hold several steps, or their cause".to_string()),
            );
        }
        let who: Vec<String> = memory
            .outliers
            .iter()
            .map(|o| format!("`{}`", o.id))
            .collect();
        let who = match who.is_empty() {
            true => String::new(),
            false => format!(" ({} {})", list(&who), verb(&who, "differs", "differ")),
        };
        undecided(
            format!(
                "the processes of the control {name} disagree{who}, so nothing can be compared with it"
            ),
            Some("the reason why processes of one arm differ, or more replicas".to_string()),
        )
    }

    fn nothing_to_fix(&self) -> String {
        let control = format!(
            "the control {} does not grow ({})",
            name(self.control),
            level(self.control)
        );
        let growing = self.with(|s| s.class == Class::Growing);
        let grows = match growing.is_empty() {
            true => String::new(),
            false => {
                let range = slope_range(&growing);
                format!(
                    "; {} {} ({range})",
                    names(&growing),
                    verb(&growing, "does", "do")
                )
            }
        };
        match self.lowest_below_control() {
            Some(best) => format!(
                "No growth to fix: {control}{grows}; {} needs less: {}{}",
                name(best),
                level(best),
                costs(best, self.control)
            ),
            None => format!("Nothing to fix: {control}{grows}"),
        }
    }

    fn growing(&self) -> String {
        let stops = |change| self.with(|s| s.class == Class::Bounded && s.change == change);
        let (allocators, programs) = (stops(Change::Allocator), stops(Change::Program));
        match (allocators.is_empty(), programs.is_empty()) {
            (false, _) => self.allocator_stops(&allocators, &programs),
            (true, false) => self.program_stops(&programs),
            (true, true) => self.nothing_stops(),
        }
    }

    fn allocator_stops(&self, allocators: &[&Standing], programs: &[&Standing]) -> String {
        let best = lowest(allocators).unwrap_or(self.control);
        let of_best = format!("{}{}", level(best), costs(best, self.control));
        let who = match allocators.len() {
            1 => format!("{} does not ({of_best})", name(best)),
            _ => format!(
                "{} do not (lowest {}: {of_best})",
                names(allocators),
                name(best)
            ),
        };
        let grow = self.with(|s| s.class == Class::Growing && s.change == Change::Allocator);
        let others = match grow.is_empty() {
            true => String::new(),
            false => format!(", and so {} {}", verb(&grow, "does", "do"), names(&grow)),
        };
        let because = match programs.is_empty() {
            true => "the allocator holds the memory, the program does not leak it".to_string(),
            false => format!(
                "the program does not leak; {} {} it as well",
                names(programs),
                verb(programs, "stops", "stop")
            ),
        };
        let (control, rate) = (name(self.control), slope(self.control));
        format!("{control} grows ({rate}){others}; {who}: {because}")
    }

    fn program_stops(&self, programs: &[&Standing]) -> String {
        let stop = format!(
            "only {} {} it",
            names(programs),
            verb(programs, "stops", "stop")
        );
        let best = lowest(programs).unwrap_or(self.control);
        let beside = format!("{}{}", level(best), costs(best, self.control));
        match self
            .with(|s| s.change == Change::Allocator && s.class == Class::Growing)
            .len()
        {
            0 => format!(
                "Memory grows in the control {} ({}); {stop} ({beside})",
                name(self.control),
                slope(self.control)
            ),
            _ if self.undecided_allocators().is_empty() => format!(
                "{}: not fragmentation, the cause is in the program; {stop} ({beside})",
                self.every_allocator_grows()
            ),
            _ => format!("{}; {stop} ({beside})", self.every_allocator_grows()),
        }
    }

    fn nothing_stops(&self) -> String {
        let programs = self.with(|s| s.change == Change::Program && s.class == Class::Growing);
        let ended = self.with(|s| s.change == Change::Program && s.class == Class::Ended);
        let allocators = self.with(|s| s.change == Change::Allocator && s.class == Class::Growing);
        let mut tried = Vec::new();
        let (slower, as_fast): (Vec<&Standing>, Vec<&Standing>) = programs
            .into_iter()
            .partition(|s| s.slope_ratio.is_some_and(|ratio| ratio < SLOWER));
        tried.extend(slower.iter().filter_map(|s| slows(s)));
        if !as_fast.is_empty() {
            tried.push(format!(
                "{} {} not stop it",
                names(&as_fast),
                verb(&as_fast, "does", "do")
            ));
        }
        if !ended.is_empty() {
            tried.push(format!("{} ended too early to tell", names(&ended)));
        }
        if tried.is_empty() {
            tried.push(match allocators.is_empty() {
                true => "nothing else was tried that could be classified".to_string(),
                false => {
                    "another allocator does not stop it, and no other change was tried".to_string()
                }
            });
        }
        let grows = match allocators.is_empty() {
            true => format!(
                "Memory grows in the control {} ({})",
                name(self.control),
                slope(self.control)
            ),
            false => self.every_allocator_grows(),
        };
        format!("{grows}; {}", tried.join("; "))
    }

    /// "Memory grows under all 6 allocators alike (+281 to +300 MiB/h)".
    fn every_allocator_grows(&self) -> String {
        let is_allocator = |s: &Standing| matches!(s.change, Change::Control | Change::Allocator);
        let growing = self.with(|s| is_allocator(s) && s.class == Class::Growing);
        let unlike: Vec<&Standing> = growing
            .iter()
            .copied()
            .filter(|s| s.change == Change::Allocator && !s.is_alike)
            .collect();
        let undecided = self.undecided_allocators();
        let ended = self.with(|s| is_allocator(s) && s.class == Class::Ended);
        let count = match (undecided.is_empty(), growing.len()) {
            (true, 2) => "both allocators".to_string(),
            (true, n) => format!("all {n} allocators"),
            (false, n) => format!("{n} of {} allocators", n + undecided.len()),
        };
        let ran = if ended.is_empty() { "" } else { " that ran" };
        let alike: Vec<&Standing> = growing
            .iter()
            .copied()
            .filter(|s| s.change == Change::Control || s.is_alike)
            .collect();
        let word = if unlike.is_empty() { " alike" } else { "" };
        let mut rates = match unlike.is_empty() || alike.len() == 1 {
            true => slope_range(&alike),
            false => format!("{} alike, {}", alike.len(), slope_range(&alike)),
        };
        let faster: Vec<String> = unlike.iter().filter_map(|s| times(s)).collect();
        if !faster.is_empty() {
            rates += &format!("; {} as fast", list(&faster));
        }
        for (class, words) in [
            (Class::Undecided, "cannot be classified yet"),
            (Class::Unclear, "may or may not grow"),
        ] {
            let arms: Vec<&Standing> = undecided
                .iter()
                .copied()
                .filter(|s| s.class == class)
                .collect();
            if !arms.is_empty() {
                rates += &format!("; {} {words}", names(&arms));
            }
        }
        format!("Memory grows under {count}{ran}{word} ({rates})")
    }

    fn undecided_allocators(&self) -> Vec<&Standing<'_>> {
        let untold = |s: &Standing| matches!(s.class, Class::Undecided | Class::Unclear);
        self.with(|s| s.change == Change::Allocator && untold(s))
    }

    /// The control is told; the question is answered when every other arm that lives is told as
    /// well.
    fn finish(&self, mut headline: String) -> Answer {
        let open = self.with(|s| s.class == Class::Undecided);
        if !open.is_empty() && !headline.contains("cannot be classified yet") {
            headline += &format!("; {} cannot be classified yet", names(&open));
        }
        headline += &self.stepped_below().unwrap_or_default();
        if let Some(first) = headline.get(..1) {
            headline.replace_range(..1, &first.to_uppercase());
        }
        Answer {
            headline: headline + ".",
            decided: open.is_empty(),
            needs: self.needs(),
        }
    }

    /// What the undecided arms need, each need once with its arms.
    fn needs(&self) -> Option<String> {
        let mut needs: Vec<(String, Vec<&Standing>)> = Vec::new();
        for standing in self.with(|s| s.class == Class::Undecided) {
            let left = self.run.experiment.duration;
            let longer = format!("a longer run than {}", written::duration(left));
            let need = standing.row.memory.needs.clone().unwrap_or(longer);
            match needs.iter_mut().find(|(known, _)| *known == need) {
                Some((_, arms)) => arms.push(standing),
                None => needs.push((need, vec![standing])),
            }
        }
        let words = needs
            .iter()
            .map(|(need, arms)| format!("{}: {need}", names(arms)));
        let words = words.collect::<Vec<_>>().join("; ");
        (!words.is_empty()).then_some(words)
    }

    /// What is decided while it is open who grows: how much less the others need by now.
    fn lower_by_now(&self) -> String {
        let arms = self.lower(|s| s.class != Class::Growing);
        match arms.is_empty() {
            true => String::new(),
            false => format!("; others need less by now: {} of its memory", list(&arms)),
        }
    }

    /// Arms that move in steps are not said to stop growth; that they need less than the control is decided all
    /// the same.
    fn stepped_below(&self) -> Option<String> {
        let arms = self.lower(|s| s.row.memory.label == Label::Stepped);
        let words = format!(
            "; in steps, but lower: {} of the control's memory",
            list(&arms)
        );
        (!arms.is_empty()).then_some(words)
    }

    /// "`a` 0.32x [0.22, 0.44]" for each of the wanted arms whose level is decided to be below the control's.
    fn lower(&self, is_wanted: impl Fn(&Standing) -> bool) -> Vec<String> {
        let words = |s: &&Standing| {
            let ratio = s.pair.filter(|pair| pair.decided)?.ratio;
            let ratio = ratio.filter(|ratio| ratio.hi < 1.0)?;
            let times = written::ratio(ratio.value, ratio.lo, ratio.hi);
            Some(format!("{} {times}", name(s)))
        };
        self.with(is_wanted).iter().filter_map(words).collect()
    }

    /// The arm with the lowest level whose ratio to the control is decided and wholly below 1.
    fn lowest_below_control(&self) -> Option<&Standing<'_>> {
        let below = |s: &Standing| {
            let ratio = s
                .pair
                .filter(|pair| pair.decided)
                .and_then(|pair| pair.ratio);
            s.class == Class::Bounded && ratio.is_some_and(|ratio| ratio.hi < 1.0)
        };
        lowest(&self.with(below))
    }

    fn with(&self, is_wanted: impl Fn(&Standing) -> bool) -> Vec<&Standing<'_>> {
        self.all
            .iter()
            .filter(|standing| is_wanted(standing))
            .collect()
    }
}
