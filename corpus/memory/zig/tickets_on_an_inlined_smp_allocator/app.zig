//! A ticket service on std.heap.smp_allocator, which is compiled in and takes its memory from the kernel by itself. It
//! keeps 4,000 tickets; of those that it replaces, one in four was opened again and is not freed.
const std = @import("std");

var tickets: [4000][]u8 = undefined;
var seed: u64 = 1234567890123456789;

fn random() u64 {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed >> 16;
}

noinline fn openTicket(allocator: std.mem.Allocator) ![]u8 {
    const ticket = try allocator.alloc(u8, 200 + random() % 2200);
    @memset(ticket, 't');
    return ticket;
}

pub fn main() !void {
    const allocator = std.heap.smp_allocator;
    const start = std.time.timestamp();
    for (&tickets) |*ticket| ticket.* = try openTicket(allocator);
    try std.fs.File.stdout().writeAll("ready\n");
    var number: usize = 0;
    while (std.time.timestamp() - start < 120) {
        for (0..30) |_| {
            const ticket = &tickets[number % tickets.len];
            if (random() % 4 != 0) allocator.free(ticket.*);
            ticket.* = try openTicket(allocator);
            number += 1;
        }
        std.Thread.sleep(10 * std.time.ns_per_ms);
    }
}
