//! malloc on std.heap.smp_allocator.

const std = @import("std");

fn allocator() std.mem.Allocator {
    return std.heap.smp_allocator;
}

comptime {
    @import("zig_malloc.zig").Malloc(&allocator).exportAll();
}
