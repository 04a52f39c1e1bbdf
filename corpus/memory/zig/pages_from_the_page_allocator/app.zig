//! A scanner whose sheets are mappings of std.heap.page_allocator that it never unmaps. Its other blocks come from
//! the C library and are freed.
const std = @import("std");

var seen: usize = 0;

noinline fn scanSheet(number: usize) !void {
    const sheet = try std.heap.page_allocator.alloc(u8, 20000);
    @memset(sheet, @intCast(number % 250));
}

fn readSettings(number: usize) !void {
    const settings = try std.heap.c_allocator.alloc(u8, 100 + number % 2000);
    @memset(settings, 2);
    seen +%= settings[number % 100];
    std.heap.c_allocator.free(settings);
}

pub fn main() !void {
    const start = std.time.timestamp();
    try std.fs.File.stdout().writeAll("ready\n");
    var number: usize = 0;
    while (std.time.timestamp() - start < 120) : (number += 1) {
        try scanSheet(number);
        try readSettings(number);
        if (number % 10 == 0) std.Thread.sleep(30 * std.time.ns_per_ms);
    }
}
