// mail relay on std.heap.c_allocator: mailboxes are drained after some seconds; bounced messages are skipped by the drain
const std = @import("std");
const c = struct {
    extern "c" fn time(t: ?*c_long) c_long;
    extern "c" fn usleep(u: c_uint) c_int;
};
const Msg = struct { next: ?*Msg, bounced: bool, body: []u8 };
var head: ?*Msg = null;
var tail: ?*Msg = null;
var count: usize = 0;
var seed: u64 = 88172645463325252;

fn rnd() u64 {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed >> 16;
}

noinline fn storeMessage(a: std.mem.Allocator, n: usize) !void {
    const m = try a.create(Msg);
    m.* = .{ .next = null, .bounced = rnd() % 4 == 0, .body = try a.alloc(u8, n) };
    @memset(m.body, 'm');
    if (tail) |t| t.next = m else head = m;
    tail = m;
    count += 1;
}

noinline fn drain(a: std.mem.Allocator, keep: usize) void {
    while (count > keep) {
        const m = head.?;
        head = m.next;
        if (head == null) tail = null;
        count -= 1;
        if (m.bounced) continue; // the bounce queue is "somebody else's"
        a.free(m.body);
        a.destroy(m);
    }
}

pub fn main() !void {
    const a = std.heap.c_allocator;
    const t0 = c.time(null);
    var cache: [6000][]u8 = undefined;
    for (&cache) |*e| {
        e.* = try a.alloc(u8, 5000);
        @memset(e.*, 1);
    }
    while (c.time(null) - t0 < 150) {
        var k: usize = 1 + rnd() % 5;
        while (k > 0) : (k -= 1) {
            try storeMessage(a, 4000 + rnd() % 12000);
            const i = rnd() % cache.len;
            a.free(cache[i]);
            cache[i] = try a.alloc(u8, 5000);
            @memset(cache[i], 2);
        }
        drain(a, 700);
        _ = c.usleep(20_000);
    }
}
