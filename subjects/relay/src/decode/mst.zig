//! Nodes of a repository's Merkle search tree (https://atproto.com/specs/repository#mst-structure):
//! `{l: link|null, e: [{p: shared prefix, k: rest of the key, v: record, t: subtree|null}]}`.
//! A commit carries only the nodes its operations touched, so the tree is not walked: an
//! operation's record is proven by a node among the blocks that holds its full key.
const std = @import("std");
const cbor = @import("cbor.zig");
const cids = @import("cid.zig");
const car = @import("car.zig");

pub const Error = error{BadTree};

/// Longest `collection/rkey`: 317 and 512 characters by their specifications, and the slash.
pub const key_size_max = 830;

/// The record under `key`, or null when none of the nodes holds it.
pub fn find(blocks: []const car.Block, key: []const u8) Error!?*const cids.Cid {
    for (blocks) |block| {
        const entries = block.value.getList("e") orelse continue;
        if (try findInNode(entries, key)) |record| return record;
    }
    return null;
}

fn findInNode(entries: []const cbor.Value, key: []const u8) Error!?*const cids.Cid {
    var full_key: [key_size_max]u8 = undefined;
    var full_size: usize = 0;
    for (entries) |entry| {
        const shared = entry.get("p") orelse return error.BadTree;
        const rest = entry.get("k") orelse return error.BadTree;
        if (shared != .unsigned or rest != .bytes) return error.BadTree;
        if (shared.unsigned > full_size) return error.BadTree;
        const start: usize = @intCast(shared.unsigned);
        if (rest.bytes.len > key_size_max - start) return error.BadTree;
        @memcpy(full_key[start..][0..rest.bytes.len], rest.bytes);
        full_size = start + rest.bytes.len;
        if (!std.mem.eql(u8, full_key[0..full_size], key)) continue;
        return entry.getLink("v") orelse error.BadTree;
    }
    return null;
}

const testing = std.testing;

fn entryOf(map: *[3]cbor.Entry, p: u64, k: []const u8, v: *const cids.Cid) cbor.Value {
    map.* = .{
        .{ .key = "k", .value = .{ .bytes = k } },
        .{ .key = "p", .value = .{ .unsigned = p } },
        .{ .key = "v", .value = .{ .link = v } },
    };
    return .{ .map = map };
}

test "keys are put together from the prefix of the one before" {
    const first = cids.ofDagCbor("1");
    const second = cids.ofDagCbor("2");
    var maps: [3][3]cbor.Entry = undefined;
    var entries = [_]cbor.Value{
        entryOf(&maps[0], 0, "a.b/one", &first),
        entryOf(&maps[1], 4, "two", &second),
    };
    try testing.expect(cids.equal(&first, (try findInNode(&entries, "a.b/one")).?));
    try testing.expect(cids.equal(&second, (try findInNode(&entries, "a.b/two")).?));
    try testing.expectEqual(null, try findInNode(&entries, "a.b/three"));
    var broken = [_]cbor.Value{entryOf(&maps[2], 1, "a", &first)};
    try testing.expectError(error.BadTree, findInNode(&broken, "a"));
}
