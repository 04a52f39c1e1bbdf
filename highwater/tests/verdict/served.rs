//! Servers that are no Prometheus, or a Prometheus on a bad day: what each says to the user.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use super::scene::Scene;
use testkit::free_port;

/// What the server saw of one request: its path and body.
type Seen = Arc<Mutex<Vec<String>>>;

/// Serves these answers, one a connection, the last one for ever. An empty answer is a connection that stays
/// open and silent.
fn serve(answers: Vec<String>) -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    let seen = Seen::default();
    let log = seen.clone();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for (at, stream) in listener.incoming().flatten().enumerate() {
            let mut reader = BufReader::new(stream);
            let request = read_request(&mut reader);
            log.lock().expect("a lock").push(request);
            let answer = &answers[at.min(answers.len() - 1)];
            let mut stream = reader.into_inner();
            let _ = stream.write_all(answer.as_bytes());
            if answer.is_empty() {
                open.push(stream);
            }
        }
    });
    (address, seen)
}

pub fn read_request(reader: &mut impl BufRead) -> String {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) <= 2 {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        head += &line;
    }
    let mut body = vec![0; length];
    let _ = reader.read_exact(&mut body);
    head + &String::from_utf8_lossy(&body)
}

fn http(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

fn asks(answers: Vec<String>, flags: &[&str]) -> (super::scene::Said, Seen) {
    let (address, seen) = serve(answers);
    let scene = Scene::new();
    let said = scene.highwater(&[&["verdict", "--prometheus", &address], flags].concat());
    (said, seen)
}

const NOTHING: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#;

#[test]
fn what_is_no_prometheus_says_what_to_do() {
    let cut = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nConnection: close\r\n\r\n{}",
        &NOTHING[..40]
    );
    for (answer, part) in [
        (
            http("200 OK", "<!DOCTYPE html><title>Log in</title>"),
            "web page",
        ),
        (http("401 Unauthorized", "who are you"), "--header"),
        (http("404 Not Found", "404"), "a path may be missing"),
        (http("503 Service Unavailable", "away"), "try again later"),
        (http("200 OK", &NOTHING[..40]), "breaks off after 40 bytes"),
        (cut, "breaks off"),
        (
            "HTTP/1.1 two hundred\r\n\r\n".to_owned(),
            "http://127.0.0.1",
        ),
        (
            http(
                "400 Bad Request",
                r#"{"status":"error","errorType":"bad_data","error":"1:3: parse error"}"#,
            ),
            "1:3: parse error",
        ),
    ] {
        let (said, _) = asks(vec![answer], &["--metric", "x"]);
        assert_eq!(said.code, 4, "{part}: {said:?}");
        assert!(said.err.contains(part), "{part}: {}", said.err);
    }
}

#[test]
fn nobody_there_and_nobody_answering() {
    let scene = Scene::new();
    let free = format!("127.0.0.1:{}", free_port());
    let said = scene.highwater(&["verdict", "--prometheus", &free]);
    assert!(
        said.code == 4 && said.err.contains("nothing listens"),
        "{said:?}"
    );
    let (said, _) = asks(
        vec![String::new()],
        &["--metric", "x", "--timeout", "200ms"],
    );
    assert!(said.code == 4 && said.err.contains("--timeout"), "{said:?}");
    for bad in [
        &["--start", "soon"][..],
        &["--step", "-1"],
        &["--match", "job"],
        &["--header", "x"],
    ] {
        let said = scene.highwater(&[&["verdict", "--prometheus", &free], bad].concat());
        assert_eq!(said.code, 2, "{bad:?}: {said:?}");
    }
}

