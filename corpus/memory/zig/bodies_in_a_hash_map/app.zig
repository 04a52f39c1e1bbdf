//! A proxy that keeps bodies in a hash map by number. The first argument is how many; when the map is full, the oldest
//! body goes for each that comes.
const std = @import("std");

var bodies: std.AutoHashMapUnmanaged(u64, []u8) = .empty;
var seed: u64 = 88172645463325252;

fn random() u64 {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed >> 11;
}

noinline fn storeBody(allocator: std.mem.Allocator, number: u64, limit: u64) !void {
    const body = try allocator.alloc(u8, 200 + random() % 900);
    @memset(body, 1);
    try bodies.put(allocator, number, body);
    if (number >= limit) if (bodies.fetchRemove(number - limit)) |old| allocator.free(old.value);
}

pub fn main() !void {
    const start = std.time.timestamp();
    var arguments = std.process.args();
    _ = arguments.skip();
    const limit = try std.fmt.parseInt(u64, arguments.next() orelse "4000", 10);
    var number: u64 = 0;
    while (std.time.timestamp() - start < 120) : (number += 1) {
        if (number == 4000) try std.fs.File.stdout().writeAll("ready\n");
        try storeBody(std.heap.c_allocator, number, limit);
        if (number % 20 == 0) std.Thread.sleep(50 * std.time.ns_per_ms);
    }
}
