//! `zig build` makes the relay, `zig build test` runs its unit tests. See `build` for the script
//! that also fetches Zig.
const std = @import("std");

pub fn build(b: *std.Build) void {
    const module = b.createModule(.{
        .root_source_file = b.path("src/main.zig"),
        // Baseline: the same instructions on every machine, so that runs can be compared.
        .target = b.standardTargetOptions(.{ .default_target = .{ .cpu_model = .baseline } }),
        // Safe: the relay decodes what strangers send, and a missed bound must stop it rather
        // than corrupt it. It costs less here than the hashing.
        .optimize = b.option(std.builtin.OptimizeMode, "optimize", "ReleaseSafe unless said") orelse
            .ReleaseSafe,
        // Through libc, dynamically: an allocator can be preloaded.
        .link_libc = true,
        // Names, frame pointers and unwind tables stay: profilers and probes are to name the leak.
        .strip = false,
        .omit_frame_pointer = false,
        .unwind_tables = .sync,
    });
    b.installArtifact(b.addExecutable(.{ .name = "relay", .root_module = module }));

    const tests = b.addTest(.{ .root_module = module });
    b.step("test", "Run the unit tests").dependOn(&b.addRunArtifact(tests).step);
}
