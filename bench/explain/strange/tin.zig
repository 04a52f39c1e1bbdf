//! Tins on a shelf, over Zig's own allocators. The first word: which.
const std = @import("std");
var sink: ?[]u8 = null;
var debug: std.heap.DebugAllocator(.{}) = .init;

noinline fn fillTin(a: std.mem.Allocator, n: usize) ![]u8 {
    const tin = try a.alloc(u8, n);
    @memset(tin, 1);
    return tin;
}
noinline fn mislayTin(a: std.mem.Allocator) !void {
    const tin = try fillTin(a, 700);
    @as(*volatile ?[]u8, &sink).* = tin;
    @as(*volatile ?[]u8, &sink).* = null;
}
pub fn main() !void {
    var words = std.process.args();
    _ = words.next();
    const which = words.next() orelse "smp";
    const a = if (std.mem.eql(u8, which, "debug")) debug.allocator() else std.heap.smp_allocator;
    while (true) {
        for (1..20) |i| a.free(try fillTin(a, 90 * i));
        for (0..4) |_| try mislayTin(a);
        std.Thread.sleep(20 * std.time.ns_per_ms);
    }
}
