//! The thread dump of a JVM (`jstack`), its threads grouped by name, state and stack.
//!
//! ```text
//! "pool-1-thread-1" #22 [9001] prio=5 os_prio=0 cpu=0.39ms ... nid=9001 waiting on condition  [0x00007f4d3d1fe000]
//!    java.lang.Thread.State: WAITING (parking)
//!     at jdk.internal.misc.Unsafe.park(java.base@25.0.3/Native Method)
//!     - parking to wait for  <0x00000000ffe2b4c8> (a java.util.concurrent...)
//!     at com.example.Pool.take(Pool.java:317)
//! ```

use std::collections::HashMap;

use observe::proc::area::parse_area;
use observe::proc::fields::kib_in_bytes;

use super::text::bounded;
use crate::{Frame, TaskGroup};

/// Stands as module of a frame whose class is in no module of the JDK.
pub const JAVA_MODULE: &str = "java";

/// Deeper frames are left out, so a stack that recurses is one group sooner.
const FRAMES_MAX: usize = 64;

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Thread {
    /// With `N` for each number: `pool-N-thread-N`.
    pub(super) name: String,
    /// An address on its stack.
    pub(super) stack: u64,
    /// In the JVM's words, where it does not run.
    pub(super) state: Option<String>,
    /// Innermost first.
    pub(super) frames: Vec<Frame>,
}

/// A group of threads and addresses on their stacks.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Group {
    pub(super) tasks: TaskGroup,
    stacks: Vec<u64>,
}

/// Java threads by a dump, the largest group first.
pub(super) fn parse_threads(text: &str) -> Vec<Group> {
    grouped(text.split("\n\n").filter_map(parse_thread))
}

