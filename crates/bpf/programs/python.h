/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * The functions of Python that the current thread is in, innermost first: from the thread's state, which the
 * interpreter keeps, along its frames. What is kept of a frame is the address of its code object and the
 * instruction that runs; crates/symbols/src/python reads their names and lines afterwards.
 *
 * Which state is the thread's: `states` has those that the reader found. Of one that is not there, started
 * since the reader looked last, the newest states of the interpreter are compared. A state is believed only
 * while it says that it belongs to the thread it belonged to. What cannot be read ends the walk; what is read
 * may be anything, and is followed by reads alone, a bounded number of them.
 *
 * Where things lie in the process (offsets differ between versions of CPython) the loader writes into the
 * program. A program for a process that runs no CPython has none of this in it.
 */
#pragma once
#include "bpf.h"

/* Frames that are kept of a stack, and newest states that are compared. */
enum { PYTHON_FRAMES = 24, PYTHON_NEWEST = 8 };

/* Of `enum constants`, beside those of the source that includes this (CO-RE drops what is behind ___). */
enum constants___python {
	/* The process runs CPython. */
	IS_PYTHON,
	/* Of a thread's state: the next one, what the thread library calls the thread, the innermost frame. */
	STATE_NEXT,
	STATE_THREAD,
	STATE_FRAME,
	/* The innermost frame is behind another pointer, and where. */
	HAS_CFRAME,
	CFRAME_CURRENT,
	/* The kernel's number of the thread is in the state, behind the thread library's; else it is in that
	 * library's description of the thread, at NUMBER_AT. */
	NUMBER_IN_STATE,
	NUMBER_AT,
	/* Of a frame, that are read. */
	FRAME_BYTES,
};
#define PYTHON(name) __builtin_preserve_enum_value(*(enum constants___python *)name, 1)

/* The longest frame whose fields are read: up to 3.10 they are objects. */
enum { FRAME_WORDS = 14 };

struct python_frame {
	/* 0 behind the outermost. */
	u64 code, instruction;
};

/* The fields of an interpreter's frame. */
struct python_frame_view {
	u64 code, previous, instruction;
} VIEW;

/* What differs between processes that run the same version. */
struct python_process {
	/* Where the address of the newest state is. */
	u64 newest;
	/* Of its namespace of processes. */
	u64 device, inode;
};

struct python_state {
	u64 address, thread;
};

/* What the kernel calls a thread, and its process, in a namespace. */
struct numbers {
	u32 tid, pid;
};

MAP(python_process, ARRAY, u32, struct python_process, 1);
/* By the thread's number where the process lives; threads that ended make room. */
MAP(python_states, LRU_HASH, u32, struct python_state, 1);
/* Walks by threads that have no state, as far as could be seen. */
MAP(python_missed, ARRAY, u32, u64, 1);

static long (*const numbers_in)(u64 device, u64 inode, struct numbers *numbers, u32 bytes) = (void *)120;

/* The number of the current thread where the process lives. */
static always_inline u32 python_number(const struct python_process *process)
{
	struct numbers numbers = {};

	if (numbers_in(process->device, process->inode, &numbers, sizeof(numbers)))
		return current_pid_tgid();
	return numbers.tid;
}

/* The number of the thread that a state belongs to; 0: not known. */
static always_inline u32 python_number_of(u64 state, u64 thread)
{
	u32 number = 0;
	u64 at = PYTHON(NUMBER_IN_STATE) ? state + PYTHON(STATE_THREAD) + 8 : thread + PYTHON(NUMBER_AT);

	read_user(&number, sizeof(number), at);
	return number;
}

/*
 * The state of a thread, of the newest ones; 0: it is none of them. Up to 3.11 a thread that is started has its
 * creator's number until it runs: the creator's state is the older one, and behind the other.
 */
static always_inline u64 python_newest(const struct python_process *process, u32 number)
{
	struct python_state found = {};
	u64 at = 0;

	read_user(&at, sizeof(at), process->newest);
#pragma unroll
	for (u32 seen = 0; seen < PYTHON_NEWEST; seen++) {
		struct python_state state = { .address = at };

		if (!at || read_user(&state.thread, sizeof(state.thread), at + PYTHON(STATE_THREAD)))
			break;
		if (state.thread && python_number_of(at, state.thread) == number)
			found = state;
		if (read_user(&at, sizeof(at), state.address + PYTHON(STATE_NEXT)))
			break;
	}
	if (found.address)
		map_update(&python_states, &number, &found, 0);
	return found.address;
}

/* The state of the current thread; 0: it has none, or none that could be found. */
static always_inline u64 python_state(void)
{
	struct python_process *process = only(&python_process);

	if (!process || !process->newest)
		return 0;
	u32 number = python_number(process);
	struct python_state *known = map_lookup(&python_states, &number);
	if (known) {
		u64 thread = 0;
		read_user(&thread, sizeof(thread), known->address + PYTHON(STATE_THREAD));
		if (thread && thread == known->thread)
			return known->address;
	}
	u64 state = python_newest(process, number);
	if (!state)
		count(&python_missed);
	return state;
}

/* Walks the frames of the current thread; all of `frames` are written. */
static always_inline void python_walk(struct python_frame *frames)
{
	u64 state = python_state(), at = 0;

	if (state)
		read_user(&at, sizeof(at), state + PYTHON(STATE_FRAME));
	if (at && PYTHON(HAS_CFRAME) && read_user(&at, sizeof(at), at + PYTHON(CFRAME_CURRENT)))
		at = 0;
#pragma unroll
	for (u32 number = 0; number < PYTHON_FRAMES; number++) {
		u64 words[FRAME_WORDS] = {};
		struct python_frame_view *frame = (void *)words;

		if (at && read_user(words, PYTHON(FRAME_BYTES), at))
			at = 0;
		frames[number].code = at ? frame->code : 0;
		frames[number].instruction = frame->instruction;
		at = at ? frame->previous : 0;
	}
}
