//! A guest register. Each line is written into an arena over the C allocator, which is never reset.
const std = @import("std");
var sum: usize = 0;

noinline fn writeGuest(arena: std.mem.Allocator, number: usize) !void {
    const text = "guest {d} came with {d} others and left before noon, without a word to the front desk";
    const line = try std.fmt.allocPrint(arena, text, .{ number, number % 7 });
    sum +%= line.len + line[number % line.len];
}

fn printBills(heap: std.mem.Allocator) !void {
    for (1..40) |i| {
        const bill = try heap.alloc(u8, 40 * i);
        @memset(bill, 3);
        std.mem.doNotOptimizeAway(bill);
        heap.free(bill);
    }
}

pub fn main() !void {
    var arena = std.heap.ArenaAllocator.init(std.heap.c_allocator);
    var timer = try std.time.Timer.start();
    var turn: usize = 0;
    try std.fs.File.stdout().writeAll("ready\n");
    while (timer.read() < 120 * std.time.ns_per_s) : (turn += 1) {
        for (0..40) |i| try writeGuest(arena.allocator(), turn * 40 + i);
        try printBills(std.heap.c_allocator);
        std.Thread.sleep(20 * std.time.ns_per_ms);
    }
}
