/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * From which goroutine a thread of a Go program is in C, and where: C runs on a stack of the thread's own,
 * and the calls of Go are on the goroutine's, which has gone on by the time that a reader comes.
 *
 * `runtime.asmcgocall` leaves two words further out than the return address into itself when it calls C: how
 * deep the goroutine's stack is, and the goroutine (src/runtime/asm_amd64.s). The return address is looked for
 * among the words of the thread's stack. What is read may be anything: it is followed by reads alone.
 */
#pragma once
#include "bpf.h"

/* Of `enum constants`, beside those of the source that includes this (CO-RE drops what is behind ___). */
enum constants___cgo {
	/* The process runs a Go program that calls C. */
	IS_CGO,
	/* Words from the return address to how deep the stack is. */
	DEPTH_AT,
};
#define CGO(name) __builtin_preserve_enum_value(*(enum constants___cgo *)name, 1)

enum {
	/* The goroutine is at most so many words further out than the return address. */
	GO_FAR = 7,
	/* Words of a piece of stack that may be the return address. */
	GO_WORDS = STACK_BYTES / 8 - GO_FAR,
	/* No stack is deeper (runtime.maxstacksize). */
	GO_DEEP = 1 << 30,
	/* Pieces of the thread's stack that are searched; the first is copied already. */
	GO_PIECES = 4,
};

/* Of the goroutine: the lower end of its stack, from where `asmcgocall` left it. */
struct go_stack {
	/* 0: none was found. */
	u64 sp;
	/* What its frame pointer was then. */
	u64 fp;
	/* Bytes of the stack that could be read. */
	u64 copied;
	u8 stack[STACK_BYTES];
};

/* The beginning of the runtime's `struct g`: of its stack the ends, and what `asmcgocall` saved. */
struct goroutine {
	u64 low, high, others[10];
	/* gobuf.bp since Go 1.25; before, it is the next word, and this one is 0. */
	u64 fp, older_fp;
};

MAP(asmcgocall, ARRAY, u32, struct range, 1);

/*
 * How deep the goroutine's stack is, and the goroutine; 0: not in these words. Where C was called without one,
 * or an address was left over in memory that nobody has written since, the search goes on.
 */
static always_inline int go_find(const u64 *words, u64 start, u64 bytes, u64 *depth, u64 *goroutine)
{
	for (u32 at = 0; at < GO_WORDS; at++) {
		if (words[at] - start >= bytes)
			continue;
		*depth = CGO(DEPTH_AT) == 1 ? words[at + 1] : words[at + 6];
		*goroutine = CGO(DEPTH_AT) == 1 ? words[at + 2] : words[at + 7];
		if (*goroutine && *depth && *depth < GO_DEEP)
			return 1;
	}
	return 0;
}

/* `stack`: the thread's, from `sp` on, of STACK_BYTES. All of `go` but the stack is written. */
static always_inline void go_walk(const u8 *stack, u64 sp, struct go_stack *go)
{
	struct range *code = only(&asmcgocall);
	struct goroutine of = {};
	u64 depth = 0, at = 0;

	go->sp = 0;
	go->fp = 0;
	go->copied = 0;
	if (!code)
		return;
	u64 start = code->start, bytes = code->bytes;
	int is_found = go_find((const u64 *)stack, start, bytes, &depth, &at);
#pragma unroll
	for (u32 piece = 1; piece < GO_PIECES; piece++) {
		if (is_found)
			break;
		/* The last words of the piece before were not tried. */
		if (read_user(go->stack, STACK_BYTES, sp + piece * GO_WORDS * 8))
			return;
		is_found = go_find((const u64 *)go->stack, start, bytes, &depth, &at);
	}
	if (!is_found || read_user(&of, sizeof(of), at) || depth >= of.high - of.low)
		return;
	go->sp = of.high - depth;
	go->fp = of.fp - go->sp < depth ? of.fp : of.older_fp;
	go->copied = copy_stack(go->stack, go->sp);
}
