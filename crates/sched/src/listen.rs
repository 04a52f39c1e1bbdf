//! Connections that found the queue of a listening socket full: a client that is not accepted waits, and is no
//! request yet.

use std::fs;

/// How often that was since the network namespace of the process exists: `ListenOverflows` of its
/// /proc/PID/net/netstat (`tcp_v4_syn_recv_sock` and `tcp_conn_request` of the kernel's net/ipv4), of all who listen.
pub fn overflows(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/net/netstat")).ok()?;
    parse(&text)
}

/// What is said of so many during a watch.
pub fn sentence(count: u64) -> String {
    format!(
        "clients that were not accepted: {count} times a connection found the queue of a listening socket full, of \
         this or of another process of its network (ListenOverflows); a client tries again after a second or more, \
         and what it waits is in no request here"
    )
}

/// Names in one line, numbers in the next, both behind "TcpExt:".
fn parse(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let at = names
        .split_whitespace()
        .position(|name| name == "ListenOverflows")?;
    numbers.split_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_stands_below_its_name() {
        let text = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 0 4051 4060\n\
                    IpExt: InNoRoutes InTruncatedPkts\nIpExt: 0 0\n";
        assert_eq!(parse(text), Some(4_051));
        assert_eq!(parse("TcpExt: A B\nTcpExt: 1 2\n"), None);
        assert_eq!(parse("TcpExt: ListenOverflows\n"), None);
        assert!(overflows(std::process::id()).is_some());
    }
}
