//! malloc on std.heap.DebugAllocator as a program gets it by default, made safe for threads.

const std = @import("std");

var debug: std.heap.DebugAllocator(.{ .thread_safe = true }) = .init;

fn allocator() std.mem.Allocator {
    return debug.allocator();
}

comptime {
    @import("zig_malloc.zig").Malloc(&allocator).exportAll();
}
