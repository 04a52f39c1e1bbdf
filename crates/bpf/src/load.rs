//! Programs go to the kernel: the verifier's words come back where it refuses one.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

use aya_obj::generated::bpf_insn;

use crate::kernel::bpf;

const PROG_LOAD: u32 = 5;
/// The verifier's words about a program it refuses.
const LOG_BYTES: usize = 64 * 1024;

#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

/// `kind`: the program's type, and what it will be attached to where the kernel wants to know that beforehand.
///
/// # Errors
/// No right, or the verifier refuses it.
pub fn load(
    name: &str,
    kind: (u32, u32),
    code: &[bpf_insn],
    license: &CStr,
) -> io::Result<OwnedFd> {
    let mut log = vec![0u8; LOG_BYTES];
    let mut attr = ProgLoad {
        prog_type: kind.0,
        insn_cnt: code.len() as u32,
        insns: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log_buf: 0,
        kern_version: 0,
        prog_flags: 0,
        prog_name: *b"highwater\0\0\0\0\0\0\0",
        prog_ifindex: 0,
        expected_attach_type: kind.1,
    };
    bpf(PROG_LOAD, &attr).or_else(|_| {
        attr.log_level = 1;
        attr.log_size = LOG_BYTES as u32;
        attr.log_buf = log.as_mut_ptr() as u64;
        bpf(PROG_LOAD, &attr).map_err(|error| {
            let text = String::from_utf8_lossy(&log);
            let words: Vec<&str> = text.trim_end_matches('\0').lines().rev().take(4).collect();
            let words: Vec<&str> = words.into_iter().rev().collect();
            io::Error::other(format!("{name}: {error}: {}", words.join("; ")))
        })
    })
}
