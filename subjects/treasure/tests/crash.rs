//! kill -9 at random moments under load: players keep a ledger, and the server's must be theirs.

mod server;

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use server::{Client, NETS, Server, tap};
use treasure::protocol::{Answer, Request};
use treasure::session::RECENT;

const PLAYERS: usize = 12;
const KILLS: usize = 5;
/// Of a player's rounds, one in so many ends with both its taps unanswered and goes on over another connection.
const DROP_OUT_EVERY: u32 = 40;

/// What a player was told.
#[derive(Default)]
struct Ledger {
    token: u64,
    /// Coin of tap `n` at `n - 1`.
    coins: Vec<u64>,
    /// Number of the last tap ever sent.
    sent: u32,
    /// Most taps that a welcome counted: it is an answer, too.
    welcomed: u32,
}

impl Ledger {
    /// Comes back, checks the server's account against the ledger, and plays until the connection breaks.
    fn play(&mut self, port: u16, stop: &AtomicBool, random: &mut fastrand::Rng) -> io::Result<()> {
        let mut client = Client::connect(port)?;
        let (token, taps) = client.hello(self.token)?;
        self.token = token;
        self.check(&mut client, taps)?;
        self.welcomed = taps;
        while !stop.load(SeqCst) {
            // Two under way, so that a kill meets one that is in the log and not answered.
            let first = self.coins.len() as u32 + 1;
            for number in [first, first + 1] {
                self.sent = self.sent.max(number);
                client.send(tap(number))?;
            }
            if random.u32(..DROP_OUT_EVERY) == 0 {
                return Ok(());
            }
            for number in [first, first + 1] {
                match client.hear()? {
                    Answer::Coin {
                        number: given,
                        coin,
                    } if given == number => self.coins.push(coin),
                    other => panic!("{other:?} to tap {number} of {:x}", self.token),
                }
            }
        }
        Ok(())
    }

    fn check(&self, client: &mut Client, taps: u32) -> io::Result<()> {
        let told = self.coins.len() as u32;
        assert!(
            told <= taps,
            "coins lost: {told} told, {taps} kept, session {:x}",
            self.token
        );
        assert!(
            self.welcomed <= taps,
            "coins lost: {} in a welcome, {taps} kept, session {:x}",
            self.welcomed,
            self.token
        );
        assert!(
            taps <= self.sent,
            "coins given without a tap: {taps} of {} sent",
            self.sent
        );
        // Taps that were sent before a drop-out may come in now, and push others out of what can be repeated.
        let oldest = (self.sent + 1).saturating_sub(RECENT as u32).max(1);
        for number in oldest..=told {
            let again = client.tap(number)?;
            assert_eq!(
                again,
                self.coins[number as usize - 1],
                "tap {number} of {:x} was given twice",
                self.token
            );
        }
        Ok(())
    }
}

#[test]
fn no_coin_is_lost_or_given_twice_over_kill_and_restart() {
    for net in NETS {
        kill_and_judge(net, 17, &[]);
    }
}

/// Minutes: the same at many more moments, under every policy.
#[test]
#[ignore = "two minutes of kills: make test-long"]
fn no_coin_is_lost_at_other_moments_and_under_other_policies() {
    for net in NETS {
        for seed in 100..106 {
            kill_and_judge(net, seed, &[]);
            kill_and_judge(net, seed, &["--threads", "4", "--coins", "inline"]);
            kill_and_judge(net, seed, &["--sync", "always"]);
        }
    }
}

fn kill_and_judge(net: &str, seed: u64, more: &[&str]) {
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    // Snapshots so often that some kills meet one.
    let often = ["--net", net, "--snapshot", "150ms", "--spray", "4"];
    let options = [&often[..], more].concat();
    let mut server = Server::start(folder.path(), &options);
    let (port, http) = (server.port, server.http);
    let stop = AtomicBool::new(false);
    let ledgers: Vec<Ledger> = std::thread::scope(|scope| {
        let players: Vec<_> = (0..PLAYERS)
            .map(|_| {
                let (mut random, stop) = (random.fork(), &stop);
                scope.spawn(move || {
                    let mut ledger = Ledger::default();
                    while !stop.load(SeqCst) {
                        // Killed: back as soon as the next one listens.
                        let _ = ledger.play(port, stop, &mut random);
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    ledger
                })
            })
            .collect();
        for _ in 0..KILLS {
            std::thread::sleep(Duration::from_millis(random.u64(50..600)));
            server.kill();
            server = Server::start_at(folder.path(), port, http, &options);
        }
        std::thread::sleep(Duration::from_millis(200));
        stop.store(true, SeqCst);
        players
            .into_iter()
            .map(|player| player.join().unwrap())
            .collect()
    });
    server.kill();
    let server = Server::start_at(folder.path(), port, http, &options);
    judge(&server, &ledgers, &format!("{net} {more:?}, seed {seed}"));
}

/// After the last restart: every account, and no coin in two of them.
fn judge(server: &Server, ledgers: &[Ledger], case: &str) {
    let mut owners = HashMap::new();
    let mut coins = 0;
    for ledger in ledgers {
        let (mut client, taps) = Client::resume(server.port, ledger.token);
        ledger.check(&mut client, taps).unwrap();
        coins += ledger.coins.len();
        for coin in &ledger.coins {
            assert_eq!(
                owners.insert(*coin, ledger.token),
                None,
                "coin {coin:x} twice ({case})"
            );
        }
    }
    assert!(
        coins > PLAYERS * KILLS,
        "only {coins} taps were played ({case})"
    );
}

#[test]
fn a_session_goes_on_after_an_orderly_end_on_the_other_network() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = (0, 0);
    for (round, net) in ["tokio", "uring", "tokio"].into_iter().enumerate() {
        let server = Server::start(
            folder.path(),
            &["--net", net, "--coins", "inline", "--sync", "always"],
        );
        let mut client = Client::connect(server.port).unwrap();
        let (token, taps) = client.hello(kept.0).unwrap();
        assert_eq!(
            (token == kept.0, taps),
            (round > 0, round as u32 * 3),
            "round {round}"
        );
        if round > 0 {
            assert_eq!(client.tap(taps).unwrap(), kept.1);
        }
        let last = (taps + 1..=taps + 3)
            .map(|number| client.tap(number).unwrap())
            .last();
        kept = (token, last.unwrap());
        assert!(
            matches!(client.ask(Request::Ping(*b"eightbyt")), Ok(Answer::Pong(bytes)) if bytes == *b"eightbyt")
        );
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&server.child),
            rustix::process::Signal::TERM,
        )
        .unwrap();
        let mut server = server;
        assert!(server.child.wait().unwrap().success());
    }
}
