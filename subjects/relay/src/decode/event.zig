//! One message of `com.atproto.sync.subscribeRepos`: a DAG-CBOR header `{op, t}` and a body.
//! A `#commit` is checked against its own blocks as far as that goes without the account's key:
//! every CID, the root, repository and revision of the signed commit, every written record in
//! the tree. The signature itself is not verified. `seq`, `since`, `time` are signed by nobody and
//! a deleted record is in no tree: of these only the form is checked.
const std = @import("std");
const cbor = @import("cbor.zig");
const cids = @import("cid.zig");
const cars = @import("car.zig");
const mst = @import("mst.zig");
const syntax = @import("syntax.zig");
const Allocator = std.mem.Allocator;

pub const Error = error{ BadHeader, BadBody, WrongCommit, WrongOperation, TooManyBlobs } ||
    mst.Error || cars.Error;

/// Operations in one commit, as in atproto.
pub const ops_max = 200;
/// Blobs one commit may list.
pub const blobs_max = 80;

pub const Kind = enum { commit, identity, account, sync, unknown };
pub const Action = enum { create, update, delete };

pub const Op = struct {
    action: Action,
    path: []const u8,
    collection: []const u8,
    record: ?*const cids.Cid,
};

/// A blob and the operation whose record refers to it.
pub const BlobLink = struct { cid: cids.Cid, op: u32 };

comptime {
    // The size of the block that the history's relay lost.
    std.debug.assert(blobs_max * @sizeOf(BlobLink) == 3200);
}

pub const Options = struct {
    /// Keep the history's bug, see `collectBlobLinks`.
    leak: bool,
};

pub const Event = struct {
    kind: Kind,
    header: cbor.Value,
    body: cbor.Value,
    seq: u64,
    /// Where the number `seq` stands in the payload: a relay puts its own there.
    seq_start: usize,
    seq_end: usize,
    repo: []const u8,
    car: ?cars.Car = null,
    ops: []Op = &.{},
    blob_links: []BlobLink = &.{},

    pub fn free(self: Event, allocator: Allocator) void {
        allocator.free(self.blob_links);
        allocator.free(self.ops);
        if (self.car) |car| car.free(allocator);
        self.body.free(allocator);
        self.header.free(allocator);
    }

    /// Whether one of the operations is in `collection`.
    pub fn touches(self: Event, collection: []const u8) bool {
        for (self.ops) |op| {
            if (std.mem.eql(u8, op.collection, collection)) return true;
        }
        return false;
    }
};

/// Reads and checks a whole message. Everything in the result points into `payload`.
pub fn decode(allocator: Allocator, payload: []const u8, options: Options) Error!Event {
    const head = try cbor.decodeFirst(allocator, payload);
    errdefer head.value.free(allocator);
    const kind = try kindOf(head.value);
    const body = try cbor.decode(allocator, payload[head.size..]);
    errdefer body.free(allocator);

    var event: Event = .{
        .kind = kind,
        .header = head.value,
        .body = body,
        .seq = 0,
        .seq_start = 0,
        .seq_end = 0,
        .repo = "",
    };
    if (kind == .unknown) return event;
    try locateSeq(&event, payload);
    event.repo = body.getText(if (kind == .commit) "repo" else "did") orelse return error.BadBody;
    if (!syntax.isDid(event.repo)) return error.BadBody;
    if (!syntax.isDateTime(body.getText("time") orelse return error.BadBody)) return error.BadBody;
    if (kind == .commit) try decodeCommit(allocator, &event, options);
    return event;
}

fn kindOf(header: cbor.Value) Error!Kind {
    const op = header.get("op") orelse return error.BadHeader;
    if (op != .unsigned or op.unsigned != 1) return error.BadHeader;
    const name = header.getText("t") orelse return error.BadHeader;
    if (name.len < 2 or name[0] != '#') return error.BadHeader;
    const kind = std.meta.stringToEnum(Kind, name[1..]) orelse return .unknown;
    return kind;
}

fn locateSeq(event: *Event, payload: []const u8) Error!void {
    if (event.body != .map) return error.BadBody;
    for (event.body.map) |entry| {
        if (!std.mem.eql(u8, entry.key, "seq")) continue;
        if (entry.value != .unsigned) return error.BadBody;
        var encoded: [cbor.head_size_max]u8 = undefined;
        event.seq = entry.value.unsigned;
        event.seq_start = @intFromPtr(entry.key.ptr) + entry.key.len - @intFromPtr(payload.ptr);
        event.seq_end = event.seq_start + cbor.encodeUnsigned(&encoded, event.seq).len;
        return;
    }
    return error.BadBody;
}

fn decodeCommit(allocator: Allocator, event: *Event, options: Options) Error!void {
    const blocks = event.body.get("blocks") orelse return error.BadBody;
    if (blocks != .bytes) return error.BadBody;
    const car = try cars.decode(allocator, blocks.bytes);
    errdefer car.free(allocator);
    try checkCommit(event.*, car);

    const ops = try decodeOps(allocator, event.body, car);
    errdefer allocator.free(ops);
    const blobs = event.body.getList("blobs") orelse return error.BadBody;
    event.blob_links = try collectBlobLinks(allocator, blobs, ops, car, options);
    event.car = car;
    event.ops = ops;
}

