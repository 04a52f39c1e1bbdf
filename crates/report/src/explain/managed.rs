//! The inside of a managed heap: what grows in it, as text and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::COLUMNS;
use crate::visible::{shortened, visible};
use crate::wrapped::wrapped;
use memory::brief::brief;
use memory::managed::{ManagedGrowth, Rise, RootGrowth, SiteGrowth, TaskGrowth, TypeGrowth};
use memory::rank::frame_name;
use runtimes::{Frame, HeapSize, Holder, Kept};
use units::written::{bytes, bytes_per_hour, seconds};

/// Rows of each kind that the text shows; JSON has up to fifty.
const ROWS_SHOWN: usize = 6;
const HOLDERS_SHOWN: usize = 6;
const FRAMES_SHOWN: usize = 4;

pub fn text(managed: &ManagedGrowth, out: &mut String) {
    let _ = writeln!(
        out,
        "\nheap of {}, {} snapshots over {:.0} s:",
        visible(&managed.runtime),
        managed.snapshots,
        managed.over_s
    );
    sizes(managed, out);
    types(&managed.types, out);
    roots(&managed.roots, out);
    holders(&managed.holders, out);
    sites(&managed.sites, out);
    tasks(&managed.tasks, out);
    for sentence in &managed.missing {
        let line = format!("  Note: {}", visible(sentence));
        let _ = writeln!(out, "{}", wrapped(&line, COLUMNS, ""));
    }
    let stopped = match managed.paused_s > 0.0 {
        true => format!("the program was stopped for {}", seconds(managed.paused_s)),
        false => "the program was not stopped".to_owned(),
    };
    let worked = match managed.cpu_s > 0.0 {
        true => format!(", used {} of CPU meanwhile", seconds(managed.cpu_s)),
        false => String::new(),
    };
    let kept = match managed.memory_bytes {
        0 => String::new(),
        taken => format!(
            ", and keeps {} that it took when the recording started",
            bytes(taken as f64)
        ),
    };
    let _ = writeln!(
        out,
        "  reading it took {} in all; {stopped}{worked}{kept}",
        seconds(managed.reading_s)
    );
}

fn sizes(managed: &ManagedGrowth, out: &mut String) {
    let rate = |rise: &Rise| match rise.is_clear {
        true => bytes_per_hour(rise.per_hour),
        false => String::new(),
    };
    let row = |out: &mut String, name: &str, value: f64, rate: String| {
        let row = format!("  {name:<24}{:>12}{rate:>18}", bytes(value));
        let _ = writeln!(out, "{}", row.trim_end());
    };
    if let Some(objects) = &managed.objects {
        row(out, "objects", objects.level, rate(objects));
    }
    let Some(heap) = &managed.heap else { return };
    if managed.objects.is_none() {
        row(
            out,
            "in use",
            heap.used_bytes as f64,
            managed.used.as_ref().map(rate).unwrap_or_default(),
        );
    }
    let known = [
        ("committed", heap.committed_bytes),
        ("idle", heap.idle_bytes),
        ("limit", heap.limit_bytes),
    ];
    for (name, value) in known {
        if let Some(value) = value {
            row(out, name, value as f64, String::new());
        }
    }
    for (name, value) in &heap.others {
        let part = managed.parts.iter().find(|part| part.name == *name);
        let rate = part.map(|part| rate(&part.bytes)).unwrap_or_default();
        row(out, &visible(name), *value as f64, rate);
    }
}

fn types(types: &[TypeGrowth], out: &mut String) {
    if types.is_empty() {
        return;
    }
    let _ = writeln!(out, "  types that grow:");
    for of in types.iter().take(ROWS_SHOWN) {
        let row = format!(
            "  {:>12}  {:>9.0} objects, {:+.0}  {}",
            format!("+{}", bytes(of.bytes.grown)),
            of.objects.level,
            of.objects.grown,
            visible(&of.name)
        );
        let _ = writeln!(out, "{}", shortened(&row, COLUMNS));
    }
}

