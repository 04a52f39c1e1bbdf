// video demuxer on std.heap.c_allocator: frames are collected in an ArrayList; a bad checksum returns an error without freeing the list
const std = @import("std");
const c = struct {
    extern "c" fn time(t: ?*c_long) c_long;
    extern "c" fn usleep(u: c_uint) c_int;
};
var seed: u64 = 88172645463325252;
fn rnd() u64 {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed >> 16;
}

noinline fn decodeFrame(a: std.mem.Allocator, packets: usize) ![]u8 {
    var out: std.ArrayList(u8) = .empty;
    var packet: [700]u8 = undefined;
    @memset(&packet, 'f');
    var i: usize = 0;
    while (i < packets) : (i += 1)
        try out.appendSlice(a, packet[0 .. 300 + rnd() % 400]);
    if (rnd() % 7 == 0) return error.BadChecksum; // errdefer out.deinit(a) is what is missing
    return out.items.ptr[0..out.capacity];
}

pub fn main() !void {
    const a = std.heap.c_allocator;
    const t0 = c.time(null);
    var shown: [600][]u8 = undefined;
    for (&shown) |*e| e.* = try a.alloc(u8, 100);
    while (c.time(null) - t0 < 150) {
        var k: usize = 0;
        while (k < 12) : (k += 1) {
            const f = decodeFrame(a, 2 + rnd() % 14) catch continue;
            const i = rnd() % shown.len;
            a.free(shown[i]);
            shown[i] = f;
        }
        k = 0;
        while (k < 20) : (k += 1) {
            const t = try a.alloc(u8, 50 + rnd() % 900);
            @memset(t, 1);
            a.free(t);
        }
        _ = c.usleep(10_000);
    }
}
