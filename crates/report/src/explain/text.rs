//! An explanation for a terminal: the sentence first, then the account, then the sites.

use std::fmt::Write;

use super::Explained;
use crate::visible::{shortened, visible};
use crate::wrapped::wrapped;
use crate::{COLUMNS, overhead};
use heap::linked::traps::Traps;
use heap::memory_managers::How;
use heap::outside::Holder;
use memory::account::{LiveBy, Part};
use memory::brief::brief;
use memory::rank::{Site, frame_name};
use memory::types::Class;
use symbols::frame::Frame;
use units::written::{bytes, bytes_interval, bytes_per_hour, percent};
use verdict::cause::Case;

/// Sites and frames that are shown; JSON and pprof have all.
const CLASSES_SHOWN: usize = 5;
const SITES_SHOWN: usize = 5;
const FRAMES_SHOWN: usize = 6;
const PYTHON_SHOWN: usize = 2;

/// The whole text, ending with a newline.
pub fn text(explained: &Explained) -> String {
    let mut out = String::new();
    head(explained, &mut out);
    account(explained, &mut out);
    let title = match explained.case.overcount {
        None => "sites of the live heap",
        Some(_) => "sites of blocks that were not seen to be freed",
    };
    sites(title, &explained.case.sites, &mut out);
    sites("sites of mappings", &explained.case.mapping_sites, &mut out);
    sites(
        "places where threads were started",
        &explained.case.stack_sites,
        &mut out,
    );
    classes(&explained.case.classes, &mut out);
    if let Some(managed) = &explained.case.managed {
        super::managed::text(managed, &mut out);
    }
    diff(explained, &mut out);
    foot(explained, &mut out);
    remedies(explained, &mut out);
    out
}

/// What could be done, each with its command.
fn remedies(explained: &Explained, out: &mut String) {
    let _ = writeln!(out, "\nremedies, and what would test them:");
    for candidate in explained.candidates() {
        let source = candidate.source.word();
        let lines = [
            ("  ", candidate.action),
            ("      ", format!("{} ({source})", candidate.predicted)),
        ];
        for (indent, words) in lines {
            let line = format!("{indent}{}", visible(&words));
            let _ = writeln!(out, "{}", wrapped(&line, COLUMNS, "      "));
        }
        if let Some(command) = candidate.command {
            // Not folded: it is to be copied.
            let _ = writeln!(out, "      {}", visible(&command));
        }
    }
}

fn head(explained: &Explained, out: &mut String) {
    let (case, verdict) = (&explained.case, &explained.verdict);
    let command = shortened(&explained.command, 60);
    let _ = writeln!(
        out,
        "{command} (pid {}), {:.0} s, {} samples\n",
        explained.pid, case.observed_s, case.snapshots
    );
    let word = verdict.word();
    // Many a sentence begins with the cause.
    let rest = verdict.sentence.strip_prefix(word).map(str::to_owned);
    let sentence = format!(
        "{}{} (confidence {:.2})",
        word.to_uppercase(),
        visible(&rest.unwrap_or_else(|| format!(": {}", verdict.sentence))),
        verdict.confidence
    );
    let _ = writeln!(out, "{}", wrapped(&sentence, COLUMNS, ""));
    let next = format!("Next: {}", visible(&verdict.next_step));
    let _ = writeln!(out, "{}\n", wrapped(&next, COLUMNS, ""));
    for limitation in &verdict.limitations {
        let _ = writeln!(
            out,
            "{}",
            wrapped(&format!("But: {}", visible(limitation)), COLUMNS, "")
        );
    }
}

