//! The command line.
const std = @import("std");
const memory = @import("memory.zig");
const Allocator = std.mem.Allocator;

pub const usage =
    \\relay: collects repository events from many hosts and fans them out.
    \\
    \\usage: relay --upstreams ADDRESSES --data DIR [options]
    \\
    \\  --upstreams LIST       HOST:PORT, several separated by commas; HOST:PORTxN connects N times,
    \\                         with host=0..N-1 in the query (for load programs)
    \\  --data DIR             folder of the event log; created when missing
    \\  --port N               HTTP and consumers, on 127.0.0.1 [2470]
    \\  --workers N            threads that decode and publish [16]
    \\  --backlog N            newest events kept in memory for consumers [512]
    \\  --allocator NAME       c, smp, page or debug [c]
    \\  --frame-arena page     one arena of pages per frame instead of single blocks
    \\  --trim-every SECONDS   call malloc_trim this often
    \\  --leak on|off          keep the history's leak [on]
    \\  --peer-timeout SECONDS a peer that stalls in the middle of something is dropped [30]
    \\  --admin-token TOKEN    allows POST /admin/shutdown; also RELAY_ADMIN_TOKEN
    \\  --help
    \\
;

pub const workers_max = 256;
pub const upstreams_max = 10_000;

pub const Address = struct {
    host: []const u8,
    port: u16,
    /// Number of this connection among those to the same address, when it was given as `xN`.
    number: ?u32,
};

pub const Flags = struct {
    upstreams: []const Address = &.{},
    data: []const u8 = "",
    port: u16 = 2470,
    workers: usize = 16,
    backlog: usize = 512,
    allocator: memory.Choice = .c,
    frame_arena: bool = false,
    trim_every_s: u32 = 0,
    leak: bool = true,
    peer_timeout_s: u32 = 30,
    admin_token: ?[]const u8 = null,
};

/// What was wrong, in words for the user.
pub const Problem = struct { text: [256]u8 = undefined, size: usize = 0 };

pub const Error = error{ Usage, Help } || Allocator.Error;

/// Reads the arguments (without the program's name). The result points into them.
pub fn parse(allocator: Allocator, args: []const []const u8, problem: *Problem) Error!Flags {
    var flags: Flags = .{};
    var index: usize = 0;
    while (index < args.len) : (index += 2) {
        const name = args[index];
        if (std.mem.eql(u8, name, "--help")) return error.Help;
        if (index + 1 == args.len) return fail(problem, "{s} wants a value", .{name});
        try apply(allocator, &flags, name, args[index + 1], problem);
    }
    if (flags.upstreams.len == 0) return fail(problem, "--upstreams is missing", .{});
    if (flags.data.len == 0) return fail(problem, "--data is missing", .{});
    return flags;
}

fn apply(
    allocator: Allocator,
    flags: *Flags,
    name: []const u8,
    value: []const u8,
    problem: *Problem,
) Error!void {
    const Name = enum {
        @"--upstreams",
        @"--data",
        @"--port",
        @"--workers",
        @"--backlog",
        @"--allocator",
        @"--frame-arena",
        @"--trim-every",
        @"--leak",
        @"--peer-timeout",
        @"--admin-token",
    };
    const known = std.meta.stringToEnum(Name, name) orelse
        return fail(problem, "unknown option {s}; see --help", .{name});
    switch (known) {
        .@"--upstreams" => flags.upstreams = try parseUpstreams(allocator, value, problem),
        .@"--data" => flags.data = value,
        .@"--port" => flags.port = @intCast(try number(name, value, 1, 65535, problem)),
        .@"--workers" => flags.workers = try number(name, value, 1, workers_max, problem),
        .@"--backlog" => flags.backlog = try number(name, value, 16, 1 << 20, problem),
        .@"--allocator" => flags.allocator = std.meta.stringToEnum(memory.Choice, value) orelse
            return fail(problem, "--allocator is c, smp, page or debug, not {s}", .{value}),
        .@"--frame-arena" => flags.frame_arena = try oneOf(name, value, "page", "none", problem),
        .@"--trim-every" => flags.trim_every_s =
            @intCast(try number(name, value, 0, 86400, problem)),
        .@"--leak" => flags.leak = try oneOf(name, value, "on", "off", problem),
        .@"--peer-timeout" => flags.peer_timeout_s =
            @intCast(try number(name, value, 1, 3600, problem)),
        .@"--admin-token" => flags.admin_token = value,
    }
}