#[test]
fn a_server_that_finds_it_too_much_is_asked_for_less() {
    let too_much = r#"{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory in query execution"}"#;
    let page = matrix(&format!(r#"{{"metric":{{"instance":"a"}},{}}}"#, flat()));
    let answers = vec![
        http("422 Unprocessable Entity", too_much),
        http("422 Unprocessable Entity", too_much),
        http("200 OK", &page),
        http("200 OK", NOTHING),
    ];
    let flags = [
        "--metric",
        "x",
        "--start",
        "1700000000",
        "--end",
        "1700003600",
        "--json",
    ];
    let (said, seen) = asks(answers, &flags);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.out.contains("\"id\":\"a\",\"label\":\"flat\""),
        "{}",
        said.out
    );
    let seen = seen.lock().expect("a lock").clone();
    let window = |request: &str| -> u64 {
        let at = request
            .find("x%5B")
            .or_else(|| request.find("x["))
            .expect("a window");
        let digits: String = request[at..]
            .chars()
            .skip_while(|c| *c != 'B' && *c != '[')
            .skip(1)
            .take_while(char::is_ascii_digit)
            .collect();
        digits.parse().expect("milliseconds")
    };
    assert!(seen[0].starts_with("POST /api/v1/query "), "{}", seen[0]);
    assert_eq!(
        [window(&seen[0]), window(&seen[1]), window(&seen[2])],
        [3_601_000, 901_000, 226_000]
    );
}

/// Forty minutes of readings that stand still.
fn flat() -> String {
    let samples: Vec<String> = (0..40)
        .map(|i| format!("[{},\"{}\"]", 1_700_000_000 + 60 * i, 1_000_000 + i % 3))
        .collect();
    format!("\"values\":[{}]", samples.join(","))
}

fn matrix(result: &str) -> String {
    let data = format!(r#"{{"resultType":"matrix","result":[{result}]}}"#);
    format!(r#"{{"status":"success","data":{data}}}"#)
}

/// The hour in which [`flat`] lies.
const HOUR: [&str; 4] = ["--start", "1700000000", "--end", "1700003600"];

#[test]
fn native_histograms_are_left_out_and_said() {
    let histogram = r#"{"metric":{"instance":"h"},"histograms":[[1700000000,{"count":"3","sum":"5.5","buckets":[[1,"0","1","3"]]}]]}"#;
    let plain = format!(r#"{{"metric":{{"instance":"a"}},{}}}"#, flat());
    let query = ["--query", "max by (instance) (x)", "--json"];
    let flags = [&query[..], &HOUR].concat();
    let both = http("200 OK", &matrix(&format!("{histogram},{plain}")));
    let (said, _) = asks(vec![both], &flags);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.err
            .contains("1 series holds no numbers (native histograms?)"),
        "{}",
        said.err
    );
    assert!(
        said.out.contains("\"id\":\"a\",\"label\":\"flat\"") && !said.out.contains("\"id\":\"h\""),
        "{}",
        said.out
    );
    let (said, _) = asks(vec![http("200 OK", &matrix(histogram))], &flags);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.out.is_empty(), "{}", said.out);
}

#[test]
fn a_login_in_front_is_said() {
    let to = |status: &str, location: &str| {
        format!(
            "HTTP/1.1 {status}\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
    };
    for status in [
        "302 Found",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ] {
        let (said, _) = asks(vec![to(status, "/login")], &["--metric", "x"]);
        assert_eq!(said.code, 4, "{status}: {said:?}");
        assert!(
            said.err.contains("another address") && said.err.contains("--header"),
            "{status}: {}",
            said.err
        );
    }
}

#[test]
fn a_store_that_is_away_behind_the_server_is_said() {
    let result = format!(r#"{{"metric":{{"instance":"a"}},{}}}"#, flat());
    let body =
        matrix(&result).replacen('{', r#"{"warnings":["store 10.0.0.7 did not answer"],"#, 1);
    let flags = [&["--query", "max by (instance) (x)"][..], &HOUR].concat();
    let (said, _) = asks(vec![http("200 OK", &body)], &flags);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.err.contains("store 10.0.0.7 did not answer"),
        "{}",
        said.err
    );
}

#[test]
fn headers_are_sent() {
    let flags = [
        "--metric",
        "x",
        "--header",
        "X-Scope-OrgID: me",
        "--header",
        "Authorization: Bearer abc",
    ];
    let (said, seen) = asks(vec![http("200 OK", NOTHING)], &flags);
    assert!(
        said.code == 4 && said.err.contains("no series with samples"),
        "{said:?}"
    );
    let first = seen.lock().expect("a lock")[0].to_ascii_lowercase();
    assert!(
        first.contains("x-scope-orgid: me") && first.contains("authorization: bearer abc"),
        "{first}"
    );
}
