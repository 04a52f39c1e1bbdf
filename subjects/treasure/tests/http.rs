//! The HTTP side: the game over WebSocket, the page, the metrics.

mod server;

use server::{Client, Server};
use treasure::protocol::{Answer, Request, parse_answer};
use tungstenite::Message;

#[test]
fn the_same_game_over_websocket() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let stream = std::net::TcpStream::connect(("127.0.0.1", server.http)).unwrap();
    let (mut socket, _) =
        tungstenite::client(format!("ws://127.0.0.1:{}/ws", server.http), stream).unwrap();
    let mut both = Request::Hello { token: 0 }.frame().bytes().to_vec();
    both.extend_from_slice(server::tap(1).frame().bytes());
    socket.send(Message::Binary(both.into())).unwrap();
    let answers = socket.read().unwrap().into_data();
    let (welcome, length) = parse_answer(&answers).unwrap().unwrap();
    let Answer::Welcome { token, .. } = welcome else {
        panic!("{welcome:?}")
    };
    let (coin, _) = parse_answer(&answers[length..]).unwrap().unwrap();
    let Answer::Coin { coin, .. } = coin else {
        panic!("{coin:?}")
    };

    // The session is one and the same over TCP.
    let mut client = Client::connect(server.port).unwrap();
    assert_eq!(client.hello(token).unwrap(), (token, 1));
    assert_eq!(client.tap(1).unwrap(), coin);

    socket.send(Message::Text("tap".into())).unwrap();
    assert!(socket.read().is_err());
    assert!(server.wait_for("treasure_dropped_total{reason=\"broken\"}", 1) == 1);
}

#[test]
fn metrics_and_health() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--net", "uring"]);
    Client::connect(server.port).unwrap().hello(0).unwrap();
    let (status, text) = server.get("/metrics");
    assert_eq!(status, 200);
    assert!(
        text.ends_with("# EOF\n") && text.contains("treasure_sessions 1\n"),
        "{text}"
    );
    assert!(text.contains("highwater_alloc_info{allocator="), "{text}");
    assert_eq!(server.get("/healthz"), (200, "ok\n".into()));
    assert_eq!(server.get("/nothing").0, 404);
}
