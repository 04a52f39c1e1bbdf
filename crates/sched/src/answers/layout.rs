//! What programs/requests.bpf.c keeps and writes, as it lies in memory, and the tracepoints that it runs on.

use std::io;

use bytemuck::{Pod, Zeroable};

use crate::ebpf::layout::offset;

/// Which side of a connection the process is; 0: not known.
pub(super) const SERVER: u32 = 1;
pub(super) const CLIENT: u32 = 2;
pub(super) const NEITHER: u32 = 3;

/// What the kernel keeps of each connection.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(super) struct Connection {
    pub arrived_ns: u64,
    pub received_ns: u64,
    pub asked_ns: u64,
    pub receiver: u32,
    pub descriptor: u32,
    pub role: u32,
    pub is_told: u32,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
pub(super) struct Answer {
    /// Of a reply, when it was asked for.
    pub arrived_ns: u64,
    /// 0 of a reply.
    pub received_ns: u64,
    /// 0 of a connection that is new to the process's asking.
    pub answered_ns: u64,
    /// The address of the kernel's `struct sock`.
    pub connection: u64,
    pub receiver: u32,
    pub sender: u32,
    pub descriptor: u32,
    pub role: u32,
}

/// A tracepoint of the subsystem `sock`, the program for it, and fields of its record with their bytes: the arguments
/// that the program reads are those of the kernels whose records have them.
pub(super) struct Tracepoint {
    pub name: &'static str,
    pub program: &'static str,
    fields: &'static [(&'static str, usize)],
}

pub(super) const TRACEPOINTS: [Tracepoint; 4] = [
    Tracepoint {
        name: "inet_sock_set_state",
        program: "on_state",
        fields: &[("skaddr", 8), ("oldstate", 4), ("newstate", 4)],
    },
    Tracepoint {
        name: "sk_data_ready",
        program: "on_ready",
        fields: &[("skaddr", 8)],
    },
    Tracepoint {
        name: "sock_send_length",
        program: "on_send",
        fields: &[("sk", 8), ("ret", 4)],
    },
    // What receives comes last: before it nothing is answered.
    Tracepoint {
        name: "sock_recv_length",
        program: "on_receive",
        fields: &[("sk", 8), ("ret", 4)],
    },
];

impl Tracepoint {
    /// # Errors
    /// By its `format` file it is another one.
    pub(super) fn check(&self, format: &str) -> io::Result<()> {
        let mut fields = self.fields.iter();
        fields.try_for_each(|(name, bytes)| offset(format, name, *bytes).map(drop))
    }
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
                asked_ns,
                receiver,
                descriptor,
                role,
                is_told
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
