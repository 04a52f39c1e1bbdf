//! What was said to a player stays true: counts in a welcome, slots that are used again, sessions that ended.

mod server;

use std::time::{Duration, Instant};

use server::{Client, NETS, Server, tap};
use treasure::protocol::{Answer, Refused, Request};

/// A new session and the coin of its first tap; waits while there is no room.
fn opened_and_tapped(port: u16) -> (u64, u64) {
    let begun = Instant::now();
    loop {
        let mut client = Client::connect(port).unwrap();
        match client.ask(Request::Hello { token: 0 }) {
            Ok(Answer::Welcome { token, .. }) => return (token, client.tap(1).unwrap()),
            Ok(Answer::Refusal {
                why: Refused::Full, ..
            }) => {}
            other => panic!("{other:?} to a hello"),
        }
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "no room for another session"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_unknown(server: &Server, token: u64) -> bool {
    let mut client = Client::connect_patiently(server.port);
    match client.ask(Request::Hello { token }) {
        Ok(Answer::Refusal {
            why: Refused::Unknown,
            ..
        }) => true,
        Ok(Answer::Welcome { .. }) => false,
        other => panic!("{other:?} to a hello with {token:x}"),
    }
}

#[test]
fn a_welcome_counts_no_coin_that_is_not_stored() {
    for net in NETS {
        let folder = tempfile::tempdir().unwrap();
        let options = ["--net", net, "--snapshot", "1h"];
        let mut server = Server::start(folder.path(), &options);
        let mut client = Client::connect(server.port).unwrap();
        let (token, _) = client.hello(0).unwrap();
        client.tap(1).unwrap();
        server.limit_file_size(Some(0));
        client.send(tap(2)).unwrap();
        assert!(client.is_hung_up(), "{net}");
        let mut again = Client::connect(server.port).unwrap();
        match again.ask(Request::Hello { token }) {
            Err(_) | Ok(Answer::Welcome { taps: 1, .. }) => {}
            other => panic!("{net}: {other:?} although tap 2 is not in the log"),
        }
        server.limit_file_size(None);
        let (_, told) = Client::resume(server.port, token);
        server.kill();
        let server = Server::start_at(folder.path(), server.port, server.http, &options);
        let (mut client, kept) = Client::resume(server.port, token);
        assert!(kept >= told, "{net}: {told} taps in a welcome, {kept} kept");
        assert_ne!(client.tap(kept).unwrap(), 0, "{net}");
    }
}

/// The end of a session that is not in the log must not make room: after a kill the old one would be back in the
/// slot of the new one.
#[test]
fn a_slot_is_given_again_only_when_the_end_of_its_session_is_stored() {
    const SESSIONS: usize = 64;
    for net in NETS {
        let folder = tempfile::tempdir().unwrap();
        let options = ["--net", net, "--sessions", "64", "--expire"];
        let short = [&options[..], &["1s", "--snapshot", "1500ms"]].concat();
        let mut server = Server::start(folder.path(), &short);
        let old: Vec<_> = (0..SESSIONS)
            .map(|_| opened_and_tapped(server.port).0)
            .collect();
        server.limit_file_size(Some(0));
        server.wait_for("treasure_expired_total", SESSIONS as u64);
        server.limit_file_size(None);
        let new: Vec<_> = (0..SESSIONS)
            .map(|_| opened_and_tapped(server.port))
            .collect();
        server.kill();
        let long = [&options[..], &["1h", "--snapshot", "1h"]].concat();
        let server = Server::start_at(folder.path(), server.port, server.http, &long);
        for (token, coin) in new {
            let (mut client, taps) = Client::resume(server.port, token);
            assert_eq!((taps, client.tap(1).unwrap()), (1, coin), "{net}");
        }
        assert!(
            old.iter().all(|token| is_unknown(&server, *token)),
            "{net}: an ended session is back"
        );
    }
}

#[test]
fn a_session_that_expired_is_unknown_also_after_a_kill() {
    for net in NETS {
        let folder = tempfile::tempdir().unwrap();
        let options = ["--net", net, "--expire", "1s", "--snapshot", "300ms"];
        let mut server = Server::start(folder.path(), &options);
        let (token, _) = opened_and_tapped(server.port);
        server.wait_for("treasure_expired_total", 1);
        assert!(is_unknown(&server, token), "{net}");
        let (kept, coin) = opened_and_tapped(server.port);
        server.kill();
        let server = Server::start_at(folder.path(), server.port, server.http, &options[..2]);
        assert!(is_unknown(&server, token), "{net}");
        let (mut client, taps) = Client::resume(server.port, kept);
        assert_eq!((taps, client.tap(1).unwrap()), (1, coin), "{net}");
    }
}

#[test]
fn a_half_closed_connection_still_hears_its_answers() {
    for net in NETS {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path(), &["--net", net]);
        let mut client = Client::connect(server.port).unwrap();
        client.send(Request::Hello { token: 0 }).unwrap();
        (1..=3).for_each(|number| client.send(tap(number)).unwrap());
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(
            matches!(client.hear().unwrap(), Answer::Welcome { .. }),
            "{net}"
        );
        for number in 1..=3 {
            assert!(
                matches!(client.hear().unwrap(), Answer::Coin { number: given, .. } if given == number),
                "{net}"
            );
        }
        assert!(client.is_hung_up(), "{net}");
    }
}

#[test]
fn after_a_full_house_the_first_to_come_is_let_in() {
    for net in NETS {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start_limited(200, folder.path(), &["--net", net]);
        for round in 0..3 {
            let crowd: Vec<_> = (0..30)
                .map(|_| Client::connect(server.port).unwrap())
                .collect();
            server.wait_for(
                "treasure_dropped_total{reason=\"no_descriptor\"}",
                14 * (round + 1),
            );
            drop(crowd);
            server.wait_until("treasure_connections", |open| open == 0);
            let mut client = Client::connect(server.port).unwrap();
            assert!(client.hello(0).is_ok(), "{net}, round {round}");
            drop(client);
            server.wait_until("treasure_connections", |open| open == 0);
        }
    }
}
