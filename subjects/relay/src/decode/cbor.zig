//! DAG-CBOR into a tree of values, read as strictly as the format allows
//! (https://ipld.io/specs/codecs/dag-cbor/spec/): shortest integers, definite lengths, sorted
//! unique text keys, links as the only tag. Texts, bytes and links point into the input; only
//! lists and maps are allocated, so a tree lives no longer than the bytes it was read from.
const std = @import("std");
const cid = @import("cid.zig");
const Allocator = std.mem.Allocator;

pub const Error = error{
    Truncated,
    TrailingBytes,
    NotCanonical,
    Unsupported,
    BadText,
    BadLink,
    TooDeep,
    TooMany,
} || Allocator.Error;

/// Deepest nesting of lists and maps; atproto records stay under ten.
pub const depth_max = 32;
/// Values in one tree. A value is 24 bytes in memory and may be one byte in the input: without a
/// bound a 1 MiB frame would ask for 40 MiB.
pub const values_max = 32 * 1024;

pub const Entry = struct { key: []const u8, value: Value };

pub const Value = union(enum) {
    unsigned: u64,
    /// The number is -1 - negative.
    negative: u64,
    bytes: []const u8,
    text: []const u8,
    list: []Value,
    map: []Entry,
    link: *const cid.Cid,
    boolean: bool,
    float: f64,
    null,

    /// The value under `key`, or null when this is no map or has no such key.
    pub fn get(self: Value, key: []const u8) ?Value {
        if (self != .map) return null;
        for (self.map) |entry| {
            if (std.mem.eql(u8, entry.key, key)) return entry.value;
        }
        return null;
    }

    pub fn getText(self: Value, key: []const u8) ?[]const u8 {
        const value = self.get(key) orelse return null;
        return if (value == .text) value.text else null;
    }

    pub fn getLink(self: Value, key: []const u8) ?*const cid.Cid {
        const value = self.get(key) orelse return null;
        return if (value == .link) value.link else null;
    }

    pub fn getList(self: Value, key: []const u8) ?[]Value {
        const value = self.get(key) orelse return null;
        return if (value == .list) value.list else null;
    }

    pub fn free(self: Value, allocator: Allocator) void {
        switch (self) {
            .list => |items| {
                for (items) |item| item.free(allocator);
                allocator.free(items);
            },
            .map => |entries| {
                for (entries) |entry| entry.value.free(allocator);
                allocator.free(entries);
            },
            else => {},
        }
    }
};

/// Reads exactly one value which must fill `input`.
pub fn decode(allocator: Allocator, input: []const u8) Error!Value {
    const first = try decodeFirst(allocator, input);
    errdefer first.value.free(allocator);
    if (first.size != input.len) return error.TrailingBytes;
    return first.value;
}

pub const First = struct { value: Value, size: usize };

/// Reads the first value of `input` and says how many bytes it took.
pub fn decodeFirst(allocator: Allocator, input: []const u8) Error!First {
    var decoder: Decoder = .{ .allocator = allocator, .input = input };
    const value = try decoder.value(0);
    return .{ .value = value, .size = decoder.position };
}

const Head = struct { major: u3, argument: u64, info: u5 };

