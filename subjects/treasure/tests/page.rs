//! The page in a real browser: somebody taps the field, and its latency shows.

mod server;

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use server::Server;
use testkit::skipped;
use tungstenite::{Message, WebSocket};

/// A headless browser with one page, driven over its own WebSocket.
struct Browser {
    child: Child,
    socket: WebSocket<TcpStream>,
    _profile: tempfile::TempDir,
}

impl Browser {
    fn open(url: &str) -> Browser {
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new("chromium")
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--remote-debugging-port=0",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(url)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        let port = loop {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "the browser ended");
            if let Some(rest) = line.split("ws://127.0.0.1:").nth(1) {
                break rest.split('/').next().unwrap().parse::<u16>().unwrap();
            }
        };
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let socket = socket_of_page(port);
        Browser {
            child,
            socket,
            _profile: profile,
        }
    }

    /// What an expression is in the page, as text.
    fn evaluate(&mut self, expression: &str) -> String {
        let ask = format!(
            r#"{{"id":1,"method":"Runtime.evaluate","params":{{"expression":"String({expression})"}}}}"#
        );
        self.ask(ask)
            .split(r#""value":""#)
            .nth(1)
            .and_then(|rest| rest.split('"').next())
            .unwrap_or("")
            .to_owned()
    }

    fn press(&mut self, x: u32, y: u32) {
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                format!(r#"{{"type":"{kind}","x":{x},"y":{y},"button":"left","clickCount":1}}"#);
            self.ask(format!(
                r#"{{"id":1,"method":"Input.dispatchMouseEvent","params":{event}}}"#
            ));
        }
    }

    fn ask(&mut self, ask: String) -> String {
        self.socket.send(Message::Text(ask.into())).unwrap();
        loop {
            let answer = self.socket.read().unwrap().into_text().unwrap();
            if answer.contains(r#""id":1"#) {
                return answer.to_string();
            }
        }
    }

    fn wait_for(&mut self, expression: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let text = self.evaluate(expression);
            if is_wanted(&text) {
                return text;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "{expression} is {text:?}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn socket_of_page(port: u16) -> WebSocket<TcpStream> {
    let begun = Instant::now();
    loop {
        let list = ureq::get(format!("http://127.0.0.1:{port}/json/list")).call();
        let list = list.unwrap().body_mut().read_to_string().unwrap();
        let page = list
            .split("\"webSocketDebuggerUrl\": \"")
            .nth(1)
            .filter(|_| list.contains("\"type\": \"page\""));
        if let Some(url) = page.and_then(|rest| rest.split('"').next()) {
            let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let limit = Some(Duration::from_secs(60));
            stream.set_read_timeout(limit).unwrap();
            return tungstenite::client(url, stream).unwrap().0;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no page: {list}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn has_no_browser() -> bool {
    let version = Command::new("chromium")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if version.is_err() {
        skipped("the page in a browser: no chromium");
    }
    version.is_err()
}

const TEXT: &str = "document.getElementById('ID').textContent";

fn text_of(id: &str) -> String {
    TEXT.replace("ID", id)
}

#[test]
fn taps_on_the_field_bring_coins_and_their_latency() {
    if has_no_browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path(), &["--net", "uring"]);
    let mut browser = Browser::open(&format!("http://127.0.0.1:{}/", server.http));
    browser.wait_for(&text_of("state"), |text| text == "tap the field");
    for taps in 1..=5 {
        browser.press(300, 250);
        browser.wait_for(&text_of("coins"), |text| text == taps.to_string());
    }
    assert_eq!(server.metric("treasure_taps_total"), 5);
    for id in ["last", "median", "longest"] {
        let text = browser.evaluate(&text_of(id));
        let ms: f64 = text.strip_suffix(" ms").unwrap().parse().unwrap();
        assert!((0.0..60_000.0).contains(&ms), "{id}: {text}");
    }

    // The server is killed and started again: the page comes back to its session and plays on.
    server.kill();
    browser.wait_for(&text_of("state"), |text| text.contains("trying again"));
    let options = ["--net", "uring"];
    let server = Server::start_at(folder.path(), server.port, server.http, &options);
    browser.wait_for(&text_of("state"), |text| text == "tap the field");
    assert_eq!(browser.evaluate(&text_of("coins")), "5");
    browser.press(300, 250);
    browser.wait_for(&text_of("coins"), |text| text == "6");
    server.wait_for("treasure_taps_total", 1);

    // Another server, which does not know the session: a new one.
    drop(server);
    browser.wait_for(&text_of("state"), |text| text.contains("trying again"));
    let elsewhere = tempfile::tempdir().unwrap();
    let server = Server::start(elsewhere.path(), &[]);
    let token = "localStorage.setItem('treasure-token', '123456789')";
    let mut browser = Browser::open(&format!("http://127.0.0.1:{}/", server.http));
    browser.wait_for(&text_of("state"), |text| text == "tap the field");
    browser.evaluate(token);
    browser.evaluate("location.reload()");
    browser.wait_for(
        "localStorage.getItem('treasure-token') != '123456789'",
        |text| text == "true",
    );
    browser.wait_for(&text_of("state"), |text| text == "tap the field");
    browser.press(300, 250);
    browser.wait_for(&text_of("coins"), |text| text == "1");
}

#[test]
fn the_page_says_when_there_is_no_room() {
    if has_no_browser() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--sessions", "64"]);
    let mut client = server::Client::connect(server.port).unwrap();
    (0..64).for_each(|_| {
        client.hello(0).unwrap();
    });
    let mut browser = Browser::open(&format!("http://127.0.0.1:{}/", server.http));
    browser.wait_for(&text_of("state"), |text| text.contains("full"));
}
