//! What the command line and NODE_OPTIONS of a Node.js process say of its inspector.

use std::fs;
use std::net::IpAddr;

/// The inspector's port where nothing else is chosen.
const DEFAULT_PORT: u16 = 9229;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// It listens from the start.
    pub on: bool,
    port: Option<u16>,
    /// A host that is not this machine alone.
    pub remote_host: Option<String>,
}

pub fn read(pid: u32) -> Options {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    parse(&environment, &arguments)
}

fn parse(environment: &[u8], arguments: &[u8]) -> Options {
    let environment = String::from_utf8_lossy(environment);
    let arguments = String::from_utf8_lossy(arguments);
    let variable = environment
        .split('\0')
        .find_map(|entry| entry.strip_prefix("NODE_OPTIONS="));
    let variable: Vec<&str> = variable.unwrap_or("").split_whitespace().collect();
    let arguments: Vec<&str> = arguments.split('\0').skip(1).collect();
    let mut options = Options::default();
    options.add_all(&variable);
    // Options behind the script are the script's. Which word is the script is not known (`-r module`, a loader): a
    // host that one of them names is refused all the same.
    let mut all = Options::default();
    all.add_all(&arguments);
    let mut own = 0;
    while own < arguments.len() && is_own(&arguments[..=own]) {
        own += 1;
    }
    options.add_all(&arguments[..own]);
    options.remote_host = options.remote_host.or(all.remote_host);
    options
}

/// The last word is an option, or the value of the one before it.
fn is_own(words: &[&str]) -> bool {
    match words {
        [.., option, value] => value.starts_with('-') || takes_value(option),
        [word] => word.starts_with('-'),
        [] => false,
    }
}

fn takes_value(option: &str) -> bool {
    const VALUED: [&str; 6] = [
        "-r",
        "--require",
        "--import",
        "--loader",
        "--inspect-port",
        "--debug-port",
    ];
    VALUED.contains(&option.replace('_', "-").as_str())
}

impl Options {
    /// Where the inspector listens or would listen; zero: on any free port.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(DEFAULT_PORT)
    }

    fn add_all(&mut self, words: &[&str]) {
        for (at, word) in words.iter().enumerate() {
            let next = words.get(at + 1).copied().unwrap_or("");
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            // Both are spelled with `_`, too.
            match name.replace('_', "-").as_str() {
                "--inspect" | "--inspect-brk" | "--inspect-wait" => {
                    self.on = true;
                    self.add_address(value);
                }
                "--inspect-port" | "--debug-port" if word.contains('=') => self.add_address(value),
                "--inspect-port" | "--debug-port" => self.add_address(next),
                _ => {}
            }
        }
    }

    /// `9230`, `127.0.0.1:9230`, `[::1]:9230`, `localhost`
    fn add_address(&mut self, value: &str) {
        let (host, port) = match value.rsplit_once(':') {
            Some((host, port)) if !value.ends_with(']') => (host, port.parse().ok()),
            _ => match value.parse() {
                Ok(port) => ("", Some(port)),
                Err(_) => (value, None),
            },
        };
        self.port = port.or(self.port);
        let host = host.trim_matches(['[', ']']);
        let is_loopback = host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        if !host.is_empty() {
            let is_remote = host != "localhost" && !is_loopback;
            self.remote_host = is_remote.then(|| host.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(environment: &str, arguments: &str) -> Options {
        parse(environment.as_bytes(), arguments.as_bytes())
    }

    #[test]
    fn options_come_from_both_places_and_not_from_the_script() {
        let chosen = |on, port| Options {
            on,
            port,
            remote_host: None,
        };
        assert_eq!(of("", "node\0a.js\0--inspect\0"), chosen(false, None));
        assert_eq!(of("", "node\0--inspect=0\0a.js\0"), chosen(true, Some(0)));
        assert_eq!(
            of("", "node\0--inspect_port\09300\0a.js\0"),
            chosen(false, Some(9300))
        );
        assert_eq!(
            of("", "node\0-r\0x\0--inspect-port=9300\0a.js\0"),
            chosen(false, Some(9300))
        );
        assert_eq!(
            of("A=1\0NODE_OPTIONS=--inspect=[::1]:7\0", "node\0a.js\0"),
            chosen(true, Some(7))
        );
    }

    #[test]
    fn a_host_of_the_network_is_found() {
        let host = |option: &str| of("", &format!("node\0{option}\0a.js\0")).remote_host;
        for local in ["127.0.0.1:1", "localhost", "[::1]:0", "9300", "localhost:0"] {
            assert_eq!(host(&format!("--inspect-port={local}")), None, "{local}");
        }
        for (remote, name) in [
            ("0.0.0.0:9300", "0.0.0.0"),
            ("0.0.0.0", "0.0.0.0"),
            ("[::]:1", "::"),
            ("example.org:0", "example.org"),
        ] {
            let expected = Some(name.to_owned());
            assert_eq!(host(&format!("--inspect-port={remote}")), expected);
            assert_eq!(host(&format!("--inspect-port\0{remote}")), expected);
            assert_eq!(
                host(&format!("--unknown\0value\0--debug_port={remote}")),
                expected
            );
        }
    }
}
