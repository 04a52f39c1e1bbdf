//! Workers decode and check frames, note their collections, and publish them.
const std = @import("std");
const events = @import("decode/event.zig");
const frames = @import("frame.zig");
const metrics = @import("metrics.zig");
const queues = @import("queue.zig");
const socket = @import("network/socket.zig");
const threads = @import("threads.zig");
const Upstream = @import("network/upstream.zig").Upstream;
const Backlog = @import("store/backlog.zig").Backlog;
const DiskLog = @import("store/disklog.zig").DiskLog;
const Index = @import("store/index.zig").Index;
const Frame = frames.Frame;

/// Gives frames their sequence numbers and makes them known, one at a time: the order of the
/// numbers is the order in the log and in the backlog.
pub const Publisher = struct {
    mutex: std.Thread.Mutex = .{},
    next_seq: u64,
    log: *DiskLog,
    backlog: *Backlog,
    metrics: *metrics.Metrics,

    pub fn publish(self: *Publisher, frame: *Frame) void {
        const evicted = self.publishInOrder(frame);
        if (evicted) |old| old.release();
    }

    fn publishInOrder(self: *Publisher, frame: *Frame) ?*Frame {
        self.mutex.lock();
        defer self.mutex.unlock();
        frame.assignSeq(self.next_seq);
        self.next_seq += 1;
        self.log.append(frame.seq, frame.pieces()) catch |err| {
            // A full disk must not stop the fan-out; say it once in a thousand.
            const before = self.metrics.log_errors.fetchAdd(1, .monotonic);
            if (before % 1000 == 0) std.log.err("event log: {t}; events go on without it", .{err});
        };
        return self.backlog.publish(frame);
    }
};

pub const Worker = struct {
    number: usize,
    queue: *queues.Queue,
    upstreams: []Upstream,
    publisher: *Publisher,
    index: *Index,
    metrics: *metrics.Metrics,
    options: events.Options,
    thread: ?std.Thread = null,

    const stack_size = 512 * 1024;

    pub fn start(self: *Worker) !void {
        self.thread = try std.Thread.spawn(.{ .stack_size = stack_size }, run, .{self});
    }

    pub fn join(self: *Worker) void {
        if (self.thread) |thread| thread.join();
    }

    fn run(self: *Worker) void {
        threads.setName("worker-{d}", .{self.number});
        while (self.queue.pop()) |frame| self.process(frame);
    }

    fn process(self: *Worker, frame: *Frame) void {
        const upstream = &self.upstreams[frame.upstream];
        const decoded = frame.decode(self.options);
        upstream.turns.wait(frame.turn);
        defer upstream.turns.finish();
        decoded catch |err| return self.refuse(frame, upstream, err);
        const event = &frame.event.?;
        if (event.kind == .unknown) {
            metrics.increase(&self.metrics.frames_ignored);
            return frame.release();
        }
        upstream.last_seq.store(event.seq, .monotonic);
        for (event.ops) |op| {
            if (op.action != .delete) self.index.add(op.collection, event.repo);
        }
        const received_ns = frame.received_ns;
        self.publisher.publish(frame); // and the frame may be gone
        metrics.increase(&self.metrics.frames_published);
        self.metrics.latency.observe(socket.now() - received_ns);
    }

    fn refuse(self: *Worker, frame: *Frame, upstream: *Upstream, err: events.Error) void {
        defer frame.release();
        if (err == error.OutOfMemory) return metrics.increase(&self.metrics.frames_dropped);
        metrics.increase(self.metrics.frames_rejected.getPtr(reasonOf(err)));
        upstream.reject(frame.connection);
    }
};

fn reasonOf(err: events.Error) metrics.Rejection {
    return switch (err) {
        error.BadCar, error.TooManyBlocks => .car,
        error.WrongCid => .cid,
        error.BadHeader,
        error.BadBody,
        error.WrongCommit,
        error.WrongOperation,
        error.TooManyBlobs,
        error.BadTree,
        => .event,
        else => .encoding,
    };
}
