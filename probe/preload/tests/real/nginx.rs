//! nginx with workers that come and go.

use std::path::Path;
use std::process::Command;

use crate::subject::read_tables;
use crate::{Server, preload, three, unpacked, wait_for_port};
use testkit::free_port;

#[test]
#[ignore = "a minute, and fetches nginx"]
fn nginx_serves_and_reloads() {
    let Some(folder) = unpacked(&["nginx"]) else {
        return;
    };
    let nginx = folder.path().join("root/usr/sbin/nginx");
    for (name, file) in three() {
        let (port, site) = (free_port().to_string(), tempfile::tempdir().unwrap());
        let at = |part: &str| site.path().join(part).display().to_string();
        std::fs::write(site.path().join("page.html"), "x".repeat(20_000)).unwrap();
        let configuration = format!(
            "worker_processes 2; daemon off; pid {}; error_log {}; events {{}} http {{ access_log off; gzip on;
             gzip_types *; client_body_temp_path {}; proxy_temp_path {}; fastcgi_temp_path {}; uwsgi_temp_path {};
             scgi_temp_path {}; server {{ listen 127.0.0.1:{port}; root {}; }} }}",
            at("pid"), at("errors"), at("a"), at("b"), at("c"), at("d"), at("e"), site.path().display()
        );
        std::fs::write(site.path().join("nginx.conf"), configuration).unwrap();
        let mut command = Command::new(&nginx);
        command
            .args(["-c", &at("nginx.conf"), "-e", &at("errors")])
            .env("LD_PRELOAD", preload(&file));
        let mut server = Server(command.spawn().unwrap());
        wait_for_port(&port);
        for round in 0..300 {
            get(&port, "/page.html");
            if round % 100 == 50 {
                // New workers are forked, the old ones leave.
                // SAFETY: a signal to the child that this test started and has not waited for.
                unsafe { libc::kill(server.0.id() as i32, libc::SIGHUP) };
            }
        }
        let copy = read_tables(server.0.id()).unwrap_or_else(|anchor| panic!("{name}: {anchor:?}"));
        assert!(
            abi::read(&copy).unwrap().header.counters.forks_seen >= 2,
            "{name}"
        );
        // SAFETY: as above.
        unsafe { libc::kill(server.0.id() as i32, libc::SIGQUIT) };
        assert!(server.0.wait().unwrap().success(), "{name}");
        let errors = std::fs::read_to_string(Path::new(&at("errors"))).unwrap_or_default();
        assert!(!errors.contains("exited on signal"), "{name}: {errors}");
    }
}

fn get(port: &str, path: &str) {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(
        answer.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
}
