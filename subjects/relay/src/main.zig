//! relay: collects repository events from many hosts, checks them, logs them, fans them out.
const std = @import("std");
const posix = std.posix;
const flags_ = @import("flags.zig");
const leaks = @import("leaks.zig");
const memory = @import("memory.zig");
const metrics = @import("metrics.zig");
const Relay = @import("relay.zig").Relay;
const Flags = flags_.Flags;

pub const std_options: std.Options = .{ .log_level = .info, .logFn = leaks.log };

const exit_usage = 2;
const exit_failed = 1;

/// Static: with its fixed tables it is larger than a stack should hold.
var relay: Relay = undefined;
var meter: memory.Meter = undefined;

pub fn main() u8 {
    // The command line outlives the run and is no part of the memory under study.
    const arguments = std.process.argsAlloc(std.heap.page_allocator) catch return exit_failed;
    const flags = parseFlags(arguments) catch |err| return if (err == error.Help) 0 else exit_usage;
    const signals = blockSignals();
    raiseDescriptorLimit();
    meter = .{ .child = memory.choose(flags.allocator) };

    relay.init(flags, &meter) catch |err| return sayWhyNot(flags, err);
    relay.start() catch |err| {
        const count = flags.workers + flags.upstreams.len + 1;
        std.log.err("cannot start {d} threads: {t}", .{ count, err });
        return exit_failed;
    };
    std.log.info("ready on 127.0.0.1:{d}: {d} upstreams, {d} workers, allocator {t}", .{
        flags.port, flags.upstreams.len, flags.workers, flags.allocator,
    });
    waitForEnd(signals, flags.trim_every_s);
    std.log.info("stopping", .{});
    relay.stop();
    const published = relay.metrics.frames_published.load(.monotonic);
    relay.deinit();
    std.log.info("stopped, {d} events published", .{published});
    if (flags.allocator == .debug) {
        memory.detectLeaks(.debug);
        leaks.report();
    }
    return 0;
}

fn parseFlags(arguments: []const [:0]u8) flags_.Error!Flags {
    const plain = try std.heap.page_allocator.alloc([]const u8, arguments.len - 1);
    for (arguments[1..], plain) |argument, *slot| slot.* = argument;
    var problem: flags_.Problem = .{};
    var flags = flags_.parse(std.heap.page_allocator, plain, &problem) catch |err| {
        if (err == error.Help) std.debug.print("{s}", .{flags_.usage});
        if (err == error.Usage) std.debug.print("relay: {s}\n", .{problem.text[0..problem.size]});
        return err;
    };
    if (flags.admin_token == null) flags.admin_token = posix.getenv("RELAY_ADMIN_TOKEN");
    return flags;
}

fn sayWhyNot(flags: Flags, err: anyerror) u8 {
    switch (err) {
        error.AddressInUse => {
            std.log.err("port {d} is in use; choose another with --port", .{flags.port});
        },
        error.InUse => {
            const format = "another relay is running on {s}; stop it or choose another --data";
            std.log.err(format, .{flags.data});
        },
        else => {
            const format = "cannot start with port {d} and log folder {s}: {t}";
            std.log.err(format, .{ flags.port, flags.data, err });
        },
    }
    return exit_failed;
}

/// SIGTERM and SIGINT become readable from a descriptor; threads started later inherit the mask.
fn blockSignals() posix.fd_t {
    var set = posix.sigemptyset();
    posix.sigaddset(&set, posix.SIG.TERM);
    posix.sigaddset(&set, posix.SIG.INT);
    posix.sigprocmask(posix.SIG.BLOCK, &set, null);
    return posix.signalfd(-1, &set, std.os.linux.SFD.CLOEXEC) catch -1;
}

/// One descriptor per upstream: the usual soft limit of 1,024 is not enough.
fn raiseDescriptorLimit() void {
    var limit = posix.getrlimit(.NOFILE) catch return;
    limit.cur = limit.max;
    posix.setrlimit(.NOFILE, limit) catch {};
}

/// Returns on a signal or on /admin/shutdown; trims now and then until then.
fn waitForEnd(signals: posix.fd_t, trim_every_s: u32) void {
    var seconds: u32 = 0;
    while (!relay.stopping.isSet()) {
        var fds = [_]posix.pollfd{.{ .fd = signals, .events = posix.POLL.IN, .revents = 0 }};
        const ready = posix.poll(&fds, 1000) catch 0;
        if (ready > 0) return;
        seconds += 1;
        if (trim_every_s == 0 or seconds % trim_every_s != 0) continue;
        if (memory.trim()) metrics.increase(&relay.metrics.trims);
    }
}

test {
    _ = @import("decode/cbor.zig");
    _ = @import("decode/cid.zig");
    _ = @import("decode/car.zig");
    _ = @import("decode/mst.zig");
    _ = @import("decode/sha256.zig");
    _ = @import("decode/syntax.zig");
    _ = @import("decode/event_test.zig");
    _ = @import("flags.zig");
    _ = @import("leaks.zig");
    _ = @import("memory.zig");
    _ = @import("metrics.zig");
    _ = @import("network/http.zig");
    _ = @import("network/routes.zig");
    _ = @import("network/socket.zig");
    _ = @import("network/websocket.zig");
    _ = @import("queue.zig");
    _ = @import("relay.zig");
    _ = @import("store/backlog.zig");
    _ = @import("store/disklog_test.zig");
    _ = @import("store/index.zig");
}
