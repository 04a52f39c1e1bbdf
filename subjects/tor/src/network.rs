//! The private network: three authorities that vote, a client, and a page for circuits to lead to, in a namespace of
//! their own. Holds it together until it is told to end.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use crate::consensus::parse_consensus;
use crate::program::{Tor, find_or_fetch};
use crate::torrc::{self, Votes};
use crate::{namespace, page};

/// A majority that survives the loss of one.
pub const AUTHORITIES: u16 = 3;
/// Name of the file that tells everybody else where the network is.
pub const FILE: &str = "network.json";
const PAUSE: Duration = Duration::from_millis(100);
/// After the one SIGTERM: tor can hang while it shuts down, and a second signal makes that certain (measured).
const GRACE: Duration = Duration::from_secs(5);

/// What relays, loads and checks need to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    pub tor: Tor,
    /// "Tor version 0.4.9.11"
    pub version: String,
    /// The process whose namespaces are joined.
    pub pid: i32,
    /// A `DirAuthority` line each.
    pub authorities: Vec<String>,
    pub fingerprints: Vec<String>,
}

impl Network {
    /// # Errors
    /// When there is none in `folder`.
    pub fn read(folder: &Path) -> Result<Self> {
        let file = folder.join(FILE);
        let text = fs::read_to_string(&file)
            .with_context(|| format!("{}: is the private network up?", file.display()))?;
        serde_json::from_str(&text).with_context(|| file.display().to_string())
    }

    fn write(&self, folder: &Path) -> Result<()> {
        let aside = folder.join(format!("{FILE}.new"));
        fs::write(&aside, serde_json::to_vec_pretty(self)?)?;
        fs::rename(&aside, folder.join(FILE)).context(FILE)
    }
}

/// The consensus as authority `number` has it; empty before the first.
pub fn read_consensus(folder: &Path, number: u16) -> String {
    let file = authority_folder(folder, number).join("cached-consensus");
    fs::read_to_string(file).unwrap_or_default()
}

fn authority_folder(folder: &Path, number: u16) -> PathBuf {
    folder.join(torrc::authority_name(number))
}

/// Makes the network in `folder` and holds it until `stop`. Says `ready` when the authorities have agreed on a
/// consensus that lists all of them.
///
/// # Errors
/// There is no tor, no namespace, or an authority ends.
pub fn hold(folder: &Path, votes: Votes, stop: &Arc<AtomicBool>) -> Result<()> {
    let tor = find_or_fetch()?;
    let version = tor.version()?;
    println!("{version}: {}", tor.tor.display());
    namespace::create()?;
    page::serve().context("the page that circuits lead to")?;
    let network = found(folder, tor, version)?;
    let mut nodes = Nodes::default();
    for number in 0..AUTHORITIES {
        let data = authority_folder(folder, number);
        let text = torrc::authority(number, &data, votes) + &lines(&network.authorities);
        nodes.start(&network.tor, &torrc::authority_name(number), &data, &text)?;
    }
    let data = folder.join("client");
    make_folder(&data)?;
    let text = torrc::client(&data, &network.authorities);
    nodes.start(&network.tor, "client", &data, &text)?;
    network.write(folder)?;
    println!("founded: {}", folder.join(FILE).display());
    while !stop.load(Ordering::Relaxed) && !agreed(folder) {
        nodes.check()?;
        thread::sleep(PAUSE);
    }
    if !stop.load(Ordering::Relaxed) {
        println!("ready: {AUTHORITIES} authorities agree on a consensus");
    }
    while !stop.load(Ordering::Relaxed) {
        nodes.check()?;
        thread::sleep(PAUSE);
    }
    nodes.stop();
    Ok(())
}

/// Every authority has a consensus that lists them all as running.
fn agreed(folder: &Path) -> bool {
    (0..AUTHORITIES).all(|number| {
        let listed = parse_consensus(&read_consensus(folder, number));
        listed.iter().filter(|one| one.is_running()).count() >= usize::from(AUTHORITIES)
    })
}

/// Keys and names of the authorities; nothing runs yet.
fn found(folder: &Path, tor: Tor, version: String) -> Result<Network> {
    let mut network = Network {
        tor,
        version,
        pid: i32::try_from(std::process::id()).context("pid")?,
        authorities: Vec::new(),
        fingerprints: Vec::new(),
    };
    for number in 0..AUTHORITIES {
        let data = authority_folder(folder, number);
        make_folder(&data.join("keys"))?;
        let name = torrc::authority_name(number);
        let identity = make_identity(&network.tor, &data, number).with_context(|| name.clone())?;
        let fingerprint = read_fingerprint(&network.tor, &data, number).with_context(|| name)?;
        let line = torrc::dir_authority(number, &identity, &fingerprint);
        network.authorities.push(line);
        network.fingerprints.push(fingerprint);
    }
    Ok(network)
}

