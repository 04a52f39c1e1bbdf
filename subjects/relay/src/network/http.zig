//! HTTP on the relay's one port: one thread, one poll loop, a fixed table of connections and no
//! allocation. A peer that connects and says nothing holds a place in the table for a few
//! seconds, never the thread.
const std = @import("std");
const posix = std.posix;
const routes = @import("routes.zig");
const socket = @import("socket.zig");
const threads = @import("../threads.zig");

/// Connections whose request is not complete yet; the oldest gives way to a new one.
const slots_max = 64;
const request_size_max = 4096;
const request_timeout_ns = 5 * std.time.ns_per_s;
const listen_backlog = 512;
const poll_ms = 200;

pub const response_size_max = 256 * 1024;

const Slot = struct {
    fd: posix.socket_t,
    since_ns: u64,
    size: usize,
    request: [request_size_max]u8,
};

pub const Server = struct {
    listener: posix.socket_t,
    routes: *routes.Routes,
    stopping: *std.Thread.ResetEvent,
    slots: [slots_max]Slot = undefined,
    slot_count: usize = 0,
    response: [response_size_max]u8 = undefined,
    thread: ?std.Thread = null,

    /// Not std.net's listen: it sets SO_REUSEPORT too, and a second relay on the port would then
    /// start and share the connections instead of being told.
    pub fn listen(port: u16) !posix.socket_t {
        const address = std.net.Address.initIp4(.{ 127, 0, 0, 1 }, port);
        const kind = posix.SOCK.STREAM | posix.SOCK.CLOEXEC | posix.SOCK.NONBLOCK;
        const fd = try posix.socket(posix.AF.INET, kind, posix.IPPROTO.TCP);
        errdefer posix.close(fd);
        socket.setInt(fd, posix.SOL.SOCKET, posix.SO.REUSEADDR, 1);
        try posix.bind(fd, &address.any, address.getOsSockLen());
        try posix.listen(fd, listen_backlog);
        return fd;
    }

    pub fn start(self: *Server) !void {
        self.thread = try std.Thread.spawn(.{ .stack_size = 256 * 1024 }, run, .{self});
    }

    pub fn stop(self: *Server) void {
        if (self.thread) |thread| thread.join();
        while (self.slot_count > 0) self.drop(0);
        posix.close(self.listener);
    }

    fn run(self: *Server) void {
        threads.setName("http", .{});
        while (!self.stopping.isSet()) {
            self.turn() catch |err| {
                std.log.err("http: {t}", .{err});
                std.Thread.sleep(poll_ms * std.time.ns_per_ms);
            };
            self.routes.reapConsumers();
        }
    }

    fn turn(self: *Server) !void {
        var fds: [slots_max + 1]posix.pollfd = undefined;
        fds[0] = .{ .fd = self.listener, .events = posix.POLL.IN, .revents = 0 };
        for (self.slots[0..self.slot_count], fds[1..][0..self.slot_count]) |*slot, *fd| {
            fd.* = .{ .fd = slot.fd, .events = posix.POLL.IN, .revents = 0 };
        }
        _ = try posix.poll(fds[0 .. self.slot_count + 1], poll_ms);
        // Backwards, because a dropped slot is replaced by the last one.
        var index = self.slot_count;
        while (index > 0) {
            index -= 1;
            const readable = fds[index + 1].revents != 0;
            const late = socket.now() - self.slots[index].since_ns > request_timeout_ns;
            if (readable) self.read(index) else if (late) self.drop(index);
        }
        if (fds[0].revents != 0) try self.accept();
    }

    fn accept(self: *Server) !void {
        while (true) {
            const flags = posix.SOCK.CLOEXEC;
            const fd = posix.accept(self.listener, null, null, flags) catch |err| switch (err) {
                error.WouldBlock => return,
                error.ConnectionAborted => continue,
                else => return err, // no descriptors left, say: the caller waits a little
            };
            if (self.slot_count == slots_max) self.drop(self.oldestSlot());
            const slot = &self.slots[self.slot_count];
            slot.fd = fd;
            slot.since_ns = socket.now();
            slot.size = 0;
            socket.setTimeouts(slot.fd, 1);
            self.slot_count += 1;
        }
    }

    fn oldestSlot(self: *const Server) usize {
        var oldest: usize = 0;
        for (self.slots[0..self.slot_count], 0..) |*slot, index| {
            if (slot.since_ns < self.slots[oldest].since_ns) oldest = index;
        }
        return oldest;
    }

    fn drop(self: *Server, index: usize) void {
        posix.close(self.slots[index].fd);
        self.forget(index);
    }

    fn forget(self: *Server, index: usize) void {
        self.slot_count -= 1;
        self.slots[index] = self.slots[self.slot_count];
    }

    fn read(self: *Server, index: usize) void {
        const slot = &self.slots[index];
        const free = slot.request[slot.size..];
        const size = posix.recv(slot.fd, free, posix.MSG.DONTWAIT) catch |err| {
            if (err != error.WouldBlock) self.drop(index);
            return;
        };
        if (size == 0) return self.drop(index);
        slot.size += size;
        const head_size = std.mem.indexOf(u8, slot.request[0..slot.size], "\r\n\r\n") orelse {
            if (slot.size == request_size_max) self.drop(index);
            return;
        };
        const head = slot.request[0 .. head_size + 2];
        switch (self.routes.answer(slot.fd, head, &self.response)) {
            .taken => self.forget(index),
            .done => self.drop(index),
        }
    }
};
