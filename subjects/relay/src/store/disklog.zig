//! The append-only log of published events, in segments named by their first sequence number.
//! A new segment begins at `segment_size_max`, and the oldest goes when there are more than
//! `segments_max`: the log is a window of the newest events, 32 MiB, however long the relay runs.
//!
//! A record is {payload size: u32, checksum: u32, seq: u64} in little endian, then the payload.
//! A crash may leave half a record at the end; the next start cuts it off.
const std = @import("std");
const posix = std.posix;
const Allocator = std.mem.Allocator;
const Mutex = std.Thread.Mutex;
const Dir = std.fs.Dir;
const File = std.fs.File;
const payload_size_max = @import("../frame.zig").payload_size_max + 16;

pub const segment_size_max = 4 << 20;
pub const segments_max = 8;

const header_size = 16;
const name_size = 20 + ".log".len;
const lock_name = "LOCK";

pub const DiskLog = struct {
    directory: Dir,
    lock: File,
    /// Guards everything below; appends come from the publisher alone, scrapes from elsewhere.
    mutex: Mutex = .{},
    segment: File,
    segment_size: u64,
    /// First sequence numbers of the segments on disk, oldest first.
    segments: [segments_max + 1]u64 = undefined,
    segment_count: usize,
    bytes: u64,
    next_seq: u64,

    pub const OpenError = error{InUse} || anyerror;

    /// Opens or creates the log in `path`. The lock is the kernel's (flock), which dies with its
    /// holder: a lock file left by a killed relay stops nobody. InUse: a living relay has it.
    pub fn open(allocator: Allocator, path: []const u8) OpenError!DiskLog {
        var directory = try std.fs.cwd().makeOpenPath(path, .{ .iterate = true });
        errdefer directory.close();
        const lock = try takeLock(directory);
        errdefer lock.close();

        var starts = try listSegments(allocator, directory);
        defer starts.deinit(allocator);
        while (starts.items.len > segments_max) {
            try deleteSegment(directory, starts.orderedRemove(0));
        }
        if (starts.items.len == 0) try starts.append(allocator, 1);
        const newest = starts.items[starts.items.len - 1];
        const options: File.CreateFlags = .{ .read = true, .truncate = false };
        const segment = try directory.createFile(&segmentName(newest), options);
        errdefer segment.close();
        const end = try recover(segment, newest);

        var self: DiskLog = .{
            .directory = directory,
            .lock = lock,
            .segment = segment,
            .segment_size = end.size,
            .segment_count = starts.items.len,
            .bytes = end.size,
            .next_seq = end.next_seq,
        };
        @memcpy(self.segments[0..starts.items.len], starts.items);
        for (starts.items[0 .. starts.items.len - 1]) |start| {
            self.bytes += (try directory.statFile(&segmentName(start))).size;
        }
        return self;
    }

    pub fn close(self: *DiskLog) void {
        self.segment.close();
        self.lock.close();
        self.directory.close();
    }

    /// Appends one event. On an error nothing of it stays in the file.
    pub fn append(self: *DiskLog, seq: u64, pieces: [3][]const u8) !void {
        self.mutex.lock();
        defer self.mutex.unlock();
        if (self.segment_size >= segment_size_max) try self.rotate(seq);
        const header = encodeHeader(seq, &pieces);
        var vectors: [4]posix.iovec_const = undefined;
        vectors[0] = .{ .base = &header, .len = header.len };
        for (pieces, vectors[1..]) |piece, *vector| {
            vector.* = .{ .base = piece.ptr, .len = piece.len };
        }
        const size = header_size + pieceSize(&pieces);
        self.segment.pwritevAll(&vectors, self.segment_size) catch |err| {
            self.segment.setEndPos(self.segment_size) catch {};
            return err;
        };
        self.segment_size += size;
        self.bytes += size;
        self.next_seq = seq + 1;
    }

    fn rotate(self: *DiskLog, seq: u64) !void {
        const segment = try self.directory.createFile(&segmentName(seq), .{ .read = true });
        self.segment.close();
        self.segment = segment;
        self.segment_size = 0;
        self.segments[self.segment_count] = seq;
        self.segment_count += 1;
        if (self.segment_count <= segments_max) return;
        const oldest = self.segments[0];
        if (self.directory.statFile(&segmentName(oldest))) |stat| {
            self.bytes -|= stat.size;
        } else |_| {}
        deleteSegment(self.directory, oldest) catch {}; // gone already is as good
        const newer = self.segments[1..self.segment_count];
        std.mem.copyForwards(u64, self.segments[0..segments_max], newer);
        self.segment_count = segments_max;
    }

    pub const Counts = struct { bytes: u64, segments: usize };

    pub fn counts(self: *DiskLog) Counts {
        self.mutex.lock();
        defer self.mutex.unlock();
        return .{ .bytes = self.bytes, .segments = self.segment_count };
    }

    /// The start of the segment that holds `seq`, or of the oldest when that is newer.
    fn segmentOf(self: *DiskLog, seq: u64) u64 {
        self.mutex.lock();
        defer self.mutex.unlock();
        var found = self.segments[0];
        for (self.segments[0..self.segment_count]) |start| {
            if (start <= seq) found = start;
        }
        return found;
    }

    /// Reads events back from `seq` on; those already rotated away are passed over.
    pub fn replay(self: *DiskLog, seq: u64) !Replay {
        const start = self.segmentOf(seq);
        const file = try self.directory.openFile(&segmentName(start), .{});
        return .{ .log = self, .file = file, .start = start, .seq = seq };
    }
};

