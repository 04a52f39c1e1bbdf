//! What the relay answers to which request.
const std = @import("std");
const posix = std.posix;
const consumers = @import("consumer.zig");
const metrics = @import("../metrics.zig");
const socket = @import("socket.zig");
const syntax = @import("../decode/syntax.zig");
const websocket = @import("websocket.zig");
const Index = @import("../store/index.zig").Index;
const Writer = std.Io.Writer;

pub const consumers_max = 128;
const repos_per_page_max = 2000;
const repos_per_page = 500;

/// Whether the connection is closed now, or belongs to a consumer.
pub const Outcome = enum { done, taken };

const Request = struct {
    method: []const u8,
    path: []const u8,
    query: []const u8,
    head: []const u8,
};

pub const Routes = struct {
    index: *Index,
    admin_token: ?[]const u8,
    shared: *const consumers.Shared,
    metrics: *metrics.Metrics,
    context: *anyopaque,
    readGauges: *const fn (context: *anyopaque) metrics.Gauges,
    shutDown: *const fn (context: *anyopaque) void,
    /// Only the HTTP thread touches these while it runs.
    consumers: [consumers_max]*consumers.Consumer = undefined,
    consumer_count: usize = 0,

    /// Answers the request whose head is given (without its empty line).
    pub fn answer(self: *Routes, fd: posix.socket_t, head: []const u8, buffer: []u8) Outcome {
        const request = parseRequest(head) orelse
            return respond(fd, 400, "text/plain", "bad request\n");
        const Path = enum {
            @"/_health",
            @"/metrics",
            @"/admin/shutdown",
            @"/xrpc/com.atproto.sync.listReposByCollection",
            @"/xrpc/com.atproto.sync.subscribeRepos",
        };
        const path = std.meta.stringToEnum(Path, request.path) orelse
            return respond(fd, 404, "text/plain", "no such page\n");
        const wants_post = path == .@"/admin/shutdown";
        if (!std.mem.eql(u8, request.method, if (wants_post) "POST" else "GET")) {
            return respond(fd, 405, "text/plain", "wrong method\n");
        }
        return switch (path) {
            .@"/_health" => respond(fd, 200, "application/json", "{\"status\":\"ok\"}\n"),
            .@"/metrics" => self.writeMetrics(fd, buffer),
            .@"/admin/shutdown" => self.adminShutdown(fd, request),
            .@"/xrpc/com.atproto.sync.listReposByCollection" => self.listRepos(fd, request, buffer),
            .@"/xrpc/com.atproto.sync.subscribeRepos" => self.subscribe(fd, request),
        };
    }

    fn writeMetrics(self: *Routes, fd: posix.socket_t, buffer: []u8) Outcome {
        var w: Writer = .fixed(buffer);
        metrics.write(&w, self.metrics, self.readGauges(self.context)) catch
            return respond(fd, 500, "text/plain", "metrics do not fit\n");
        const open_metrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        return respond(fd, 200, open_metrics, w.buffered());
    }

    fn adminShutdown(self: *Routes, fd: posix.socket_t, request: Request) Outcome {
        const token = self.admin_token orelse
            return respond(fd, 403, "text/plain", "no --admin-token was given\n");
        const given = websocket.headerValue(request.head, "authorization") orelse "";
        const scheme = "Bearer ";
        if (!std.mem.startsWith(u8, given, scheme) or !sameSecret(token, given[scheme.len..])) {
            return respond(fd, 401, "text/plain", "wrong token\n");
        }
        self.shutDown(self.context);
        return respond(fd, 202, "text/plain", "shutting down\n");
    }

    fn listRepos(self: *Routes, fd: posix.socket_t, request: Request, buffer: []u8) Outcome {
        const collection = parameter(request.query, "collection") orelse "";
        if (!syntax.isCollection(collection)) return invalid(fd, "collection is no NSID");
        const limit = numberParameter(request.query, "limit", repos_per_page) orelse 0;
        if (limit < 1 or limit > repos_per_page_max) return invalid(fd, "limit is 1 to 2000");
        const cursor = numberParameter(request.query, "cursor", 0) orelse
            return invalid(fd, "cursor is no number");
        var w: Writer = .fixed(buffer);
        self.index.writeRepos(&w, collection, @intCast(cursor), @intCast(limit)) catch
            return respond(fd, 500, "text/plain", "answer does not fit\n");
        return respond(fd, 200, "application/json", w.buffered());
    }

    fn subscribe(self: *Routes, fd: posix.socket_t, request: Request) Outcome {
        const upgrade = websocket.headerValue(request.head, "upgrade") orelse "";
        const key = websocket.headerValue(request.head, "sec-websocket-key") orelse "";
        if (!std.ascii.eqlIgnoreCase(upgrade, "websocket") or key.len != websocket.key_size) {
            return respond(fd, 426, "text/plain", "this is a WebSocket\n");
        }
        var options: consumers.Options = .{};
        if (parameter(request.query, "cursor") != null) {
            options.cursor = numberParameter(request.query, "cursor", 0) orelse
                return invalid(fd, "cursor is no number");
        }
        if (parameter(request.query, "collection")) |collection| {
            if (!syntax.isCollection(collection)) return invalid(fd, "collection is no NSID");
            options.collection = collection;
        }
        if (self.consumer_count == consumers_max) {
            metrics.increase(self.metrics.consumer_ends.getPtr(.refused));
            return respond(fd, 503, "text/plain", "too many consumers\n");
        }
        var buffer: [256]u8 = undefined;
        const format = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n" ++
            "Connection: Upgrade\r\nSec-WebSocket-Accept: {s}\r\n\r\n";
        const accept = websocket.acceptOf(key);
        const text = std.fmt.bufPrint(&buffer, format, .{&accept}) catch unreachable;
        socket.sendAll(fd, &.{text}, {}, null) catch return .done;
        const consumer = consumers.Consumer.start(self.shared, fd, options) catch return .done;
        self.consumers[self.consumer_count] = consumer;
        self.consumer_count += 1;
        return .taken;
    }

    /// Joins the threads of consumers that have ended.
    pub fn reapConsumers(self: *Routes) void {
        var index = self.consumer_count;
        while (index > 0) {
            index -= 1;
            if (!self.consumers[index].finished.load(.acquire)) continue;
            self.consumers[index].destroy();
            self.consumer_count -= 1;
            self.consumers[index] = self.consumers[self.consumer_count];
        }
    }

    /// After the HTTP thread has ended: waits for the consumers to finish by themselves, and
    /// ends those that have not by the deadline.
    pub fn stopConsumers(self: *Routes, deadline_ns: u64) void {
        while (self.consumer_count > 0 and socket.now() < deadline_ns) {
            self.reapConsumers();
            std.Thread.sleep(10 * std.time.ns_per_ms);
        }
        for (self.consumers[0..self.consumer_count]) |consumer| {
            consumer.interrupt();
            consumer.destroy();
        }
        self.consumer_count = 0;
    }
};

