// crawler frontier in Zig on the C allocator: link lists of pages with errors are not freed
const std = @import("std");
const c = struct { extern "c" fn time(t: ?*c_long) c_long; extern "c" fn usleep(u: c_uint) c_int; };
const A = std.heap.c_allocator;
const Page = struct { body: []u8, links: []u8, failed: bool };
var seed: u32 = 1;
fn rnd() u32 { seed = seed *% 1664525 +% 1013904223; return seed >> 8; }
noinline fn extractLinks(n: usize) []u8 { const l = A.alloc(u8, n) catch unreachable; @memset(l, 7); return l; }
noinline fn fetchPage() Page { const n: usize = 3000 + rnd() % 12000; const b = A.alloc(u8, n) catch unreachable; @memset(b, 1); return .{ .body = b, .links = extractLinks(n / 6), .failed = rnd() % 6 == 0 }; }
noinline fn dropPage(p: Page) void { A.free(p.body); if (!p.failed) A.free(p.links); }
pub fn main() void {
    const t0 = c.time(null);
    var ring: [1200]?Page = undefined; for (&ring) |*r| r.* = null;
    var i: usize = 0;
    while (c.time(null) - t0 < 150) {
        var k: usize = 0;
        while (k < 4) : (k += 1) { const j = i % 1200; if (ring[j]) |p| dropPage(p); ring[j] = fetchPage(); i += 1; }
        _ = c.usleep(12000);
    }
}
