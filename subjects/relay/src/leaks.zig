//! The debug allocator's leak report, bounded. Zig logs one message with a symbolised stack for
//! each lost block: with thousands of them that takes minutes, longer than any grace after
//! SIGTERM. Here messages are counted by stack instead, and each stack is printed once.
const std = @import("std");
const StackTrace = std.builtin.StackTrace;

/// Distinct stacks remembered; blocks with further ones are only counted.
const stacks_max = 32;
/// Stacks printed, the most frequent first.
const stacks_shown_max = 8;
const frames_max = 8;

const Group = struct {
    frames: [frames_max]usize = @splat(0),
    frame_count: usize = 0,
    blocks: u64 = 0,
};

pub const Tally = struct {
    groups: [stacks_max]Group = @splat(.{}),
    group_count: usize = 0,
    blocks: u64 = 0,
    blocks_of_further_stacks: u64 = 0,

    pub fn add(self: *Tally, trace: StackTrace) void {
        self.blocks += 1;
        const frames = trace.instruction_addresses[0..@min(trace.index, frames_max)];
        for (self.groups[0..self.group_count]) |*group| {
            if (!std.mem.eql(usize, group.frames[0..group.frame_count], frames)) continue;
            group.blocks += 1;
            return;
        }
        if (self.group_count == stacks_max) {
            self.blocks_of_further_stacks += 1;
            return;
        }
        const group = &self.groups[self.group_count];
        self.group_count += 1;
        @memcpy(group.frames[0..frames.len], frames);
        group.frame_count = frames.len;
        group.blocks = 1;
    }

    fn sort(self: *Tally) void {
        std.mem.sort(Group, self.groups[0..self.group_count], {}, moreBlocks);
    }

    fn moreBlocks(_: void, a: Group, b: Group) bool {
        return a.blocks > b.blocks;
    }
};

var tally: Tally = .{};

/// For `std.Options.logFn`: takes the debug allocator's leaks out of the log.
pub fn log(
    comptime level: std.log.Level,
    comptime scope: @TypeOf(.enum_literal),
    comptime format: []const u8,
    args: anytype,
) void {
    if (comptime scope == .gpa and args.len == 2 and @TypeOf(args[1]) == StackTrace) {
        tally.add(args[1]);
        return;
    }
    std.log.defaultLog(level, scope, format, args);
}

/// Prints what was counted to stderr: one line when nothing was lost.
pub fn report() void {
    if (tally.blocks == 0) {
        std.debug.print("debug allocator: no leaks\n", .{});
        return;
    }
    tally.sort();
    std.debug.print("debug allocator: {d} blocks leaked, from {d} stacks{s}\n", .{
        tally.blocks,
        tally.group_count,
        if (tally.blocks_of_further_stacks > 0) " and more" else "",
    });
    const shown = @min(tally.group_count, stacks_shown_max);
    for (tally.groups[0..shown]) |*group| {
        std.debug.print("{d} blocks leaked, allocated here:\n", .{group.blocks});
        std.debug.dumpStackTrace(.{
            .index = group.frame_count,
            .instruction_addresses = group.frames[0..group.frame_count],
        });
    }
    if (tally.group_count > shown) {
        std.debug.print("({d} further stacks not shown)\n", .{tally.group_count - shown});
    }
}

const testing = std.testing;

test "blocks are counted by stack, and stacks are bounded" {
    var counted: Tally = .{};
    for (0..1000) |index| {
        var frames = [_]usize{ 1, if (index % 10 == 0) index else 7 };
        counted.add(.{ .index = frames.len, .instruction_addresses = &frames });
    }
    counted.sort();
    try testing.expectEqual(@as(u64, 1000), counted.blocks);
    try testing.expectEqual(@as(u64, 900), counted.groups[0].blocks);
    try testing.expectEqual(@as(usize, stacks_max), counted.group_count);
    try testing.expectEqual(@as(u64, 100 - (stacks_max - 1)), counted.blocks_of_further_stacks);
}
