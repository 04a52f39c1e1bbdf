//! The relay as a whole: what it is made of, how it starts, and how it ends in order.
const std = @import("std");
const consumers = @import("network/consumer.zig");
const flags_ = @import("flags.zig");
const http = @import("network/http.zig");
const memory = @import("memory.zig");
const metrics = @import("metrics.zig");
const queues = @import("queue.zig");
const routes = @import("network/routes.zig");
const socket = @import("network/socket.zig");
const upstreams = @import("network/upstream.zig");
const workers = @import("worker.zig");
const Backlog = @import("store/backlog.zig").Backlog;
const DiskLog = @import("store/disklog.zig").DiskLog;
const Index = @import("store/index.zig").Index;
const Allocator = std.mem.Allocator;
const Flags = flags_.Flags;

/// How long consumers may take for what is left in the backlog when the relay ends.
const consumers_grace_ns = 1 * std.time.ns_per_s;
/// mallinfo2 visits every free chunk under each arena's lock (26 ms at 400 MiB), so a scrape
/// gets a value up to this old.
const arena_bytes_age_max_ns = 5 * std.time.ns_per_s;

pub const Relay = struct {
    flags: Flags,
    allocator: Allocator,
    meter: *memory.Meter,
    metrics: metrics.Metrics = .{},
    stopping: std.Thread.ResetEvent = .{},
    log: DiskLog,
    backlog: Backlog,
    index: Index,
    queue: queues.Queue = .{},
    publisher: workers.Publisher,
    upstream_shared: upstreams.Shared,
    upstreams: []upstreams.Upstream,
    workers: []workers.Worker,
    consumer_shared: consumers.Shared,
    routes: routes.Routes,
    server: http.Server,
    arena_bytes: ?u64 = null,
    arena_bytes_read_ns: u64 = 0,

    /// Everything is allocated and opened here, nothing runs yet. `self` stays where it is.
    pub fn init(self: *Relay, flags: Flags, meter: *memory.Meter) !void {
        const allocator = meter.allocator();
        const listener = try http.Server.listen(flags.port);
        self.* = .{
            .flags = flags,
            .allocator = allocator,
            .meter = meter,
            .log = try DiskLog.open(allocator, flags.data),
            .backlog = undefined,
            .index = .init(allocator),
            .publisher = undefined,
            .upstream_shared = undefined,
            .upstreams = try allocator.alloc(upstreams.Upstream, flags.upstreams.len),
            .workers = try allocator.alloc(workers.Worker, flags.workers),
            .consumer_shared = undefined,
            .routes = undefined,
            .server = undefined,
        };
        self.backlog = try .init(allocator, flags.backlog, self.log.next_seq);
        self.connectParts(listener);
    }

    fn connectParts(self: *Relay, listener: std.posix.socket_t) void {
        self.publisher = .{
            .next_seq = self.log.next_seq,
            .log = &self.log,
            .backlog = &self.backlog,
            .metrics = &self.metrics,
        };
        self.upstream_shared = .{
            .allocator = self.allocator,
            .frame_arena = self.flags.frame_arena,
            .peer_timeout_s = self.flags.peer_timeout_s,
            .queue = &self.queue,
            .metrics = &self.metrics,
            .stopping = &self.stopping,
        };
        for (self.flags.upstreams, self.upstreams, 0..) |address, *upstream, id| {
            const shared = &self.upstream_shared;
            upstream.* = .{ .shared = shared, .id = @intCast(id), .address = address };
        }
        for (self.workers, 0..) |*worker, number| worker.* = .{
            .number = number,
            .queue = &self.queue,
            .upstreams = self.upstreams,
            .publisher = &self.publisher,
            .index = &self.index,
            .metrics = &self.metrics,
            .options = .{ .leak = self.flags.leak },
        };
        self.consumer_shared = .{
            .allocator = self.allocator,
            .backlog = &self.backlog,
            .log = &self.log,
            .metrics = &self.metrics,
        };
        self.routes = .{
            .index = &self.index,
            .admin_token = self.flags.admin_token,
            .shared = &self.consumer_shared,
            .metrics = &self.metrics,
            .context = self,
            .readGauges = readGauges,
            .shutDown = shutDown,
        };
        // Not a literal: the response buffer and the slots stay untouched until used.
        self.server.listener = listener;
        self.server.routes = &self.routes;
        self.server.stopping = &self.stopping;
        self.server.slot_count = 0;
        self.server.thread = null;
    }

    pub fn start(self: *Relay) !void {
        errdefer self.stop();
        for (self.workers) |*worker| try worker.start();
        try self.server.start();
        for (self.upstreams) |*upstream| try upstream.start();
    }

    /// Drains and ends all threads: upstreams, then workers, then consumers. What was read is
    /// published, what was published is offered to consumers for a moment.
    pub fn stop(self: *Relay) void {
        self.stopping.set();
        for (self.upstreams) |*upstream| upstream.interrupt();
        for (self.upstreams) |*upstream| upstream.join();
        self.queue.close();
        for (self.workers) |*worker| worker.join();
        self.server.stop();
        self.backlog.close();
        self.routes.stopConsumers(socket.now() + consumers_grace_ns);
    }

    /// Frees everything; after `stop`.
    pub fn deinit(self: *Relay) void {
        self.backlog.deinit(self.allocator);
        self.index.deinit();
        self.allocator.free(self.upstreams);
        self.allocator.free(self.workers);
        self.log.close();
    }

    fn shutDown(context: *anyopaque) void {
        const self: *Relay = @ptrCast(@alignCast(context));
        self.stopping.set();
    }

    fn readGauges(context: *anyopaque) metrics.Gauges {
        const self: *Relay = @ptrCast(@alignCast(context));
        const backlog = self.backlog.bounds();
        const log = self.log.counts();
        const index = self.index.counts();
        return .{
            .allocator = @tagName(self.flags.allocator),
            .allocations = self.meter.allocations.load(.monotonic),
            .resident_bytes = memory.residentBytes(),
            .arena_bytes = self.readArenaBytes(),
            .queue_depth = self.queue.depth(),
            .queue_capacity = queues.size_max,
            .backlog_frames = @intCast(backlog.next - backlog.oldest),
            .last_seq = backlog.next - 1,
            .log_bytes = log.bytes,
            .log_segments = log.segments,
            .index_repos = index.repos,
            .index_collections = index.collections,
            .index_refused = index.refused,
        };
    }

    fn readArenaBytes(self: *Relay) ?u64 {
        const now = socket.now();
        if (self.arena_bytes == null or now - self.arena_bytes_read_ns > arena_bytes_age_max_ns) {
            self.arena_bytes = memory.arenaBytes();
            self.arena_bytes_read_ns = now;
        }
        return self.arena_bytes;
    }
};
