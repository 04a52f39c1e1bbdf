// Zig on one of its allocators: zig build-exe -lc shape.zig; arguments: c|smp|page, leak|flat
const std = @import("std");

fn openTicket(allocator: std.mem.Allocator, id: u8) !void {
    const ticket = try allocator.alloc(u8, 900);
    @memset(ticket, id);
}

pub fn main() !void {
    var words = std.process.args();
    _ = words.next();
    const which = words.next() orelse "c";
    const how = words.next() orelse "leak";
    const allocator = if (std.mem.eql(u8, which, "smp"))
        std.heap.smp_allocator
    else if (std.mem.eql(u8, which, "page"))
        std.heap.page_allocator
    else
        std.heap.c_allocator;
    while (true) {
        for (0..100) |i| {
            const block = try allocator.alloc(u8, 100 + i * 13);
            allocator.free(block);
        }
        if (std.mem.eql(u8, how, "leak")) {
            for (0..20) |i| try openTicket(allocator, @intCast(i));
        }
        std.Thread.sleep(20 * std.time.ns_per_ms);
    }
}