fn roots(roots: &[RootGrowth], out: &mut String) {
    if roots.is_empty() {
        return;
    }
    let _ = writeln!(out, "  variables whose objects grow:");
    for of in roots.iter().take(ROWS_SHOWN) {
        let row = format!(
            "  {:>12}  {:>9.0} objects, {:+.0}  {}",
            format!("+{}", bytes(of.bytes.grown)),
            of.objects.level,
            of.objects.grown,
            visible(&of.root.to_string())
        );
        let _ = writeln!(out, "{}", shortened(&row, COLUMNS));
    }
}

fn holders(holders: &[Holder], out: &mut String) {
    if holders.is_empty() {
        return;
    }
    let _ = writeln!(out, "  what keeps them alive:");
    for holder in holders.iter().take(HOLDERS_SHOWN) {
        let share = format!("{} of {}", holder.objects, holder.asked);
        let path = visible(&holder.path.join(" ")).to_string();
        let row = format!("  {share:>12}  {}: {path}", visible(&holder.type_name));
        let _ = writeln!(out, "{}", wrapped(&row, COLUMNS, "                "));
        for (how, functions) in [("used by", &holder.users), ("made by", &holder.makers)] {
            if !functions.is_empty() {
                let line = format!("                {how} {}", visible(&functions.join(", ")));
                let _ = writeln!(out, "{}", wrapped(&line, COLUMNS, "                  "));
            }
        }
    }
}

fn sites(sites: &[SiteGrowth], out: &mut String) {
    if sites.is_empty() {
        return;
    }
    let _ = writeln!(out, "  allocation sites that grow:");
    for site in sites.iter().take(ROWS_SHOWN) {
        let _ = writeln!(
            out,
            "  {:>12}  {} live ({})",
            format!("+{}", bytes(site.bytes.grown)),
            bytes(site.bytes.level),
            bytes_per_hour(site.bytes.per_hour)
        );
        frames(&site.frames, out);
    }
}

fn tasks(tasks: &[TaskGrowth], out: &mut String) {
    if tasks.is_empty() {
        return;
    }
    let _ = writeln!(out, "  tasks that become more:");
    for row in tasks.iter().take(ROWS_SHOWN) {
        let waits = row.group.waits_for.as_deref().unwrap_or("running");
        let grown = format!("+{:.0}", row.tasks.grown);
        let _ = writeln!(
            out,
            "  {grown:>12}  {:.0} now, {}",
            row.tasks.level,
            visible(waits)
        );
        frames(&row.group.frames, out);
        if let Some(maker) = &row.group.created_by {
            let line = format!("                started by {}", place(maker));
            let _ = writeln!(out, "{}", shortened(&line, COLUMNS));
        }
    }
}

fn frames(frames: &[Frame], out: &mut String) {
    for frame in frames.iter().take(FRAMES_SHOWN) {
        let line = format!("                {}", place(frame));
        let _ = writeln!(out, "{}", shortened(&line, COLUMNS));
    }
}

fn place(frame: &Frame) -> String {
    let name = brief(&frame_name(frame));
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{} {}:{line}", visible(&name), visible(file)),
        _ => visible(&name).to_string(),
    }
}

