//! Content identifiers: the one form atproto uses, version 1 with a SHA-256 digest
//! (https://atproto.com/specs/data-model#link-and-cid-formats).
const std = @import("std");
const sha256 = @import("sha256.zig");

pub const size = 36;

/// Version 1, codec, sha2-256, 32 bytes, then the digest.
pub const Cid = [size]u8;

const codec_dag_cbor = 0x71;
const codec_raw = 0x55;

/// A view of `bytes` as a CID, or null when they are none or of a form atproto does not use.
pub fn fromBytes(bytes: []const u8) ?*const Cid {
    if (bytes.len != size) return null;
    if (bytes[0] != 1 or bytes[2] != 0x12 or bytes[3] != 0x20) return null;
    if (bytes[1] != codec_dag_cbor and bytes[1] != codec_raw) return null;
    return bytes[0..size];
}

/// Whether `data` is what `cid` names.
pub fn matches(cid: *const Cid, data: []const u8) bool {
    return std.mem.eql(u8, &sha256.hash(data), cid[4..]);
}

pub fn isDagCbor(cid: *const Cid) bool {
    return cid[1] == codec_dag_cbor;
}

pub fn equal(a: *const Cid, b: *const Cid) bool {
    return std.mem.eql(u8, a, b);
}

/// The CID of `data` as a DAG-CBOR block.
pub fn ofDagCbor(data: []const u8) Cid {
    return .{ 1, codec_dag_cbor, 0x12, sha256.digest_size } ++ sha256.hash(data);
}

const testing = std.testing;

test "the CID of the empty map" {
    // bafyreigbtj4x7ip5legnfznufuopl4sg4knzc2cof6duas4b3q2fy6swua, known across IPLD as {}.
    const expected = "01711220c19a797fa1fd590cd2e5b42d1cf5f246e29b91684e2f87404b81dc345c7a56a0";
    const cid = ofDagCbor(&.{0xa0});
    try testing.expectEqualStrings(expected, &std.fmt.bytesToHex(cid, .lower));
    try testing.expect(matches(&cid, &.{0xa0}));
    try testing.expect(!matches(&cid, &.{0xa1}));
}

test "other forms are refused" {
    var cid = ofDagCbor("x");
    try testing.expect(fromBytes(&cid) != null);
    try testing.expect(fromBytes(cid[0..35]) == null);
    for ([_]usize{ 0, 1, 2, 3 }) |index| {
        cid[index] ^= 0x80;
        try testing.expect(fromBytes(&cid) == null);
        cid[index] ^= 0x80;
    }
}
