//! One thread per downstream consumer. It reads the shared backlog at its own pace; a consumer
//! that asks for older events (`cursor`) gets them from the log first. One that cannot keep up
//! is lapped by the backlog and dropped: it costs the others nothing.
const std = @import("std");
const posix = std.posix;
const frames = @import("../frame.zig");
const metrics = @import("../metrics.zig");
const socket = @import("socket.zig");
const syntax = @import("../decode/syntax.zig");
const threads = @import("../threads.zig");
const websocket = @import("websocket.zig");
const Backlog = @import("../store/backlog.zig").Backlog;
const DiskLog = @import("../store/disklog.zig").DiskLog;
const Allocator = std.mem.Allocator;
const ConsumerEnd = metrics.ConsumerEnd;

/// How often a consumer looks at what its peer sent, with news to send and without.
const look_every_ns = 100 * std.time.ns_per_ms;
const poll_ns = 500 * std.time.ns_per_ms;

/// Kernel memory for what a consumer has not read yet.
const send_buffer_size = 256 * 1024;
const stack_size = 256 * 1024;

pub const Options = struct {
    /// Send what comes after this number; null: only what is new.
    cursor: ?u64 = null,
    /// Only commits that touch this collection (not part of atproto).
    collection: ?[]const u8 = null,
};

/// What all consumers share.
pub const Shared = struct {
    allocator: Allocator,
    backlog: *Backlog,
    log: *DiskLog,
    metrics: *metrics.Metrics,
};

