//! What programs/sched.bpf.c is told of this machine: where the fields of tracepoints and registers lie, how large its
//! maps may be.

use std::io;

use super::super::room::Room;
use bpf::btf::{Field, View};

/// Threads that may be watched at a time, of a process that has so many now: one that was just started has few, and may
/// get ten thousand. Each takes 256 bytes from the start, and clearing those of 32,768 takes 15 ms of a CPU.
pub fn threads_max(room: Room, now: usize) -> u32 {
    let (least, most) = match room {
        Room::One => (12_288, 32_768),
        Room::Many => (4_096, 8_192),
    };
    let now = u32::try_from(now).unwrap_or(u32::MAX);
    now.saturating_mul(4).clamp(least, most).max(now)
}

/// The ring is drained every 40 ms: 20,000 switches fit, or 10,000 where many processes are watched. Its
/// pages count twice in our RSS, for they are mapped twice.
pub fn ring_bytes(room: Room) -> u32 {
    match room {
        Room::One => 4 << 20,
        Room::Many => 2 << 20,
    }
}

/// `struct switch_event`, by the `format` file of the tracepoint.
///
/// # Errors
/// The kernel's has other fields.
pub fn switch_event(format: &str) -> io::Result<View> {
    let comm = offset(format, "prev_comm[16]", 16)?;
    Ok(View {
        name: "switch_event",
        fields: vec![
            Field::word("prev_comm_first", comm),
            Field::word("prev_comm_second", comm + 8),
            half("prev_pid", offset(format, "prev_pid", 4)?),
            Field::word("prev_state", offset(format, "prev_state", 8)?),
            half("next_pid", offset(format, "next_pid", 4)?),
        ],
    })
}

/// Where a record of `sched_waking` has the thread that is woken, by its `format` file.
///
/// # Errors
/// The kernel's has other fields.
pub fn woken_at(format: &str) -> io::Result<i16> {
    offset(format, "pid", 4)
}

/// `struct waking_event`.
///
/// # Errors
/// See [`woken_at`].
pub fn waking_event(format: &str) -> io::Result<View> {
    Ok(View {
        name: "waking_event",
        fields: vec![half("pid", woken_at(format)?)],
    })
}

fn half(name: &'static str, offset: i16) -> Field {
    Field {
        bytes: 4,
        ..Field::word(name, offset)
    }
}

/// The offset of a field of that name and size.
///
/// # Errors
/// The tracepoint has none.
pub fn offset(format: &str, name: &str, size: usize) -> io::Result<i16> {
    let line = format.lines().find(|line| {
        let declared = line.trim().strip_prefix("field:").unwrap_or("");
        let declared = declared.split(';').next().unwrap_or("");
        declared.split_whitespace().last() == Some(name)
    });
    let number = |key: &str| -> Option<usize> {
        let part = line?.split(';').find_map(|p| p.trim().strip_prefix(key))?;
        part.parse().ok()
    };
    match (number("offset:"), number("size:")) {
        (Some(offset), Some(found)) if found == size => Ok(offset as i16),
        _ => Err(io::Error::other(format!(
            "this kernel's tracepoint has no field {name} of {size} bytes"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// events/sched/sched_switch/format of Linux 6.18, its fields.
    const SWITCH: &str = "\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
        \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n";

    #[test]
    fn there_is_room_for_the_threads_that_a_program_will_start() {
        assert!(threads_max(Room::One, 1) > 10_000);
        assert_eq!(threads_max(Room::One, 5_000), 20_000);
        assert_eq!(threads_max(Room::Many, 1), 4_096);
        for room in [Room::One, Room::Many] {
            assert_eq!(threads_max(room, 50_000), 50_000, "all that are there");
        }
    }

    #[test]
    fn fields_are_found_where_the_kernel_says() {
        let fields = switch_event(SWITCH).unwrap().fields;
        let offsets: Vec<u32> = fields.iter().map(|field| field.offset).collect();
        assert_eq!(offsets, [8, 16, 24, 32, 56]);
    }

    #[test]
    fn another_kernels_tracepoint_is_refused_in_words() {
        let odd = SWITCH.replace(
            "prev_state;\toffset:32;\tsize:8",
            "prev_state;\toffset:32;\tsize:4",
        );
        let error = switch_event(&odd).unwrap_err().to_string();
        assert!(error.contains("prev_state"), "{error}");
    }
}
