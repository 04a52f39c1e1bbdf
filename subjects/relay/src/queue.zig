//! The bounded queue between upstreams and workers: one lane per worker, and an upstream always
//! uses the same lane, so the events of a host stay in order.
const std = @import("std");
const Frame = @import("frame.zig").Frame;
const Allocator = std.mem.Allocator;
const Mutex = std.Thread.Mutex;
const Condition = std.Thread.Condition;

/// Frames waiting in one lane. At 16 workers and 700 frames a second a full queue is 1.5 s old.
pub const lane_size = 64;

/// How long an upstream's thread waits for room before it drops the frame. Meanwhile it reads
/// nothing, so the host sees TCP's back-pressure first.
pub const push_timeout_ns = 1 * std.time.ns_per_s;

pub const Queue = struct {
    lanes: []Lane,

    pub fn init(allocator: Allocator, lane_count: usize) Allocator.Error!Queue {
        const lanes = try allocator.alloc(Lane, lane_count);
        for (lanes) |*lane| lane.* = .{};
        return .{ .lanes = lanes };
    }

    pub fn deinit(self: *Queue, allocator: Allocator) void {
        allocator.free(self.lanes);
    }

    pub fn laneOf(self: *Queue, upstream: u32) *Lane {
        return &self.lanes[upstream % self.lanes.len];
    }

    pub fn close(self: *Queue) void {
        for (self.lanes) |*lane| lane.close();
    }

    pub fn depth(self: *Queue) usize {
        var total: usize = 0;
        for (self.lanes) |*lane| total += lane.depth();
        return total;
    }
};

pub const Lane = struct {
    mutex: Mutex = .{},
    not_empty: Condition = .{},
    not_full: Condition = .{},
    frames: [lane_size]*Frame = undefined,
    start: usize = 0,
    count: usize = 0,
    closed: bool = false,

    pub const PushError = error{ Full, Closed };

    /// Hands the frame over, or leaves it with the caller on an error.
    pub fn push(self: *Lane, frame: *Frame, timeout_ns: u64) PushError!void {
        self.mutex.lock();
        defer self.mutex.unlock();
        while (self.count == lane_size and !self.closed) {
            self.not_full.timedWait(&self.mutex, timeout_ns) catch {
                if (self.count == lane_size) return error.Full;
            };
        }
        if (self.closed) return error.Closed;
        self.frames[(self.start + self.count) % lane_size] = frame;
        self.count += 1;
        self.not_empty.signal();
    }

    /// The oldest frame; null once the lane is closed and empty.
    pub fn pop(self: *Lane) ?*Frame {
        self.mutex.lock();
        defer self.mutex.unlock();
        while (self.count == 0) {
            if (self.closed) return null;
            self.not_empty.wait(&self.mutex);
        }
        const frame = self.frames[self.start];
        self.start = (self.start + 1) % lane_size;
        self.count -= 1;
        self.not_full.signal();
        return frame;
    }

    fn close(self: *Lane) void {
        self.mutex.lock();
        defer self.mutex.unlock();
        self.closed = true;
        self.not_empty.broadcast();
        self.not_full.broadcast();
    }

    fn depth(self: *Lane) usize {
        self.mutex.lock();
        defer self.mutex.unlock();
        return self.count;
    }
};

const testing = std.testing;

fn fakeFrame(number: usize) *Frame {
    return @ptrFromInt(number * @alignOf(Frame));
}

test "first in, first out; full and closed are said" {
    var queue: Queue = try .init(testing.allocator, 2);
    defer queue.deinit(testing.allocator);
    const lane = queue.laneOf(3);
    for (1..lane_size + 1) |number| try lane.push(fakeFrame(number), 0);
    try testing.expectError(error.Full, lane.push(fakeFrame(99), 1));
    try testing.expectEqual(@as(usize, lane_size), queue.depth());
    try testing.expectEqual(fakeFrame(1), lane.pop().?);
    queue.close();
    try testing.expectError(error.Closed, lane.push(fakeFrame(99), 1));
    for (2..lane_size + 1) |number| try testing.expectEqual(fakeFrame(number), lane.pop().?);
    try testing.expectEqual(@as(?*Frame, null), lane.pop());
}
