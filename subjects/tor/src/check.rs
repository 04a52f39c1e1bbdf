//! Whether a relay is a full member: in the private network and nowhere else, listed in the consensus as running and as
//! an exit, and the end of a circuit through which a page comes.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::consensus::{identity_of, parse_consensus};
use crate::control::Control;
use crate::network::{AUTHORITIES, Network, read_consensus};
use crate::{namespace, torrc};

const PAGE_BYTES: u64 = 1000;
/// For all tries together, below the 30 s that a check may take.
const PATIENCE: Duration = Duration::from_secs(27);
const TRY: Duration = Duration::from_secs(9);
/// A relay that is too busy for one circuit is too busy for the next at once.
const PAUSE: Duration = Duration::from_secs(2);

/// The fingerprint that a relay wrote when it made its keys.
///
/// # Errors
/// When it has none yet.
pub fn read_fingerprint(data: &Path) -> Result<String> {
    let file = data.join("fingerprint");
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    torrc::parse_fingerprint(&text)
}

/// The way to a relay: two authorities, which are no arm's, and then itself.
pub fn path_to(network: &Network, relay: &str) -> Vec<String> {
    let first = network.fingerprints.iter().take(2).cloned();
    first.chain([relay.to_owned()]).collect()
}

/// # Errors
/// What does not hold.
pub fn check(folder: &Path, data: &Path, pid: i32) -> Result<()> {
    let network = Network::read(folder)?;
    namespace::check_isolated(format!("/proc/{pid}/net/dev").as_ref())?;
    let fingerprint = read_fingerprint(data)?;
    check_listed(folder, &fingerprint)?;
    namespace::join(network.pid)?;
    let path = path_to(&network, &fingerprint);
    // A circuit may fail when the machine is busy; a relay that cannot end one fails again.
    let until = Instant::now() + PATIENCE;
    while let Err(failed) = pull(&path) {
        if Instant::now() + PAUSE + TRY > until {
            return Err(failed);
        }
        thread::sleep(PAUSE);
    }
    println!("listed by {AUTHORITIES} authorities, 200 through a circuit");
    Ok(())
}

fn pull(path: &[String]) -> Result<()> {
    let pulled = Control::open(TRY)?.pull(path, PAGE_BYTES)?;
    ensure!(
        pulled.status == 200 && pulled.bytes > PAGE_BYTES,
        "the page came with status {} and {} bytes through a circuit that ends in this relay",
        pulled.status,
        pulled.bytes
    );
    Ok(())
}

fn check_listed(folder: &Path, fingerprint: &str) -> Result<()> {
    let identity = identity_of(fingerprint)?;
    for number in 0..AUTHORITIES {
        let listed = parse_consensus(&read_consensus(folder, number));
        let all = listed.len();
        let found = listed.into_iter().find(|one| one.identity == identity);
        let name = torrc::authority_name(number);
        let found = found.with_context(|| {
            format!("{fingerprint} is not among the {all} relays that {name} lists")
        })?;
        ensure!(
            found.is_running() && found.is_exit,
            "{name} lists {fingerprint} with flags {:?}, {} exit",
            found.flags,
            if found.is_exit { "an" } else { "no" }
        );
    }
    Ok(())
}
