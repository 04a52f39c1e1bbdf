//! The bounded queue between upstreams and workers.
const std = @import("std");
const Frame = @import("frame.zig").Frame;

/// Frames waiting for a worker. Short: when the machine stalls, what does not fit waits in the
/// sockets, whose memory is the kernel's, and not in the heap (with 1,024 places one stall of some
/// seconds left 1.5 MB behind in glibc's arenas).
pub const size_max = 128;

/// How long an upstream's thread waits for room before it drops the frame. Meanwhile it reads
/// nothing, so the host sees TCP's back-pressure first.
pub const push_timeout_ns = 1 * std.time.ns_per_s;

pub const Queue = struct {
    mutex: std.Thread.Mutex = .{},
    not_empty: std.Thread.Condition = .{},
    not_full: std.Thread.Condition = .{},
    frames: [size_max]*Frame = undefined,
    start: usize = 0,
    count: usize = 0,
    closed: bool = false,

    pub const PushError = error{ Full, Closed };

    /// Hands the frame over, or leaves it with the caller on an error.
    pub fn push(self: *Queue, frame: *Frame, timeout_ns: u64) PushError!void {
        self.mutex.lock();
        defer self.mutex.unlock();
        while (self.count == size_max and !self.closed) {
            self.not_full.timedWait(&self.mutex, timeout_ns) catch {
                if (self.count == size_max) return error.Full;
            };
        }
        if (self.closed) return error.Closed;
        self.frames[(self.start + self.count) % size_max] = frame;
        self.count += 1;
        self.not_empty.signal();
    }

    /// The oldest frame; null once the queue is closed and empty.
    pub fn pop(self: *Queue) ?*Frame {
        self.mutex.lock();
        defer self.mutex.unlock();
        while (self.count == 0) {
            if (self.closed) return null;
            self.not_empty.wait(&self.mutex);
        }
        const frame = self.frames[self.start];
        self.start = (self.start + 1) % size_max;
        self.count -= 1;
        self.not_full.signal();
        return frame;
    }

    pub fn close(self: *Queue) void {
        self.mutex.lock();
        defer self.mutex.unlock();
        self.closed = true;
        self.not_empty.broadcast();
        self.not_full.broadcast();
    }

    pub fn depth(self: *Queue) usize {
        self.mutex.lock();
        defer self.mutex.unlock();
        return self.count;
    }
};

/// Keeps the frames of one upstream in order although several workers have them: each frame has
/// a number, and is published when its number is up. Workers take frames from the queue in order,
/// so the one whose turn it is never waits for another that is not at work yet.
pub const Turns = struct {
    mutex: std.Thread.Mutex = .{},
    changed: std.Thread.Condition = .{},
    next: u64 = 0,

    pub fn wait(self: *Turns, number: u64) void {
        self.mutex.lock();
        defer self.mutex.unlock();
        while (self.next != number) self.changed.wait(&self.mutex);
    }

    /// Whatever became of the frame.
    pub fn finish(self: *Turns) void {
        self.mutex.lock();
        defer self.mutex.unlock();
        self.next += 1;
        self.changed.broadcast();
    }
};

const testing = std.testing;

fn fakeFrame(number: usize) *Frame {
    return @ptrFromInt(number * @alignOf(Frame));
}

test "first in, first out; full and closed are said" {
    var queue: Queue = .{};
    for (1..size_max + 1) |number| try queue.push(fakeFrame(number), 0);
    try testing.expectError(error.Full, queue.push(fakeFrame(99), 1));
    try testing.expectEqual(@as(usize, size_max), queue.depth());
    try testing.expectEqual(fakeFrame(1), queue.pop().?);
    queue.close();
    try testing.expectError(error.Closed, queue.push(fakeFrame(99), 1));
    for (2..size_max + 1) |number| try testing.expectEqual(fakeFrame(number), queue.pop().?);
    try testing.expectEqual(@as(?*Frame, null), queue.pop());
}

test "turns are taken in order by threads that come in any order" {
    var turns: Turns = .{};
    var order: [4]u64 = undefined;
    var threads: [4]std.Thread = undefined;
    for (&threads, 0..) |*thread, index| {
        thread.* = try std.Thread.spawn(.{}, takeTurn, .{ &turns, @as(u64, 3 - index), &order });
    }
    for (threads) |thread| thread.join();
    try testing.expectEqual([_]u64{ 0, 1, 2, 3 }, order);
}

fn takeTurn(turns: *Turns, number: u64, order: *[4]u64) void {
    turns.wait(number);
    order[turns.next] = number;
    turns.finish();
}
