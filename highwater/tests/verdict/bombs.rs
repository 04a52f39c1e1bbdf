//! Small answers and files that become large in memory: each is refused by a limit, and the memory stays bounded.

use std::io::{BufReader, Read, Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Output, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::scene::{Said, Scene, said};
use super::served::read_request;

const MIB: u64 = 1 << 20;

/// About a mebibyte of this text in gzip, `mebibytes` times over: members of one file.
fn bomb(text: &str, mebibytes: usize) -> Vec<u8> {
    packed(&text.repeat((1 << 20) / text.len())).repeat(mebibytes)
}

fn packed(text: &str) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    gzip.finish().unwrap()
}

/// Answers every request with this body in gzip.
fn serve(body: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = move |stream: TcpStream| {
        // To its end: what is left unread when the connection is closed resets it, and the answer is lost.
        let mut reader = BufReader::new(stream);
        read_request(&mut reader);
        let mut stream = reader.into_inner();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let _ = stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.write_all(&body));
    };
    std::thread::spawn(move || listener.incoming().flatten().for_each(answer));
    address
}

/// What the command says, and its largest resident set.
fn peak_of(scene: &Scene, arguments: &[&str]) -> (Said, u64) {
    // Files, not pipes: the process is waited for here, by its pid, for the kernel's account of it.
    let [mut out, mut err] = [(); 2].map(|()| tempfile::tempfile().unwrap());
    #[allow(clippy::zombie_processes, reason = "wait4 reaps it")]
    let child = scene
        .command(arguments)
        .stdout(Stdio::from(out.try_clone().unwrap()))
        .stderr(Stdio::from(err.try_clone().unwrap()))
        .spawn()
        .unwrap();
    let mut status = 0;
    // SAFETY: a rusage of zeros is one, and wait4 writes only to the two places it is given.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let pid = libc::wait4(child.id() as i32, &mut status, 0, &mut usage);
        assert_eq!(pid, child.id() as i32);
        usage
    };
    let [stdout, stderr] = [&mut out, &mut err].map(|file| {
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let status = ExitStatus::from_raw(status);
    let said = said(Output {
        status,
        stdout,
        stderr,
    });
    let peak = usage.ru_maxrss as u64 * 1024;
    eprintln!("{arguments:?}: peak {} MiB", peak / MIB);
    (said, peak)
}

fn is_refused((said, peak): &(Said, u64), parts: &[&str], peak_max: u64) {
    assert_eq!(said.code, 4, "{said:?}");
    for part in parts {
        assert!(said.err.contains(part), "{part}: {}", said.err);
    }
    assert!(*peak < peak_max, "{} MiB: {said:?}", peak / MIB);
}

fn asked(body: Vec<u8>) -> (String, (Said, u64)) {
    let address = serve(body);
    let flags = [
        "--metric",
        "x",
        "--start",
        "2026-01-01",
        "--end",
        "2026-01-02",
        "--step",
        "12h",
    ];
    let arguments = [&["verdict", "--prometheus", &address], &flags[..]].concat();
    let seen = peak_of(&Scene::new(), &arguments);
    (address, seen)
}

#[test]
fn an_answer_is_limited_after_decompression() {
    let (address, seen) = asked(bomb("\n", 1024));
    is_refused(
        &seen,
        &[&address, "larger than 256 MiB after decompression"],
        600 * MIB,
    );
}

#[test]
fn the_series_of_an_answer_are_limited() {
    let head = packed(r#"{"status":"success","data":{"resultType":"matrix","result":[{}"#);
    let body = [head, bomb(",{}", 40), packed("]}}")].concat();
    let (address, seen) = asked(body);
    is_refused(&seen, &[&address, "more than 200000 series"], 300 * MIB);
}

#[test]
fn a_file_beside_the_series_is_limited_after_decompression() {
    let scene = Scene::new();
    let path = |name: &str| scene.folder.path().join(name);
    std::fs::write(path("series.csv"), "id,t_s,rss_kib\na,0,1\na,1,1\n").unwrap();
    for (flag, head) in [("--meta", "id,limit_kib\n"), ("--groups", "process,arm\n")] {
        let body = [packed(head), bomb("x", 1024)].concat();
        std::fs::write(path("bomb.gz"), body).unwrap();
        let seen = peak_of(&scene, &["verdict", "series.csv", flag, "bomb.gz"]);
        is_refused(
            &seen,
            &["bomb.gz", "larger than 32 MiB after decompression"],
            300 * MIB,
        );
    }
}

#[test]
fn a_record_and_the_series_of_a_table_are_limited() {
    let scene = Scene::new();
    let write =
        |bytes: Vec<u8>| std::fs::write(scene.folder.path().join("bomb.gz"), bytes).unwrap();
    for text in ["\n", "x"] {
        write([packed("id,t_s,rss_kib\na,0,1\n"), bomb(text, 1024)].concat());
        let seen = peak_of(&scene, &["verdict", "bomb.gz"]);
        is_refused(
            &seen,
            &["bomb.gz", "a record longer than 16 MiB"],
            300 * MIB,
        );
    }
    let rows: String = (0..=200_000).map(|n| format!("{n},0,1\n")).collect();
    write(packed(&format!("id,t_s,rss_kib\n{rows}")));
    let seen = peak_of(&scene, &["verdict", "bomb.gz"]);
    is_refused(&seen, &["bomb.gz", "more than 200000 series"], 600 * MIB);
}
