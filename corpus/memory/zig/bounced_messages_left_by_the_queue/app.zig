//! A mail relay on the C library's allocator. The queue keeps 700 messages; a message that bounced, one in four, is
//! unlinked from it and not freed. A cache of 6,000 entries beside it keeps its size.
const std = @import("std");

const Message = struct { next: ?*Message, bounced: bool, body: []u8 };

var first: ?*Message = null;
var last: ?*Message = null;
var count: usize = 0;
var cache: [6000][]u8 = undefined;
var seed: u64 = 88172645463325252;

fn random() u64 {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed >> 16;
}

noinline fn storeMessage(allocator: std.mem.Allocator, size: usize) !void {
    const message = try allocator.create(Message);
    message.* = .{ .next = null, .bounced = random() % 4 == 0, .body = try allocator.alloc(u8, size) };
    @memset(message.body, 'm');
    if (last) |before| before.next = message else first = message;
    last = message;
    count += 1;
}

noinline fn deliverMessages(allocator: std.mem.Allocator, keep: usize) void {
    while (count > keep) {
        const message = first.?;
        first = message.next;
        if (first == null) last = null;
        count -= 1;
        if (message.bounced) continue;
        allocator.free(message.body);
        allocator.destroy(message);
    }
}

noinline fn cacheHeader(allocator: std.mem.Allocator, fill: u8) ![]u8 {
    const header = try allocator.alloc(u8, 5000);
    @memset(header, fill);
    return header;
}

pub fn main() !void {
    const allocator = std.heap.c_allocator;
    const start = std.time.timestamp();
    for (&cache) |*header| header.* = try cacheHeader(allocator, 1);
    try std.fs.File.stdout().writeAll("ready\n");
    while (std.time.timestamp() - start < 120) {
        for (0..1 + random() % 5) |_| {
            try storeMessage(allocator, 4000 + random() % 12000);
            const header = &cache[random() % cache.len];
            allocator.free(header.*);
            header.* = try cacheHeader(allocator, 2);
        }
        deliverMessages(allocator, 700);
        std.Thread.sleep(20 * std.time.ns_per_ms);
    }
}
