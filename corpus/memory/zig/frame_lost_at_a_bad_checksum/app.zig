//! A video demuxer on the C library's allocator. It collects a frame in an ArrayList; at a bad checksum, one frame in
//! seven, it returns an error, and an errdefer that frees the list is missing.
const std = @import("std");

var seed: u64 = 88172645463325252;

fn random() u64 {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed >> 16;
}

noinline fn decodeFrame(allocator: std.mem.Allocator, packets: usize) ![]u8 {
    var frame: std.ArrayList(u8) = .empty;
    var packet: [700]u8 = undefined;
    @memset(&packet, 'f');
    for (0..packets) |_|
        try frame.appendSlice(allocator, packet[0 .. 300 + random() % 400]);
    if (random() % 7 == 0) return error.BadChecksum;
    return frame.items.ptr[0..frame.capacity];
}

pub fn main() !void {
    const allocator = std.heap.c_allocator;
    const start = std.time.timestamp();
    var shown: [600][]u8 = undefined;
    for (&shown) |*frame| frame.* = try allocator.alloc(u8, 100);
    try std.fs.File.stdout().writeAll("ready\n");
    while (std.time.timestamp() - start < 120) {
        for (0..12) |_| {
            const frame = decodeFrame(allocator, 2 + random() % 14) catch continue;
            const slot = &shown[random() % shown.len];
            allocator.free(slot.*);
            slot.* = frame;
        }
        for (0..20) |_| {
            const caption = try allocator.alloc(u8, 50 + random() % 900);
            @memset(caption, 1);
            allocator.free(caption);
        }
        std.Thread.sleep(10 * std.time.ns_per_ms);
    }
}
