//! C's malloc on any Zig allocator. Zig's free wants the size and the alignment of a block, which
//! C does not tell: a header of 16 bytes before each block keeps them.

const std = @import("std");
const Alignment = std.mem.Alignment;

const Header = extern struct {
    /// Bytes that the caller asked for.
    size: usize,
    /// The block starts this far into what Zig gave; a power of two, also Zig's alignment.
    offset: usize,
};

comptime {
    std.debug.assert(@sizeOf(Header) == 16);
}

pub fn Malloc(comptime allocator: *const fn () std.mem.Allocator) type {
    return struct {
        fn fail() ?*anyopaque {
            std.c._errno().* = @intFromEnum(std.c.E.NOMEM);
            return null;
        }

        fn take(size: usize, alignment: usize) ?[*]u8 {
            const offset = @max(alignment, @sizeOf(Header));
            const total = std.math.add(usize, @max(size, 1), offset) catch return null;
            if (total > std.math.maxInt(isize)) return null;
            const aligned = Alignment.fromByteUnits(offset);
            const base = allocator().rawAlloc(total, aligned, @returnAddress());
            const block = (base orelse return null) + offset;
            header(block).* = .{ .size = size, .offset = offset };
            return block;
        }

        fn header(block: [*]u8) *Header {
            return @ptrCast(@alignCast(block - @sizeOf(Header)));
        }

        fn give(block: [*]u8) void {
            const h = header(block).*;
            const base = block - h.offset;
            const total = @max(h.size, 1) + h.offset;
            const aligned = Alignment.fromByteUnits(h.offset);
            allocator().rawFree(base[0..total], aligned, @returnAddress());
        }

        pub fn malloc(size: usize) callconv(.c) ?*anyopaque {
            return take(size, 16) orelse fail();
        }

        pub fn free(block: ?*anyopaque) callconv(.c) void {
            if (block) |b| give(@ptrCast(b));
        }

        pub fn calloc(count: usize, size: usize) callconv(.c) ?*anyopaque {
            const total = std.math.mul(usize, count, size) catch return fail();
            const block = take(total, 16) orelse return fail();
            @memset(block[0..total], 0);
            return block;
        }

        pub fn realloc(old: ?*anyopaque, size: usize) callconv(.c) ?*anyopaque {
            const from: [*]u8 = @ptrCast(old orelse return malloc(size));
            if (size == 0) {
                give(from);
                return null;
            }
            // C promises only malloc's alignment for what realloc returns.
            const to = take(size, 16) orelse return fail();
            const kept = @min(size, header(from).size);
            @memcpy(to[0..kept], from[0..kept]);
            give(from);
            return to;
        }

        pub fn aligned_alloc(alignment: usize, size: usize) callconv(.c) ?*anyopaque {
            if (!std.math.isPowerOfTwo(alignment)) {
                std.c._errno().* = @intFromEnum(std.c.E.INVAL);
                return null;
            }
            return take(size, alignment) orelse fail();
        }

        pub fn posix_memalign(out: *?*anyopaque, alignment: usize, size: usize) callconv(.c) c_int {
            if (!std.math.isPowerOfTwo(alignment) or alignment < @sizeOf(usize))
                return @intFromEnum(std.c.E.INVAL);
            out.* = take(size, alignment) orelse return @intFromEnum(std.c.E.NOMEM);
            return 0;
        }

        pub fn valloc(size: usize) callconv(.c) ?*anyopaque {
            return take(size, std.heap.pageSize()) orelse fail();
        }

        pub fn pvalloc(size: usize) callconv(.c) ?*anyopaque {
            const page = std.heap.pageSize();
            const more = std.math.add(usize, size, page - 1) catch return fail();
            return take(more & ~(page - 1), page) orelse fail();
        }

        pub fn malloc_usable_size(block: ?*anyopaque) callconv(.c) usize {
            const b: [*]u8 = @ptrCast(block orelse return 0);
            return header(b).size;
        }

        pub fn exportAll() void {
            @export(&malloc, .{ .name = "malloc" });
            @export(&free, .{ .name = "free" });
            @export(&calloc, .{ .name = "calloc" });
            @export(&realloc, .{ .name = "realloc" });
            @export(&aligned_alloc, .{ .name = "aligned_alloc" });
            @export(&aligned_alloc, .{ .name = "memalign" });
            @export(&posix_memalign, .{ .name = "posix_memalign" });
            @export(&valloc, .{ .name = "valloc" });
            @export(&pvalloc, .{ .name = "pvalloc" });
            @export(&malloc_usable_size, .{ .name = "malloc_usable_size" });
        }
    };
}
