//! The store of a run with remote arms, and what is asked of it.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::cli::exit::Usage;
use experiment::file::Remote;
use import::prometheus::answer::Raw;
use import::prometheus::assemble::Names;
use import::prometheus::client::Client;
use import::prometheus::selector::{Matcher, Selector, parse_match};
use import::prometheus::{Asked, FleetError, read_raw};

/// Longest wait for one answer: the end of a run must not hang on a store that does not answer.
const TIMEOUT: Duration = Duration::from_secs(4);

/// Of a file of headers, so much is read.
const HEADERS_BYTES_MAX: u64 = 1 << 20;

/// A store, with the selector of each arm.
pub struct Store {
    client: Client,
    pub names: Names,
    arms: Vec<(String, Selector)>,
}

/// The series of each arm.
pub type Answers = Vec<(String, Vec<Raw>)>;

impl Store {
    /// # Errors
    /// [`Usage`]: an address, a condition or a file of headers that is none.
    pub fn open(remote: &Remote, base: &Path) -> Result<Store> {
        let headers = match &remote.headers {
            None => Vec::new(),
            Some(path) => read_headers(&base.join(path))?,
        };
        let names = Names::of(remote.metric.as_deref());
        let client = Client::new(&remote.url, &headers, TIMEOUT)
            .map_err(|words| Usage(format!("prometheus {}: {words}", remote.url)))?;
        let mut arms = Vec::new();
        for series in &remote.series {
            let mut matchers = vec![Matcher {
                label: "__name__".to_owned(),
                operator: "=~",
                value: names.pattern(),
            }];
            for text in &series.matching {
                let told = |words| Usage(format!("arm {}: match {text}: {words}", series.arm));
                matchers.push(parse_match(text).map_err(told)?);
            }
            let selector = Selector {
                name: None,
                matchers,
            };
            arms.push((series.arm.clone(), selector));
        }
        Ok(Store {
            client,
            names,
            arms,
        })
    }

    /// Every sample of every arm in this window; all or nothing.
    ///
    /// # Errors
    /// The store does not answer, or refuses; in words.
    pub fn ask(&self, start_ms: i64, end_ms: i64) -> Result<Answers, FleetError> {
        let mut answers = Answers::new();
        for (arm, selector) in &self.arms {
            let asked = Asked {
                query: String::new(),
                start_ms,
                end_ms,
                step_ms: None,
            };
            let raw = read_raw(&self.client, selector, &asked, &mut Vec::new())?;
            answers.push((arm.clone(), raw));
        }
        Ok(answers)
    }

    /// Whether the store knows a metric of this name at all.
    pub fn knows(&self, name: &str) -> bool {
        let names = self.client.names().unwrap_or_default();
        names.iter().any(|known| known == name)
    }
}

fn read_headers(path: &Path) -> Result<Vec<String>> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(HEADERS_BYTES_MAX + 1).read_to_string(&mut text))
        .with_context(|| format!("headers: reading {}", path.display()))?;
    if text.len() as u64 > HEADERS_BYTES_MAX {
        return Err(Usage(format!(
            "{}: larger than {} KiB; is this the file with a header a line?",
            path.display(),
            HEADERS_BYTES_MAX >> 10
        ))
        .into());
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    match lines.iter().find(|line| !line.contains(':')) {
        // What it says may be a secret.
        Some(_) => Err(Usage(format!(
            "{}: write NAME: VALUE, a header a line",
            path.display()
        ))
        .into()),
        None => Ok(lines),
    }
}
