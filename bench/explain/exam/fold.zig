//! Losses in Zig; names say nothing of what is done. First argument: which.
const std = @import("std");

var seen: usize = 0;

/// crease: what was made before an error is not given back.
fn crease(a: std.mem.Allocator, n: usize, ok: bool) !void {
    const sheet = try a.alloc(u8, 640);
    @memset(sheet, 1);
    seen +%= sheet[n % 640];
    if (ok or n % 4 != 0) a.free(sheet);
    if (n % 4 == 0) return error.Torn;
}

/// pleat: pages of its own.
fn pleat(n: usize) !void {
    const sheet = try std.heap.page_allocator.alloc(u8, 20000);
    @memset(sheet, @intCast(n % 250));
}

/// tuck: Zig's own allocator.
fn tuck(n: usize) !void {
    const sheet = try std.heap.smp_allocator.alloc(u8, 900);
    @memset(sheet, @intCast(n % 250));
}

pub fn main() !void {
    var words = std.process.args();
    _ = words.next();
    const which = words.next() orelse return;
    const ok = words.next() != null;
    var n: usize = 0;
    while (true) : (n += 1) {
        if (std.mem.eql(u8, which, "crease")) crease(std.heap.c_allocator, n, ok) catch {};
        if (std.mem.eql(u8, which, "pleat")) try pleat(n);
        if (std.mem.eql(u8, which, "tuck")) try tuck(n);
        const churn = try std.heap.c_allocator.alloc(u8, 100 + n % 2000);
        @memset(churn, 2);
        seen +%= churn[n % 100];
        std.heap.c_allocator.free(churn);
        if (n % 10 == 0) std.Thread.sleep(30 * std.time.ns_per_ms);
    }
}
