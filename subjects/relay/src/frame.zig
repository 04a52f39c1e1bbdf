//! One message on its way through the relay: read by an upstream's thread, decoded and published
//! by a worker, kept in the backlog, and freed by whoever lets go of it last (mostly another
//! worker, whose newer frame pushed it out of the backlog).
const std = @import("std");
const cbor = @import("decode/cbor.zig");
const events = @import("decode/event.zig");
const FrameMemory = @import("memory.zig").FrameMemory;
const Allocator = std.mem.Allocator;

/// Largest message taken from an upstream. atproto allows 2 MB of blocks; 64 KiB is usual.
pub const payload_size_max = 1 << 20;

pub const Frame = struct {
    shared: Allocator,
    memory: FrameMemory,
    payload: []u8,
    /// Which upstream sent it, and which of its connections.
    upstream: u32,
    connection: u32,
    /// Its number among the upstream's frames.
    turn: u64 = 0,
    /// When the last byte was read, CLOCK_MONOTONIC.
    received_ns: u64,
    event: ?events.Event = null,
    /// The relay's own number for it, and its encoding, which replaces the upstream's.
    seq: u64 = 0,
    seq_encoded: [cbor.head_size_max]u8 = undefined,
    seq_size: u8 = 0,
    references: std.atomic.Value(u32) = .init(1),

    pub fn create(
        shared: Allocator,
        frame_arena: bool,
        payload_size: usize,
    ) Allocator.Error!*Frame {
        const frame = try shared.create(Frame);
        errdefer shared.destroy(frame);
        frame.* = .{
            .shared = shared,
            .memory = .init(shared, frame_arena),
            .payload = &.{},
            .upstream = 0,
            .connection = 0,
            .received_ns = 0,
        };
        frame.payload = try frame.memory.allocator().alloc(u8, payload_size);
        return frame;
    }

    pub fn decode(self: *Frame, options: events.Options) events.Error!void {
        self.event = try events.decode(self.memory.allocator(), self.payload, options);
    }

    pub fn assignSeq(self: *Frame, seq: u64) void {
        self.seq = seq;
        self.seq_size = @intCast(cbor.encodeUnsigned(&self.seq_encoded, seq).len);
    }

    /// The message as the relay sends it: the upstream's bytes around the relay's number.
    pub fn pieces(self: *const Frame) [3][]const u8 {
        const event = &self.event.?;
        return .{
            self.payload[0..event.seq_start],
            self.seq_encoded[0..self.seq_size],
            self.payload[event.seq_end..],
        };
    }

    pub fn size(self: *const Frame) usize {
        var total: usize = 0;
        for (self.pieces()) |piece| total += piece.len;
        return total;
    }

    pub fn retain(self: *Frame) void {
        _ = self.references.fetchAdd(1, .monotonic);
    }

    pub fn release(self: *Frame) void {
        if (self.references.fetchSub(1, .acq_rel) > 1) return;
        switch (self.memory) {
            .arena => |*arena| arena.deinit(),
            .blocks => |allocator| {
                if (self.event) |event| event.free(allocator);
                allocator.free(self.payload);
            },
        }
        self.shared.destroy(self);
    }
};

/// For tests elsewhere: a decoded frame with the given seq and payload.
pub fn createForTest(seq: u64, payload: []const u8) !*Frame {
    const frame = try Frame.create(std.testing.allocator, false, payload.len);
    @memcpy(frame.payload, payload);
    frame.event = .{
        .kind = .identity,
        .header = .null,
        .body = .null,
        .seq = 0,
        .seq_start = 0,
        .seq_end = 0,
        .repo = "",
    };
    frame.assignSeq(seq);
    return frame;
}
