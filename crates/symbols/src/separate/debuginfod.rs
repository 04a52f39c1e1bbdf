//! debuginfod: servers that give debug information by build id. Off unless `DEBUGINFOD_URLS` names some.
//!
//! The cache is laid out as elfutils' client lays out its own (`BUILDID/debuginfo`), so that both use what either has
//! fetched; an empty file says that no server had it a short while ago.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::elf;
use super::places::hexadecimal;
use crate::debug_files::SYMBOLISED_BYTES_MAX;
use observe::foreign::open_file_itself;

/// Of all requests of one command together: the answer has to come.
pub const BUDGET: Duration = Duration::from_secs(20);
/// Of one request, where `DEBUGINFOD_TIMEOUT` does not say otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);
/// elfutils' `cache_miss_s`.
const MISS_AGE: Duration = Duration::from_secs(600);
const URLS_MAX: usize = 8;

pub struct Debuginfod {
    urls: Vec<String>,
    cache: PathBuf,
    agent: ureq::Agent,
    bytes_max: u64,
    /// What is left of the budget.
    left: Duration,
    timeout: Duration,
}

impl Debuginfod {
    pub fn new(urls: Vec<String>, cache: PathBuf, timeout: Duration) -> Debuginfod {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(true)
            .user_agent(concat!("highwater/", env!("CARGO_PKG_VERSION")));
        Debuginfod {
            urls,
            cache,
            agent: agent.build().into(),
            bytes_max: SYMBOLISED_BYTES_MAX,
            left: BUDGET,
            timeout,
        }
    }

    /// From `DEBUGINFOD_URLS`, `_CACHE_PATH`, `_TIMEOUT` (seconds), `_MAXSIZE` (bytes) and `_MAXTIME` (seconds).
    pub fn of_environment() -> Option<Debuginfod> {
        let text = |name: &str| {
            std::env::var(name)
                .ok()
                .filter(|text| !text.trim().is_empty())
        };
        let number = |name: &str| {
            text(name)?
                .trim()
                .parse::<u64>()
                .ok()
                .filter(|number| *number > 0)
        };
        let urls = text("DEBUGINFOD_URLS")?;
        let urls: Vec<String> = urls
            .split_whitespace()
            .filter(|url| url.starts_with("http://") || url.starts_with("https://"))
            .take(URLS_MAX)
            .map(|url| url.trim_end_matches('/').to_owned())
            .collect();
        let cache = text("DEBUGINFOD_CACHE_PATH").map(PathBuf::from);
        let of_user = || {
            let xdg = text("XDG_CACHE_HOME").map(PathBuf::from);
            let base = xdg.or_else(|| Some(PathBuf::from(text("HOME")?).join(".cache")))?;
            Some(base.join("debuginfod_client"))
        };
        let timeout = number("DEBUGINFOD_TIMEOUT").map_or(TIMEOUT, Duration::from_secs);
        let mut found = Debuginfod::new(urls, cache.or_else(of_user)?, timeout);
        found.bytes_max =
            number("DEBUGINFOD_MAXSIZE").map_or(found.bytes_max, |most| most.min(found.bytes_max));
        found.left = number("DEBUGINFOD_MAXTIME")
            .map_or(BUDGET, |most| BUDGET.min(Duration::from_secs(most)));
        (!found.urls.is_empty()).then_some(found)
    }

    /// The file, from the cache or a server.
    pub fn fetch(&mut self, build_id: &[u8]) -> Option<File> {
        let folder = self.cache.join(hexadecimal(build_id));
        let kept = folder.join("debuginfo");
        match self.cached(&kept) {
            Cached::Here(file) => return Some(file),
            Cached::Missed => return None,
            Cached::Unknown => {}
        }
        make_own(&self.cache).ok()?;
        make_own(&folder).ok()?;
        let mut is_sure = true;
        for url in self.urls.clone() {
            match self.ask(&url, build_id, &folder) {
                Ok(Some(file)) => {
                    file.persist(&kept).ok()?;
                    return open_file_itself(&kept, self.bytes_max).ok();
                }
                Ok(None) => {}
                // A server that cannot be reached may have it: it is asked again by the next command.
                Err(_) => is_sure = false,
            }
        }
        if is_sure {
            let _ = fs::write(&kept, b"");
        }
        None
    }

    /// `None`: the server does not have it, or what it gave is another file.
    fn ask(
        &mut self,
        url: &str,
        build_id: &[u8],
        folder: &Path,
    ) -> io::Result<Option<tempfile::NamedTempFile>> {
        if self.left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let begin = Instant::now();
        let given = self.request(url, build_id, folder);
        self.left = self.left.saturating_sub(begin.elapsed());
        let Some(file) = given? else {
            return Ok(None);
        };
        let own = elf::facts(file.as_file());
        let is_right = own.is_some_and(|own| own.build_id.as_deref() == Some(build_id));
        Ok(is_right.then_some(file))
    }

    fn request(
        &self,
        url: &str,
        build_id: &[u8],
        folder: &Path,
    ) -> io::Result<Option<tempfile::NamedTempFile>> {
        let address = format!("{url}/buildid/{}/debuginfo", hexadecimal(build_id));
        let request = self.agent.get(address).config();
        let request = request.timeout_global(Some(self.timeout.min(self.left)));
        let mut answer = match request.build().call() {
            Ok(answer) => answer,
            Err(ureq::Error::StatusCode(404)) => return Ok(None),
            Err(error) => return Err(io::Error::other(error)),
        };
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        let mut body = answer.body_mut().as_reader().take(self.bytes_max + 1);
        let length = io::copy(&mut body, file.as_file_mut())?;
        match length <= self.bytes_max {
            true => Ok(Some(file)),
            false => Err(io::Error::other("it is too large")),
        }
    }

    fn cached(&self, kept: &Path) -> Cached {
        let Ok(file) = open_file_itself(kept, self.bytes_max) else {
            // elfutils takes all rights from a file that stands for a miss.
            return match fs::symlink_metadata(kept) {
                Ok(data) if data.len() == 0 && is_young(&data) => Cached::Missed,
                _ => Cached::Unknown,
            };
        };
        match file.metadata() {
            Ok(data) if data.uid() != own_user() => Cached::Unknown,
            Ok(data) if data.len() > 0 => Cached::Here(file),
            Ok(data) if is_young(&data) => Cached::Missed,
            _ => Cached::Unknown,
        }
    }
}

enum Cached {
    Here(File),
    /// No server had it, a short while ago.
    Missed,
    Unknown,
}

fn is_young(data: &fs::Metadata) -> bool {
    let written = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    written.elapsed().is_ok_and(|age| age < MISS_AGE)
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A folder of this user, that others cannot write: what lies in it is what was put there.
fn make_own(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let data = fs::symlink_metadata(folder)?;
    let is_own =
        data.is_dir() && data.uid() == own_user() && data.permissions().mode() & 0o022 == 0;
    match is_own {
        true => Ok(()),
        false => Err(io::Error::other(
            "the cache folder is another user's, or others may write it",
        )),
    }
}
