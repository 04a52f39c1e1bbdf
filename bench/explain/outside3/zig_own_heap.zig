// the same kind of service, but on std.heap.smp_allocator: Zig's own allocator, compiled in, takes its memory from the kernel by itself.
// Tickets are closed after some seconds; a reopened one (1 of 4) is lost
const std = @import("std");
const c = struct {
    extern "c" fn time(t: ?*c_long) c_long;
    extern "c" fn usleep(u: c_uint) c_int;
};
var seed: u64 = 1234567890123456789;
fn rnd() u64 {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed >> 16;
}

noinline fn openTicket(a: std.mem.Allocator) ![]u8 {
    const t = try a.alloc(u8, 200 + rnd() % 2200);
    @memset(t, 't');
    return t;
}

pub fn main() !void {
    const a = std.heap.smp_allocator;
    const t0 = c.time(null);
    var ring: [4000][]u8 = undefined;
    for (&ring) |*e| e.* = try openTicket(a);
    var n: usize = 0;
    while (c.time(null) - t0 < 150) {
        var k: usize = 0;
        while (k < 30) : (k += 1) {
            const i = n % ring.len;
            if (rnd() % 4 != 0) a.free(ring[i]);
            ring[i] = try openTicket(a);
            n += 1;
        }
        _ = c.usleep(10_000);
    }
}
