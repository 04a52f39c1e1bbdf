//! Leaks and collections in Zig. First argument: which.
const std = @import("std");

const Job = struct { name: []u8, data: []u8 };
var seed: u32 = 7;
fn pick() u32 {
    seed = seed *% 1664525 +% 1013904223;
    return seed >> 8;
}

var recent = [_]?[]u8{null} ** 3000;
fn serve(gpa: std.mem.Allocator, count: usize) !void {
    for (0..count) |_| {
        const at = &recent[pick() % 3000];
        if (at.*) |old| gpa.free(old);
        at.* = try gpa.alloc(u8, 50 + pick() % 1500);
    }
}

/// The name is freed and the data is not.
noinline fn runJob(gpa: std.mem.Allocator, n: usize) !void {
    const job = try gpa.create(Job);
    job.name = try std.fmt.allocPrint(gpa, "job {d}", .{n});
    job.data = try gpa.alloc(u8, 1500);
    @memset(job.data, 1);
    std.mem.doNotOptimizeAway(job.data.ptr);
    gpa.free(job.name);
    gpa.destroy(job);
}

/// An error on the way passes by what was made.
noinline fn parseFrame(gpa: std.mem.Allocator, n: usize) !usize {
    const frame = try gpa.alloc(u8, 2000);
    @memset(frame, 2);
    if (n % 10 == 4) return error.BadFrame;
    defer gpa.free(frame);
    return frame.len;
}

/// A map from ever new names.
noinline fn countVisit(gpa: std.mem.Allocator, visits: *std.StringHashMap(usize), n: usize) !void {
    try visits.put(try std.fmt.allocPrint(gpa, "visitor {d} of a long name that is kept for ever and a day", .{n}), n);
}

pub fn main() !void {
    const gpa = std.heap.c_allocator;
    var args = std.process.args();
    _ = args.skip();
    const which = args.next() orelse "";
    var visits = std.StringHashMap(usize).init(gpa);
    var n: usize = 0;
    while (true) : (n += 1) {
        if (std.mem.eql(u8, which, "job")) try runJob(gpa, n);
        if (std.mem.eql(u8, which, "frame")) _ = parseFrame(gpa, n) catch 0;
        if (std.mem.eql(u8, which, "visits")) try countVisit(gpa, &visits, n);
        try serve(gpa, 10);
        if (n % 10 == 0) std.Thread.sleep(12 * std.time.ns_per_ms);
    }
}