/// The largest group first. The outermost frame of each group is the threads' name, in brackets: threads of a pool
/// differ from those of another often in nothing else.
pub(super) fn grouped(threads: impl Iterator<Item = Thread>) -> Vec<Group> {
    let mut groups: HashMap<(Option<String>, Vec<Frame>), Group> = HashMap::new();
    for mut thread in threads {
        thread.frames.push(Frame {
            function: Some(format!("[{}]", thread.name)),
            module: JAVA_MODULE.to_owned(),
            ..Frame::default()
        });
        let group = groups
            .entry((thread.state.clone(), thread.frames.clone()))
            .or_default();
        group.tasks.tasks += 1;
        group.tasks.waits_for = thread.state;
        group.tasks.frames = thread.frames;
        group.stacks.push(thread.stack);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by(|one, other| {
        let key = |group: &Group| {
            group
                .tasks
                .frames
                .iter()
                .map(|frame| frame.function.clone())
                .collect::<Vec<_>>()
        };
        other
            .tasks
            .tasks
            .cmp(&one.tasks.tasks)
            .then_with(|| key(one).cmp(&key(other)))
    });
    groups
}

/// `None` for the JVM's own threads (of the collector, for one), which have no Java state.
fn parse_thread(block: &str) -> Option<Thread> {
    let mut lines = block.lines().skip_while(|line| !line.starts_with('"'));
    let header = lines.next()?;
    let (name, rest) = header.strip_prefix('"')?.rsplit_once('"')?;
    let mut thread = Thread {
        name: bounded(without_numbers(name)),
        stack: stack_of(rest),
        ..Thread::default()
    };
    let state = lines
        .next()?
        .trim()
        .strip_prefix("java.lang.Thread.State: ")?;
    thread.state = (state != "RUNNABLE").then(|| bounded(state.to_owned()));
    let frames = lines.filter_map(|line| frame(line.trim().strip_prefix("at ")?));
    thread.frames = frames.take(FRAMES_MAX).collect();
    Some(thread)
}

pub(super) fn without_numbers(name: &str) -> String {
    let mut short = String::with_capacity(name.len());
    let mut in_number = false;
    for letter in name.chars() {
        if !letter.is_ascii_digit() {
            short.push(letter);
        } else if !in_number {
            short.push('N');
        }
        in_number = letter.is_ascii_digit();
    }
    short
}

/// `... runnable  [0x00007f4d4151e000]`; 0 for a thread without Java frames.
fn stack_of(header: &str) -> u64 {
    let address = header
        .rsplit_once("[0x")
        .and_then(|(_, address)| address.trim_end().strip_suffix(']'));
    address
        .and_then(|address| u64::from_str_radix(address, 16).ok())
        .unwrap_or(0)
}

/// `java.lang.Thread.sleep(java.base@25.0.3/Thread.java:540)`
fn frame(text: &str) -> Option<Frame> {
    let (function, place) = text.strip_suffix(')')?.rsplit_once('(')?;
    let function = without_address(function);
    // A class loader or module may stand before the class: `app//com.example.A.run`.
    let function = function.rsplit('/').next().unwrap_or(&function);
    let (module, place) = place.rsplit_once('/').unwrap_or((JAVA_MODULE, place));
    let module = module.split('@').next().unwrap_or(module);
    let (file, line) = match place.rsplit_once(':') {
        Some((file, line)) => (Some(file), line.parse().ok()),
        None => (place.contains('.').then_some(place), None),
    };
    Some(Frame {
        function: Some(bounded(function.to_owned())),
        file: file.map(|file| bounded(file.to_owned())),
        line,
        module: bounded(module.to_owned()),
        ..Frame::default()
    })
}

/// Hidden classes of one lambda differ in their address only: `App$$Lambda$14/0x0000000800c03000.call`.
fn without_address(function: &str) -> String {
    match function.split_once("/0x") {
        Some((class, rest)) => {
            class.to_owned() + rest.trim_start_matches(|letter: char| letter.is_ascii_hexdigit())
        }
        None => function.to_owned(),
    }
}

/// Adds the resident bytes of the threads' stacks. `smaps` is `/proc/PID/smaps`.
pub(super) fn add_stacks(groups: &mut [Group], smaps: &str) {
    let stacks = resident(smaps);
    let bytes_at = |address: &u64| {
        let behind = stacks.partition_point(|(start, _, _)| start <= address);
        let area = stacks[..behind].last().filter(|(_, end, _)| address < end);
        area.map_or(0, |(_, _, bytes)| *bytes)
    };
    for group in groups {
        group.tasks.bytes = group
            .stacks
            .iter()
            .map(bytes_at)
            .fold(0, u64::saturating_add);
    }
}

/// Start, end and resident bytes of each area without a file, by address.
fn resident(smaps: &str) -> Vec<(u64, u64, u64)> {
    let mut areas = Vec::new();
    for line in smaps.lines() {
        if let Some(kib) = line.strip_prefix("Rss:") {
            if let (Some(area), Some(bytes)) = (areas.last_mut(), kib_in_bytes(kib.as_bytes())) {
                let (_, _, resident): &mut (u64, u64, u64) = area;
                *resident = bytes;
            }
        } else if let Some(area) = parse_area(line) {
            areas.push((area.start, area.end, 0));
        }
    }
    areas
}

#[cfg(test)]
mod tests {
    use super::*;

    const JVM_17: &str = include_str!("captured/threads_17.txt");
    const JVM_25: &str = include_str!("captured/threads_25.txt");

    #[test]
    fn threads_of_a_pool_are_one_group() {
        for text in [JVM_17, JVM_25] {
            let groups = parse_threads(text);
            let pool = &groups[0].tasks;
            assert_eq!(
                (pool.tasks, pool.waits_for.as_deref()),
                (7, Some("WAITING (parking)"))
            );
            assert_eq!(
                pool.frames.last().unwrap().function.as_deref(),
                Some("[pool-N-thread-N]")
            );
            let inner = &pool.frames[0];
            assert_eq!(
                inner.function.as_deref(),
                Some("jdk.internal.misc.Unsafe.park")
            );
            assert_eq!(
                (inner.file.as_deref(), inner.line, inner.module.as_str()),
                (None, None, "java.base")
            );
        }
    }

    #[test]
    fn a_frame_of_the_program_has_file_and_line() {
        let groups = parse_threads(JVM_17);
        let main = groups
            .iter()
            .find(|group| group.tasks.frames.last().unwrap().function.as_deref() == Some("[main]"));
        let main = &main.unwrap().tasks;
        let wait = Frame {
            function: Some("App.waitHere".into()),
            file: Some("App.java".into()),
            line: Some(5),
            module: JAVA_MODULE.into(),
            ..Frame::default()
        };
        assert!(main.frames.contains(&wait));
        assert_eq!(main.waits_for.as_deref(), Some("TIMED_WAITING (sleeping)"));
    }

    #[test]
    fn names_of_frames() {
        let name = |text| frame(text).and_then(|frame| frame.function);
        assert_eq!(
            name("app//com.a.B.run(B.java:1)").as_deref(),
            Some("com.a.B.run")
        );
        let hidden = "App$$Lambda$14/0x0000000800c03000.call(Unknown Source)";
        assert_eq!(name(hidden).as_deref(), Some("App$$Lambda$14.call"));
        assert_eq!(name("nothing"), None);
        assert_eq!(name(")("), None);
    }

    #[test]
    fn long_names_are_cut() {
        let long = "x".repeat(60_000);
        let text = format!(
            "\"{long}\" #1 nid=1 runnable  [0x2000]\n   java.lang.Thread.State: {long}\n\
             \tat a.{long}.run({long}@1/{long}.java:7)\n"
        );
        let group = &parse_threads(&text)[0].tasks;
        let frame = &group.frames[0];
        assert_eq!(frame.line, Some(7));
        let names = [
            &frame.function,
            &frame.file,
            &Some(frame.module.clone()),
            &group.waits_for,
        ];
        for name in names {
            assert!((250..=300).contains(&name.as_ref().unwrap().len()));
        }
        assert!(
            group.frames[1].function.as_ref().unwrap().len() <= 302,
            "with its brackets"
        );
    }

    #[test]
    fn stacks_are_counted_by_their_areas() {
        let text = "\"a-1\" #1 nid=1 runnable  [0x0000000000002000]\n   java.lang.Thread.State: RUNNABLE\n\n\
            \"a-2\" #2 nid=1 runnable  [0x0000000000009000]\n   java.lang.Thread.State: RUNNABLE\n";
        let mut groups = parse_threads(text);
        add_stacks(
            &mut groups,
            "1000-3000 rw-p 00000000 00:00 0 \nRss:   8 kB\n8000-9000 rw-p 00000000 00:00 0 \nRss: 4 kB\n",
        );
        assert_eq!(groups.len(), 1);
        assert_eq!(
            (
                groups[0].tasks.tasks,
                groups[0].tasks.bytes,
                &groups[0].tasks.waits_for
            ),
            (2, 8 << 10, &None)
        );
        add_stacks(&mut groups, "garbage\nRss: x\n");
        assert_eq!(groups[0].tasks.bytes, 0);
    }
}
