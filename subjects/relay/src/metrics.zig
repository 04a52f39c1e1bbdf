//! Counters of the whole process and their OpenMetrics text
//! (https://prometheus.io/docs/specs/om/open_metrics_spec/).
const std = @import("std");
const Writer = std.Io.Writer;

pub const Counter = std.atomic.Value(u64);

/// Why a frame was refused; the peer that sent it is dropped.
pub const Rejection = enum { encoding, car, cid, event };

/// Why a connection to an upstream ended.
pub const UpstreamEnd = enum {
    closed,
    unreachable_,
    handshake,
    protocol,
    too_large,
    stalled,
    rejected,
};

/// Why a consumer was dropped.
pub const ConsumerEnd = enum { gone, slow, protocol, refused };

/// Upper bounds of the latency histogram, in seconds, from 100 microseconds to 10 seconds.
pub const latency_bounds_s = [_]f64{
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
    0.025,  0.05,    0.1,    0.25,  0.5,    1,     2.5,
    5,      10,
};

pub const Latency = struct {
    buckets: [latency_bounds_s.len + 1]Counter = @splat(.init(0)),
    sum_ns: Counter = .init(0),

    pub fn observe(self: *Latency, ns: u64) void {
        const seconds = @as(f64, @floatFromInt(ns)) / std.time.ns_per_s;
        var index: usize = 0;
        while (index < latency_bounds_s.len and seconds > latency_bounds_s[index]) index += 1;
        increase(&self.buckets[index]);
        _ = self.sum_ns.fetchAdd(ns, .monotonic);
    }
};

pub const Metrics = struct {
    frames_received: Counter = .init(0),
    bytes_received: Counter = .init(0),
    frames_published: Counter = .init(0),
    frames_ignored: Counter = .init(0),
    frames_dropped: Counter = .init(0),
    frames_rejected: std.EnumArray(Rejection, Counter) = .initFill(.init(0)),
    frames_sent: Counter = .init(0),
    upstreams_connected: Counter = .init(0),
    upstream_ends: std.EnumArray(UpstreamEnd, Counter) = .initFill(.init(0)),
    consumers_connected: Counter = .init(0),
    consumer_ends: std.EnumArray(ConsumerEnd, Counter) = .initFill(.init(0)),
    log_errors: Counter = .init(0),
    trims: Counter = .init(0),
    latency: Latency = .{},
};

/// Values that are read at the moment of the scrape.
pub const Gauges = struct {
    allocator: []const u8,
    allocations: u64,
    resident_bytes: ?u64,
    arena_bytes: ?u64,
    queue_depth: usize,
    queue_capacity: usize,
    backlog_frames: usize,
    last_seq: u64,
    log_bytes: u64,
    log_segments: usize,
    index_repos: usize,
    index_collections: usize,
    index_refused: u64,
};

pub fn increase(one: *Counter) void {
    _ = one.fetchAdd(1, .monotonic);
}

pub fn write(w: *Writer, metrics: *const Metrics, gauges: Gauges) Writer.Error!void {
    try w.print("# TYPE relay info\nrelay_info{{allocator=\"{s}\"}} 1\n", .{gauges.allocator});
    if (gauges.resident_bytes) |n| try gauge(w, "process_rss_bytes", n);
    if (gauges.arena_bytes) |n| try gauge(w, "malloc_arena_bytes", n);
    try counter(w, "allocations", gauges.allocations);
    try counter(w, "frames_received", metrics.frames_received.load(.monotonic));
    try counter(w, "received_bytes", metrics.bytes_received.load(.monotonic));
    try counter(w, "frames_published", metrics.frames_published.load(.monotonic));
    try counter(w, "frames_ignored", metrics.frames_ignored.load(.monotonic));
    try counter(w, "frames_dropped", metrics.frames_dropped.load(.monotonic));
    try labelled(w, "frames_rejected", Rejection, &metrics.frames_rejected);
    try counter(w, "frames_sent", metrics.frames_sent.load(.monotonic));
    try gauge(w, "upstreams_connected", metrics.upstreams_connected.load(.monotonic));
    try labelled(w, "upstream_drops", UpstreamEnd, &metrics.upstream_ends);
    try gauge(w, "consumers_connected", metrics.consumers_connected.load(.monotonic));
    try labelled(w, "consumer_drops", ConsumerEnd, &metrics.consumer_ends);
    try gauge(w, "queue_depth", gauges.queue_depth);
    try gauge(w, "queue_capacity", gauges.queue_capacity);
    try gauge(w, "backlog_frames", gauges.backlog_frames);
    try gauge(w, "last_seq", gauges.last_seq);
    try gauge(w, "log_bytes", gauges.log_bytes);
    try gauge(w, "log_segments", gauges.log_segments);
    try counter(w, "log_errors", metrics.log_errors.load(.monotonic));
    try gauge(w, "index_repos", gauges.index_repos);
    try gauge(w, "index_collections", gauges.index_collections);
    try counter(w, "index_refused", gauges.index_refused);
    try counter(w, "malloc_trims", metrics.trims.load(.monotonic));
    try histogram(w, &metrics.latency);
    try w.writeAll("# EOF\n");
}

