//! The shapes of atproto's identifiers, as far as a relay must trust them: lengths and character
//! sets (https://atproto.com/specs/did, /nsid, /tid). What passes needs no escaping in JSON.
const std = @import("std");

pub const did_size_max = 2048;
pub const collection_size_max = 317;
const tid_size = 13;

pub fn isDid(text: []const u8) bool {
    if (text.len < 8 or text.len > did_size_max) return false;
    if (!std.mem.startsWith(u8, text, "did:")) return false;
    for (text) |c| {
        if (!isAlphanumericOr(c, "._:%-")) return false;
    }
    return std.mem.indexOfScalar(u8, text[4..], ':') != null;
}

fn isAlphanumericOr(c: u8, others: []const u8) bool {
    return std.ascii.isAlphanumeric(c) or std.mem.indexOfScalar(u8, others, c) != null;
}

/// A namespaced identifier: at least three dotted segments.
pub fn isCollection(text: []const u8) bool {
    if (text.len > collection_size_max) return false;
    var segments = std.mem.splitScalar(u8, text, '.');
    var count: usize = 0;
    while (segments.next()) |segment| : (count += 1) {
        if (segment.len == 0 or segment.len > 63) return false;
        for (segment) |c| if (!std.ascii.isAlphanumeric(c) and c != '-') return false;
    }
    return count >= 3;
}

/// A timestamp identifier: 13 characters of sortable base 32.
pub fn isTid(text: []const u8) bool {
    if (text.len != tid_size) return false;
    for (text) |c| {
        if (!(c >= 'a' and c <= 'z') and !(c >= '2' and c <= '7')) return false;
    }
    return text[0] <= 'j';
}

pub const Path = struct { collection: []const u8, record_key: []const u8 };

/// `collection/record key`, or null.
pub fn parsePath(text: []const u8) ?Path {
    const slash = std.mem.indexOfScalar(u8, text, '/') orelse return null;
    const key = text[slash + 1 ..];
    if (!isCollection(text[0..slash]) or key.len == 0 or key.len > 512) return null;
    for (key) |c| {
        if (!isAlphanumericOr(c, "._:~-")) return null;
    }
    return .{ .collection = text[0..slash], .record_key = key };
}

/// The date-time of RFC 3339, by its digits and separators.
pub fn isDateTime(text: []const u8) bool {
    const pattern = "dddd-dd-ddTdd:dd:dd";
    if (text.len <= pattern.len or text.len > 64) return false;
    for (pattern, text[0..pattern.len]) |expected, c| {
        if (expected == 'd' and !std.ascii.isDigit(c)) return false;
        if (expected != 'd' and expected != c) return false;
    }
    for (text[pattern.len .. text.len - 1]) |c| {
        if (!std.ascii.isDigit(c) and std.mem.indexOfScalar(u8, ".+-:", c) == null) return false;
    }
    return text[text.len - 1] == 'Z' or std.ascii.isDigit(text[text.len - 1]);
}

const testing = std.testing;

test "identifiers" {
    try testing.expect(isDid("did:plc:ewvi7nxzyoun6zhxrhs64oiz"));
    try testing.expect(isDid("did:web:example.com"));
    try testing.expect(!isDid("did:plc"));
    try testing.expect(!isDid("did:plc:a\"b"));
    try testing.expect(isCollection("app.bsky.feed.post"));
    try testing.expect(!isCollection("app.bsky"));
    try testing.expect(!isCollection("app..feed.post"));
    try testing.expect(isTid("3jzfcijpj2z2a"));
    try testing.expect(!isTid("zzzzzzzzzzzzz"));
    try testing.expect(!isTid("3jzfcijpj2z2"));
    const path = parsePath("app.bsky.feed.post/3jz").?;
    try testing.expectEqualStrings("app.bsky.feed.post", path.collection);
    try testing.expectEqual(@as(?Path, null), parsePath("app.bsky.feed.post/"));
    try testing.expectEqual(@as(?Path, null), parsePath("app.bsky.feed.post/a/b"));
    try testing.expect(isDateTime("2026-01-02T03:04:05.678Z"));
    try testing.expect(isDateTime("2026-01-02T03:04:05+01:00"));
    try testing.expect(!isDateTime("2026-01-02T03:04:05"));
    try testing.expect(!isDateTime("2026-01-02 03:04:05Z"));
}
