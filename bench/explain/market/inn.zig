//! An inn in Zig: guests written into an arena over the C library's allocator that is never emptied.
const std = @import("std");
var sum: usize = 0;

noinline fn writeGuest(a: std.mem.Allocator, n: usize) !void {
    const line = try std.fmt.allocPrint(a, "guest {d} came with {d} horses and left at dawn, as was told to the keeper", .{ n, n % 7 });
    sum +%= line.len + line[n % line.len];
}
fn cook(a: std.mem.Allocator) !void {
    for (1..40) |i| {
        const pot = try a.alloc(u8, 40 * i);
        @memset(pot, 3);
        std.mem.doNotOptimizeAway(pot);
        a.free(pot);
    }
}
pub fn main() !void {
    var arena = std.heap.ArenaAllocator.init(std.heap.c_allocator);
    var n: usize = 0;
    while (true) : (n += 1) {
        for (0..40) |i| try writeGuest(arena.allocator(), n * 40 + i);
        try cook(std.heap.c_allocator);
        std.Thread.sleep(20 * std.time.ns_per_ms);
    }
}
