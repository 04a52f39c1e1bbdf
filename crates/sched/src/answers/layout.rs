//! What programs/requests.bpf.c keeps and writes, as it lies in memory, and where its tracepoints have what it reads.

use std::io;

use bpf::btf::{Field, View};
use bytemuck::{Pod, Zeroable};

use crate::ebpf::layout::{half, offset, user_registers};

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
    pub unused: u32,
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

/// `struct length_event`, by the `format` file of `sock_recv_length`; that of `sock_send_length` has the same fields.
///
/// # Errors
/// The kernel's has other fields.
pub(super) fn length_event(format: &str) -> io::Result<View> {
    Ok(View {
        name: "length_event",
        fields: vec![
            Field::word("sk", offset(format, "sk", 8)?),
            half("ret", offset(format, "ret", 4)?),
        ],
    })
}

/// `struct ready_event`, by the `format` file of `sk_data_ready`.
///
/// # Errors
/// The kernel's has other fields.
pub(super) fn ready_event(format: &str) -> io::Result<View> {
    Ok(View {
        name: "ready_event",
        fields: vec![Field::word("skaddr", offset(format, "skaddr", 8)?)],
    })
}

/// `struct state_event`, by the `format` file of `inet_sock_set_state`.
///
/// # Errors
/// The kernel's has other fields.
pub(super) fn state_event(format: &str) -> io::Result<View> {
    Ok(View {
        name: "state_event",
        fields: vec![
            Field::word("skaddr", offset(format, "skaddr", 8)?),
            half("oldstate", offset(format, "oldstate", 4)?),
            half("newstate", offset(format, "newstate", 4)?),
        ],
    })
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
                unused
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