const Decoder = struct {
    allocator: Allocator,
    input: []const u8,
    position: usize = 0,
    values_left: usize = values_max,

    fn value(self: *Decoder, depth: usize) Error!Value {
        if (depth > depth_max) return error.TooDeep;
        if (self.values_left == 0) return error.TooMany;
        self.values_left -= 1;
        const head = try self.readHead();
        return switch (head.major) {
            0 => .{ .unsigned = head.argument },
            1 => .{ .negative = head.argument },
            2 => .{ .bytes = try self.take(head.argument) },
            3 => .{ .text = try self.text(head.argument) },
            4 => .{ .list = try self.list(head.argument, depth) },
            5 => .{ .map = try self.map(head.argument, depth) },
            6 => self.link(head.argument),
            7 => simple(head),
        };
    }

    fn readHead(self: *Decoder) Error!Head {
        const first = (try self.take(1))[0];
        const info: u5 = @truncate(first);
        const major: u3 = @intCast(first >> 5);
        const argument: u64 = switch (info) {
            0...23 => info,
            24 => (try self.take(1))[0],
            25 => std.mem.readInt(u16, (try self.take(2))[0..2], .big),
            26 => std.mem.readInt(u32, (try self.take(4))[0..4], .big),
            27 => std.mem.readInt(u64, (try self.take(8))[0..8], .big),
            else => return error.Unsupported,
        };
        if (major != 7 and headSize(argument) != headSizeOfInfo(info)) return error.NotCanonical;
        return .{ .major = major, .argument = argument, .info = info };
    }

    fn take(self: *Decoder, size: u64) Error![]const u8 {
        if (size > self.input.len - self.position) return error.Truncated;
        const bytes = self.input[self.position..][0..@intCast(size)];
        self.position += bytes.len;
        return bytes;
    }

    fn text(self: *Decoder, size: u64) Error![]const u8 {
        const bytes = try self.take(size);
        if (!std.unicode.utf8ValidateSlice(bytes)) return error.BadText;
        return bytes;
    }

    /// How many items may be allocated for: each takes at least `size_min` bytes of the input.
    fn countOf(self: *Decoder, announced: u64, size_min: usize) Error!usize {
        if (announced > (self.input.len - self.position) / size_min) return error.Truncated;
        if (announced > self.values_left) return error.TooMany;
        return @intCast(announced);
    }

    fn list(self: *Decoder, announced: u64, depth: usize) Error![]Value {
        const items = try self.allocator.alloc(Value, try self.countOf(announced, 1));
        var filled: usize = 0;
        errdefer {
            for (items[0..filled]) |item| item.free(self.allocator);
            self.allocator.free(items);
        }
        while (filled < items.len) : (filled += 1) items[filled] = try self.value(depth + 1);
        return items;
    }

    fn map(self: *Decoder, announced: u64, depth: usize) Error![]Entry {
        const entries = try self.allocator.alloc(Entry, try self.countOf(announced, 2));
        var filled: usize = 0;
        errdefer {
            for (entries[0..filled]) |entry| entry.value.free(self.allocator);
            self.allocator.free(entries);
        }
        while (filled < entries.len) : (filled += 1) {
            const head = try self.readHead();
            if (head.major != 3) return error.Unsupported;
            const key = try self.text(head.argument);
            if (filled > 0 and !keyBefore(entries[filled - 1].key, key)) return error.NotCanonical;
            entries[filled] = .{ .key = key, .value = try self.value(depth + 1) };
        }
        return entries;
    }

    fn link(self: *Decoder, tag: u64) Error!Value {
        if (tag != 42) return error.Unsupported;
        const head = try self.readHead();
        if (head.major != 2) return error.BadLink;
        const bytes = try self.take(head.argument);
        // A link is a CID behind one zero byte, the multibase prefix for "binary".
        if (bytes.len == 0 or bytes[0] != 0) return error.BadLink;
        return .{ .link = cid.fromBytes(bytes[1..]) orelse return error.BadLink };
    }
};

fn simple(head: Head) Error!Value {
    return switch (head.info) {
        20 => .{ .boolean = false },
        21 => .{ .boolean = true },
        22 => .null,
        27 => float: {
            const number: f64 = @bitCast(head.argument);
            if (!std.math.isFinite(number)) return error.Unsupported;
            break :float .{ .float = number };
        },
        else => error.Unsupported,
    };
}

/// The order of DAG-CBOR's map keys: shorter first, then by bytes.
fn keyBefore(a: []const u8, b: []const u8) bool {
    if (a.len != b.len) return a.len < b.len;
    return std.mem.order(u8, a, b) == .lt;
}

/// Bytes of the shortest head that holds `argument`.
fn headSize(argument: u64) usize {
    if (argument < 24) return 1;
    if (argument <= std.math.maxInt(u8)) return 2;
    if (argument <= std.math.maxInt(u16)) return 3;
    if (argument <= std.math.maxInt(u32)) return 5;
    return head_size_max;
}

fn headSizeOfInfo(info: u5) usize {
    return switch (info) {
        0...23 => 1,
        24 => 2,
        25 => 3,
        26 => 5,
        else => head_size_max,
    };
}

pub const head_size_max = 9;