fn gauge(w: *Writer, name: []const u8, value: u64) Writer.Error!void {
    try w.print("# TYPE relay_{s} gauge\nrelay_{s} {d}\n", .{ name, name, value });
}

fn counter(w: *Writer, name: []const u8, value: u64) Writer.Error!void {
    try w.print("# TYPE relay_{s} counter\nrelay_{s}_total {d}\n", .{ name, name, value });
}

fn labelled(
    w: *Writer,
    name: []const u8,
    comptime Reason: type,
    counters: *const std.EnumArray(Reason, Counter),
) Writer.Error!void {
    try w.print("# TYPE relay_{s} counter\n", .{name});
    for (std.enums.values(Reason)) |reason| {
        const label = std.mem.trimRight(u8, @tagName(reason), "_");
        const value = counters.getPtrConst(reason).load(.monotonic);
        try w.print("relay_{s}_total{{reason=\"{s}\"}} {d}\n", .{ name, label, value });
    }
}

fn histogram(w: *Writer, latency: *const Latency) Writer.Error!void {
    const name = "relay_frame_latency_seconds";
    try w.print("# TYPE {s} histogram\n", .{name});
    var count: u64 = 0;
    for (latency_bounds_s, latency.buckets[0..latency_bounds_s.len]) |bound, *bucket| {
        count += bucket.load(.monotonic);
        try w.print("{s}_bucket{{le=\"{d}\"}} {d}\n", .{ name, bound, count });
    }
    count += latency.buckets[latency_bounds_s.len].load(.monotonic);
    const sum_s = @as(f64, @floatFromInt(latency.sum_ns.load(.monotonic))) / std.time.ns_per_s;
    try w.print("{s}_bucket{{le=\"+Inf\"}} {d}\n", .{ name, count });
    try w.print("{s}_sum {d}\n{s}_count {d}\n", .{ name, sum_s, name, count });
}

const testing = std.testing;

test "the text of a few metrics" {
    var metrics: Metrics = .{};
    metrics.latency.observe(150 * std.time.ns_per_us);
    metrics.latency.observe(20 * std.time.ns_per_s);
    increase(metrics.frames_rejected.getPtr(.cid));
    var buffer: [16 * 1024]u8 = undefined;
    var w: Writer = .fixed(&buffer);
    try write(&w, &metrics, .{
        .allocator = "c",
        .allocations = 7,
        .resident_bytes = 4096,
        .arena_bytes = null,
        .queue_depth = 1,
        .queue_capacity = 2,
        .backlog_frames = 3,
        .last_seq = 4,
        .log_bytes = 5,
        .log_segments = 6,
        .index_repos = 8,
        .index_collections = 9,
        .index_refused = 10,
    });
    const text = w.buffered();
    for ([_][]const u8{
        "relay_process_rss_bytes 4096\n",
        "# TYPE relay_allocations counter\nrelay_allocations_total 7\n",
        "relay_frames_rejected_total{reason=\"cid\"} 1\n",
        "relay_upstream_drops_total{reason=\"unreachable\"} 0\n",
        "relay_frame_latency_seconds_bucket{le=\"0.00025\"} 1\n",
        "relay_frame_latency_seconds_bucket{le=\"10\"} 1\n",
        "relay_frame_latency_seconds_bucket{le=\"+Inf\"} 2\n",
        "relay_frame_latency_seconds_sum 20.00015\n",
    }) |line| {
        try testing.expect(std.mem.indexOf(u8, text, line) != null);
    }
    try testing.expect(std.mem.indexOf(u8, text, "malloc_arena") == null);
    try testing.expect(std.mem.endsWith(u8, text, "# EOF\n"));
}