fn account(explained: &Explained, out: &mut String) {
    let case = &explained.case;
    let row = |out: &mut String, name: &str, value: f64, part: Option<Part>| {
        let slope = part.and_then(|part| case.growth.get(&part));
        let slope = slope.map_or_else(String::new, |growth| bytes_per_hour(growth.slope_per_hour));
        let row = format!("  {name:<24}{:>12}{slope:>18}", bytes(value));
        let _ = writeln!(out, "{}", row.trim_end());
    };
    for part in Part::SUM {
        let undivided = case.account.live_by == LiveBy::Nobody
            && matches!(
                part,
                Part::LiveHeap | Part::AllocatorHeld | Part::Fragmentation
            );
        if undivided {
            let _ = writeln!(out, "  {:<24}{:>12}", name(part), "not known");
        } else {
            row(out, &name(part), case.account.part(part), Some(part));
        }
    }
    row(out, "RSS", case.account.rss_bytes, None);
    for part in Part::OF_WHICH {
        row(
            out,
            &format!("  of which {}", name(part)),
            case.account.part(part),
            Some(part),
        );
    }
    if case.account.swap > 0.0 {
        row(out, "(swapped out)", case.account.swap, None);
    }
    outside(case, out);
    let covered = percent(case.account.coverage);
    let accounts = match (&explained.probe, &case.traps) {
        (Some(_), _) => format!("the probe accounts for {covered} of anonymous memory"),
        (None, Some(_)) => format!("uprobes account for {covered} of anonymous memory"),
        (None, None) => "no probe".to_owned(),
    };
    let by = live_by(case.account.live_by);
    let _ = writeln!(out, "  {accounts}; live heap by {by}");
    if let Some(witness) = case.account.witness {
        let _ = writeln!(
            out,
            "  cross-check: {} in use by glibc's own headers",
            bytes(witness)
        );
    }
}

/// What is in no mapping, and grew.
fn outside(case: &Case, out: &mut String) {
    for one in &case.outside {
        let Some((holder, _)) = one.grown.first() else {
            continue;
        };
        let name = match holder {
            Holder::Unread(_) | Holder::Unsent(_) => "beside RSS: sockets",
            Holder::Files(_) | Holder::Unnamed(_) => "beside RSS: tmpfs files",
            Holder::Kernel(_) if holder.is_cache() => "beside RSS: page cache",
            Holder::Kernel(_) => "beside RSS: kernel",
        };
        let (level, slope) = (one.growth.level, one.growth.slope_per_hour);
        let row = format!(
            "  {name:<24}{:>12}{:>18}",
            bytes(level),
            bytes_per_hour(slope)
        );
        let _ = writeln!(out, "{}", row.trim_end());
    }
}

fn name(part: Part) -> String {
    part.word().replace('_', " ")
}

fn live_by(by: LiveBy) -> &'static str {
    match by {
        LiveBy::ProbeExact => "the probe's exact counters (usable bytes)",
        LiveBy::ProbeSampled => "the probe's samples (usable bytes)",
        LiveBy::SinceAttached => "samples of what was allocated since uprobes were put on",
        LiveBy::Headers | LiveBy::HeadersBesideProbe => "glibc's own headers",
        LiveBy::ResidentHeap => "the resident heap, the most that can be live",
        LiveBy::Nobody => "nobody",
    }
}

fn sites(title: &str, sites: &[Site], out: &mut String) {
    let shown: Vec<&Site> = sites.iter().take(SITES_SHOWN).collect();
    if shown.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{title}, by share of growth:");
    for site in shown {
        let (lo, hi) = site.growth.interval();
        let share = match site.share_of_growth {
            0.0 => "-".to_owned(),
            share => percent(share),
        };
        let _ = writeln!(
            out,
            "  {share:>8}  {} outstanding{}{}",
            bytes_interval(site.growth.now.bytes, lo, hi),
            grown(site),
            ages(site)
        );
        if !site.through.is_empty() {
            let through: Vec<String> = site.through.iter().map(short).collect();
            let words = format!("by way of {}, which others use too", through.join(", "));
            let _ = writeln!(out, "            {}", shortened(&words, COLUMNS - 12));
        }
        if !site.owns.is_empty() {
            let owns: Vec<String> = site.owns.iter().map(short).collect();
            let words = format!("with what its blocks hold from {}", owns.join(", "));
            let _ = writeln!(out, "            {}", shortened(&words, COLUMNS - 12));
        }
        for line in stack(&site.frames) {
            let _ = writeln!(out, "            {line}");
        }
    }
}