/// The keys that an authority signs votes with.
fn make_identity(tor: &Tor, data: &Path, number: u16) -> Result<String> {
    let (_, dir_port) = torrc::authority_ports(number);
    let keys = data.join("keys");
    let certificate = keys.join("authority_certificate");
    let mut command = tor.command(&tor.gencert);
    command
        .args([
            "--create-identity-key",
            "-m",
            "12",
            "--passphrase-fd",
            "0",
            "-a",
        ])
        .arg(format!("127.0.0.1:{dir_port}"))
        .arg("-i")
        .arg(keys.join("authority_identity_key"))
        .arg("-s")
        .arg(keys.join("authority_signing_key"))
        .arg("-c")
        .arg(&certificate)
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().context("tor-gencert")?;
    if let Some(mut stdin) = child.stdin.take() {
        // The key of a network that lives for minutes; the program insists on a passphrase.
        stdin.write_all(b"loopback only\n").context("tor-gencert")?;
    }
    let output = child.wait_with_output().context("tor-gencert")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "tor-gencert: {}", said.trim());
    let text = fs::read_to_string(&certificate).context("tor-gencert's certificate")?;
    torrc::parse_identity(&text)
}

fn read_fingerprint(tor: &Tor, data: &Path, number: u16) -> Result<String> {
    let votes = Votes::every(Duration::from_secs(20))?;
    let text = torrc::authority(number, data, votes) + &torrc::placeholder_authority() + "\n";
    let file = data.join("torrc.first");
    fs::write(&file, text).with_context(|| file.display().to_string())?;
    let mut command = tor.command(&tor.tor);
    command
        .args(arguments(&file))
        .args(["--list-fingerprint", "--quiet"]);
    let output = command.output().context("tor --list-fingerprint")?;
    let said = String::from_utf8_lossy(&output.stdout);
    torrc::parse_fingerprint(&said)
        .with_context(|| format!("tor --list-fingerprint: {}", output.status))
}

/// What every tor is started with: its own file, and no other.
pub fn arguments(torrc: &Path) -> Vec<std::ffi::OsString> {
    let words = ["--defaults-torrc", "/dev/null", "-f"].map(Into::into);
    words.into_iter().chain([torrc.into()]).collect()
}

pub fn make_folder(path: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(path);
    made.with_context(|| path.display().to_string())
}

fn lines(all: &[String]) -> String {
    all.iter().map(|line| format!("{line}\n")).collect()
}

/// The tors that are no arm's. Dropped, they are killed; killed with us, too.
#[derive(Default)]
struct Nodes(Vec<(String, PathBuf, Child)>);

impl Nodes {
    fn start(&mut self, tor: &Tor, name: &str, data: &Path, text: &str) -> Result<()> {
        let (torrc, log) = (data.join("torrc"), data.join("log"));
        fs::write(&torrc, text).with_context(|| torrc.display().to_string())?;
        let out = File::create(&log).with_context(|| log.display().to_string())?;
        let mut command = tor.command(&tor.tor);
        command
            .args(arguments(&torrc))
            .stderr(out.try_clone()?)
            .stdout(out);
        // SAFETY: one system call, between fork and exec.
        unsafe {
            command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
        }
        let child = command.spawn().with_context(|| name.to_owned())?;
        self.0.push((name.to_owned(), log, child));
        Ok(())
    }

    /// # Errors
    /// When one of them has ended: the network would go on without it, but not the same for all arms.
    fn check(&mut self) -> Result<()> {
        for (name, log, child) in &mut self.0 {
            if let Some(status) = child.try_wait()? {
                let said = fs::read_to_string(&*log).unwrap_or_default();
                let last: Vec<&str> = said.lines().rev().take(3).collect();
                let last: Vec<&str> = last.into_iter().rev().collect();
                bail!("{name} has ended ({status}): {}", last.join(" | "));
            }
        }
        Ok(())
    }

    fn stop(&mut self) {
        for (_, _, child) in &self.0 {
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
        }
        let until = Instant::now() + GRACE;
        let is_left = |nodes: &mut Self| {
            nodes
                .0
                .iter_mut()
                .any(|(_, _, c)| matches!(c.try_wait(), Ok(None)))
        };
        while is_left(self) && Instant::now() < until {
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for (_, _, child) in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
