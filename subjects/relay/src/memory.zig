//! Where the relay's memory comes from: one allocator for the whole process, chosen at start,
//! behind a counter of calls.
const std = @import("std");
const Allocator = std.mem.Allocator;
const Alignment = std.mem.Alignment;

pub const Choice = enum {
    /// libc's malloc and free, so whatever is preloaded.
    c,
    smp,
    page,
    debug,
};

/// Frames of a stack kept per allocation, Zig's own default in debug builds.
pub const stack_frames = 6;
pub const Debug = std.heap.DebugAllocator(.{ .stack_trace_frames = stack_frames, .safety = true });

var debug: Debug = .init;

/// `raw_c_allocator` and not `c_allocator`: the latter calls posix_memalign for every block,
/// and nothing here is aligned to more than malloc guarantees.
pub fn choose(choice: Choice) Allocator {
    return switch (choice) {
        .c => std.heap.raw_c_allocator,
        .smp => std.heap.smp_allocator,
        .page => std.heap.page_allocator,
        .debug => debug.allocator(),
    };
}

/// Logs each block that is still allocated through `std.log` (leaks.zig keeps that bounded).
pub fn detectLeaks(choice: Choice) void {
    if (choice == .debug) _ = debug.detectLeaks();
}

/// Counts allocations on their way to another allocator.
pub const Meter = struct {
    child: Allocator,
    allocations: std.atomic.Value(u64) = .init(0),

    pub fn allocator(self: *Meter) Allocator {
        return .{ .ptr = self, .vtable = &.{
            .alloc = alloc,
            .resize = resize,
            .remap = remap,
            .free = free,
        } };
    }

    fn alloc(context: *anyopaque, size: usize, alignment: Alignment, caller: usize) ?[*]u8 {
        const self: *Meter = @ptrCast(@alignCast(context));
        _ = self.allocations.fetchAdd(1, .monotonic);
        return self.child.rawAlloc(size, alignment, caller);
    }

    fn resize(
        context: *anyopaque,
        block: []u8,
        alignment: Alignment,
        size: usize,
        caller: usize,
    ) bool {
        const self: *Meter = @ptrCast(@alignCast(context));
        return self.child.rawResize(block, alignment, size, caller);
    }

    fn remap(
        context: *anyopaque,
        block: []u8,
        alignment: Alignment,
        size: usize,
        caller: usize,
    ) ?[*]u8 {
        const self: *Meter = @ptrCast(@alignCast(context));
        return self.child.rawRemap(block, alignment, size, caller);
    }

    fn free(context: *anyopaque, block: []u8, alignment: Alignment, caller: usize) void {
        const self: *Meter = @ptrCast(@alignCast(context));
        self.child.rawFree(block, alignment, caller);
    }
};

/// Memory of one frame: block by block from the process's allocator, or one arena of pages
/// which is given back as a whole.
pub const FrameMemory = union(enum) {
    blocks: Allocator,
    arena: std.heap.ArenaAllocator,

    pub fn init(shared: Allocator, frame_arena: bool) FrameMemory {
        if (frame_arena) return .{ .arena = .init(std.heap.page_allocator) };
        return .{ .blocks = shared };
    }

    pub fn allocator(self: *FrameMemory) Allocator {
        return switch (self.*) {
            .blocks => |shared| shared,
            .arena => |*arena| arena.allocator(),
        };
    }
};

/// What glibc's allocator holds from the kernel; null under another libc. With another
/// allocator preloaded it is glibc's own leftover, near zero.
pub fn arenaBytes() ?u64 {
    const mallinfo2: *const fn () callconv(.c) Mallinfo2 =
        @ptrCast(@alignCast(std.c.dlsym(null, "mallinfo2") orelse return null));
    const info = mallinfo2();
    return info.arena + info.hblkhd;
}

const Mallinfo2 = extern struct {
    arena: usize,
    ordblks: usize,
    smblks: usize,
    hblks: usize,
    hblkhd: usize,
    usmblks: usize,
    fsmblks: usize,
    uordblks: usize,
    fordblks: usize,
    keepcost: usize,
};

/// Asks libc to give free memory back to the kernel; false where it cannot.
pub fn trim() bool {
    const malloc_trim: *const fn (usize) callconv(.c) c_int =
        @ptrCast(@alignCast(std.c.dlsym(null, "malloc_trim") orelse return false));
    _ = malloc_trim(0);
    return true;
}

/// Resident bytes of this process, from /proc/self/statm; null when it cannot be read.
pub fn residentBytes() ?u64 {
    var buffer: [256]u8 = undefined;
    const file = std.fs.openFileAbsolute("/proc/self/statm", .{}) catch return null;
    defer file.close();
    const size = file.read(&buffer) catch return null;
    const pages = parseStatm(buffer[0..size]) orelse return null;
    return pages * std.heap.pageSize();
}

/// The second field: resident pages.
fn parseStatm(text: []const u8) ?u64 {
    var fields = std.mem.tokenizeScalar(u8, text, ' ');
    _ = fields.next() orelse return null;
    return std.fmt.parseInt(u64, fields.next() orelse return null, 10) catch null;
}

const testing = std.testing;

test "resident pages of a statm line" {
    // `cat /proc/self/statm` on a Debian 12, kernel 6.18.
    try testing.expectEqual(@as(?u64, 457), parseStatm("695 457 407 5 0 113 0\n"));
    try testing.expectEqual(@as(?u64, null), parseStatm("695"));
    try testing.expect(residentBytes().? > 0);
}

test "the meter counts and passes on" {
    var meter: Meter = .{ .child = testing.allocator };
    const block = try meter.allocator().alloc(u8, 100);
    const smaller = try meter.allocator().realloc(block, 50);
    meter.allocator().free(smaller);
    try testing.expect(meter.allocations.load(.monotonic) >= 1);
}

test "a frame's arena gives everything back at once" {
    var memory: FrameMemory = .init(testing.allocator, true);
    _ = try memory.allocator().alloc(u8, 10_000);
    _ = try memory.allocator().alloc(u8, 10_000);
    memory.arena.deinit();
}
