//! Whole messages, made by the load program (load/tests/frames.rs keeps these files equal to what
//! it sends, and has them read by independent libraries).
const std = @import("std");
const cbor = @import("cbor.zig");
const events = @import("event.zig");
const memory = @import("../memory.zig");
const testing = std.testing;

/// One record created.
const commit = @embedFile("testdata/commit.cbor");
/// A post deleted, whose picture is still listed: the message that feeds the leak.
const blobs_gone = @embedFile("testdata/blobs_gone.cbor");

/// What nobody signs. The relay checks its form only, and a flipped byte may pass.
const unsigned_fields = [_][]const u8{
    "seq", "since", "time", "rebase", "tooBig", "prevData", "blobs",
};

test "a commit is read whole" {
    const event = try events.decode(testing.allocator, commit, .{ .leak = false });
    defer event.free(testing.allocator);
    try testing.expectEqual(events.Kind.commit, event.kind);
    try testing.expectEqual(@as(u64, 1000), event.seq);
    try testing.expectEqualStrings("\x19\x03\xe8", commit[event.seq_start..event.seq_end]);
    try testing.expect(event.ops.len >= 1);
    try testing.expect(event.touches(event.ops[0].collection));
    try testing.expect(!event.touches("a.b.c"));
}

test "any flipped byte outside of the unsigned fields is refused" {
    for ([_][]const u8{ commit, blobs_gone }) |original| {
        const message = try testing.allocator.dupe(u8, original);
        defer testing.allocator.free(message);
        var refused: usize = 0;
        for (0..message.len) |index| {
            for ([_]u8{ 0x01, 0x20, 0x80 }) |mask| {
                message[index] ^= mask;
                defer message[index] ^= mask;
                const event = events.decode(testing.allocator, message, .{ .leak = false }) catch {
                    refused += 1;
                    continue;
                };
                defer event.free(testing.allocator);
                if (event.kind == .unknown) continue; // a flipped name: ignored, not published
                if (inDeletedPath(event.ops, message, index)) continue;
                if (!inUnsignedField(event.body, message, index)) {
                    std.debug.print("byte {d} ^ {x} was not noticed\n", .{ index, mask });
                    return error.TestUnexpectedResult;
                }
            }
        }
        try testing.expect(refused > message.len * 2);
    }
}

/// Whether the byte lies between the start of such a field's name and that of the next field's.
fn inUnsignedField(body: cbor.Value, message: []const u8, index: usize) bool {
    var inside = false;
    for (body.map) |entry| {
        if (@intFromPtr(entry.key.ptr) - @intFromPtr(message.ptr) > index + 1) break;
        inside = for (unsigned_fields) |name| {
            // The flip may be in the name itself.
            if (entry.key.len == name.len and differ(entry.key, name) <= 1) break true;
        } else false;
    }
    return inside;
}

/// What a deletion names is no longer in the tree that would prove it.
fn inDeletedPath(ops: []const events.Op, message: []const u8, index: usize) bool {
    for (ops) |op| {
        const start = @intFromPtr(op.path.ptr) - @intFromPtr(message.ptr);
        if (op.action == .delete and index >= start and index < start + op.path.len) return true;
    }
    return false;
}

fn differ(a: []const u8, b: []const u8) usize {
    var count: usize = 0;
    for (a, b) |x, y| count += @intFromBool(x != y);
    return count;
}

test "every cut is refused" {
    for (0..commit.len) |size| {
        const cut = commit[0..size];
        const event = events.decode(testing.allocator, cut, .{ .leak = false }) catch continue;
        event.free(testing.allocator);
        return error.TestUnexpectedResult;
    }
}

test "a failing allocation anywhere frees what was there" {
    for ([_][]const u8{ commit, blobs_gone }) |message| {
        try testing.checkAllAllocationFailures(testing.allocator, decodeAndFree, .{message});
    }
}

fn decodeAndFree(allocator: std.mem.Allocator, message: []const u8) !void {
    const event = try events.decode(allocator, message, .{ .leak = false });
    event.free(allocator);
}

test "the leak is one block of 3,200 bytes, for blobs that nobody refers to" {
    try testing.expectEqual(@as(usize, 0), try bytesLeft(commit, .{ .leak = true }));
    try testing.expectEqual(@as(usize, 3200), try bytesLeft(blobs_gone, .{ .leak = true }));
    try testing.expectEqual(@as(usize, 0), try bytesLeft(blobs_gone, .{ .leak = false }));
}

/// Bytes still allocated after a message was decoded and freed.
fn bytesLeft(message: []const u8, options: events.Options) !usize {
    var buffer: [64 * 1024]u8 = undefined;
    var fixed: std.heap.FixedBufferAllocator = .init(&buffer);
    var counting: std.testing.FailingAllocator = .init(fixed.allocator(), .{});
    const event = try events.decode(counting.allocator(), message, options);
    event.free(counting.allocator());
    return counting.allocated_bytes - counting.freed_bytes;
}

test "a message costs some 37 allocations" {
    var meter: memory.Meter = .{ .child = testing.allocator };
    const event = try events.decode(meter.allocator(), commit, .{ .leak = false });
    event.free(meter.allocator());
    const count = meter.allocations.load(.monotonic);
    try testing.expect(count > 20 and count < 60);
}

test "other kinds of messages" {
    const identity = "\xa2\x61t\x69#identity\x62op\x01" ++
        "\xa3\x63did\x6ddid:plc:abcde\x63seq\x05\x64time\x742026-01-02T03:04:05Z";
    const event = try events.decode(testing.allocator, identity, .{ .leak = false });
    defer event.free(testing.allocator);
    try testing.expectEqual(events.Kind.identity, event.kind);
    try testing.expectEqual(@as(u64, 5), event.seq);

    const unknown = "\xa2\x61t\x65#info\x62op\x01\xa0";
    const other = try events.decode(testing.allocator, unknown, .{ .leak = false });
    defer other.free(testing.allocator);
    try testing.expectEqual(events.Kind.unknown, other.kind);

    for ([_][]const u8{ "", "\xa0", "\xa1\x62op\x20", "\xa2\x61t\x65#info\x62op\x01" }) |bad| {
        const result = events.decode(testing.allocator, bad, .{ .leak = false });
        try testing.expect(std.meta.isError(result));
    }
}
