/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * What the programs need of the kernel: some of its helpers and map types, by their numbers in
 * include/uapi/linux/bpf.h, and how maps, constants and programs are declared to the loader.
 */
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define always_inline inline __attribute__((always_inline))

/*
 * A view of what a program is given: some named fields of the kernel's own structure. Where they lie
 * differs between kernels, architectures and probed functions: the loader sets each offset when it
 * loads the program (a CO-RE relocation, as libbpf's, against fields that crates/bpf/src/object.rs is
 * told instead of those of the kernel's BTF).
 */
#define VIEW __attribute__((preserve_access_index))

/*
 * A value that the loader writes into the instructions, as another CO-RE relocation: one of `enum
 * constants` of each source. The verifier drops branches that are never taken then.
 */
#define CONSTANT(name) __builtin_preserve_enum_value(*(enum constants *)name, 1)

enum { HASH = 1, ARRAY = 2, PERCPU_ARRAY = 6, LRU_HASH = 9, RINGBUF = 27 };

/* `entries`: at most. Where the reader says how many there are, it is 1 here. */
#define MAP(name, kind, key_type, value_type, entries) \
	struct {                                        \
		int (*type)[kind];                      \
		key_type *key;                          \
		value_type *value;                      \
		int (*max_entries)[entries];            \
	} name SEC(".maps")
/* `records` is a type of what it holds, so that the object tells how readers find it. */
#define RING(name, records)                 \
	struct {                            \
		int (*type)[RINGBUF];       \
		int (*max_entries)[4096];   \
		records *holds;             \
	} name SEC(".maps")

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static u64 (*const ktime_ns)(void) = (void *)5;
static u32 (*const random_u32)(void) = (void *)7;
static u64 (*const current_pid_tgid)(void) = (void *)14;
static long (*const get_stack)(void *ctx, void *into, u32 bytes, u64 flags) = (void *)67;
static long (*const read_user)(void *into, u32 bytes, u64 from) = (void *)112;
static long (*const ring_output)(void *ring, const void *from, u64 bytes, u64 flags) = (void *)130;
static void *(*const ring_reserve)(void *ring, u64 bytes, u64 flags) = (void *)131;
static void (*const ring_submit)(void *record, u64 flags) = (void *)132;

/* For the ring: its reader polls, so nobody is woken. */
enum { NO_WAKEUP = 1 };
/* For get_stack: the stack of the process. */
enum { USER_STACK = 1 << 8 };

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The only entry of an array. */
static always_inline void *only(void *map)
{
	u32 first = 0;
	return map_lookup(map, &first);
}

/* Code of the process. */
struct range {
	u64 start, bytes;
};

/* Of a stack, in a record. */
enum { STACK_BYTES = 2048 };

/* As much of a stack as is there; gives how much. */
static always_inline u64 copy_stack(u8 *into, u64 from)
{
	if (!read_user(into, STACK_BYTES, from))
		return STACK_BYTES;
	if (!read_user(into, 512, from))
		return 512;
	return read_user(into, 128, from) ? 0 : 128;
}

static always_inline void count(void *counter)
{
	u64 *number = only(counter);
	if (number)
		__sync_fetch_and_add(number, 1);
}