/// The innermost frames. Where functions that a runtime runs lie further out, the first of them too.
fn stack(frames: &[Frame]) -> Vec<String> {
    let place = |frame: &Frame| place(frame, COLUMNS - 12);
    let native = FRAMES_SHOWN - PYTHON_SHOWN - 1;
    let python = frames.iter().position(Frame::is_managed);
    let Some(python) = python.filter(|python| python + PYTHON_SHOWN > FRAMES_SHOWN) else {
        return frames.iter().take(FRAMES_SHOWN).map(place).collect();
    };
    let mut lines: Vec<String> = frames[..native].iter().map(place).collect();
    lines.push(format!("… {} more", python - native));
    lines.extend(frames[python..].iter().take(PYTHON_SHOWN).map(place));
    lines
}

fn classes(classes: &[Class], out: &mut String) {
    if classes.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\nclasses whose objects become more in glibc's heap (without what they own):"
    );
    for class in classes.iter().take(CLASSES_SHOWN) {
        let row = format!(
            "  {:>12}  {:>9} objects, +{:.0}  {}",
            format!("+{}", bytes(class.grown_bytes)),
            class.count,
            class.grown_count,
            brief(&class.name)
        );
        let _ = writeln!(out, "{}", shortened(&row, COLUMNS));
    }
}

/// The function and its line. Of a long path the end says more than the beginning.
fn place(frame: &Frame, columns: usize) -> String {
    let name = short(frame);
    let file = frame.file.as_deref().unwrap_or(&frame.module);
    let line = frame
        .line
        .map_or_else(String::new, |line| format!(":{line}"));
    let room = columns.saturating_sub(name.chars().count() + 1 + line.len());
    shortened(&format!("{name} {}{line}", ending(file, room)), columns)
}

/// As many whole parts of a path, from its end, as there is room for; one at least.
fn ending(path: &str, room: usize) -> String {
    if path.chars().count() <= room {
        return path.to_owned();
    }
    let fits = |rest: &&str| rest.chars().count() < room;
    let mut ends = path.match_indices('/').map(|(at, _)| &path[at..]);
    let rest = ends.clone().find(fits).or_else(|| ends.next_back());
    rest.map_or_else(|| path.to_owned(), |rest| format!("…{rest}"))
}

fn short(frame: &Frame) -> String {
    brief(&frame_name(frame))
}

fn grown(site: &Site) -> String {
    match site.share_of_growth {
        0.0 => String::new(),
        _ => format!(", +{}", bytes(site.growth.grown_bytes)),
    }
}

fn ages(site: &Site) -> String {
    if site.growth.allocated_bytes == 0.0 {
        return String::new();
    }
    let lost = site.lost.map_or_else(String::new, |(lost, asked)| {
        format!("; {lost} of {asked} older blocks unreachable")
    });
    format!(
        ", {} freed; age {:.0} s median, {:.0} s oldest{lost}",
        percent(site.growth.freed_share()),
        site.growth.ages.median_s,
        site.growth.ages.max_s
    )
}

fn diff(explained: &Explained, out: &mut String) {
    let Some(diff) = &explained.diff else { return };
    let _ = writeln!(out, "\nfrom {:.0} s to {:.0} s:", diff.from_s, diff.to_s);
    for (name, before, after) in &diff.parts {
        if before != after {
            let grown = bytes(after - before);
            let _ = writeln!(
                out,
                "  {name:<24}{:>12} -> {:>12}{grown:>14}",
                bytes(*before),
                bytes(*after)
            );
        }
    }
    sites("sites between the two moments", &diff.sites, out);
}

