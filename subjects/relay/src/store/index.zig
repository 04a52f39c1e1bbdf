//! Which repositories have records of which collection, for `listReposByCollection`. Bounded:
//! what does not fit is refused and counted, never grown into.
const std = @import("std");
const syntax = @import("../decode/syntax.zig");
const Allocator = std.mem.Allocator;
const Mutex = std.Thread.Mutex;
const Writer = std.Io.Writer;

pub const collections_max = 256;
/// Pairs of collection and repository.
pub const repos_max = 64 * 1024;
/// Longer DIDs (the limit of the specification is 2,048) are not indexed.
pub const did_size_max = 128;

const Repos = std.StringArrayHashMapUnmanaged(void);

pub const Index = struct {
    allocator: Allocator,
    mutex: Mutex = .{},
    collections: std.StringArrayHashMapUnmanaged(Repos) = .empty,
    repo_count: usize = 0,
    refused: u64 = 0,

    pub fn init(allocator: Allocator) Index {
        return .{ .allocator = allocator };
    }

    pub fn deinit(self: *Index) void {
        for (self.collections.keys(), self.collections.values()) |name, *repos| {
            for (repos.keys()) |did| self.allocator.free(did);
            repos.deinit(self.allocator);
            self.allocator.free(name);
        }
        self.collections.deinit(self.allocator);
    }

    /// Notes that `did` has a record in `collection`.
    pub fn add(self: *Index, collection: []const u8, did: []const u8) void {
        self.mutex.lock();
        defer self.mutex.unlock();
        self.addLocked(collection, did) catch {
            self.refused += 1;
        };
    }

    const AddError = error{Full} || Allocator.Error;

    fn addLocked(self: *Index, collection: []const u8, did: []const u8) AddError!void {
        if (did.len > did_size_max) return error.Full;
        const repos = self.collections.getPtr(collection) orelse try self.addCollection(collection);
        if (repos.contains(did)) return;
        if (self.repo_count == repos_max) return error.Full;
        const copy = try self.allocator.dupe(u8, did);
        errdefer self.allocator.free(copy);
        try repos.put(self.allocator, copy, {});
        self.repo_count += 1;
    }

    fn addCollection(self: *Index, collection: []const u8) AddError!*Repos {
        if (self.collections.count() == collections_max) return error.Full;
        const copy = try self.allocator.dupe(u8, collection);
        errdefer self.allocator.free(copy);
        try self.collections.put(self.allocator, copy, .empty);
        return self.collections.getPtr(copy).?;
    }

    pub const Counts = struct { collections: usize, repos: usize, refused: u64 };

    pub fn counts(self: *Index) Counts {
        self.mutex.lock();
        defer self.mutex.unlock();
        return .{
            .collections = self.collections.count(),
            .repos = self.repo_count,
            .refused = self.refused,
        };
    }

    /// Writes `{"repos":[{"did":...}],"cursor":"..."}`: at most `limit` repositories from number
    /// `cursor` on, and a cursor when there are more. Stops early when `w` is nearly full.
    pub fn writeRepos(
        self: *Index,
        w: *Writer,
        collection: []const u8,
        cursor: usize,
        limit: usize,
    ) Writer.Error!void {
        self.mutex.lock();
        defer self.mutex.unlock();
        try w.writeAll("{\"repos\":[");
        const repos = self.collections.get(collection) orelse Repos.empty;
        var position = @min(cursor, repos.count());
        const end = @min(position +| limit, repos.count());
        const room_for_one = did_size_max + 64;
        var separator: []const u8 = "";
        while (position < end and w.unusedCapacityLen() > room_for_one) : (position += 1) {
            // DIDs passed syntax.isDid: nothing in them needs escaping.
            try w.print("{s}{{\"did\":\"{s}\"}}", .{ separator, repos.keys()[position] });
            separator = ",";
        }
        try w.writeAll("]");
        if (position < repos.count()) try w.print(",\"cursor\":\"{d}\"", .{position});
        try w.writeAll("}");
    }
};

const testing = std.testing;

fn expectRepos(
    index: *Index,
    expected: []const u8,
    collection: []const u8,
    cursor: usize,
    limit: usize,
) !void {
    var buffer: [1024]u8 = undefined;
    var w: Writer = .fixed(&buffer);
    try index.writeRepos(&w, collection, cursor, limit);
    try testing.expectEqualStrings(expected, w.buffered());
}

test "repositories by collection, page by page" {
    var index: Index = .init(testing.allocator);
    defer index.deinit();
    for ([_][]const u8{ "did:plc:a", "did:plc:b", "did:plc:a", "did:plc:c" }) |did| {
        index.add("a.b.c", did);
    }
    try expectRepos(&index,
        \\{"repos":[{"did":"did:plc:a"},{"did":"did:plc:b"}],"cursor":"2"}
    , "a.b.c", 0, 2);
    try expectRepos(&index,
        \\{"repos":[{"did":"did:plc:c"}]}
    , "a.b.c", 2, 2);
    try expectRepos(&index, "{\"repos\":[]}", "a.b.c", 99, 2);
    try expectRepos(&index, "{\"repos\":[]}", "x.y.z", 0, 2);
}

test "the bounds hold" {
    var index: Index = .init(testing.allocator);
    defer index.deinit();
    var name: [16]u8 = undefined;
    for (0..collections_max + 5) |number| {
        index.add(try std.fmt.bufPrint(&name, "a.b.c{d}", .{number}), "did:plc:a");
    }
    index.add("a.b.c0", "did:web:" ++ "x" ** did_size_max);
    try testing.expectEqual(@as(usize, collections_max), index.counts().collections);
    try testing.expectEqual(@as(u64, 6), index.counts().refused);
}
