//! V8's sampling heap profiler: live bytes by the functions that allocated them.
//!
//! V8 samples one allocation in 32 KiB on average, keeps the sample while the object lives, and scales what it reports
//! to all objects. It collects garbage before it reports, so that only reachable objects count.

use std::time::Duration;

use serde_json::json;

use super::session::{Session, refused};
use super::tokens::{Token, Tokenizer};
use crate::{Error, Frame, SiteCount};

const ANSWER: Duration = Duration::from_secs(5);
/// V8's default. A sample costs about 3 us of the program: 1 % at 100 MB/s. Measured: a loop that only allocates, 40
/// to 60 million objects in a CPU second, was a third slower.
const INTERVAL_BYTES: u64 = 32 << 10;
/// V8 takes 128 frames.
const DEPTH_MAX: usize = 256;
const SITES_MAX: usize = 10_000;
/// Of the names in all sites: a profile may repeat long ones in each frame.
const NAMES_BYTES_MAX: usize = 64 << 20;

/// The growth of a heap that chance does not explain.
const NOISE_BYTES: u64 = 1 << 20;
const NOISE_PERCENT: u64 = 3;

/// Collects garbage, so that what is live now is known, and starts the profiler. V8 has one for the program: where
/// something in it (a continuous profiler) had started it, its samples are used and it goes on. Ours ends with the
/// session.
pub fn start(session: &mut Session, within: Duration) -> Result<(), Error> {
    session.call("HeapProfiler.collectGarbage", &json!({}), within)?;
    // Only a profiler that runs can report.
    let profile = session.call("HeapProfiler.getSamplingProfile", &json!({}), within);
    if profile.is_err() {
        let params = json!({"samplingInterval": INTERVAL_BYTES});
        session.call("HeapProfiler.startSampling", &params, ANSWER)?;
    }
    Ok(())
}

/// The part of the sites that the growth of the heap accounts for; `None` where it did not grow.
///
/// V8 samples only what is allocated after its start, so the live bytes of all sites rise even where each new object
/// takes the place of an old one (a bounded cache). `from` and `now` are bytes of live objects; `used` of them are in
/// the heap.
pub fn backed(sites: Vec<SiteCount>, used: u64, from: u64, now: u64) -> Option<Vec<SiteCount>> {
    let grown = now.saturating_sub(from);
    if grown <= NOISE_BYTES.max(used / 100 * NOISE_PERCENT) {
        return None;
    }
    let sampled: f64 = sites.iter().map(|site| site.bytes).sum();
    let share = (grown as f64 / sampled.max(1.0)).min(1.0);
    let scale = |site: SiteCount| SiteCount {
        objects: site.objects * share,
        bytes: site.bytes * share,
        ..site
    };
    Some(sites.into_iter().map(scale).collect())
}

/// The sites, and whether some were left out.
pub fn sites(session: &mut Session, within: Duration) -> Result<(Vec<SiteCount>, bool), Error> {
    let reply = session.call("HeapProfiler.getSamplingProfile", &json!({}), within)?;
    parse_profile(&reply).ok_or_else(|| refused(&std::io::Error::other("its profile is broken")))
}

/// A node of the tree of calls: `{callFrame: {functionName, url, lineNumber, …}, selfSize, id, children: […]}`.
#[derive(Default)]
struct Node {
    frame: Frame,
    bytes: f64,
}

#[derive(Default)]
struct Tree {
    /// From the root to the current node.
    path: Vec<Node>,
    key: String,
    in_frame: bool,
    /// Depth of objects that are no part of the tree (`samples`), or around it.
    head: bool,
    sites: Vec<SiteCount>,
    names_bytes: usize,
    is_cut: bool,
}

fn parse_profile(text: &[u8]) -> Option<(Vec<SiteCount>, bool)> {
    let mut tree = Tree::default();
    Tokenizer::default()
        .push(text, &mut |token| tree.take(token))
        .ok()?;
    // The reply ends with the object around the tree.
    if !tree.head || !tree.path.is_empty() {
        return None;
    }
    tree.sites.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
    Some((tree.sites, tree.is_cut))
}

