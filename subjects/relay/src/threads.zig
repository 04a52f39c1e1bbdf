//! Names of threads, as tools show them.
const std = @import("std");
const posix = std.posix;

/// Names the calling thread; what exceeds 15 characters is cut off.
pub fn setName(comptime format: []const u8, args: anytype) void {
    var name: [64]u8 = undefined;
    const text = std.fmt.bufPrintZ(&name, format, args) catch return;
    _ = posix.prctl(.SET_NAME, .{@intFromPtr(text.ptr)}) catch {}; // a nameless thread works too
}
