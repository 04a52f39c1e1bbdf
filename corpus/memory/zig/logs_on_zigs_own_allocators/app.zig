//! A log service on an allocator of Zig's own: smp_allocator, or DebugAllocator when it is built without optimisation.
//! dropped: no one holds the logs and they are not freed. filed: a list keeps them. recent: the last 2,000 stay.
const std = @import("std");

var debug: std.heap.DebugAllocator(.{}) = .init;
const is_debug = @import("builtin").mode == .Debug;
const allocator = if (is_debug) debug.allocator() else std.heap.smp_allocator;
var filed: std.ArrayListUnmanaged([]u8) = .empty;
var recent: [2000]?[]u8 = @splat(null);
var current: ?[]u8 = null;

noinline fn writeLog(size: usize) ![]u8 {
    const log = try allocator.alloc(u8, size);
    @memset(log, 1);
    return log;
}

noinline fn sendReport() !void {
    const log = try writeLog(400);
    @as(*volatile ?[]u8, &current).* = log;
    @as(*volatile ?[]u8, &current).* = null;
}

noinline fn fileReport() !void {
    try filed.append(allocator, try writeLog(400));
}

noinline fn replaceReport(number: usize) !void {
    const slot = &recent[number % recent.len];
    if (slot.*) |old| allocator.free(old);
    slot.* = try writeLog(400);
}

pub fn main() !void {
    var arguments = std.process.args();
    _ = arguments.skip();
    const mode = arguments.next() orelse "recent";
    const start = std.time.timestamp();
    var number: usize = 0;
    while (std.time.timestamp() - start < 120) {
        for (0..10) |i| allocator.free(try writeLog(100 + 50 * i));
        for (0..6) |_| {
            if (std.mem.eql(u8, mode, "dropped")) try sendReport();
            if (std.mem.eql(u8, mode, "filed")) try fileReport();
            if (std.mem.eql(u8, mode, "recent")) try replaceReport(number);
            number += 1;
            if (number == recent.len) try std.fs.File.stdout().writeAll("ready\n");
        }
        std.Thread.sleep(20 * std.time.ns_per_ms);
    }
}
