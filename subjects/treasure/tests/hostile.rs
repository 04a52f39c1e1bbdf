//! Bad input and bad luck: a counted drop, and everyone else plays on.

mod server;

use std::io::Write;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use server::{Client, NETS, Server, tap};
use treasure::protocol::{Answer, Refused, Request};

fn dropped(reason: &str) -> String {
    format!("treasure_dropped_total{{reason=\"{reason}\"}}")
}

#[test]
fn what_is_no_frame_ends_its_connection_and_no_other() {
    for net in NETS {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path(), &["--net", net]);
        let mut player = Client::connect(server.port).unwrap();
        player.hello(0).unwrap();
        let broken: [&[u8]; 5] = [
            &[0xff, 0xff],
            &[8, 0, 77, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0, 0, 2],
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3],
        ];
        for bytes in broken {
            let mut client = Client::connect(server.port).unwrap();
            client.stream.write_all(bytes).unwrap();
            assert!(client.is_hung_up(), "{net}: {bytes:?}");
        }
        assert_eq!(
            server.metric(&dropped("broken")),
            broken.len() as u64,
            "{net}"
        );
        // In pieces, a frame is a frame.
        for byte in tap(1).frame().bytes() {
            player.stream.write_all(&[*byte]).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(
            matches!(player.hear().unwrap(), Answer::Coin { number: 1, .. }),
            "{net}"
        );
    }
}

#[test]
fn refusals_say_why_and_repeated_taps_give_nothing_new() {
    for net in NETS {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path(), &["--net", net, "--sessions", "64"]);
        let mut client = Client::connect(server.port).unwrap();
        let why = |answer| match answer {
            Answer::Refusal { why, .. } => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(why(client.ask(tap(1)).unwrap()), Refused::NoHello);
        assert_eq!(
            why(client.ask(Request::Hello { token: 99 }).unwrap()),
            Refused::Unknown
        );
        let (token, _) = client.hello(0).unwrap();
        let coins: Vec<u64> = (1..=6).map(|number| client.tap(number).unwrap()).collect();
        assert_eq!(client.tap(5).unwrap(), coins[4]);
        assert_eq!(why(client.ask(tap(1)).unwrap()), Refused::Old);
        assert_eq!(why(client.ask(tap(8)).unwrap()), Refused::Ahead);
        let full = (0..64)
            .map(|_| client.ask(Request::Hello { token: 0 }).unwrap())
            .last()
            .unwrap();
        assert_eq!(why(full), Refused::Full);
        assert_eq!(client.hello(token).unwrap(), (token, 6));
    }
}

#[test]
fn who_does_not_read_is_dropped_and_memory_stays() {
    for net in NETS {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path(), &["--net", net, "--slow", "300ms"]);
        let before = server.rss_bytes();
        let readers: Vec<_> = (0..8)
            .map(|_| {
                let mut client = Client::connect(server.port).unwrap();
                client
                    .stream
                    .set_write_timeout(Some(Duration::from_secs(10)))
                    .unwrap();
                std::thread::spawn(move || {
                    let frame = Request::Ping([7; 8]).frame();
                    let bytes = frame.bytes().repeat(1000);
                    // Ends when the server hangs up.
                    while client.stream.write_all(&bytes).is_ok() {}
                })
            })
            .collect();
        server.wait_for(&dropped("slow_reader"), 8);
        readers
            .into_iter()
            .for_each(|reader| reader.join().unwrap());
        let grown = server.rss_bytes().saturating_sub(before);
        assert!(grown < 8 << 20, "{net}: {grown} bytes more");
    }
}

#[test]
fn silent_connections_are_dropped() {
    for net in NETS {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path(), &["--net", net, "--idle", "200ms"]);
        let mut silent = Client::connect(server.port).unwrap();
        let mut half = Client::connect(server.port).unwrap();
        half.stream.write_all(&[8, 0]).unwrap();
        assert!(silent.is_hung_up() && half.is_hung_up(), "{net}");
        assert_eq!(server.metric(&dropped("silent")), 2, "{net}");
    }
}

#[test]
fn without_room_in_the_log_nobody_is_answered_and_nothing_answered_is_lost() {
    for net in NETS {
        let folder = tempfile::tempdir().unwrap();
        let options = ["--net", net, "--snapshot", "200ms"];
        let mut server = Server::start(folder.path(), &options);
        let mut client = Client::connect(server.port).unwrap();
        let (token, _) = client.hello(0).unwrap();
        let first = client.tap(1).unwrap();
        server.limit_file_size(Some(0));
        client.send(tap(2)).unwrap();
        assert!(client.is_hung_up(), "{net}");
        assert_eq!(server.get("/healthz").0, 503, "{net}");
        assert!(server.metric(&dropped("not_stored")) >= 1);
        server.wait_for("treasure_snapshot_errors_total", 1);
        server.limit_file_size(None);
        let mut client = Client::connect(server.port).unwrap();
        let (_, taps) = client.hello(token).unwrap();
        assert!((1..=2).contains(&taps), "{net}: {taps}");
        let second = client.tap(2).unwrap();
        assert_eq!(server.get("/healthz").0, 200, "{net}");
        server.wait_for("treasure_snapshots_total", 1);
        server.kill();
        let server = Server::start_at(folder.path(), server.port, server.http, &options);
        let (mut client, taps) = Client::resume(server.port, token);
        assert_eq!(taps, 2, "{net}");
        assert_eq!(
            [client.tap(1).unwrap(), client.tap(2).unwrap()],
            [first, second],
            "{net}"
        );
    }
}

#[test]
fn more_connections_than_allowed_are_turned_away_and_the_rest_play() {
    for net in NETS {
        let folder = tempfile::tempdir().unwrap();
        // Leaves the fewest connections that the server sets itself, 16.
        let server = Server::start_limited(200, folder.path(), &["--net", net]);
        let mut player = Client::connect(server.port).unwrap();
        player.hello(0).unwrap();
        let crowd: Vec<_> = (0..30)
            .map(|_| Client::connect(server.port).unwrap())
            .collect();
        server.wait_for(&dropped("no_descriptor"), 15);
        (1..=20).for_each(|number| assert_ne!(player.tap(number).unwrap(), 0));
        drop(crowd);
        Client::resume(server.port, 0);
    }
}

/// The kernel takes a ring's limit when its accept begins, so this is epoll's alone.
#[test]
fn without_a_descriptor_a_connection_is_accepted_on_the_spare_one_and_closed() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let mut player = Client::connect(server.port).unwrap();
    player.hello(0).unwrap();
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.child.id()))
        .unwrap()
        .count() as u64;
    let limit = |descriptors| {
        let maximum = getrlimit(Resource::Nofile).maximum;
        let limit = Rlimit {
            current: Some(descriptors),
            maximum,
        };
        prlimit(
            Some(Pid::from_child(&server.child)),
            Resource::Nofile,
            limit,
        )
        .unwrap();
    };
    limit(open + 2);
    let mut crowd: Vec<_> = (0..12)
        .map(|_| Client::connect(server.port).unwrap())
        .collect();
    assert!(crowd.last_mut().unwrap().is_hung_up());
    (1..=20).for_each(|number| assert_ne!(player.tap(number).unwrap(), 0));
    drop(crowd);
    limit(4096);
    server.wait_for(&dropped("no_descriptor"), 1);
    Client::resume(server.port, 0);
}