impl Tree {
    fn take(&mut self, token: Token) {
        match token {
            Token::Key(key) => {
                self.key.clear();
                self.key.push_str(key);
            }
            Token::ObjectStart if self.key == "callFrame" => self.in_frame = true,
            Token::ObjectStart if self.key == "head" || self.key == "children" => {
                self.head = true;
                self.path.push(Node::default());
            }
            Token::ObjectEnd if self.in_frame => self.in_frame = false,
            Token::ObjectEnd => {
                self.end_node();
                // The next object is the next child.
                self.key.clear();
                if !self.path.is_empty() {
                    self.key.push_str("children");
                }
            }
            Token::String(text) => self.text(text),
            Token::Number(number) => self.number(number),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        let Some(node) = self.path.last_mut().filter(|_| self.in_frame) else {
            return;
        };
        match self.key.as_str() {
            "functionName" if text.is_empty() => node.frame.function = Some("(anonymous)".into()),
            "functionName" => node.frame.function = Some(text.into()),
            "url" if !text.is_empty() => node.frame.file = Some(path_of(text)),
            _ => {}
        }
    }

    fn number(&mut self, number: f64) {
        let Some(node) = self.path.last_mut() else {
            return;
        };
        match self.key.as_str() {
            // From zero; negative for code that is not JavaScript.
            "lineNumber" if number >= 0.0 => {
                node.frame.line = Some((number as u32).saturating_add(1))
            }
            "selfSize" if number.is_finite() => node.bytes = number.max(0.0),
            _ => {}
        }
    }

    /// Allocated by the expression that reads the sizes; its function has a name for this, and no file.
    fn is_ours(&self) -> bool {
        let ours =
            |frame: &Frame| frame.file.is_none() && frame.function.as_deref() == Some("highwater");
        self.path.iter().any(|node| ours(&node.frame))
    }

    fn end_node(&mut self) {
        let bytes = self.path.last().map_or(0.0, |node| node.bytes);
        if bytes > 0.0 && !self.is_ours() {
            let name = |name: &Option<String>| name.as_ref().map_or(0, String::len);
            let names = |node: &Node| name(&node.frame.function) + name(&node.frame.file);
            let is_small = self.sites.len() < SITES_MAX && self.path.len() <= DEPTH_MAX;
            if is_small {
                self.names_bytes += self.path.iter().map(names).sum::<usize>();
            }
            if !is_small || self.names_bytes > NAMES_BYTES_MAX {
                self.is_cut = true;
            } else {
                // The first node is the root of the tree, no function.
                let frames = self
                    .path
                    .iter()
                    .skip(1)
                    .rev()
                    .map(|node| node.frame.clone());
                self.sites.push(SiteCount {
                    frames: frames.collect(),
                    // V8 reports bytes only.
                    objects: 0.0,
                    bytes,
                    // At least.
                    allocated_bytes: bytes,
                });
            }
        }
        self.path.pop();
    }
}

/// ES modules have URLs: `file:///srv/app.mjs`.
pub fn path_of(url: &str) -> String {
    let Some(path) = url.strip_prefix("file://") else {
        return url.to_owned();
    };
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match code
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
            .filter(|_| first == b'%')
        {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = r#"{"id":4,"result":{"profile":{"head":{"callFrame":{"functionName":"(root)","scriptId":"0",
        "url":"","lineNumber":-1,"columnNumber":-1},"selfSize":0,"id":1,"children":[{"callFrame":{"functionName":"",
        "scriptId":"7","url":"file:///srv/a%20b.mjs","lineNumber":9,"columnNumber":2},"selfSize":100,"id":2,
        "children":[{"callFrame":{"functionName":"add","scriptId":"7","url":"/srv/add.js","lineNumber":0,
        "columnNumber":2},"selfSize":900,"id":3,"children":[]},{"callFrame":{"functionName":"(V8 API)","scriptId":"0",
        "url":"","lineNumber":-1,"columnNumber":-1},"selfSize":50,"id":4,"children":[]}]},
        {"callFrame":{"functionName":"highwater","scriptId":"9","url":"","lineNumber":0,"columnNumber":1},
        "selfSize":70,"id":5,"children":[]}]},
        "samples":[{"size":900,"nodeId":3,"ordinal":1}]}}}"#;

    #[test]
    fn a_profile_gives_sites_with_their_callers() {
        let (sites, is_cut) = parse_profile(PROFILE.as_bytes()).expect("a profile");
        let brief = |site: &SiteCount| {
            let frames = site.frames.iter().map(|frame| {
                let place = frame.file.as_deref().unwrap_or("-");
                format!(
                    "{} {place}:{}",
                    frame.function.as_deref().unwrap_or("-"),
                    frame.line.unwrap_or(0)
                )
            });
            format!("{} {}", site.bytes, frames.collect::<Vec<_>>().join(" < "))
        };
        let sites: Vec<String> = sites.iter().map(brief).collect();
        assert!(!is_cut);
        assert_eq!(
            sites,
            [
                "900 add /srv/add.js:1 < (anonymous) /srv/a b.mjs:10",
                "100 (anonymous) /srv/a b.mjs:10",
                "50 (V8 API) -:0 < (anonymous) /srv/a b.mjs:10",
            ]
        );
    }

    #[test]
    fn sites_are_not_more_than_the_growth_of_the_heap() {
        let site = |bytes| SiteCount {
            bytes,
            allocated_bytes: bytes,
            ..SiteCount::default()
        };
        let after = |used: u64, from: u64, now: u64| {
            let backed = backed(vec![site(6e6), site(2e6)], used, from, now)?;
            let bytes = |site: &SiteCount| (site.bytes, site.allocated_bytes);
            Some(backed.iter().map(bytes).collect::<Vec<_>>())
        };
        let all = Some(vec![(6e6, 6e6), (2e6, 2e6)]);
        assert_eq!(after(20_000_000, 10_000_000, 20_000_000), all);
        let half = Some(vec![(3e6, 6e6), (1e6, 2e6)]);
        assert_eq!(after(14_000_000, 10_000_000, 14_000_000), half);
        assert_eq!(after(11_000_000, 10_000_000, 11_000_000), None);
        assert_eq!(after(400_000_000, 390_000_000, 400_000_000), None);
        assert_eq!(after(9_000_000, 10_000_000, 9_000_000), None);
    }

    #[test]
    fn deep_and_broken_profiles_end() {
        let deep = format!(
            r#"{{"head":{}"#,
            r#"{"selfSize":1,"children":["#.repeat(100_000)
        );
        assert!(parse_profile(deep.as_bytes()).is_none());
        assert!(parse_profile(b"{}").is_none());
        assert!(parse_profile(b"\x01").is_none());
        let line = br#"{"head":{"callFrame":{"lineNumber":4294967295}}}"#;
        assert!(parse_profile(line).is_some());
    }
}
