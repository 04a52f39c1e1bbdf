//! An event collector on the C allocator. Each event's bytes are appended to one list, which nothing ever shortens;
//! the event itself is freed.
const std = @import("std");

noinline fn readEvent(heap: std.mem.Allocator, size: usize) ![]u8 {
    const event = try heap.alloc(u8, size);
    @memset(event, 7);
    return event;
}

noinline fn appendEvent(heap: std.mem.Allocator, events: *std.ArrayList(u8)) !void {
    const event = try readEvent(heap, 5000);
    try events.appendSlice(heap, event);
    heap.free(event);
}

fn parseFields(heap: std.mem.Allocator) !void {
    for (0..60) |i| {
        const field = try heap.alloc(u8, 30 + i * 29);
        @memset(field, 1);
        std.mem.doNotOptimizeAway(field);
        heap.free(field);
    }
}

pub fn main() !void {
    const heap = std.heap.c_allocator;
    var events: std.ArrayList(u8) = .empty;
    var timer = try std.time.Timer.start();
    try std.fs.File.stdout().writeAll("ready\n");
    while (timer.read() < 120 * std.time.ns_per_s) {
        try parseFields(heap);
        try appendEvent(heap, &events);
        std.Thread.sleep(20 * std.time.ns_per_ms);
    }
}