pub fn json(managed: &ManagedGrowth) -> Value {
    json!({
        "runtime": managed.runtime,
        "snapshots": managed.snapshots,
        "over_s": managed.over_s,
        "objects_bytes": managed.objects.as_ref().map(rise),
        "used_bytes": managed.used.as_ref().map(rise),
        "heap": managed.heap.as_ref().map(heap),
        "parts": managed.parts.iter().map(|of| json!({"name": of.name, "bytes": rise(&of.bytes)})).collect::<Vec<_>>(),
        "types": managed.types.iter().map(|of| json!({"name": of.name, "objects": rise(&of.objects),
            "bytes": rise(&of.bytes)})).collect::<Vec<_>>(),
        "sites": managed.sites.iter().map(|of| json!({"bytes": rise(&of.bytes), "objects": of.objects,
            "frames": of.frames.iter().map(super::frame::frame_json).collect::<Vec<_>>()})).collect::<Vec<_>>(),
        "roots": managed.roots.iter().map(|of| json!({"name": of.root.name, "type": of.root.type_name,
            "objects": rise(&of.objects), "bytes": rise(&of.bytes)})).collect::<Vec<_>>(),
        "tasks": managed.tasks.iter().map(task).collect::<Vec<_>>(),
        "holders": managed.holders.iter().map(holder).collect::<Vec<_>>(),
        "is_partial": managed.is_partial,
        "missing": managed.missing,
        "reading_s": managed.reading_s,
        "paused_s": managed.paused_s,
        "memory_bytes": managed.memory_bytes,
        "cpu_s": managed.cpu_s,
    })
}

fn rise(rise: &Rise) -> Value {
    json!({"level": rise.level, "grown": rise.grown, "per_hour": rise.per_hour, "is_clear": rise.is_clear,
        "values": rise.values})
}

fn holder(of: &Holder) -> Value {
    json!({"type": of.type_name, "path": of.path, "objects": of.objects, "asked": of.asked, "users": of.users,
        "makers": of.makers, "kept": kept(of.kept)})
}

fn kept(kept: Kept) -> &'static str {
    match kept {
        Kept::Path => "path",
        Kept::Native => "native",
        Kept::Cycle => "cycle",
        Kept::Garbage => "garbage",
    }
}

fn heap(heap: &HeapSize) -> Value {
    let others = heap
        .others
        .iter()
        .map(|(name, bytes)| json!({"name": name, "bytes": bytes}));
    json!({"used_bytes": heap.used_bytes, "committed_bytes": heap.committed_bytes, "limit_bytes": heap.limit_bytes,
        "idle_bytes": heap.idle_bytes, "collections": heap.collections, "others": others.collect::<Vec<_>>()})
}

fn task(of: &TaskGrowth) -> Value {
    json!({
        "tasks": rise(&of.tasks),
        "waits_for": of.group.waits_for,
        "stack_bytes": of.group.bytes,
        "frames": of.group.frames.iter().map(super::frame::frame_json).collect::<Vec<_>>(),
        "created_by": of.group.created_by.as_ref().map(super::frame::frame_json),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_holders_and_their_users_are_shown() {
        let rise = |level, grown| Rise {
            level,
            grown,
            per_hour: 60.0 * grown,
            is_clear: true,
            values: 15,
        };
        let managed = ManagedGrowth {
            runtime: "CPython 3.11.7".to_owned(),
            snapshots: 15,
            over_s: 56.0,
            objects: Some(rise(4e7, 1e7)),
            types: vec![TypeGrowth {
                name: "orders.Order".to_owned(),
                objects: rise(6_800.0, 3_400.0),
                bytes: rise(2e6, 1e6),
            }],
            holders: vec![Holder {
                first_new: None,
                type_name: "orders.Order".to_owned(),
                path: vec!["module app".to_owned(), ".CACHE (dict)".to_owned()],
                objects: 190,
                asked: 200,
                users: vec!["handle (app.py:31)".to_owned()],
                ..Holder::default()
            }],
            ..ManagedGrowth::default()
        };
        let mut out = String::new();
        text(&managed, &mut out);
        for line in [
            "heap of CPython 3.11.7, 15 snapshots over 56 s:",
            "      +977 KiB       6800 objects, +3400  orders.Order",
            "    190 of 200  orders.Order: module app .CACHE (dict)",
            "                used by handle (app.py:31)",
        ] {
            assert!(out.contains(line), "{line}\n{out}");
        }
        assert_eq!(
            json(&managed)["holders"][0]["users"][0],
            "handle (app.py:31)"
        );
    }
}
