// Ships at a berth, over one of Zig's own allocators. The first word: what is wrong.
const std = @import("std");
const gpa = std.heap.smp_allocator;
var logs: std.ArrayListUnmanaged([]u8) = .empty;
var last: [2000]?[]u8 = @splat(null);
var sink: ?[]u8 = null;

noinline fn writeLog(n: usize) ![]u8 {
    const log = try gpa.alloc(u8, n);
    @memset(log, 1);
    return log;
}
noinline fn loseLog() !void {
    const log = try writeLog(400);
    @as(*volatile ?[]u8, &sink).* = log;
    @as(*volatile ?[]u8, &sink).* = null;
}
noinline fn fileLog() !void {
    try logs.append(gpa, try writeLog(400));
}
noinline fn replaceLog(at: usize) !void {
    if (last[at % last.len]) |old| gpa.free(old);
    last[at % last.len] = try writeLog(400);
}
pub fn main() !void {
    var words = std.process.args();
    _ = words.next();
    const wrong = words.next() orelse "flat";
    var turn: usize = 0;
    while (true) : (turn += 1) {
        for (0..10) |i| gpa.free(try writeLog(100 + 50 * i));
        for (0..6) |i| {
            if (std.mem.eql(u8, wrong, "leak")) try loseLog();
            if (std.mem.eql(u8, wrong, "filling")) try fileLog();
            if (std.mem.eql(u8, wrong, "last")) try replaceLog(turn * 6 + i);
        }
        std.Thread.sleep(20 * std.time.ns_per_ms);
    }
}
