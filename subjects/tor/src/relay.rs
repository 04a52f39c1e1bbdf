//! A relay of an arm: writes its configuration, joins the private network, and becomes tor. The process that highwater
//! started, watches and stops is tor itself; what was preloaded into this program is preloaded into tor.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::process::{
    Signal, getppid, parent_process_death_signal, set_parent_process_death_signal,
};

use crate::network::{Network, arguments, make_folder};
use crate::program::Tor;
use crate::{namespace, torrc};

/// What a relay is told.
#[derive(Debug, Clone)]
pub struct Words {
    pub or_port: u16,
    /// Lines for its torrc.
    pub torrc: Vec<String>,
    /// It reads the GeoIP database.
    pub geoip: bool,
}

/// Returns only when it fails.
///
/// # Errors
/// There is no network, it cannot be joined, or tor cannot be executed.
pub fn become_tor(folder: &Path, data: &Path, words: &Words) -> Result<()> {
    let network = Network::read(folder)?;
    let mut extra = words.torrc.clone();
    if words.geoip {
        extra.extend(network.tor.geoip_lines()?);
    }
    make_folder(data)?;
    let file = data.join("torrc");
    let text = torrc::relay(words.or_port, data, &network.authorities, &extra);
    fs::write(&file, text).with_context(|| file.display().to_string())?;
    let (signal, parent) = (parent_process_death_signal()?, getppid());
    namespace::join(network.pid)?;
    keep_dying_with(signal, parent)?;
    let mut command = command(&network.tor, &loader_words()?);
    command.args(arguments(&file));
    bail!("{}: {}", network.tor.tor.display(), command.exec())
}

/// A change of user namespace can make the kernel forget the signal that ends us with our supervisor.
fn keep_dying_with(signal: Option<Signal>, parent: Option<rustix::process::Pid>) -> Result<()> {
    if signal.is_some() {
        set_parent_process_death_signal(signal)?;
        if getppid() != parent {
            bail!("the supervisor has ended");
        }
    }
    Ok(())
}

/// The words before this program when a loader started it on another C library; tor is to run on the same one.
fn loader_words() -> Result<Vec<OsString>> {
    let all = fs::read("/proc/self/cmdline").context("/proc/self/cmdline")?;
    let words = all
        .strip_suffix(b"\0")
        .unwrap_or(&all)
        .split(|byte| *byte == 0);
    let words: Vec<OsString> = words
        .map(|word| OsString::from_vec(word.to_vec()))
        .collect();
    let own = std::env::args_os().count();
    Ok(words[..words.len().saturating_sub(own)].to_vec())
}

fn command(tor: &Tor, loader: &[OsString]) -> Command {
    let Some((first, rest)) = loader.split_first() else {
        let mut command = tor.command(&tor.tor);
        command.arg0("tor");
        return command;
    };
    let mut command = Command::new(first);
    let mut after_path = false;
    for word in rest {
        let mut word = word.clone();
        // The loader's own option hides LD_LIBRARY_PATH.
        if std::mem::replace(&mut after_path, word == "--library-path")
            && let Some(path) = tor.library_path()
        {
            word.push(":");
            word.push(path);
        }
        command.arg(word);
    }
    command.arg(&tor.tor);
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn a_loader_starts_tor_as_it_started_us() {
        let tor = Tor {
            tor: "/c/usr/bin/tor".into(),
            gencert: PathBuf::new(),
            libraries: vec!["/c/usr/lib/x86_64-linux-gnu".into()],
            geoip: None,
        };
        let loader = ["/g/ld.so", "--library-path", "/g/lib"].map(OsString::from);
        let made = command(&tor, &loader);
        assert_eq!(made.get_program(), "/g/ld.so");
        let words: Vec<_> = made.get_args().map(|word| word.to_string_lossy()).collect();
        assert_eq!(words[0], "--library-path");
        assert!(
            words[1].starts_with("/g/lib:/c/usr/lib/x86_64-linux-gnu"),
            "{words:?}"
        );
        assert_eq!(words[2], "/c/usr/bin/tor");
        assert_eq!(command(&tor, &[]).get_program(), "/c/usr/bin/tor");
        assert!(
            tor.geoip_lines()
                .unwrap_err()
                .to_string()
                .contains("tor-geoipdb")
        );
    }

    #[test]
    fn nothing_comes_before_a_program_without_a_loader() {
        assert!(loader_words().unwrap().is_empty());
    }
}
