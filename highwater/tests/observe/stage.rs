//! An endpoint for a test: `highwater observe` on a free port, and its pages as numbers.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use super::scene::{Scene, wait};

/// Ends with the test.
pub struct Endpoint {
    pub child: Child,
    /// `http://127.0.0.1:PORT`.
    pub base: String,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Endpoint {
    pub fn start(scene: &Scene, flags: &[&str]) -> Endpoint {
        let all = [&["observe", "--listen", "0", "--json"], flags].concat();
        let mut command = scene.command(&all);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("highwater starts");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        out.read_line(&mut line).expect("a line");
        let told: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        assert_eq!(told["schema"], "highwater.observe/1", "{line}");
        let url = told["url"].as_str().expect("a URL");
        let base = url.trim_end_matches("/metrics").to_owned();
        Endpoint { child, base }
    }

    pub fn address(&self) -> &str {
        self.base.trim_start_matches("http://")
    }

    /// The page as Prometheus asks for it.
    pub fn page(&self) -> Page {
        let accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.3";
        wait("a page", || {
            let url = format!("{}/metrics", self.base);
            let mut response = ureq::get(url).header("Accept", accept).call().ok()?;
            Page::parse(&response.body_mut().read_to_string().ok()?)
        })
    }
}

/// Labels and value.
pub type Sample = (BTreeMap<String, String>, f64);

/// Samples of a page by name, each with its labels.
pub struct Page {
    pub text: String,
    pub samples: BTreeMap<String, Vec<Sample>>,
}

impl Page {
    /// `None` when it breaks off.
    pub fn parse(text: &str) -> Option<Page> {
        let mut samples: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let labels = labels.trim_end_matches('}');
            // No value in these tests holds a comma followed by a label.
            let pair = |pair: &str| {
                let (name, value) = pair.split_once("=\"").expect("a label");
                (name.to_owned(), value.to_owned())
            };
            let labels = labels.trim_end_matches('"').split("\",");
            let labels = labels.filter(|l| !l.is_empty()).map(pair).collect();
            let value = value.parse().expect("a number");
            samples
                .entry(name.to_owned())
                .or_default()
                .push((labels, value));
        }
        let text = text.to_owned();
        text.ends_with("# EOF\n").then_some(Page { text, samples })
    }

    /// The value of the one sample with this label.
    pub fn value(&self, name: &str, label: &str, wanted: &str) -> Option<f64> {
        let all = self.samples.get(name)?;
        let found = all
            .iter()
            .find(|(labels, _)| labels.get(label).is_some_and(|v| v == wanted));
        found.map(|(_, value)| *value)
    }

    /// The only value of a metric of the endpoint itself.
    pub fn own(&self, name: &str) -> f64 {
        self.samples[name][0].1
    }
}
