// Zig: an arena that is never reset, a list that only grows, a leak on the C allocator and on Zig's own.
const std = @import("std");

const Request = struct { body: []u8, next: ?*Request };

noinline fn ingest(allocator: std.mem.Allocator, size: usize) ![]u8 {
    const body = try allocator.alloc(u8, size);
    @memset(body, 7);
    return body;
}

noinline fn dropRequest(allocator: std.mem.Allocator) !void {
    const request = try allocator.create(Request);
    request.* = .{ .body = try ingest(allocator, 700), .next = null };
    std.mem.doNotOptimizeAway(request);
}

fn traffic(allocator: std.mem.Allocator) !void {
    for (0..60) |i| {
        const block = try allocator.alloc(u8, 30 + i * 29);
        @memset(block, 1);
        allocator.free(block);
    }
}

pub fn main() !void {
    var words = std.process.args();
    _ = words.next();
    const which = words.next() orelse "leak";
    var debug: std.heap.DebugAllocator(.{}) = .init;
    const allocator = if (std.mem.eql(u8, which, "debug")) debug.allocator() else std.heap.c_allocator;
    var arena = std.heap.ArenaAllocator.init(allocator);
    var kept: std.ArrayList(u8) = .empty;
    while (true) {
        try traffic(allocator);
        if (std.mem.eql(u8, which, "arena")) {
            for (0..20) |_| _ = try ingest(arena.allocator(), 400);
        } else if (std.mem.eql(u8, which, "list")) {
            const line = try ingest(allocator, 5000);
            try kept.appendSlice(allocator, line);
            allocator.free(line);
        } else for (0..8) |_| try dropRequest(allocator);
        std.Thread.sleep(20 * std.time.ns_per_ms);
    }
}
