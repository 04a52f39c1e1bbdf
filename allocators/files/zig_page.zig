//! malloc on std.heap.page_allocator.

const std = @import("std");

fn allocator() std.mem.Allocator {
    return std.heap.page_allocator;
}

comptime {
    @import("zig_malloc.zig").Malloc(&allocator).exportAll();
}
