//! The newest published events, shared by all consumers. A consumer reads at its own pace; one
//! that falls behind the oldest event is lapped and will be dropped. Nobody waits for it.
const std = @import("std");
const frames = @import("../frame.zig");
const Frame = frames.Frame;
const Allocator = std.mem.Allocator;
const Mutex = std.Thread.Mutex;
const Condition = std.Thread.Condition;

pub const Taken = union(enum) {
    /// Retained for the caller, who releases it.
    frame: *Frame,
    lapped,
    /// Nothing new within the time given.
    idle,
    closed,
};

pub const Backlog = struct {
    mutex: Mutex = .{},
    changed: Condition = .{},
    slots: []?*Frame,
    first_seq: u64,
    next_seq: u64,
    closed: bool = false,

    pub fn init(allocator: Allocator, size: usize, first_seq: u64) Allocator.Error!Backlog {
        const slots = try allocator.alloc(?*Frame, size);
        @memset(slots, null);
        return .{ .slots = slots, .first_seq = first_seq, .next_seq = first_seq };
    }

    pub fn deinit(self: *Backlog, allocator: Allocator) void {
        for (self.slots) |slot| {
            if (slot) |frame| frame.release();
        }
        allocator.free(self.slots);
    }

    /// Takes over the frame, whose seq must be the next one, and returns the frame it pushed
    /// out, which the caller releases (outside of any lock).
    pub fn publish(self: *Backlog, frame: *Frame) ?*Frame {
        self.mutex.lock();
        defer self.mutex.unlock();
        std.debug.assert(frame.seq == self.next_seq);
        const slot = &self.slots[@intCast(frame.seq % self.slots.len)];
        const evicted = slot.*;
        slot.* = frame;
        self.next_seq += 1;
        self.changed.broadcast();
        return evicted;
    }

    pub fn take(self: *Backlog, seq: u64, timeout_ns: u64) Taken {
        self.mutex.lock();
        defer self.mutex.unlock();
        if (seq >= self.next_seq and !self.closed) {
            self.changed.timedWait(&self.mutex, timeout_ns) catch {};
        }
        if (seq >= self.next_seq) return if (self.closed) .closed else .idle;
        if (seq < self.oldestSeq()) return .lapped;
        const frame = self.slots[@intCast(seq % self.slots.len)].?;
        frame.retain();
        return .{ .frame = frame };
    }

    pub fn bounds(self: *Backlog) struct { oldest: u64, next: u64 } {
        self.mutex.lock();
        defer self.mutex.unlock();
        return .{ .oldest = self.oldestSeq(), .next = self.next_seq };
    }

    pub fn close(self: *Backlog) void {
        self.mutex.lock();
        defer self.mutex.unlock();
        self.closed = true;
        self.changed.broadcast();
    }

    fn oldestSeq(self: *const Backlog) u64 {
        return @max(self.first_seq, self.next_seq -| self.slots.len);
    }
};

const testing = std.testing;

test "a slow reader is lapped, a quick one waits" {
    var backlog: Backlog = try .init(testing.allocator, 4, 10);
    defer backlog.deinit(testing.allocator);
    try testing.expect(backlog.take(10, 1) == .idle);
    for (10..16) |seq| {
        if (backlog.publish(try frames.createForTest(seq, "x"))) |evicted| {
            try testing.expectEqual(seq - 4, evicted.seq);
            evicted.release();
        }
    }
    try testing.expect(backlog.take(11, 1) == .lapped);
    try testing.expectEqual(@as(u64, 12), backlog.bounds().oldest);
    const frame = backlog.take(12, 1).frame;
    frame.release();
    backlog.close();
    const last = backlog.take(15, 1).frame; // what was published is still handed out
    last.release();
    try testing.expect(backlog.take(16, 1) == .closed);
}
