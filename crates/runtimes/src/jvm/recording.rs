//! A recording of JDK Flight Recorder that is ours: where live objects were allocated, and what keeps them alive.
//!
//! ```text
//! first snapshot   /tmp/highwater-jfr-…/settings.jfc, JFR.start     one event, jdk.OldObjectSample; kept in memory
//! holders          JFR.dump, read, removed                          a safepoint, as long as the cutoff at most
//! the end          JFR.stop, the folder removed
//! ```
//!
//! Other recordings of the JVM go on: ours has a name of its own, and only that one is dumped and stopped. It has no
//! duration: a JVM that ends before that would write a file into its working directory.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use super::exchange::Listener;
use super::jfr::parse_samples;
use super::sample::Sample;
use super::target::{Target, refused};
use super::trigger::User;
use crate::Error;

/// A recording with this event alone takes some 100 KB, most of it the description of all events.
const FILE_BYTES_MAX: u64 = 32 << 20;
/// For which the program is stopped when a recording is started. Measured with JDK 11 to 25 on two processors: 30 to
/// 100 ms, at a load of 13.
pub(super) const START: Duration = Duration::from_millis(100);
/// For the command that ends one.
const STOPPING: Duration = Duration::from_secs(5);
const REPLY_BYTES: usize = 1 << 20;
const SETTINGS: &str = "settings.jfc";
const RECORDING: &str = "recording.jfr";

/// A recording that runs.
#[derive(Debug)]
pub(super) struct Recording {
    name: String,
    folder: Folder,
}

impl Recording {
    /// `search`: how long the JVM may search for the ways from roots to objects, for which it stops the program.
    pub(super) fn start(listener: &Listener, search: Duration) -> Result<Recording, Error> {
        let folder = Folder::create(listener)?;
        folder.write(SETTINGS, settings(search).as_bytes())?;
        let name = folder.name.clone();
        let path = format!("/tmp/{name}/{SETTINGS}");
        let command = format!("JFR.start name={name} settings={path} disk=false dumponexit=false");
        let reply = listener.diagnose(&command);
        let started = reply.and_then(|reply| expect(&reply, "Started recording"));
        if let Err(error) = started {
            // Where the answer did not come in time, the JVM may start it all the same.
            let _ = Stopping::of(listener.target).stop(&name);
            return Err(error);
        }
        Ok(Recording { name, folder })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Objects that were allocated since it was started and are alive, with the ways to them.
    pub(super) fn samples(&self, listener: &Listener) -> Result<Vec<Sample>, Error> {
        let path = format!("/tmp/{}/{RECORDING}", self.folder.name);
        let reply = listener.diagnose(&format!("JFR.dump name={} filename={path}", self.name));
        let read = reply.and_then(|reply| {
            expect(&reply, "Dumped recording")?;
            self.folder.read(RECORDING)
        });
        self.folder.remove(RECORDING);
        parse_samples(&read?)
            .ok_or_else(|| Error::Inconsistent("its recording is not in the format of JFR".into()))
    }

    pub(super) fn stop(self, target: &Target) -> Result<(), Error> {
        Stopping::of(target).stop(&self.name)
    }
}

/// Ends a recording, whatever time the observation has left.
struct Stopping<'a>(Listener<'a>);

impl Stopping<'_> {
    fn of(target: &Target) -> Stopping<'_> {
        Stopping(Listener {
            target,
            deadline: Instant::now() + STOPPING,
            bytes_max: REPLY_BYTES,
        })
    }

    fn stop(&self, name: &str) -> Result<(), Error> {
        let reply = self.0.diagnose(&format!("JFR.stop name={name}"))?;
        expect(&reply, "Stopped recording")
    }
}

/// A command of JFR that fails prints why, and has the result code of one that did not.
fn expect(reply: &str, words: &str) -> Result<(), Error> {
    if reply.contains(words) {
        return Ok(());
    }
    let first = reply.lines().find(|line| !line.trim().is_empty());
    let why: String = first.unwrap_or("no answer").chars().take(200).collect();
    Err(Error::Refused(format!("JDK Flight Recorder: {why}")))
}

