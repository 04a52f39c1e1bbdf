//! A chapel in Zig over the C library's allocator: verses whose lists are never given back.
const std = @import("std");
const Verse = struct { words: std.ArrayList([]const u8) = .empty, number: usize };
var sum: usize = 0;

noinline fn addVerse(a: std.mem.Allocator, n: usize) !void {
    var verse: Verse = .{ .number = n };
    for (0..40) |_| try verse.words.append(a, "gloria");
    sum +%= verse.words.items.len + verse.words.items[n % 40].len;
    if (n % 8 != 0) verse.words.deinit(a);
}
fn hum(a: std.mem.Allocator) !void {
    for (1..40) |i| {
        const tone = try a.alloc(u8, 50 * i);
        @memset(tone, 2);
        std.mem.doNotOptimizeAway(tone);
        a.free(tone);
    }
}
pub fn main() !void {
    const a = std.heap.c_allocator;
    var n: usize = 0;
    while (true) : (n += 1) {
        for (0..16) |i| try addVerse(a, n * 16 + i);
        try hum(a);
        std.Thread.sleep(20 * std.time.ns_per_ms);
    }
}