pub const Consumer = struct {
    shared: *const Shared,
    fd: posix.socket_t,
    next_seq: u64,
    cursor: ?u64,
    collection: [syntax.collection_size_max]u8 = undefined,
    collection_size: usize,
    thread: ?std.Thread = null,
    finished: std.atomic.Value(bool) = .init(false),

    /// Takes over `fd`, after the handshake, unless it fails.
    pub fn start(shared: *const Shared, fd: posix.socket_t, options: Options) !*Consumer {
        const self = try shared.allocator.create(Consumer);
        errdefer shared.allocator.destroy(self);
        const filter = options.collection orelse "";
        self.* = .{
            .shared = shared,
            .fd = fd,
            .next_seq = shared.backlog.bounds().next,
            .cursor = options.cursor,
            .collection_size = filter.len,
        };
        @memcpy(self.collection[0..filter.len], filter);
        socket.setTimeouts(fd, 1);
        socket.setNoDelay(fd);
        socket.setInt(fd, posix.SOL.SOCKET, posix.SO.SNDBUF, send_buffer_size);
        self.thread = try std.Thread.spawn(.{ .stack_size = stack_size }, run, .{self});
        return self;
    }

    pub fn interrupt(self: *Consumer) void {
        socket.shutdown(self.fd);
    }

    /// After the thread has finished, or to wait until it has.
    pub fn destroy(self: *Consumer) void {
        if (self.thread) |thread| thread.join();
        posix.close(self.fd);
        self.shared.allocator.destroy(self);
    }

    fn run(self: *Consumer) void {
        threads.setName("consumer", .{});
        const all = self.shared.metrics;
        _ = all.consumers_connected.fetchAdd(1, .monotonic);
        const end = self.serve();
        _ = all.consumers_connected.fetchSub(1, .monotonic);
        if (end) |reason| metrics.increase(all.consumer_ends.getPtr(reason));
        socket.shutdown(self.fd);
        self.finished.store(true, .release);
    }

    /// Null when the relay itself ended it.
    fn serve(self: *Consumer) ?ConsumerEnd {
        if (self.cursor) |cursor| {
            if (self.replay(cursor + 1)) |end| return end;
        }
        var looked_ns: u64 = 0;
        while (true) {
            switch (self.shared.backlog.take(self.next_seq, poll_ns)) {
                .frame => |frame| {
                    defer frame.release();
                    self.next_seq += 1;
                    if (!self.wants(frame)) continue;
                    if (self.send(&frame.pieces(), frame.size())) |end| return end;
                },
                .idle => {},
                .lapped => return .slow,
                .closed => {
                    self.sendClose(1001);
                    return null;
                },
            }
            const now = socket.now();
            if (now - looked_ns < look_every_ns) continue;
            looked_ns = now;
            if (self.readControl()) |end| return end;
        }
    }

    fn wants(self: *const Consumer, frame: *const frames.Frame) bool {
        if (self.collection_size == 0) return true;
        return frame.event.?.touches(self.collection[0..self.collection_size]);
    }

    /// Sends older events from the log until the backlog has the next one.
    fn replay(self: *Consumer, from: u64) ?ConsumerEnd {
        const bounds = self.shared.backlog.bounds();
        if (from >= bounds.next) return null;
        self.next_seq = from;
        if (from >= bounds.oldest) return null;
        const allocator = self.shared.allocator;
        const buffer = allocator.alloc(u8, frames.payload_size_max + 16) catch return .refused;
        defer allocator.free(buffer);
        var events = self.shared.log.replay(from) catch return .refused;
        defer events.close();
        while (true) {
            // Some way into the backlog, so as not to be lapped at once.
            const window = self.shared.backlog.bounds();
            if (events.seq >= window.oldest + (window.next - window.oldest) / 2) break;
            const payload = (events.next(buffer) catch return .refused) orelse break;
            if (self.send(&.{ payload, "", "" }, payload.len)) |end| return end;
            if (self.readControl()) |end| return end;
        }
        self.next_seq = events.seq;
        return null;
    }

    fn send(self: *Consumer, pieces: *const [3][]const u8, size: usize) ?ConsumerEnd {
        var buffer: [websocket.header_size_max]u8 = undefined;
        const header = websocket.writeHeader(&buffer, .binary, size, null);
        const all = [_][]const u8{ header, pieces[0], pieces[1], pieces[2] };
        socket.sendAll(self.fd, &all, self, keepsUp) catch |err| return switch (err) {
            error.Stalled => .slow,
            error.Closed => .gone,
        };
        metrics.increase(&self.shared.metrics.frames_sent);
        return null;
    }

    /// Asked each second that a send has not moved.
    fn keepsUp(self: *Consumer) bool {
        return self.next_seq >= self.shared.backlog.bounds().oldest;
    }

    fn sendClose(self: *Consumer, code: u16) void {
        var frame = [_]u8{ 0x88, 2, @intCast(code >> 8), @truncate(code) };
        socket.sendAll(self.fd, &.{&frame}, {}, null) catch {};
    }

    /// Looks, without waiting, at what the consumer sent: pings are answered, a close ends it.
    fn readControl(self: *Consumer) ?ConsumerEnd {
        var bytes: [512]u8 = undefined;
        const size = posix.recv(self.fd, &bytes, posix.MSG.DONTWAIT | posix.MSG.PEEK) catch |err|
            return if (err == error.WouldBlock) null else .gone;
        if (size == 0) return .gone;
        const parsed = websocket.parseHeader(bytes[0..size]) catch return .protocol;
        const header = parsed orelse return null;
        const mask = header.mask orelse return .protocol;
        if (!header.opcode.isControl()) return .protocol; // consumers have nothing to say
        const total = header.size + @as(usize, @intCast(header.payload_size));
        if (size < total) return null; // the rest is on its way
        _ = posix.recv(self.fd, bytes[0..total], 0) catch return .gone;
        if (header.opcode == .close) {
            self.sendClose(1000);
            return .gone;
        }
        if (header.opcode == .ping) {
            const payload = bytes[header.size..total];
            websocket.applyMask(payload, mask);
            var buffer: [websocket.header_size_max]u8 = undefined;
            const answer = websocket.writeHeader(&buffer, .pong, payload.len, null);
            socket.sendAll(self.fd, &.{ answer, payload }, {}, null) catch return .gone;
        }
        return null;
    }
};