fn foot(explained: &Explained, out: &mut String) {
    out.push('\n');
    for (allocator, seen) in &explained.allocators {
        let how = match allocator.how {
            How::Preloaded => "preloaded",
            How::Linked => "linked in",
            How::Libc => "the C library's own",
        };
        let version = allocator.version.as_deref().unwrap_or("");
        let sight = if *seen { "sampled" } else { "not sampled" };
        let _ = writeln!(
            out,
            "allocator {} {version} ({how}), {sight}",
            allocator.name
        );
    }
    if let Some(probe) = explained.probe {
        let _ = writeln!(
            out,
            "probe: {} samples, {} dropped",
            probe.samples, probe.dropped
        );
    }
    if let Some(traps) = &explained.case.traps {
        let _ = writeln!(out, "{}", on_traps(traps));
    }
    out.push_str(&overhead::text(&explained.overhead, COLUMNS));
    for other in &explained.others {
        let _ = writeln!(
            out,
            "also pid {} ({}): RSS {}, grew by {}{}",
            other.pid,
            shortened(&other.command, 40),
            bytes(other.rss_bytes),
            bytes(other.grown_bytes),
            if other.ended { ", ended" } else { "" }
        );
    }
    for note in &explained.notes {
        let _ = writeln!(out, "{}", wrapped(&visible(note), COLUMNS, ""));
    }
}

fn on_traps(traps: &Traps) -> String {
    let watched = match traps.watched_share < 1.0 {
        true if traps.sees_frees => {
            format!(
                ", allocations sampled for {} of the time",
                percent(traps.watched_share)
            )
        }
        true => format!(", on for {} of the time", percent(traps.watched_share)),
        false => String::new(),
    };
    format!(
        "uprobes: on {} functions, {:.0} hits a second of {:.0} ns each, {} samples of {:.1} us, \
         {:.1} % of a core{watched}",
        traps.functions,
        traps.hits_per_second,
        traps.hit_ns(),
        traps.samples,
        traps.cost.sample_ns / 1e3,
        100.0 * traps.core_share
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use symbols::frame::PYTHON_MODULE;

    fn at(function: &str, file: &str, line: u32) -> Frame {
        Frame {
            function: Some(function.to_owned()),
            file: Some(file.to_owned()),
            line: Some(line),
            ..Frame::default()
        }
    }

    #[test]
    fn functions_of_python_are_shown_however_deep_the_library_is() {
        let native = |number: u32| at(&format!("inner_{number}"), "/srv/rows.c", number);
        let python = |name: &str, line: u32| Frame {
            module: PYTHON_MODULE.to_owned(),
            ..at(name, "/srv/shop.py", line)
        };
        let shown = |natives: u32| {
            let natives = (1..=natives).map(native);
            let outside = [python("handle", 7), python("serve", 8), python("main", 9)];
            let frames: Vec<Frame> = natives.chain(outside).collect();
            let lines = stack(&frames).into_iter();
            let names = lines.map(|line| line.split(" /").next().unwrap().to_owned());
            names.collect::<Vec<String>>().join(" ")
        };
        assert_eq!(shown(2), "inner_1 inner_2 handle serve main");
        assert_eq!(shown(4), "inner_1 inner_2 inner_3 inner_4 handle serve");
        assert_eq!(shown(5), "inner_1 inner_2 inner_3 … 2 more handle serve");
        assert_eq!(shown(9), "inner_1 inner_2 inner_3 … 6 more handle serve");
        assert_eq!(stack(&[native(1)]).len(), 1);
    }

    #[test]
    fn of_a_long_path_the_end_is_kept() {
        let list = at(
            "list_resize",
            "/build/Python-3.11.7/Objects/listobject.c",
            65,
        );
        assert_eq!(
            place(&list, 60),
            "list_resize /build/Python-3.11.7/Objects/listobject.c:65"
        );
        assert_eq!(place(&list, 40), "list_resize …/Objects/listobject.c:65");
        assert_eq!(place(&list, 30), "list_resize …/listobject.c:65");
        let bare = at("main", "a_name_without_a_folder.c", 3);
        assert_eq!(place(&bare, 16), "main a_name_wit…");
    }
}
