//! What is seen of a Node.js process from outside: its executable, its network, its signals.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Of descriptors of one process, and of sockets of a network.
const ENTRIES_MAX: usize = 200_000;
/// The inspector's port where nothing else is chosen.
pub const DEFAULT_PORT: u16 = 9229;

/// Its program is Node.js, or its library is mapped.
pub fn is_node(pid: u32) -> bool {
    let exe = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let name = exe.file_name().unwrap_or_default().to_string_lossy();
    // Another file may have replaced the one that runs.
    is_node_name(name.trim_end_matches(" (deleted)")) || maps_library(pid)
}

/// `node`, `nodejs`, `node20`, `node-22`; not `node_exporter`.
fn is_node_name(name: &str) -> bool {
    let version = name
        .strip_prefix("nodejs")
        .or_else(|| name.strip_prefix("node"));
    version.is_some_and(|version| {
        version
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b"-.".contains(&byte))
    })
}

fn maps_library(pid: u32) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().any(|line| {
        line.rsplit('/')
            .next()
            .is_some_and(|file| file.starts_with("libnode.so"))
    })
}

/// Whether SIGUSR1 has a handler; without one it ends the process. `None`: the status cannot be read.
pub fn catches_usr1(pid: u32) -> Option<bool> {
    parse_catches_usr1(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn parse_catches_usr1(status: &str) -> Option<bool> {
    const USR1: u64 = 1 << (rustix::process::Signal::USR1.as_raw() - 1);
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:"))?;
    let caught = u64::from_str_radix(line.trim(), 16).ok()?;
    Some(caught & USR1 != 0)
}

/// What the command line and NODE_OPTIONS say of the inspector.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// It listens from the start.
    pub on: bool,
    /// Zero: any free one.
    pub port: Option<u16>,
}

pub fn options(pid: u32) -> Options {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    parse_options(&environment, &arguments)
}

fn parse_options(environment: &[u8], arguments: &[u8]) -> Options {
    let environment = String::from_utf8_lossy(environment);
    let arguments = String::from_utf8_lossy(arguments);
    let variable = environment
        .split('\0')
        .find_map(|entry| entry.strip_prefix("NODE_OPTIONS="));
    // Options behind the script are the script's.
    let own = arguments
        .split('\0')
        .skip(1)
        .take_while(|argument| argument.starts_with('-'));
    let mut options = Options::default();
    for option in variable.unwrap_or("").split_whitespace().chain(own) {
        options.add(option);
    }
    options
}

impl Options {
    fn add(&mut self, option: &str) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match name {
            "--inspect" | "--inspect-brk" | "--inspect-wait" => self.on = true,
            "--inspect-port" | "--debug-port" => {}
            _ => return,
        }
        // `9230`, `127.0.0.1:9230`, `[::1]:9230`, `localhost`
        let port = value.rsplit(':').next().and_then(|port| port.parse().ok());
        self.port = port.or(self.port);
    }
}

/// In another network namespace its 127.0.0.1 is not ours.
pub fn is_same_network(pid: u32) -> bool {
    let network = |of: &str| fs::metadata(format!("/proc/{of}/ns/net")).map(|file| file.ino());
    match (network("self"), network(&pid.to_string())) {
        (Ok(ours), Ok(its)) => ours == its,
        // Where it may not be read, the owner of the socket is checked all the same.
        _ => true,
    }
}

/// A TCP socket that waits for connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listener {
    pub port: u16,
    /// A connection to 127.0.0.1 arrives there.
    pub is_local: bool,
    inode: u64,
}

/// All listening TCP sockets of the process's network.
pub fn listeners(pid: u32) -> Vec<Listener> {
    let read = |name| fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    let mut found = parse_listeners(&read("tcp"));
    found.extend(parse_listeners(&read("tcp6")));
    found
}

/// Those that the process itself holds open.
pub fn own_listeners(pid: u32) -> Vec<Listener> {
    let own = socket_inodes(pid);
    let mut listeners = listeners(pid);
    listeners.retain(|listener| own.contains(&listener.inode));
    listeners
}