fn parseRequest(head: []const u8) ?Request {
    const line_size = std.mem.indexOf(u8, head, "\r\n") orelse return null;
    var words = std.mem.splitScalar(u8, head[0..line_size], ' ');
    const method = words.next() orelse return null;
    const target = words.next() orelse return null;
    const version = words.next() orelse return null;
    if (!std.mem.startsWith(u8, version, "HTTP/1.")) return null;
    const question = std.mem.indexOfScalar(u8, target, '?') orelse target.len;
    return .{
        .method = method,
        .path = target[0..question],
        .query = target[@min(question + 1, target.len)..],
        .head = head,
    };
}

/// A query parameter as it stands; none of ours needs percent-decoding.
fn parameter(query: []const u8, name: []const u8) ?[]const u8 {
    var pairs = std.mem.splitScalar(u8, query, '&');
    while (pairs.next()) |pair| {
        const equals = std.mem.indexOfScalar(u8, pair, '=') orelse continue;
        if (std.mem.eql(u8, pair[0..equals], name)) return pair[equals + 1 ..];
    }
    return null;
}

fn numberParameter(query: []const u8, name: []const u8, default: u64) ?u64 {
    const text = parameter(query, name) orelse return default;
    return std.fmt.parseInt(u32, text, 10) catch null;
}

/// Compares in a time that does not depend on where they differ.
fn sameSecret(a: []const u8, b: []const u8) bool {
    if (a.len != b.len) return false;
    var difference: u8 = 0;
    for (a, b) |x, y| difference |= x ^ y;
    return difference == 0;
}

fn invalid(fd: posix.socket_t, comptime message: []const u8) Outcome {
    const body = "{\"error\":\"InvalidRequest\",\"message\":\"" ++ message ++ "\"}\n";
    return respond(fd, 400, "application/json", body);
}

fn respond(fd: posix.socket_t, status: u16, content_type: []const u8, body: []const u8) Outcome {
    const phrase = std.http.Status.phrase(@enumFromInt(status)) orelse "";
    var buffer: [256]u8 = undefined;
    const format = "HTTP/1.1 {d} {s}\r\nContent-Type: {s}\r\nContent-Length: {d}\r\n" ++
        "Connection: close\r\n\r\n";
    const values = .{ status, phrase, content_type, body.len };
    const head = std.fmt.bufPrint(&buffer, format, values) catch unreachable;
    socket.sendAll(fd, &.{ head, body }, {}, null) catch {};
    return .done;
}

const testing = std.testing;

test "requests and parameters" {
    const request = parseRequest("GET /a?x=1&y=b.c HTTP/1.1\r\nHost: x\r\n").?;
    try testing.expectEqualStrings("/a", request.path);
    try testing.expectEqualStrings("b.c", parameter(request.query, "y").?);
    try testing.expectEqual(@as(?u64, 1), numberParameter(request.query, "x", 9));
    try testing.expectEqual(@as(?u64, 9), numberParameter(request.query, "z", 9));
    try testing.expectEqual(@as(?u64, null), numberParameter(request.query, "y", 9));
    try testing.expectEqual(@as(?Request, null), parseRequest("GET /\r\n"));
    try testing.expect(sameSecret("abc", "abc"));
    try testing.expect(!sameSecret("abc", "abd") and !sameSecret("ab", "abc"));
}
