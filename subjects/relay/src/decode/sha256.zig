//! SHA-256 (FIPS 180-4), because the standard library's is too slow to study anything else beside
//! it: Zig 0.15.2's runs at 10 to 30 MB/s unless the build names a CPU with SHA instructions
//! (measured, 3,000-byte messages; this one on the same machine: 240), which made it two thirds
//! of the relay's work. To be removed with the compiler that mends it.
const std = @import("std");

pub const digest_size = 32;

pub fn hash(message: []const u8) [digest_size]u8 {
    var state = initial;
    var rest = message;
    while (rest.len >= 64) : (rest = rest[64..]) compress(&state, rest[0..64]);

    // The end: one bit, zeros, and the message's length in bits.
    var tail: [128]u8 = @splat(0);
    @memcpy(tail[0..rest.len], rest);
    tail[rest.len] = 0x80;
    const tail_size: usize = if (rest.len < 56) 64 else 128;
    std.mem.writeInt(u64, tail[tail_size - 8 ..][0..8], @as(u64, message.len) * 8, .big);
    compress(&state, tail[0..64]);
    if (tail_size == 128) compress(&state, tail[64..128]);

    var digest: [digest_size]u8 = undefined;
    for (state, 0..) |word, index| std.mem.writeInt(u32, digest[index * 4 ..][0..4], word, .big);
    return digest;
}

const initial = [8]u32{
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

/// Unrolled, so that every index and constant is known to the compiler.
fn compress(state: *[8]u32, block: *const [64]u8) void {
    var words: [16]u32 = undefined;
    inline for (&words, 0..) |*word, index| {
        word.* = std.mem.readInt(u32, block[index * 4 ..][0..4], .big);
    }
    var a, var b, var c, var d, var e, var f, var g, var h = state.*;
    inline for (constants, 0..) |constant, round| {
        const slot = round % 16;
        if (round >= 16) {
            const early = words[(round + 1) % 16];
            const late = words[(round + 14) % 16];
            const s0 = rotate(early, 7) ^ rotate(early, 18) ^ (early >> 3);
            const s1 = rotate(late, 17) ^ rotate(late, 19) ^ (late >> 10);
            words[slot] +%= s0 +% words[(round + 9) % 16] +% s1;
        }
        const sum1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
        const choice = g ^ (e & (f ^ g));
        const t1 = h +% sum1 +% choice +% constant +% words[slot];
        const sum0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
        const majority = (a & b) | (c & (a | b));
        h, g, f, e = .{ g, f, e, d +% t1 };
        d, c, b, a = .{ c, b, a, t1 +% sum0 +% majority };
    }
    inline for (.{ a, b, c, d, e, f, g, h }, 0..) |word, index| state[index] +%= word;
}

inline fn rotate(word: u32, comptime bits: u5) u32 {
    return std.math.rotr(u32, word, bits);
}

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
const constants = [64]u32{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

test "the standard library agrees, at every length around a block's" {
    var message: [300]u8 = undefined;
    var random: std.Random.DefaultPrng = .init(1);
    random.random().bytes(&message);
    for (0..message.len) |size| {
        var expected: [digest_size]u8 = undefined;
        std.crypto.hash.sha2.Sha256.hash(message[0..size], &expected, .{});
        try std.testing.expectEqual(expected, hash(message[0..size]));
    }
}
