//! A CAR version 1 file held in memory: a root and the blocks of a repository's change
//! (https://ipld.io/specs/transport/car/carv1/). Blocks point into the input.
const std = @import("std");
const cbor = @import("cbor.zig");
const cids = @import("cid.zig");
const Allocator = std.mem.Allocator;

pub const Error = error{ BadCar, TooManyBlocks, WrongCid } || cbor.Error;

/// Blocks in one file. A commit carries a handful; atproto allows 200 operations in one.
pub const blocks_max = 2048;

pub const Block = struct {
    cid: *const cids.Cid,
    data: []const u8,
    /// The decoded block; `.null` for a raw one.
    value: cbor.Value,
};

pub const Car = struct {
    header: cbor.Value,
    root: *const cids.Cid,
    blocks: []Block,

    pub fn find(self: Car, cid: *const cids.Cid) ?*const Block {
        for (self.blocks) |*block| {
            if (cids.equal(block.cid, cid)) return block;
        }
        return null;
    }

    pub fn free(self: Car, allocator: Allocator) void {
        for (self.blocks) |block| block.value.free(allocator);
        allocator.free(self.blocks);
        self.header.free(allocator);
    }
};

/// Reads the file, hashes every block and decodes the DAG-CBOR ones: a file that is returned is
/// whole and is what its CIDs say.
pub fn decode(allocator: Allocator, input: []const u8) Error!Car {
    var sections: Sections = .{ .input = input };
    const head = try sections.next() orelse return error.BadCar;
    const header = try cbor.decode(allocator, head);
    errdefer header.free(allocator);
    const root = try rootOf(header);

    const blocks = try allocator.alloc(Block, try countSections(sections));
    var filled: usize = 0;
    errdefer {
        for (blocks[0..filled]) |block| block.value.free(allocator);
        allocator.free(blocks);
    }
    while (try sections.next()) |section| : (filled += 1) {
        blocks[filled] = try decodeBlock(allocator, section);
    }
    return .{ .header = header, .root = root, .blocks = blocks };
}

fn rootOf(header: cbor.Value) Error!*const cids.Cid {
    const version = header.get("version") orelse return error.BadCar;
    if (version != .unsigned or version.unsigned != 1) return error.BadCar;
    const roots = header.getList("roots") orelse return error.BadCar;
    if (roots.len != 1 or roots[0] != .link) return error.BadCar;
    return roots[0].link;
}

fn decodeBlock(allocator: Allocator, section: []const u8) Error!Block {
    if (section.len < cids.size) return error.BadCar;
    const cid = cids.fromBytes(section[0..cids.size]) orelse return error.BadCar;
    const data = section[cids.size..];
    if (!cids.matches(cid, data)) return error.WrongCid;
    const value: cbor.Value = if (cids.isDagCbor(cid)) try cbor.decode(allocator, data) else .null;
    return .{ .cid = cid, .data = data, .value = value };
}

fn countSections(sections: Sections) Error!usize {
    var rest = sections;
    var count: usize = 0;
    while (try rest.next()) |_| count += 1;
    if (count > blocks_max) return error.TooManyBlocks;
    return count;
}

/// Length-prefixed stretches of the file: the header first, then blocks.
const Sections = struct {
    input: []const u8,
    position: usize = 0,

    fn next(self: *Sections) Error!?[]const u8 {
        if (self.position == self.input.len) return null;
        const size = try self.readLength();
        if (size == 0 or size > self.input.len - self.position) return error.BadCar;
        const section = self.input[self.position..][0..@intCast(size)];
        self.position += section.len;
        return section;
    }

    /// An unsigned LEB128 number in its shortest form.
    fn readLength(self: *Sections) Error!u64 {
        var result: u64 = 0;
        for (0..5) |index| {
            if (self.position == self.input.len) return error.BadCar;
            const byte = self.input[self.position];
            self.position += 1;
            result |= @as(u64, byte & 0x7f) << @intCast(7 * index);
            if (byte & 0x80 == 0) {
                if (byte == 0 and index > 0) return error.BadCar;
                return result;
            }
        }
        return error.BadCar;
    }
};

/// For tests: a file with one block per item of `datas`, its root the first block.
pub fn encodeForTest(buffer: []u8, datas: []const []const u8) []const u8 {
    const root = cids.ofDagCbor(datas[0]);
    // {"roots": [link], "version": 1}
    const before = "\xa2\x65roots\x81\xd8\x2a\x58\x25\x00";
    const after = "\x67version\x01";
    var writer: std.Io.Writer = .fixed(buffer);
    writer.writeByte(before.len + root.len + after.len) catch unreachable;
    writer.print("{s}{s}{s}", .{ before, &root, after }) catch unreachable;
    for (datas) |data| {
        const cid = cids.ofDagCbor(data);
        const size = cid.len + data.len;
        if (size < 0x80) {
            writer.writeByte(@intCast(size)) catch unreachable;
        } else {
            writer.writeByte(@intCast(0x80 | (size & 0x7f))) catch unreachable;
            writer.writeByte(@intCast(size >> 7)) catch unreachable;
        }
        writer.print("{s}{s}", .{ &cid, data }) catch unreachable;
    }
    return writer.buffered();
}

const testing = std.testing;

test "blocks come back under their CIDs" {
    var buffer: [512]u8 = undefined;
    const input = encodeForTest(&buffer, &.{ "\xa1\x61a\x01", "\x82\x01\x02" });
    const car = try decode(testing.allocator, input);
    defer car.free(testing.allocator);
    try testing.expectEqual(@as(usize, 2), car.blocks.len);
    try testing.expect(cids.equal(car.root, car.blocks[0].cid));
    try testing.expectEqual(@as(u64, 1), car.blocks[0].value.get("a").?.unsigned);
    const second = car.find(&cids.ofDagCbor("\x82\x01\x02")).?;
    try testing.expectEqual(@as(usize, 2), second.value.list.len);
}

test "one flipped byte anywhere is refused" {
    var buffer: [512]u8 = undefined;
    const input = encodeForTest(&buffer, &.{ "\xa1\x61a\x01", "\x82\x01\x02" });
    // The root's digest (bytes 18 to 49) is compared by the event, which knows the commit.
    for (0..input.len) |index| {
        if (index >= 18 and index < 50) continue;
        buffer[index] ^= 0x01;
        defer buffer[index] ^= 0x01;
        if (decode(testing.allocator, input)) |car| {
            car.free(testing.allocator);
            std.debug.print("byte {d} was not noticed\n", .{index});
            return error.TestUnexpectedResult;
        } else |_| {}
    }
}

test "every cut but at a block's end is refused" {
    var buffer: [512]u8 = undefined;
    const input = encodeForTest(&buffer, &.{ "\xa1\x61a\x01", "\x82\x01\x02" });
    var accepted: usize = 0;
    for (0..input.len) |size| {
        const car = decode(testing.allocator, input[0..size]) catch continue;
        car.free(testing.allocator);
        accepted += 1;
    }
    try testing.expectEqual(@as(usize, 2), accepted); // after the header, after the first block
}
