//! What programs/requests.bpf.c keeps and writes, as it lies in memory, and the tracepoints that it runs on.

use std::io;

use bpf::btf::View;
use bytemuck::{Pod, Zeroable};

use crate::ebpf::layout::{offset, user_registers};

/// Who opened a connection.
pub(super) const UNKNOWN: u32 = 0;
pub(super) const SERVER: u32 = 1;
pub(super) const CLIENT: u32 = 2;

/// What the kernel keeps of each connection.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(super) struct Connection {
    pub arrived_ns: u64,
    pub received_ns: u64,
    pub receiver: u32,
    pub descriptor: u32,
    pub role: u32,
    pub stretch: u32,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(super) struct Answer {
    pub arrived_ns: u64,
    pub received_ns: u64,
    pub answered_ns: u64,
    /// The address of the kernel's `struct sock`.
    pub connection: u64,
    pub receiver: u32,
    pub sender: u32,
    pub descriptor: u32,
    pub role: u32,
}

/// The tracepoints, with the fields that their records have: the arguments that the programs read are those of the
/// kernels that have them.
pub(super) const TRACEPOINTS: [(&str, &str, &[(&str, usize)]); 4] = [
    (
        "inet_sock_set_state",
        "on_state",
        &[("skaddr", 8), ("oldstate", 4), ("newstate", 4)],
    ),
    ("sk_data_ready", "on_ready", &[("skaddr", 8)]),
    ("sock_send_length", "on_send", &[("sk", 8), ("ret", 4)]),
    // What receives comes last: before it nothing is answered.
    ("sock_recv_length", "on_receive", &[("sk", 8), ("ret", 4)]),
];

/// # Errors
/// The tracepoint is another one.
pub(super) fn check(format: &str, fields: &[(&str, usize)]) -> io::Result<()> {
    let mut fields = fields.iter();
    fields.try_for_each(|(name, bytes)| offset(format, name, *bytes).map(drop))
}

/// `struct user_registers`: the first argument of a system call.
pub(super) fn registers() -> View {
    let mut view = user_registers();
    view.fields.retain(|field| field.name == "first");
    view
}

#[cfg(test)]
mod tests {
    use super::*;
    use bpf::object::{Object, requests};

    #[test]
    fn records_are_as_the_program_writes_them() {
        let object = Object::parse(requests()).unwrap();
        bpf::assert_layout!(
            object,
            "connection",
            Connection {
                arrived_ns,
                received_ns,
                receiver,
                descriptor,
                role,
                stretch
            }
        );
        bpf::assert_layout!(
            object,
            "answer",
            Answer {
                arrived_ns,
                received_ns,
                answered_ns,
                connection,
                receiver,
                sender,
                descriptor,
                role
            }
        );
    }
}
