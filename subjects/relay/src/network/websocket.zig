//! WebSocket framing and the two sides of its handshake (RFC 6455), without any I/O.
const std = @import("std");

pub const Error = error{ Protocol, TooLarge };

pub const Opcode = enum(u4) {
    continuation = 0,
    text = 1,
    binary = 2,
    close = 8,
    ping = 9,
    pong = 10,
    _,

    pub fn isControl(self: Opcode) bool {
        return @intFromEnum(self) >= 8;
    }
};

/// Largest payload of a control frame.
pub const control_size_max = 125;
pub const header_size_max = 14;

pub const Header = struct {
    fin: bool,
    opcode: Opcode,
    mask: ?[4]u8,
    payload_size: u64,
    /// Bytes of the header itself.
    size: usize,
};

/// Reads a frame's header from the start of `bytes`; null when more bytes are needed.
pub fn parseHeader(bytes: []const u8) Error!?Header {
    if (bytes.len < 2) return null;
    if (bytes[0] & 0x70 != 0) return error.Protocol; // extensions were not negotiated
    const opcode: Opcode = @enumFromInt(@as(u4, @truncate(bytes[0])));
    const fin = bytes[0] & 0x80 != 0;
    switch (opcode) {
        .continuation, .text, .binary => {},
        .close, .ping, .pong => if (!fin) return error.Protocol,
        else => return error.Protocol,
    }
    const short: u7 = @truncate(bytes[1]);
    const length_size: usize = switch (short) {
        126 => 2,
        127 => 8,
        else => 0,
    };
    const masked = bytes[1] & 0x80 != 0;
    const size = 2 + length_size + @as(usize, if (masked) 4 else 0);
    if (bytes.len < size) return null;
    const payload_size: u64 = switch (length_size) {
        2 => std.mem.readInt(u16, bytes[2..4], .big),
        8 => std.mem.readInt(u64, bytes[2..10], .big),
        else => short,
    };
    if (length_size == 2 and payload_size < 126) return error.Protocol;
    if (length_size == 8 and payload_size <= std.math.maxInt(u16)) return error.Protocol;
    if (opcode.isControl() and payload_size > control_size_max) return error.Protocol;
    return .{
        .fin = fin,
        .opcode = opcode,
        .mask = if (masked) bytes[size - 4 ..][0..4].* else null,
        .payload_size = payload_size,
        .size = size,
    };
}

/// Writes the header of a whole message and returns the part of `buffer` it took.
pub fn writeHeader(
    buffer: *[header_size_max]u8,
    opcode: Opcode,
    payload_size: usize,
    mask: ?[4]u8,
) []const u8 {
    buffer[0] = 0x80 | @as(u8, @intFromEnum(opcode));
    const mask_bit: u8 = if (mask != null) 0x80 else 0;
    var size: usize = 2;
    if (payload_size < 126) {
        buffer[1] = mask_bit | @as(u8, @intCast(payload_size));
    } else if (payload_size <= std.math.maxInt(u16)) {
        buffer[1] = mask_bit | 126;
        std.mem.writeInt(u16, buffer[2..4], @intCast(payload_size), .big);
        size = 4;
    } else {
        buffer[1] = mask_bit | 127;
        std.mem.writeInt(u64, buffer[2..10], payload_size, .big);
        size = 10;
    }
    if (mask) |key| {
        buffer[size..][0..4].* = key;
        size += 4;
    }
    return buffer[0..size];
}

/// Masks or unmasks in place.
pub fn applyMask(bytes: []u8, mask: [4]u8) void {
    for (bytes, 0..) |*byte, index| byte.* ^= mask[index % 4];
}

pub const key_size = 24;
pub const accept_size = 28;

/// The answer a server owes to the client's `Sec-WebSocket-Key`.
pub fn acceptOf(key: []const u8) [accept_size]u8 {
    var sha1: std.crypto.hash.Sha1 = .init(.{});
    sha1.update(key);
    sha1.update("258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    var result: [accept_size]u8 = undefined;
    _ = std.base64.standard.Encoder.encode(&result, &sha1.finalResult());
    return result;
}

pub fn newKey() [key_size]u8 {
    var random: [16]u8 = undefined;
    std.crypto.random.bytes(&random);
    var result: [key_size]u8 = undefined;
    _ = std.base64.standard.Encoder.encode(&result, &random);
    return result;
}

/// The value of a header in an HTTP head, names compared without case; null when absent.
pub fn headerValue(head: []const u8, name: []const u8) ?[]const u8 {
    var lines = std.mem.splitSequence(u8, head, "\r\n");
    _ = lines.next();
    while (lines.next()) |line| {
        const colon = std.mem.indexOfScalar(u8, line, ':') orelse continue;
        if (!std.ascii.eqlIgnoreCase(line[0..colon], name)) continue;
        return std.mem.trim(u8, line[colon + 1 ..], " \t");
    }
    return null;
}

/// Checks a server's answer to a handshake with `key`.
pub fn checkResponse(head: []const u8, key: []const u8) Error!void {
    if (!std.mem.startsWith(u8, head, "HTTP/1.1 101")) return error.Protocol;
    const upgrade = headerValue(head, "upgrade") orelse return error.Protocol;
    const accept = headerValue(head, "sec-websocket-accept") orelse return error.Protocol;
    if (!std.ascii.eqlIgnoreCase(upgrade, "websocket")) return error.Protocol;
    if (!std.mem.eql(u8, accept, &acceptOf(key))) return error.Protocol;
}

const testing = std.testing;

test "the handshake of RFC 6455, section 1.3" {
    const key = "dGhlIHNhbXBsZSBub25jZQ==";
    try testing.expectEqualStrings("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", &acceptOf(key));
    const head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\n" ++
        "Connection: Upgrade\r\nsec-websocket-accept:s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";
    try checkResponse(head, key);
    try testing.expectError(error.Protocol, checkResponse(head, "x"));
    try testing.expectError(error.Protocol, checkResponse("HTTP/1.1 200 OK\r\n", key));
}

test "headers survive writing and reading" {
    for ([_]usize{ 0, 125, 126, 65535, 65536, 1 << 40 }) |payload_size| {
        for ([_]?[4]u8{ null, .{ 1, 2, 3, 4 } }) |mask| {
            var buffer: [header_size_max]u8 = undefined;
            const written = writeHeader(&buffer, .binary, payload_size, mask);
            const header = (try parseHeader(written)).?;
            try testing.expectEqual(payload_size, header.payload_size);
            try testing.expectEqual(written.len, header.size);
            try testing.expectEqual(mask, header.mask);
            for (0..written.len) |cut| {
                try testing.expectEqual(@as(?Header, null), try parseHeader(written[0..cut]));
            }
        }
    }
}

test "the masked frame of RFC 6455, section 5.7" {
    var frame = [_]u8{ 0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58 };
    const header = (try parseHeader(&frame)).?;
    applyMask(frame[header.size..], header.mask.?);
    try testing.expectEqualStrings("Hello", frame[header.size..]);
}

test "broken headers are refused" {
    for ([_][]const u8{
        &.{ 0xc2, 0x00 }, // reserved bit
        &.{ 0x83, 0x00 }, // reserved opcode
        &.{ 0x09, 0x00 }, // fragmented ping
        &.{ 0x89, 126, 0, 126 }, // long ping
        &.{ 0x82, 126, 0, 125 }, // length not shortest
        &.{ 0x82, 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff },
    }) |bytes| {
        try testing.expectError(error.Protocol, parseHeader(bytes));
    }
}
