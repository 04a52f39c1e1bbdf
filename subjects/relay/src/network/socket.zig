//! A blocking socket with a read buffer and time limits. Another thread may wake it with
//! `shutdown`, never with `close`: the number of a closed descriptor is soon someone else's.
const std = @import("std");
const posix = std.posix;

pub const Error = error{ Closed, Stalled };

pub fn shutdown(fd: posix.socket_t) void {
    posix.shutdown(fd, .both) catch {};
}

/// A call that has waited this long returns, so that its caller can look at its deadline.
pub fn setTimeouts(fd: posix.socket_t, timeout_s: u32) void {
    const time: posix.timeval = .{ .sec = timeout_s, .usec = 0 };
    const bytes = std.mem.asBytes(&time);
    posix.setsockopt(fd, posix.SOL.SOCKET, posix.SO.RCVTIMEO, bytes) catch {};
    posix.setsockopt(fd, posix.SOL.SOCKET, posix.SO.SNDTIMEO, bytes) catch {};
}

pub fn setInt(fd: posix.socket_t, level: i32, option: u32, value: c_int) void {
    posix.setsockopt(fd, level, option, std.mem.asBytes(&value)) catch {};
}

pub fn setNoDelay(fd: posix.socket_t) void {
    setInt(fd, posix.IPPROTO.TCP, posix.TCP.NODELAY, 1);
}

/// Monotonic nanoseconds.
pub fn now() u64 {
    const time = posix.clock_gettime(.MONOTONIC) catch unreachable; // Linux always has it
    return @as(u64, @intCast(time.sec)) * std.time.ns_per_s + @as(u64, @intCast(time.nsec));
}

/// Reads through a small buffer: a frame's header and, when it is short, its payload cost one
/// system call; a long payload goes straight to where it belongs.
pub const Reader = struct {
    fd: posix.socket_t,
    timeout_ns: u64,
    start: usize = 0,
    end: usize = 0,
    buffer: [buffer_size]u8 = undefined,

    const buffer_size = 4096;

    pub fn buffered(self: *const Reader) []const u8 {
        return self.buffer[self.start..self.end];
    }

    pub fn skip(self: *Reader, size: usize) void {
        self.start += size;
    }

    /// Waits for more bytes and appends them to the buffer; Stalled when none came in time.
    pub fn fill(self: *Reader) Error!void {
        if (self.start > 0) {
            std.mem.copyForwards(u8, &self.buffer, self.buffered());
            self.end -= self.start;
            self.start = 0;
        }
        if (self.end == buffer_size) return error.Closed; // a head longer than any we accept
        self.end += try receive(self.fd, self.buffer[self.end..]);
    }

    /// Fills `target`, within the time limit as a whole: a peer that sends a byte now and then
    /// is stalled as well.
    pub fn readExact(self: *Reader, target: []u8) Error!void {
        const ready = @min(target.len, self.end - self.start);
        @memcpy(target[0..ready], self.buffered()[0..ready]);
        self.start += ready;
        const deadline = now() + self.timeout_ns;
        var filled = ready;
        while (filled < target.len) {
            filled += try receive(self.fd, target[filled..]);
            if (filled < target.len and now() > deadline) return error.Stalled;
        }
    }

    /// Reads an HTTP head up to its empty line, which is left out of the result.
    pub fn readHead(self: *Reader) Error![]const u8 {
        const deadline = now() + self.timeout_ns;
        while (true) {
            if (std.mem.indexOf(u8, self.buffered(), "\r\n\r\n")) |size| {
                const head = self.buffered()[0 .. size + 2];
                self.start += size + 4;
                return head;
            }
            if (now() > deadline) return error.Stalled;
            try self.fill();
        }
    }
};

fn receive(fd: posix.socket_t, target: []u8) Error!usize {
    const size = posix.recv(fd, target, 0) catch |err| return switch (err) {
        error.WouldBlock => error.Stalled,
        else => error.Closed,
    };
    return if (size == 0) error.Closed else size;
}

/// Sends the pieces one after the other. `patience` is asked after every timeout of the socket
/// whether to go on; null as `patience` means no.
pub fn sendAll(
    fd: posix.socket_t,
    pieces: []const []const u8,
    context: anytype,
    comptime patience: ?fn (@TypeOf(context)) bool,
) Error!void {
    var vectors: [5]posix.iovec_const = undefined;
    std.debug.assert(pieces.len <= vectors.len);
    for (pieces, 0..) |piece, index| vectors[index] = .{ .base = piece.ptr, .len = piece.len };
    var rest: []posix.iovec_const = vectors[0..pieces.len];
    while (rest.len > 0) {
        if (rest[0].len == 0) {
            rest = rest[1..];
            continue;
        }
        const sent = posix.writev(fd, rest) catch |err| switch (err) {
            error.WouldBlock => {
                if (patience) |wait_on| if (wait_on(context)) continue;
                return error.Stalled;
            },
            else => return error.Closed,
        };
        rest = advance(rest, sent);
    }
}

fn advance(vectors: []posix.iovec_const, sent: usize) []posix.iovec_const {
    var left = sent;
    var rest = vectors;
    while (rest.len > 0 and left >= rest[0].len) {
        left -= rest[0].len;
        rest = rest[1..];
    }
    if (rest.len > 0) {
        rest[0].base += left;
        rest[0].len -= left;
    }
    return rest;
}

const testing = std.testing;

test "pieces advance by what was sent" {
    var vectors = [_]posix.iovec_const{
        .{ .base = "abc", .len = 3 },
        .{ .base = "", .len = 0 },
        .{ .base = "defg", .len = 4 },
    };
    const rest = advance(&vectors, 5);
    try testing.expectEqual(@as(usize, 1), rest.len);
    try testing.expectEqualStrings("fg", rest[0].base[0..rest[0].len]);
    try testing.expectEqual(@as(usize, 0), advance(rest, 2).len);
}