fn settings(search: Duration) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<configuration version=\"2.0\" label=\"highwater\" \
         provider=\"highwater\">\n<event name=\"jdk.OldObjectSample\"><setting name=\"enabled\">true</setting>\
         <setting name=\"stackTrace\">true</setting><setting name=\"cutoff\">{} ms</setting></event>\n\
         </configuration>\n",
        search.as_millis().max(1)
    )
}

/// A folder in the JVM's /tmp that only its user may enter; removed when dropped. Files are made and removed with that
/// user's rights: it decides what its /tmp is.
#[derive(Debug)]
struct Folder {
    name: String,
    tmp: OwnedFd,
    folder: OwnedFd,
    user: User,
    uid: u32,
}

impl Folder {
    fn create(listener: &Listener) -> Result<Folder, Error> {
        let (status, tmp) = (listener.target.status()?, listener.target.tmp()?);
        let user = User::of(&status, &tmp)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let number = now.map_or(0, |since| since.as_nanos());
        let name = format!("highwater-jfr-{}-{number:x}", status.inner_pid);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = user.run(|| {
            mkdirat(&tmp, &name, Mode::RWXU)?;
            openat(&tmp, &name, flags, Mode::empty())
        });
        let folder =
            made.map_err(|errno| refused(&format!("/tmp/{name} cannot be created"), errno))?;
        Ok(Folder {
            name,
            tmp,
            folder,
            user,
            uid: status.uid,
        })
    }

    fn write(&self, file: &str, text: &[u8]) -> Result<(), Error> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let written = self.user.run(|| {
            let file = openat(&self.folder, file, flags, mode)?;
            rustix::io::write(&file, text)
        });
        match written {
            Ok(count) if count == text.len() => Ok(()),
            Ok(_) => Err(self.refused(file, Errno::NOSPC)),
            Err(errno) => Err(self.refused(file, errno)),
        }
    }

    /// A regular file of the JVM's user that is not too large.
    fn read(&self, file: &str) -> Result<Vec<u8>, Error> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = self
            .user
            .run(|| openat(&self.folder, file, flags, Mode::empty()));
        let opened = opened.map_err(|errno| self.refused(file, errno))?;
        let about = fstat(&opened).map_err(|errno| self.refused(file, errno))?;
        let is_regular = FileType::from_raw_mode(about.st_mode) == FileType::RegularFile;
        let size = u64::try_from(about.st_size).unwrap_or(u64::MAX);
        if !is_regular || about.st_uid != self.uid || size > FILE_BYTES_MAX {
            return Err(Error::Refused(format!(
                "its recording is no file of its user of at most {} MiB",
                FILE_BYTES_MAX >> 20
            )));
        }
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        let mut got = 0;
        while got < bytes.len() {
            match rustix::io::pread(&opened, &mut bytes[got..], got as u64) {
                Ok(0) => break,
                Ok(count) => got += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.refused(file, errno)),
            }
        }
        bytes.truncate(got);
        Ok(bytes)
    }

    fn remove(&self, file: &str) {
        // It may not be there.
        let _ = self
            .user
            .run(|| unlinkat(&self.folder, file, AtFlags::empty()));
    }

    fn refused(&self, file: &str, errno: Errno) -> Error {
        refused(&format!("/tmp/{}/{file} cannot be used", self.name), errno)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.remove(SETTINGS);
        self.remove(RECORDING);
        // A folder that something else was put in stays.
        let _ = self
            .user
            .run(|| unlinkat(&self.tmp, &self.name, AtFlags::REMOVEDIR));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_jfr_refuses_is_reported() {
        assert_eq!(
            expect("Started recording 1.\n", "Started recording"),
            Ok(())
        );
        let error = expect("\nCould not start recording, not able to x.\n", "Started").unwrap_err();
        assert_eq!(
            error.to_string(),
            "JDK Flight Recorder: Could not start recording, not able to x."
        );
        assert!(settings(Duration::from_millis(250)).contains(">250 ms<"));
    }
}