/// Writes an unsigned integer in its shortest form and returns the part of `buffer` it took.
pub fn encodeUnsigned(buffer: *[head_size_max]u8, number: u64) []const u8 {
    const size = headSize(number);
    switch (size) {
        1 => buffer[0] = @intCast(number),
        2 => {
            buffer[0] = 24;
            buffer[1] = @intCast(number);
        },
        3 => {
            buffer[0] = 25;
            std.mem.writeInt(u16, buffer[1..3], @intCast(number), .big);
        },
        5 => {
            buffer[0] = 26;
            std.mem.writeInt(u32, buffer[1..5], @intCast(number), .big);
        },
        else => {
            buffer[0] = 27;
            std.mem.writeInt(u64, buffer[1..9], number, .big);
        },
    }
    return buffer[0..size];
}

const testing = std.testing;

fn expectError(expected: anyerror, hex: []const u8) !void {
    var buffer: [256]u8 = undefined;
    const input = try std.fmt.hexToBytes(&buffer, hex);
    try testing.expectError(expected, decode(testing.allocator, input));
}

test "a map of every kind of value" {
    var buffer: [256]u8 = undefined;
    // {"a": 1, "b": [-1, "x", h'00', true, null], "c": 1.5}, written by hand from RFC 8949.
    const input = try std.fmt.hexToBytes(&buffer, "a361610161628520617841" ++
        "00f5f66163fb3ff8000000000000");
    const value = try decode(testing.allocator, input);
    defer value.free(testing.allocator);
    try testing.expectEqual(@as(u64, 1), value.get("a").?.unsigned);
    const items = value.getList("b").?;
    try testing.expectEqual(@as(u64, 0), items[0].negative);
    try testing.expectEqualStrings("x", items[1].text);
    try testing.expectEqualSlices(u8, &.{0}, items[2].bytes);
    try testing.expect(items[3].boolean);
    try testing.expect(items[4] == .null);
    try testing.expectEqual(@as(f64, 1.5), value.get("c").?.float);
    try testing.expectEqual(@as(?Value, null), value.get("d"));
}

test "what DAG-CBOR forbids is refused" {
    try expectError(error.NotCanonical, "1817"); // 23 in two bytes
    try expectError(error.NotCanonical, "a2616201616102"); // keys b, a
    try expectError(error.NotCanonical, "a2616101616102"); // key a twice
    try expectError(error.Unsupported, "9f01ff"); // indefinite list
    try expectError(error.Unsupported, "a10102"); // integer key
    try expectError(error.Unsupported, "c101"); // tag 1
    try expectError(error.Unsupported, "f93c00"); // half float
    try expectError(error.Unsupported, "fb7ff8000000000000"); // not a number
    try expectError(error.BadText, "61ff");
    try expectError(error.BadLink, "d82a4101"); // no zero prefix
    try expectError(error.TrailingBytes, "0101");
    try expectError(error.Truncated, "");
}

test "announced lengths are checked before anything is allocated" {
    try expectError(error.Truncated, "9affffffff");
    try expectError(error.Truncated, "bb7fffffffffffffff");
    try expectError(error.Truncated, "5b7fffffffffffffff");
    var wide: [values_max + 16]u8 = @splat(0);
    wide[0] = 0x99;
    std.mem.writeInt(u16, wide[1..3], values_max + 1, .big);
    try testing.expectError(error.TooMany, decode(testing.allocator, &wide));
    var deep: [depth_max + 2]u8 = @splat(0x81);
    try testing.expectError(error.TooDeep, decode(testing.allocator, &deep));
}

test "every cut of a valid input is an error and leaks nothing" {
    var buffer: [64]u8 = undefined;
    const input = try std.fmt.hexToBytes(&buffer, "a361610161628520617841" ++
        "00f5f66163fb3ff8000000000000");
    for (0..input.len) |size| {
        try testing.expectError(error.Truncated, decode(testing.allocator, input[0..size]));
    }
}

test "an unsigned integer survives encoding" {
    for ([_]u64{ 0, 23, 24, 255, 256, 65535, 65536, 1 << 32, std.math.maxInt(u64) }) |number| {
        var buffer: [head_size_max]u8 = undefined;
        const value = try decode(testing.allocator, encodeUnsigned(&buffer, number));
        try testing.expectEqual(number, value.unsigned);
    }
}
