//! One thread per upstream host: dials it, shakes hands, reads messages into frames and hands
//! them to the queue. Whatever the host does wrong ends the connection, is counted,
//! and is tried again later.
const std = @import("std");
const posix = std.posix;
const flags = @import("../flags.zig");
const frames = @import("../frame.zig");
const metrics = @import("../metrics.zig");
const queues = @import("../queue.zig");
const socket = @import("socket.zig");
const threads = @import("../threads.zig");
const websocket = @import("websocket.zig");
const Frame = frames.Frame;
const Allocator = std.mem.Allocator;
const UpstreamEnd = metrics.UpstreamEnd;

const retry_first_ns = 200 * std.time.ns_per_ms;
const retry_last_ns = 5 * std.time.ns_per_s;

/// What all upstreams share.
pub const Shared = struct {
    allocator: Allocator,
    frame_arena: bool,
    peer_timeout_s: u32,
    queue: *queues.Queue,
    metrics: *metrics.Metrics,
    stopping: *std.Thread.ResetEvent,
};

pub const Upstream = struct {
    shared: *const Shared,
    id: u32,
    address: flags.Address,
    thread: ?std.Thread = null,
    /// Guards `fd` against being closed while another thread shuts it down.
    mutex: std.Thread.Mutex = .{},
    fd: ?posix.socket_t = null,
    /// Counts connections, so that a late complaint does not hit the next one.
    connection: u32 = 0,
    rejected: bool = false,
    /// Frames handed to the queue, and their order on the other side.
    queued: u64 = 0,
    turns: queues.Turns = .{},
    /// The host's own number of the last frame taken, for its `cursor` after a reconnection.
    last_seq: std.atomic.Value(u64) = .init(0),

    pub fn start(self: *Upstream) !void {
        self.thread = try std.Thread.spawn(.{ .stack_size = stack_size }, run, .{self});
    }

    pub fn join(self: *Upstream) void {
        if (self.thread) |thread| thread.join();
    }

    /// Ends the present connection, if it is still the one that sent the complaint's cause.
    pub fn reject(self: *Upstream, connection: u32) void {
        self.mutex.lock();
        defer self.mutex.unlock();
        if (self.connection != connection) return;
        self.rejected = true;
        if (self.fd) |fd| socket.shutdown(fd);
    }

    /// Wakes the thread from whatever it waits for on its socket.
    pub fn interrupt(self: *Upstream) void {
        self.mutex.lock();
        defer self.mutex.unlock();
        if (self.fd) |fd| socket.shutdown(fd);
    }

    fn run(self: *Upstream) void {
        threads.setName("upstream-{d}", .{self.id});
        var random: std.Random.DefaultPrng = .init(self.id);
        var retry_ns: u64 = retry_first_ns;
        while (!self.shared.stopping.isSet()) {
            const frames_before = self.last_seq.load(.monotonic);
            const end = self.session();
            if (self.shared.stopping.isSet()) return;
            metrics.increase(self.shared.metrics.upstream_ends.getPtr(end));
            if (self.last_seq.load(.monotonic) != frames_before) retry_ns = retry_first_ns;
            const wait_ns = retry_ns / 2 + random.random().uintLessThan(u64, retry_ns);
            self.shared.stopping.timedWait(wait_ns) catch {};
            retry_ns = @min(retry_ns * 2, retry_last_ns);
        }
    }

    /// One connection from dialling to its end.
    fn session(self: *Upstream) UpstreamEnd {
        const fd = self.connect() catch return .unreachable_;
        defer self.disconnect();
        var reader: socket.Reader = .{
            .fd = fd,
            .timeout_ns = @as(u64, self.shared.peer_timeout_s) * std.time.ns_per_s,
        };
        self.shakeHands(&reader) catch |err|
            return if (err == error.Stalled) .stalled else .handshake;
        _ = self.shared.metrics.upstreams_connected.fetchAdd(1, .monotonic);
        defer _ = self.shared.metrics.upstreams_connected.fetchSub(1, .monotonic);
        const end = self.readMessages(&reader);
        self.mutex.lock();
        defer self.mutex.unlock();
        return if (self.rejected) .rejected else end;
    }

    fn connect(self: *Upstream) !posix.socket_t {
        const address = try resolve(self.address);
        const fd = try posix.socket(address.any.family, posix.SOCK.STREAM | posix.SOCK.CLOEXEC, 0);
        socket.setTimeouts(fd, self.shared.peer_timeout_s);
        socket.setNoDelay(fd);
        {
            self.mutex.lock();
            defer self.mutex.unlock();
            self.fd = fd;
            self.connection +%= 1;
            self.rejected = false;
        }
        errdefer self.disconnect();
        if (self.shared.stopping.isSet()) return error.Stopping; // before or after interrupt()
        try posix.connect(fd, &address.any, address.getOsSockLen());
        return fd;
    }

    fn disconnect(self: *Upstream) void {
        self.mutex.lock();
        defer self.mutex.unlock();
        if (self.fd) |fd| posix.close(fd);
        self.fd = null;
    }

    fn shakeHands(self: *Upstream, reader: *socket.Reader) !void {
        const key = websocket.newKey();
        var buffer: [1024]u8 = undefined;
        var w: std.Io.Writer = .fixed(&buffer);
        try w.writeAll("GET /xrpc/com.atproto.sync.subscribeRepos");
        var separator: u8 = '?';
        if (self.address.number) |number| {
            try w.print("{c}host={d}", .{ separator, number });
            separator = '&';
        }
        const last_seq = self.last_seq.load(.monotonic);
        if (last_seq > 0) try w.print("{c}cursor={d}", .{ separator, last_seq });
        try w.print(" HTTP/1.1\r\nHost: {s}:{d}\r\n", .{ self.address.host, self.address.port });
        try w.print("Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n" ++
            "User-Agent: relay\r\nSec-WebSocket-Key: {s}\r\n\r\n", .{&key});
        try socket.sendAll(reader.fd, &.{w.buffered()}, {}, null);
        try websocket.checkResponse(try reader.readHead(), &key);
    }

    fn readMessages(self: *Upstream, reader: *socket.Reader) UpstreamEnd {
        while (true) {
            const frame = self.readMessage(reader) catch |err| return switch (err) {
                error.Protocol => .protocol,
                error.TooLarge => .too_large,
                error.Stalled => .stalled,
                error.Closed => .closed,
                error.OutOfMemory => .rejected,
            };
            metrics.increase(&self.shared.metrics.frames_received);
            _ = self.shared.metrics.bytes_received.fetchAdd(frame.payload.len, .monotonic);
            frame.turn = self.queued;
            if (self.shared.queue.push(frame, queues.push_timeout_ns)) {
                self.queued += 1;
            } else |_| {
                metrics.increase(&self.shared.metrics.frames_dropped);
                frame.release();
            }
        }
    }

    const ReadError = socket.Error || websocket.Error || Allocator.Error;

    /// The next binary message as a frame; control frames in between are answered.
    fn readMessage(self: *Upstream, reader: *socket.Reader) ReadError!*Frame {
        var frame: ?*Frame = null;
        errdefer if (frame) |started| started.release();
        while (true) {
            const header = try readHeader(reader, frame != null);
            if (header.mask != null) return error.Protocol; // servers do not mask
            if (header.opcode.isControl()) {
                try answerControl(reader, header);
                continue;
            }
            if ((header.opcode == .continuation) != (frame != null)) return error.Protocol;
            if (header.opcode == .text) return error.Protocol;
            const before = if (frame) |started| started.payload.len else 0;
            if (header.payload_size > frames.payload_size_max - before) return error.TooLarge;
            const size: usize = @intCast(header.payload_size);
            if (frame) |started| {
                const memory = started.memory.allocator();
                started.payload = try memory.realloc(started.payload, before + size);
            } else {
                frame = try Frame.create(self.shared.allocator, self.shared.frame_arena, size);
            }
            try reader.readExact(frame.?.payload[before..]);
            if (header.fin) return self.finish(frame.?);
        }
    }

    fn finish(self: *Upstream, frame: *Frame) *Frame {
        frame.upstream = self.id;
        frame.connection = self.connection; // only this thread changes it
        frame.received_ns = socket.now();
        return frame;
    }

    /// A header may be long in coming between messages, but not in the middle of one: a host
    /// that is silent for one time limit gets a ping, for two it is stalled.
    fn readHeader(reader: *socket.Reader, in_message: bool) ReadError!websocket.Header {
        var pinged = false;
        while (true) {
            if (try websocket.parseHeader(reader.buffered())) |header| {
                reader.skip(header.size);
                return header;
            }
            reader.fill() catch |err| {
                if (err != error.Stalled or in_message or pinged) return err;
                if (reader.buffered().len > 0) return err;
                try sendControl(reader.fd, .ping, "");
                pinged = true;
            };
        }
    }
};

