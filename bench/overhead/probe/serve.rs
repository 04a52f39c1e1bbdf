//! A small HTTP server, as a subject of beside.py: a request is parsed into maps of strings and answered in JSON.
//! One thread per connection, the system's allocator; it remembers the last 50,000 answers.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

const REMEMBERED: usize = 50_000;

struct Request {
    path: String,
    query: HashMap<String, String>,
    headers: HashMap<String, String>,
}

type Recent = Arc<Mutex<VecDeque<String>>>;

fn main() -> std::io::Result<()> {
    let port: u16 = std::env::args().nth(1).and_then(|word| word.parse().ok()).expect("serve PORT");
    let recent = Recent::default();
    for client in TcpListener::bind(("127.0.0.1", port))?.incoming() {
        let (client, recent) = (client?, recent.clone());
        std::thread::spawn(move || serve(client, &recent));
    }
    Ok(())
}

fn serve(client: TcpStream, recent: &Recent) -> std::io::Result<()> {
    let mut output = BufWriter::new(client.try_clone()?);
    let mut input = BufReader::with_capacity(1 << 16, client);
    while let Some(request) = read(&mut input)? {
        let body = answer(&request);
        write!(output, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")?;
        write!(output, "Content-Length: {}\r\n\r\n{body}\n", body.len() + 1)?;
        remember(recent, body);
        if input.buffer().is_empty() {
            output.flush()?;
        }
    }
    Ok(())
}

fn read(input: &mut impl BufRead) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let target = line.split(' ').nth(1).unwrap_or("/").to_owned();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let query = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        input.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    Ok(Some(Request { path: path.to_owned(), query, headers }))
}

fn answer(request: &Request) -> String {
    let mut words: Vec<String> = request.query.iter().map(|(name, value)| format!("\"{name}\":\"{value}\"")).collect();
    words.extend(request.headers.iter().map(|(name, value)| format!("\"{name}\":{}", value.len())));
    words.sort();
    format!("{{\"path\":\"{}\",{}}}", request.path, words.join(","))
}

fn remember(recent: &Recent, body: String) {
    let mut recent = recent.lock().expect("no thread panics");
    recent.push_back(body);
    if recent.len() > REMEMBERED {
        recent.pop_front();
    }
}