/// Reads one event after the other, without holding up the log.
pub const Replay = struct {
    log: *DiskLog,
    file: File,
    start: u64,
    offset: u64 = 0,
    seq: u64,

    pub fn close(self: *Replay) void {
        self.file.close();
    }

    /// The next event in `buffer`, or null when the log holds no further one.
    pub fn next(self: *Replay, buffer: []u8) !?[]const u8 {
        while (true) {
            const record = try readRecord(self.file, self.offset, buffer) orelse {
                if (!try self.openNextSegment()) return null;
                continue;
            };
            self.offset += header_size + record.payload.len;
            if (record.seq < self.seq) continue;
            self.seq = record.seq + 1;
            return record.payload;
        }
    }

    fn openNextSegment(self: *Replay) !bool {
        const start = self.log.segmentOf(self.seq);
        if (start <= self.start) return false;
        const file = try self.log.directory.openFile(&segmentName(start), .{});
        self.file.close();
        self.file = file;
        self.start = start;
        self.offset = 0;
        return true;
    }
};

const Record = struct { seq: u64, payload: []const u8 };

fn pieceSize(pieces: []const []const u8) usize {
    var size: usize = 0;
    for (pieces) |piece| size += piece.len;
    return size;
}

fn checksum(seq: u64, pieces: []const []const u8) u32 {
    var hash: std.hash.XxHash32 = .init(@truncate(seq));
    for (pieces) |piece| hash.update(piece);
    return hash.final();
}

fn encodeHeader(seq: u64, pieces: []const []const u8) [header_size]u8 {
    var header: [header_size]u8 = undefined;
    std.mem.writeInt(u32, header[0..4], @intCast(pieceSize(pieces)), .little);
    std.mem.writeInt(u32, header[4..8], checksum(seq, pieces), .little);
    std.mem.writeInt(u64, header[8..16], seq, .little);
    return header;
}

/// The whole and sound record at `offset`, or null when there is none.
fn readRecord(file: File, offset: u64, buffer: []u8) !?Record {
    var header: [header_size]u8 = undefined;
    if (try file.preadAll(&header, offset) < header_size) return null;
    const size = std.mem.readInt(u32, header[0..4], .little);
    const seq = std.mem.readInt(u64, header[8..16], .little);
    if (size > buffer.len) return null;
    const payload = buffer[0..size];
    if (try file.preadAll(payload, offset + header_size) < size) return null;
    if (std.mem.readInt(u32, header[4..8], .little) != checksum(seq, &.{payload})) return null;
    return .{ .seq = seq, .payload = payload };
}

const End = struct { size: u64, next_seq: u64 };

/// Finds the end of the sound records and cuts the file there.
fn recover(segment: File, first_seq: u64) !End {
    const buffer = try std.heap.page_allocator.alloc(u8, payload_size_max);
    defer std.heap.page_allocator.free(buffer);
    var end: End = .{ .size = 0, .next_seq = first_seq };
    while (try readRecord(segment, end.size, buffer)) |record| {
        end.size += header_size + record.payload.len;
        end.next_seq = record.seq + 1;
    }
    try segment.setEndPos(end.size);
    return end;
}

fn takeLock(directory: Dir) !File {
    const file = try directory.createFile(lock_name, .{ .truncate = false });
    errdefer file.close();
    if (!try file.tryLock(.exclusive)) return error.InUse;
    return file;
}

fn segmentName(start: u64) [name_size]u8 {
    var name: [name_size]u8 = undefined;
    // 20 digits hold any u64.
    _ = std.fmt.bufPrint(&name, "{d:0>20}.log", .{start}) catch unreachable;
    return name;
}

fn listSegments(allocator: Allocator, directory: Dir) !std.ArrayList(u64) {
    var starts: std.ArrayList(u64) = .empty;
    errdefer starts.deinit(allocator);
    var entries = directory.iterate();
    while (try entries.next()) |entry| {
        if (entry.name.len != name_size or !std.mem.endsWith(u8, entry.name, ".log")) continue;
        const start = std.fmt.parseInt(u64, entry.name[0..20], 10) catch continue;
        try starts.append(allocator, start);
    }
    std.mem.sort(u64, starts.items, {}, std.sort.asc(u64));
    return starts;
}

fn deleteSegment(directory: Dir, start: u64) !void {
    try directory.deleteFile(&segmentName(start));
}
