//! Zig; names say nothing of what is done. First argument: which; a second one: the mended twin.
const std = @import("std");

var state: u64 = 88172645463325252;
fn dice() u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 11;
}

/// tail: a list of copies is closed, but not what is in it.
noinline fn tail(heap: std.mem.Allocator, ok: bool) !void {
    var list: std.ArrayListUnmanaged([]u8) = .empty;
    defer list.deinit(heap);
    for (0..8) |n| try list.append(heap, try heap.dupe(u8, "a ribbon, tied to the tail of a kite in the wind"[0 .. 30 + n]));
    if (ok) for (list.items) |text| heap.free(text);
}

var frames: std.AutoHashMapUnmanaged(u64, []u8) = .empty;
/// spar: a map of 4,000 bodies, of which one goes for each that comes.
noinline fn spar(heap: std.mem.Allocator, n: u64, room: u64) !void {
    const body = try heap.alloc(u8, 200 + dice() % 900);
    @memset(body, 1);
    try frames.put(heap, n, body);
    if (n >= room) if (frames.fetchRemove(n - room)) |gone| heap.free(gone.value);
}

pub fn main() !void {
    const heap = std.heap.c_allocator;
    var words = try std.process.argsWithAllocator(heap);
    _ = words.next();
    const which = words.next() orelse return error.Which;
    const ok = words.next() != null;
    var n: u64 = 0;
    while (true) : (n += 1) {
        if (std.mem.eql(u8, which, "tail")) try tail(heap, ok) else try spar(heap, n, if (ok) 400_000 else 4000);
        if (n % 20 == 0) std.Thread.sleep(50 * std.time.ns_per_ms);
    }
}
