//! The load of one relay: the same for every relay, whatever its arm. Links come and go, each with requests for
//! documents of the directory in all their encodings, and (when asked for) pulls of a page through a circuit that
//! ends in the relay.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use highwater_load::{Connection, Outcome};

use crate::check::path_to;
use crate::control::Control;
use crate::link::Link;
use crate::network::Network;

/// What a relay's directory has, and its encodings.
const DOCUMENTS: &[&str] = &[
    "/tor/status-vote/current/consensus-microdesc",
    "/tor/status-vote/current/consensus",
    "/tor/server/all",
    "/tor/server/authority",
    "/tor/keys/all",
];
const ENCODINGS: &[&str] = &["identity", "deflate", "gzip", "x-zstd", "x-tor-lzma"];
/// For a circuit and a page on one machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Requests on one link: 1 to this, evenly; a client's links live from seconds to minutes.
const REQUESTS_PER_LINK_MAX: u64 = 20;

/// What kinds of requests there are.
#[derive(Debug, Clone)]
pub struct Mix {
    pub relay: SocketAddr,
    pub seed: u64,
    /// Without them a request is a circuit that is made and given up: what a relay without a directory can do.
    pub documents: bool,
    pub pulls: Option<Pulls>,
}

/// Pulls of the page, among the requests.
#[derive(Debug, Clone)]
pub struct Pulls {
    /// One request in so many.
    pub every: u64,
    pub bytes: u64,
    pub network: Arc<Network>,
    /// The relay's own folder: its fingerprint.
    pub data: PathBuf,
}

/// One of the relay's clients.
pub struct Client {
    mix: Mix,
    random: fastrand::Rng,
    link: Option<Link>,
    left: u64,
}

impl Client {
    /// `number` tells the clients of one load apart.
    pub fn new(mix: Mix, number: u64) -> Self {
        let seed = mix
            .seed
            .wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        Self {
            random: fastrand::Rng::with_seed(seed),
            mix,
            link: None,
            left: 0,
        }
    }

    fn try_request(&mut self, number: u64) -> io::Result<()> {
        if let Some(pulls) = &self.mix.pulls
            && number.is_multiple_of(pulls.every)
        {
            return pulls.pull();
        }
        if self.left == 0 {
            self.link.take().into_iter().for_each(Link::close);
            self.left = self.random.u64(1..=REQUESTS_PER_LINK_MAX);
        }
        self.left -= 1;
        let link = match &mut self.link {
            Some(link) => link,
            none => none.insert(Link::open(self.mix.relay)?),
        };
        let mut circuit = link.circuit(&mut self.random)?;
        if self.mix.documents {
            let path = DOCUMENTS[self.random.usize(..DOCUMENTS.len())];
            let encoding = ENCODINGS[self.random.usize(..ENCODINGS.len())];
            let answer = circuit.fetch(link, path, encoding)?;
            if answer.status != 200 {
                let words = format!("{path} in {encoding}: status {}", answer.status);
                return Err(io::Error::new(io::ErrorKind::InvalidData, words));
            }
        }
        circuit.close(link)
    }
}

impl Pulls {
    fn pull(&self) -> io::Result<()> {
        let fingerprint = crate::check::read_fingerprint(&self.data).map_err(io::Error::other)?;
        let path = path_to(&self.network, &fingerprint);
        let mut control = Control::open(PATIENCE).map_err(io::Error::other)?;
        let pulled = control.pull(&path, self.bytes).map_err(io::Error::other)?;
        match pulled.status {
            200 => Ok(()),
            status => Err(io::Error::other(format!(
                "the page came with status {status}"
            ))),
        }
    }
}

impl Connection for Client {
    fn request(&mut self, number: u64) -> Outcome {
        let Err(error) = self.try_request(number) else {
            return Outcome::Answered;
        };
        // A link that failed once is in an unknown state.
        self.link = None;
        self.left = 0;
        eprintln!("request {number}: {error}");
        match error.kind() {
            io::ErrorKind::TimedOut => Outcome::TimedOut,
            _ => Outcome::Failed,
        }
    }
}