/// The signed commit must be the root, speak of the same repository and revision, and its tree
/// must be among the blocks.
fn checkCommit(event: Event, car: cars.Car) Error!void {
    const commit = event.body.getLink("commit") orelse return error.BadBody;
    const rev = event.body.getText("rev") orelse return error.BadBody;
    if (!syntax.isTid(rev)) return error.BadBody;
    const since = event.body.get("since") orelse return error.BadBody;
    if (since != .null and !(since == .text and syntax.isTid(since.text))) return error.BadBody;
    for ([_][]const u8{ "rebase", "tooBig" }) |flag| {
        if ((event.body.get(flag) orelse return error.BadBody) != .boolean) return error.BadBody;
    }

    if (!cids.equal(commit, car.root)) return error.WrongCommit;
    const block = car.find(commit) orelse return error.WrongCommit;
    const did = block.value.getText("did") orelse return error.WrongCommit;
    const signed_rev = block.value.getText("rev") orelse return error.WrongCommit;
    const data = block.value.getLink("data") orelse return error.WrongCommit;
    if (!std.mem.eql(u8, did, event.repo)) return error.WrongCommit;
    if (!std.mem.eql(u8, signed_rev, rev)) return error.WrongCommit;
    if (car.find(data) == null) return error.WrongCommit;
}

fn decodeOps(allocator: Allocator, body: cbor.Value, car: cars.Car) Error![]Op {
    const items = body.getList("ops") orelse return error.BadBody;
    if (items.len > ops_max) return error.BadBody;
    const ops = try allocator.alloc(Op, items.len);
    errdefer allocator.free(ops);
    for (items, ops) |item, *op| op.* = try decodeOp(item, car);
    return ops;
}

fn decodeOp(item: cbor.Value, car: cars.Car) Error!Op {
    const name = item.getText("action") orelse return error.BadBody;
    const action = std.meta.stringToEnum(Action, name) orelse return error.BadBody;
    const text = item.getText("path") orelse return error.BadBody;
    const path = syntax.parsePath(text) orelse return error.BadBody;
    const in_tree = try mst.find(car.blocks, text);
    const link = item.get("cid") orelse return error.BadBody;
    if (action == .delete) {
        if (in_tree != null or link != .null) return error.WrongOperation;
        return .{ .action = action, .path = text, .collection = path.collection, .record = null };
    }
    if (link != .link) return error.BadBody;
    const record = link.link;
    if (in_tree == null or !cids.equal(record, in_tree.?)) return error.WrongOperation;
    if (car.find(record) == null) return error.WrongOperation;
    return .{ .action = action, .path = text, .collection = path.collection, .record = record };
}

/// Pairs every listed blob with the operation whose record refers to it. Blobs that no record
/// refers to any more (`blobs` is a leftover of the older protocol) are left out.
///
/// Here is the leak of the history. The table is made for the longest list and cut to size at
/// the end; `errdefer` gives it back on every error, and the early return, which is no error,
/// forgets it. It costs 3,200 bytes for each commit that lists only blobs nobody refers to,
/// such as the deletion of a post with a picture. `--leak off` is the fix.
noinline fn collectBlobLinks(
    allocator: Allocator,
    blobs: []const cbor.Value,
    ops: []const Op,
    car: cars.Car,
    options: Options,
) Error![]BlobLink {
    if (blobs.len == 0) return &.{};
    if (blobs.len > blobs_max) return error.TooManyBlobs;
    const links = try allocator.alloc(BlobLink, blobs_max);
    errdefer allocator.free(links);
    var count: usize = 0;
    for (blobs) |blob| {
        if (blob != .link) return error.BadBody;
        const op = findReferrer(blob.link, ops, car) orelse continue;
        links[count] = .{ .cid = blob.link.*, .op = op };
        count += 1;
    }
    if (count == 0) {
        if (!options.leak) allocator.free(links);
        return &.{};
    }
    return allocator.realloc(links, count);
}

fn findReferrer(blob: *const cids.Cid, ops: []const Op, car: cars.Car) ?u32 {
    for (ops, 0..) |op, index| {
        const record = op.record orelse continue;
        const block = car.find(record) orelse continue;
        if (refersTo(block.value, blob)) return @intCast(index);
    }
    return null;
}

fn refersTo(value: cbor.Value, blob: *const cids.Cid) bool {
    switch (value) {
        .link => |link| return cids.equal(link, blob),
        .list => |items| for (items) |item| {
            if (refersTo(item, blob)) return true;
        },
        .map => |entries| for (entries) |entry| {
            if (refersTo(entry.value, blob)) return true;
        },
        else => {},
    }
    return false;
}
