const std = @import("std");
const disklog = @import("disklog.zig");
const DiskLog = disklog.DiskLog;
const testing = std.testing;

const Folder = struct {
    tmp: testing.TmpDir,
    path: []const u8,

    fn create() !Folder {
        const tmp = testing.tmpDir(.{ .iterate = true });
        return .{ .tmp = tmp, .path = try tmp.dir.realpathAlloc(testing.allocator, ".") };
    }

    fn delete(self: *Folder) void {
        testing.allocator.free(self.path);
        self.tmp.cleanup();
    }

    fn open(self: *Folder) !DiskLog {
        return DiskLog.open(testing.allocator, self.path);
    }
};

fn appendText(log: *DiskLog, text: []const u8) !void {
    try log.append(log.next_seq, .{ text[0..1], "", text[1..] });
}

test "sequence numbers go on after a restart, half a record is cut off" {
    var folder: Folder = try .create();
    defer folder.delete();
    {
        var log = try folder.open();
        defer log.close();
        try testing.expectEqual(@as(u64, 1), log.next_seq);
        try appendText(&log, "one");
        try appendText(&log, "two");
    }
    const file = try folder.tmp.dir.openFile("00000000000000000001.log", .{ .mode = .read_write });
    try file.seekFromEnd(0);
    try file.writeAll("\x03\x00\x00\x00half");
    file.close();

    var log = try folder.open();
    defer log.close();
    try testing.expectEqual(@as(u64, 3), log.next_seq);
    try testing.expectEqual(@as(u64, 2 * (16 + 3)), log.counts().bytes);
    try appendText(&log, "three");
    var replay = try log.replay(2);
    defer replay.close();
    var buffer: [64]u8 = undefined;
    try testing.expectEqualStrings("two", (try replay.next(&buffer)).?);
    try testing.expectEqualStrings("three", (try replay.next(&buffer)).?);
    try testing.expectEqual(null, try replay.next(&buffer));
}

test "a lock file left behind stops nobody, a living holder does" {
    var folder: Folder = try .create();
    defer folder.delete();
    try folder.tmp.dir.writeFile(.{ .sub_path = "LOCK", .data = "12345\n" });
    var log = try folder.open();
    defer log.close();
    try testing.expectError(error.InUse, folder.open());
}

test "the log keeps a bounded window and replays across segments" {
    var folder: Folder = try .create();
    defer folder.delete();
    const payload = try testing.allocator.alloc(u8, 512 * 1024);
    defer testing.allocator.free(payload);
    @memset(payload, 'x');
    var log = try folder.open();
    defer log.close();
    for (0..120) |_| try appendText(&log, payload);
    try testing.expectEqual(@as(usize, disklog.segments_max), log.counts().segments);
    const segment_bytes_max = disklog.segment_size_max + payload.len + 16;
    try testing.expect(log.counts().bytes <= disklog.segments_max * segment_bytes_max);

    var on_disk: u64 = 0;
    var entries = folder.tmp.dir.iterate();
    while (try entries.next()) |entry| on_disk += (try folder.tmp.dir.statFile(entry.name)).size;
    try testing.expectEqual(log.counts().bytes, on_disk);

    var replay = try log.replay(1); // long gone: begins with the oldest that is there
    defer replay.close();
    const buffer = try testing.allocator.alloc(u8, payload.len);
    defer testing.allocator.free(buffer);
    var count: usize = 0;
    while (try replay.next(buffer)) |_| count += 1;
    try testing.expectEqual(@as(u64, 121), replay.seq);
    try testing.expectEqual(on_disk / (payload.len + 16), count);
}

test "names that are no segments are left alone" {
    var folder: Folder = try .create();
    defer folder.delete();
    try folder.tmp.dir.writeFile(.{ .sub_path = "0000000000000000000x.log", .data = "notes" });
    var log = try folder.open();
    defer log.close();
    try testing.expectEqual(@as(u64, 1), log.next_seq);
}