/// Threads are many and shallow: the deepest thing they do is to read into a buffer.
const stack_size = 256 * 1024;

fn answerControl(reader: *socket.Reader, header: websocket.Header) Upstream.ReadError!void {
    var payload: [websocket.control_size_max]u8 = undefined;
    const bytes = payload[0..@intCast(header.payload_size)];
    try reader.readExact(bytes);
    switch (header.opcode) {
        .ping => try sendControl(reader.fd, .pong, bytes),
        .close => {
            sendControl(reader.fd, .close, bytes) catch {};
            return error.Closed;
        },
        else => {},
    }
}

/// Clients mask what they send.
fn sendControl(fd: posix.socket_t, opcode: websocket.Opcode, bytes: []const u8) socket.Error!void {
    var masked: [websocket.control_size_max]u8 = undefined;
    var mask: [4]u8 = undefined;
    std.crypto.random.bytes(&mask);
    @memcpy(masked[0..bytes.len], bytes);
    websocket.applyMask(masked[0..bytes.len], mask);
    var buffer: [websocket.header_size_max]u8 = undefined;
    const header = websocket.writeHeader(&buffer, opcode, bytes.len, mask);
    try socket.sendAll(fd, &.{ header, masked[0..bytes.len] }, {}, null);
}

/// Numbers need no resolver; names ask libc's every time, since hosts move.
fn resolve(address: flags.Address) !std.net.Address {
    if (std.net.Address.parseIp(address.host, address.port)) |parsed| return parsed else |_| {}
    const list = try std.net.getAddressList(std.heap.page_allocator, address.host, address.port);
    defer list.deinit();
    if (list.addrs.len == 0) return error.UnknownHostName;
    return list.addrs[0];
}