/// `  0: 0100007F:240D 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 8912 ...`
fn parse_listeners(table: &str) -> Vec<Listener> {
    const LISTEN: &str = "0A";
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().take(10).collect();
        let &[_, local, _, LISTEN, _, _, _, _, _, inode] = &fields[..] else {
            return None;
        };
        let (address, port) = local.split_once(':')?;
        Some(Listener {
            port: u16::from_str_radix(port, 16).ok()?,
            is_local: takes_local(address),
            inode: inode.parse().ok()?,
        })
    };
    table
        .lines()
        .skip(1)
        .take(ENTRIES_MAX)
        .filter_map(parse)
        .collect()
}

/// 127.0.0.1 or any address, printed as words in the byte order of the machine.
fn takes_local(address: &str) -> bool {
    const LOCAL: [u8; 4] = [127, 0, 0, 1];
    address.bytes().all(|digit| digit == b'0')
        || address == format!("{:08X}", u32::from_ne_bytes(LOCAL))
}

fn socket_inodes(pid: u32) -> HashSet<u64> {
    let Ok(folder) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return HashSet::new();
    };
    let links = folder
        .flatten()
        .take(ENTRIES_MAX)
        .filter_map(|entry| fs::read_link(entry.path()).ok());
    links
        .filter_map(|link| parse_socket(link.to_str()?))
        .collect()
}

/// `socket:[8912]`
fn parse_socket(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?
        .strip_suffix(']')?
        .parse()
        .ok()
}

/// RSS, bytes: the heap is not larger.
pub fn rss_bytes(pid: u32) -> Option<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_node_are_known() {
        assert!(
            ["node", "nodejs", "node20", "node-22.1"]
                .into_iter()
                .all(is_node_name)
        );
        assert!(
            !["node_exporter", "nodemon", "python3", ""]
                .into_iter()
                .any(is_node_name)
        );
    }

    #[test]
    fn a_status_says_what_is_caught() {
        assert_eq!(
            parse_catches_usr1("SigIgn:\t0000000001001000\nSigCgt:\t0000000100004602\n"),
            Some(true)
        );
        assert_eq!(
            parse_catches_usr1("SigCgt:\t0000000100004402\n"),
            Some(false)
        );
        assert_eq!(parse_catches_usr1("Name:\tnode\n"), None);
    }

    #[test]
    fn options_come_from_both_places_and_not_from_the_script() {
        let parse = |environment: &str, arguments: &str| {
            parse_options(environment.as_bytes(), arguments.as_bytes())
        };
        let chosen = |on, port| Options { on, port };
        assert_eq!(parse("", "node\0a.js\0--inspect\0"), chosen(false, None));
        assert_eq!(
            parse("", "node\0--inspect=0\0a.js\0"),
            chosen(true, Some(0))
        );
        assert_eq!(
            parse("", "node\0--inspect-port=0.0.0.0:9300\0a.js\0"),
            chosen(false, Some(9300))
        );
        assert_eq!(
            parse("A=1\0NODE_OPTIONS=--inspect=[::1]:7\0", "node\0a.js\0"),
            chosen(true, Some(7))
        );
    }

    #[test]
    fn listening_sockets_are_parsed() {
        let line = |local: &str, state: &str, inode: u32| {
            format!(
                "0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  0 0 {inode} 1 0\n"
            )
        };
        let table = [
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n",
            &line("0100007F:240D", "0A", 8912),
            &line("0100007F:240D", "01", 8913),
            &line("0A00020A:0050", "0A", 8914),
            "3: garbage\n",
        ]
        .concat();
        let listeners = parse_listeners(&table);
        let brief: Vec<_> = listeners
            .iter()
            .map(|it| (it.port, it.is_local, it.inode))
            .collect();
        assert_eq!(
            brief,
            [
                (0x240d, cfg!(target_endian = "little"), 8912),
                (80, false, 8914)
            ]
        );
    }
}