fn fail(problem: *Problem, comptime format: []const u8, args: anytype) error{Usage} {
    const text = std.fmt.bufPrint(&problem.text, format, args) catch problem.text[0..];
    problem.size = text.len;
    return error.Usage;
}

fn number(
    name: []const u8,
    value: []const u8,
    min: usize,
    max: usize,
    problem: *Problem,
) Error!usize {
    const result = std.fmt.parseInt(usize, value, 10) catch max +% 1;
    if (result < min or result > max) {
        const format = "{s} is a number from {d} to {d}, not {s}";
        return fail(problem, format, .{ name, min, max, value });
    }
    return result;
}

fn oneOf(
    name: []const u8,
    value: []const u8,
    yes: []const u8,
    no: []const u8,
    problem: *Problem,
) Error!bool {
    if (std.mem.eql(u8, value, yes)) return true;
    if (std.mem.eql(u8, value, no)) return false;
    return fail(problem, "{s} is {s} or {s}, not {s}", .{ name, yes, no, value });
}

fn parseUpstreams(allocator: Allocator, list: []const u8, problem: *Problem) Error![]Address {
    var result: std.ArrayList(Address) = .empty;
    errdefer result.deinit(allocator);
    var items = std.mem.tokenizeScalar(u8, list, ',');
    while (items.next()) |item| {
        const colon = std.mem.lastIndexOfScalar(u8, item, ':') orelse
            return fail(problem, "--upstreams: {s} is no HOST:PORT", .{item});
        const host = std.mem.trim(u8, item[0..colon], "[]");
        var parts = std.mem.splitScalar(u8, item[colon + 1 ..], 'x');
        const port_text = parts.first();
        const port = try number("a port of --upstreams", port_text, 1, 65535, problem);
        const count_text = parts.next();
        const count = if (count_text) |text|
            try number("a count of --upstreams", text, 1, upstreams_max, problem)
        else
            1;
        if (parts.next() != null or result.items.len + count > upstreams_max) {
            return fail(problem, "--upstreams: {s} is no HOST:PORTxN, or too many", .{item});
        }
        for (0..count) |n| {
            const n_of_many: ?u32 = if (count_text == null) null else @intCast(n);
            const address: Address = .{ .host = host, .port = @intCast(port), .number = n_of_many };
            try result.append(allocator, address);
        }
    }
    return result.toOwnedSlice(allocator);
}

const testing = std.testing;

fn expectProblem(expected: []const u8, args: []const []const u8) !void {
    var problem: Problem = .{};
    var arena: std.heap.ArenaAllocator = .init(testing.allocator);
    defer arena.deinit();
    try testing.expectError(error.Usage, parse(arena.allocator(), args, &problem));
    try testing.expectEqualStrings(expected, problem.text[0..problem.size]);
}

test "a whole command line" {
    var problem: Problem = .{};
    const flags = try parse(testing.allocator, &.{
        "--upstreams", "127.0.0.1:7000x3,pds.example:443", "--data", "d",  "--leak", "off",
        "--allocator", "smp",                              "--port", "99",
    }, &problem);
    defer testing.allocator.free(flags.upstreams);
    try testing.expectEqual(@as(usize, 4), flags.upstreams.len);
    try testing.expectEqual(@as(?u32, 2), flags.upstreams[2].number);
    try testing.expectEqualStrings("pds.example", flags.upstreams[3].host);
    try testing.expectEqual(@as(?u32, null), flags.upstreams[3].number);
    try testing.expect(!flags.leak);
    try testing.expectEqual(memory.Choice.smp, flags.allocator);
}

test "mistakes are answered in words" {
    try expectProblem("unknown option --prot; see --help", &.{ "--prot", "1" });
    try expectProblem("--port wants a value", &.{"--port"});
    try expectProblem("--port is a number from 1 to 65535, not 0", &.{ "--port", "0" });
    try expectProblem("--leak is on or off, not maybe", &.{ "--leak", "maybe" });
    try expectProblem("--upstreams: nowhere is no HOST:PORT", &.{ "--upstreams", "nowhere" });
    try expectProblem("--upstreams is missing", &.{});
}
