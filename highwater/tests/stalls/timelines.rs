//! Timelines as text: what the switches were, and below `---` what must be found.
//!
//! A line is `MILLISECONDS THREAD WHAT`; `repeat N every MS` ... `end` writes a block N times, each
//! MS later. `HIGHWATER_OVERWRITE=1` writes what is found now; read the difference.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use stalls::analyser::Analyser;
use stalls::event::{Event, Tid, Wait, WaitKind, Waker, What};
use stalls::felt::Felt;
use stalls::finding::{Finding, summarise};

#[test]
fn every_timeline_is_read_as_it_says() {
    let mut wrong = Vec::new();
    let files = files();
    assert!(files.len() >= 10, "the folder of timelines is not there");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let (scene, expected) = text.split_once("---\n").unwrap_or((&text, ""));
        let found = Scene::read(scene).found();
        if std::env::var_os("HIGHWATER_OVERWRITE").is_some() {
            fs::write(&file, format!("{scene}---\n{found}")).unwrap();
        } else if found != expected {
            wrong.push(format!(
                "{}:\n{found}instead of\n{expected}",
                file.display()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stalls/timelines");
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "txt"));
    files.sort();
    files
}

/// Names to numbers, and the events.
#[derive(Default)]
struct Scene {
    names: Vec<String>,
    events: Vec<Event>,
    groups: Vec<(Tid, u64)>,
    quota: Vec<(u64, u64)>,
    wakers_unseen: bool,
    carriers: bool,
    /// When all events have been told; 0: with the last.
    told_ns: u64,
}

impl Scene {
    fn read(text: &str) -> Scene {
        let mut scene = Scene::default();
        let lines: Vec<&str> = text.lines().map(|l| l.split('#').next().unwrap()).collect();
        let mut at = 0;
        while at < lines.len() {
            let words: Vec<&str> = lines[at].split_whitespace().collect();
            if let ["repeat", times, "every", gap] = words[..] {
                let end = at + lines[at..].iter().position(|l| l.trim() == "end").unwrap();
                for turn in 0..times.parse::<u32>().unwrap() {
                    let shift = f64::from(turn) * gap.parse::<f64>().unwrap();
                    for line in &lines[at + 1..end] {
                        scene.line(line, shift);
                    }
                }
                at = end;
            } else {
                scene.line(lines[at], 0.0);
            }
            at += 1;
        }
        scene.events.sort_by_key(|event| event.at_ns);
        scene
    }

    fn line(&mut self, line: &str, shift_ms: f64) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => {}
            ["group", number, ref members @ ..] => {
                for member in members {
                    let tid = self.id(member);
                    self.groups.push((tid, number.parse().unwrap()));
                }
            }
            ["nobody", "tells", "wakers"] => self.wakers_unseen = true,
            ["threads", "carry", "goroutines"] => self.carriers = true,
            ["told", "until", end] => self.told_ns = ns(end, shift_ms),
            ["quota", start, end] => self.quota.push((ns(start, shift_ms), ns(end, shift_ms))),
            [time, thread, ref what @ ..] => {
                let at_ns = ns(time, shift_ms);
                let tid = self.id(thread);
                let what = self.what(what);
                self.events.push(Event { at_ns, tid, what });
            }
            _ => panic!("not a line of a timeline: {line}"),
        }
    }

    fn what(&mut self, words: &[&str]) -> What {
        match *words {
            ["in"] => What::In { after: 0 },
            ["in", "after", other] => What::In {
                after: self.id(other) as u32,
            },
            ["preempted"] => What::Preempted,
            ["unsure"] => What::Unsure,
            ["exits"] => What::Exited,
            ["woken", "-"] => What::Woken {
                by: Waker::Outside,
                release: 0,
            },
            ["woken", by] => What::Woken {
                by: Waker::Thread(self.id(by)),
                release: 0,
            },
            ["delayed", ms] => What::RunDelay { ns: ns(ms, 0.0) },
            ["ran", ms, host] => What::Ran {
                ns: ns(ms, 0.0),
                host: self.id(host) as u32,
            },
            ["seen", stack] => self.seen(stack, false),
            ["seen", stack, "allocator"] => self.seen(stack, true),
            ["look", ref wait @ ..] => What::Sample(self.wait(wait)),
            ref wait => What::Blocked(self.wait(wait)),
        }
    }

    fn seen(&mut self, stack: &str, allocator: bool) -> What {
        What::OnCpu {
            stack: self.id(stack) as u32,
            activity: 0,
            allocator,
        }
    }

    fn wait(&mut self, words: &[&str]) -> Wait {
        let kind = match words[0] {
            "lock" => WaitKind::Lock,
            "queue" => WaitKind::Queue,
            "inbound" => WaitKind::Inbound,
            "outbound" => WaitKind::Outbound,
            "network" => WaitKind::Network,
            "process" => WaitKind::Process,
            "disk" => WaitKind::Disk,
            "fault" => WaitKind::Fault,
            "memory" => WaitKind::Memory,
            "sleep" => WaitKind::Sleep,
            "unknown" => WaitKind::Unknown,
            other => panic!("not a kind of wait: {other}"),
        };
        let mut wait = Wait::of(kind, 0);
        for word in &words[1..] {
            match word.split_once('=') {
                Some(("holder", thread)) => wait.holder = Some(self.id(thread)),
                Some(("on", object)) => wait.object = self.id(object),
                Some(("doing", text)) => wait.activity = self.id(text) as u32,
                Some(("place", text)) => wait.place = self.id(text) as u32,
                Some(("stack", text)) => wait.stack = self.id(text) as u32,
                _ if *word == "allocator" => wait.allocator = true,
                _ if *word == "timed" => wait.timed = true,
                _ if *word == "client" => wait.one_client = true,
                _ => panic!("not a word of a wait: {word}"),
            }
        }
        wait
    }

    fn id(&mut self, name: &str) -> Tid {
        let known = self.names.iter().position(|n| n == name);
        let at = known.unwrap_or_else(|| {
            self.names.push(name.to_string());
            self.names.len() - 1
        });
        at as Tid + 1
    }

    fn name(&self, id: u64) -> &str {
        match id {
            0 => "-",
            _ => &self.names[id as usize - 1],
        }
    }

    fn found(&self) -> String {
        let threads: Vec<Tid> = self.threads();
        let mut analyser = Analyser::new(0, threads.iter().copied());
        analyser.lines.wakers_unseen = self.wakers_unseen;
        analyser.groups.carriers = self.carriers;
        for (tid, group) in &self.groups {
            analyser.set_group(*tid, *group);
        }
        for (start, end) in &self.quota {
            analyser.pieces.quota.throttled(*start, *end);
        }
        for (at, event) in self.events.iter().enumerate() {
            analyser.push(event);
            // As in a live watch: judged while it goes on.
            if at % 7 == 6 {
                analyser.advance(event.at_ns.saturating_sub(200_000_000));
            }
        }
        analyser.told_until(self.told_ns);
        analyser.finish();
        let findings = summarise(
            &analyser.stalls,
            &analyser.groups,
            &Felt::default(),
            &threads,
        );
        findings.iter().map(|f| self.words(f)).collect()
    }

    fn threads(&self) -> Vec<Tid> {
        let unique: HashMap<Tid, ()> = self.events.iter().map(|e| (e.tid, ())).collect();
        unique.into_keys().collect()
    }

    fn words(&self, finding: &Finding) -> String {
        let mut line = format!(
            "{} n={} threads={} longest={} total={}",
            finding.cause.word(),
            finding.count,
            finding.threads.len(),
            ms(finding.longest_ns),
            ms(finding.total_ns),
        );
        if let Some(period) = finding.period_ns {
            write!(line, " every={}", ms(period)).unwrap();
        }
        let culprit = &finding.culprit;
        write!(
            line,
            " culprit={} {:?}",
            self.name(culprit.tid),
            culprit.kind
        )
        .unwrap();
        for (word, id) in [("doing", culprit.activity), ("stack", culprit.stack)] {
            if id != 0 {
                write!(line, " {word}={}", self.name(id.into())).unwrap();
            }
        }
        let chain = finding.chain.iter().map(|link| self.name(link.hop.tid));
        write!(line, " chain={}", chain.collect::<Vec<_>>().join(">")).unwrap();
        for (who, ns) in &finding.ran_instead {
            write!(line, " after={}:{}", self.name((*who).into()), ms(*ns)).unwrap();
        }
        let flags = [("open", finding.open), ("inferred", finding.inferred)];
        for (word, _) in flags.iter().filter(|(_, on)| *on) {
            write!(line, " {word}").unwrap();
        }
        line + "\n"
    }
}

fn ns(ms: &str, shift_ms: f64) -> u64 {
    ((ms.parse::<f64>().unwrap() + shift_ms) * 1e6).round() as u64
}

fn ms(ns: u64) -> String {
    format!("{}ms", ns as f64 / 1e6)
}
