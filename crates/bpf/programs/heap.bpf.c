/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * Samples of what a linked-in allocator gives and takes, by uprobes on its functions. The loader makes
 * a program of `on_entry` for each role and places of the arguments, and one of `on_exit` for each kind
 * of exit. crates/heap/src/linked reads what they tell.
 *
 * Each CPU counts down the bytes to its next sample, drawn anew from an exponential distribution, so
 * that a block of n bytes is sampled by the chance 1 - exp(-n / mean). Where the function was called by
 * another one of the allocator, the sample is dropped: what falls on the outer call is the block's own
 * chance, and none of it counts twice.
 *
 * A sampled call is kept by its thread until an exit with the same stack pointer and return address
 * gives its result. One that an exception or a longjmp left has no exit: the thread's next call from no
 * deeper in the stack drops it.
 */
#include "bpf.h"
#include "cgo.h"
#include "python.h"

enum role {
	/* Returns a block of so many bytes; of the product of two arguments. */
	GIVES = 0,
	GIVES_MANY = 1,
	/* Takes a block and returns another one. */
	GIVES_AGAIN = 2,
	/* Writes where the block is. */
	GIVES_INTO = 3,
	TAKES = 4,
};

/* Functions of an allocator; with more of them the reader does not begin. */
enum { FUNCTIONS_MAX = 256 };
/* Draws from which the distance to the next sample is taken, and the bits behind their point. */
enum { DRAWS = 4096, DRAW_BITS = 16 };

/* In one value: the verifier of Linux 6.1 takes a loop of lookups for one without end. */
struct family {
	struct range functions[FUNCTIONS_MAX];
};

enum constants {
	ROLE,
	/* Of GIVES_AGAIN: without a block it calls a function that is probed itself. */
	CALLS_ON,
	/* The kernel steps the probed instruction, which costs more than a hit alone. */
	IS_STEPPED,
	/* At a function's first instruction the return address is on the stack, and not in a register. */
	RETURNS_BY_STACK,
	/* Of the allocator, in `families`. */
	FUNCTIONS,
};

/* The kernel's struct pt_regs, by what they hold at the probed instruction. */
struct registers {
	u64 block, bytes, count, place, result, pc, sp, fp, link;
} VIEW;

/* Numbers of each CPU. */
struct cpu {
	/* Bytes to the next sample, below zero at one. */
	s64 left;
	u64 hits;
	u64 samples;
	/* Of the hits, those for which the kernel made a step. */
	u64 stepped;
	/* Of the samples, those whose exit was seen. */
	u64 returned;
	/* Of the hits, those where a block may be freed: at entries that are probed all along. */
	u64 frees;
};

/* A sampled call while it lasts. */
struct call {
	u64 return_address, sp, bytes, mean, place, function;
};

enum kind { GIVEN = 1, TAKEN = 2, GIVEN_BY_GO = 3 };

struct taken {
	u64 at_ns;
	u32 kind, tid;
	u64 block;
};

/* A block, and where it was asked for: the caller's registers and the lower end of its stack. */
struct given {
	u64 at_ns;
	u32 kind, tid;
	u64 block, bytes, mean;
	u64 pc, sp, fp;
	u64 function;
	u64 copied;
	u8 stack[STACK_BYTES];
};

/* Of a process that runs Python. */
struct given_by_python {
	struct given given;
	struct python_frame frames[PYTHON_FRAMES];
};

/* Of a Go program that calls C. */
struct given_by_go {
	struct given given;
	struct go_stack go;
};

MAP(cpus, PERCPU_ARRAY, u32, struct cpu, 1);
/* -ln(u) of evenly spread u, in units of 2^-DRAW_BITS. */
MAP(draws, ARRAY, u32, u64, DRAWS);
/* The mean distance of samples, bytes. */
MAP(mean, ARRAY, u32, u64, 1);
/* 1 while the exits are probed; without them no call is sampled. */
MAP(sampling, ARRAY, u32, u64, 1);
/* By thread. */
MAP(calls, HASH, u32, struct call, 1);
MAP(live, HASH, u64, u64, 1);
MAP(lost, ARRAY, u32, u64, 1);
/* Where the allocator's functions lie in the process. */
MAP(families, ARRAY, u32, struct family, 1);
union record {
	struct taken taken;
	struct given given;
	struct given_by_python by_python;
	struct given_by_go by_go;
};
RING(ring, union record);

/* Before Linux 6.13 a 1 would take the probe away. */
enum { STAYS = 0 };

static always_inline struct cpu *hit(void)
{
	struct cpu *cpu = only(&cpus);

	if (cpu) {
		cpu->hits++;
		if (CONSTANT(IS_STEPPED))
			cpu->stepped++;
	}
	return cpu;
}

/* 0: it cannot be read. */
static always_inline u64 return_address(struct registers *registers)
{
	u64 address = 0;

	if (!CONSTANT(RETURNS_BY_STACK)) {
		address = registers->link;
		/* Read here: the kernel allows no sum of the registers' address and an offset. */
		asm volatile("" : "+r"(address));
		return address;
	}
	read_user(&address, sizeof(address), registers->sp);
	return address;
}

/*
 * Whether a call begins, and not another function of the allocator that the one before ended in by a
 * jump. A sampled call of the thread is over, and dropped, if this one is from no deeper in the stack.
 */
static always_inline int begins(struct registers *registers, u32 tid)
{
	struct call *call = map_lookup(&calls, &tid);

	if (!call || registers->sp < call->sp)
		return 1;
	if (registers->sp == call->sp) {
		u64 caller = return_address(registers);
		if (!caller)
			return 0;
		if (caller == call->return_address && registers->pc != call->function)
			return 0;
	}
	map_delete(&calls, &tid);
	return 1;
}

/* A block that was sampled goes. */
static always_inline void takes(u64 block, u32 tid)
{
	if (!block || !map_lookup(&live, &block))
		return;
	map_delete(&live, &block);
	struct taken taken = { .at_ns = ktime_ns(), .kind = TAKEN, .tid = tid, .block = block };
	if (ring_output(&ring, &taken, sizeof(taken), NO_WAKEUP))
		count(&lost);
}

static always_inline u64 bytes_of(struct registers *registers)
{
	if (CONSTANT(ROLE) == GIVES_MANY)
		return registers->bytes * registers->count;
	return registers->bytes;
}

/* How far it is to the next sample; what the mean was stays with this one. 0: not known. */
static always_inline u64 draw(struct cpu *cpu)
{
	u32 number = random_u32() & (DRAWS - 1);
	u64 *far = map_lookup(&draws, &number);
	u64 *bytes = only(&mean);

	if (!far || !bytes)
		return 0;
	u64 mean_bytes = *bytes;
	cpu->left = *far * mean_bytes >> DRAW_BITS;
	return mean_bytes;
}

/* Whether the address is in one of the allocator's functions. */
static always_inline int is_of_family(u64 address)
{
	struct family *family = only(&families);

	if (!family)
		return 0;
	for (u32 number = 0; number < FUNCTIONS_MAX && number < CONSTANT(FUNCTIONS); number++) {
		struct range *function = &family->functions[number];
		if (address - function->start < function->bytes)
			return 1;
	}
	return 0;
}

/* Counts the bytes; at a sample keeps what the exit will need. */
static always_inline void gives(struct registers *registers, struct cpu *cpu, u32 tid)
{
	struct call call = { .bytes = bytes_of(registers) };

	cpu->left -= call.bytes;
	if (cpu->left >= 0)
		return;
	call.mean = draw(cpu);
	u64 *is_sampling = only(&sampling);
	if (!is_sampling || !*is_sampling)
		return;
	call.return_address = return_address(registers);
	if (!call.return_address || is_of_family(call.return_address))
		return;
	cpu->samples++;
	call.sp = registers->sp;
	call.function = registers->pc;
	if (CONSTANT(ROLE) == GIVES_INTO)
		call.place = registers->place;
	map_update(&calls, &tid, &call, 0);
}

SEC("uprobe")
int on_entry(struct registers *registers)
{
	u32 tid = current_pid_tgid();
	struct cpu *cpu = hit();

	if (!cpu)
		return STAYS;
	if (CONSTANT(ROLE) == TAKES || CONSTANT(ROLE) == GIVES_AGAIN)
		cpu->frees++;
	if (CONSTANT(ROLE) != TAKES && !begins(registers, tid))
		return STAYS;
	if (CONSTANT(ROLE) == TAKES || CONSTANT(ROLE) == GIVES_AGAIN)
		takes(registers->block, tid);
	if (CONSTANT(ROLE) == TAKES || (CONSTANT(ROLE) == GIVES_AGAIN && CONSTANT(CALLS_ON) && !registers->block))
		return STAYS;
	gives(registers, cpu, tid);
	return STAYS;
}

static always_inline struct given *reserve_given(void)
{
	if (PYTHON(IS_PYTHON))
		return ring_reserve(&ring, sizeof(struct given_by_python), 0);
	if (CGO(IS_CGO))
		return ring_reserve(&ring, sizeof(struct given_by_go), 0);
	return ring_reserve(&ring, sizeof(struct given), 0);
}

/* A sampled call has given a block. */
static always_inline void given(struct registers *registers, u32 tid, const struct call *call, u64 block)
{
	if (map_update(&live, &block, &block, 0)) {
		count(&lost);
		return;
	}
	struct given *given = reserve_given();
	if (!given) {
		map_delete(&live, &block);
		count(&lost);
		return;
	}
	given->at_ns = ktime_ns();
	given->kind = GIVEN;
	given->tid = tid;
	given->block = block;
	given->bytes = call->bytes;
	given->mean = call->mean;
	given->function = call->function;
	given->pc = call->return_address;
	given->fp = registers->fp;
	/* As it will be in the caller. */
	given->sp = registers->sp + (CONSTANT(RETURNS_BY_STACK) ? 8 : 0);
	given->copied = copy_stack(given->stack, given->sp);
	if (PYTHON(IS_PYTHON))
		python_walk(((struct given_by_python *)given)->frames);
	else if (CGO(IS_CGO) && given->copied == STACK_BYTES) {
		given->kind = GIVEN_BY_GO;
		go_walk(given->stack, given->sp, &((struct given_by_go *)given)->go);
	}
	ring_submit(given, NO_WAKEUP);
}

SEC("uprobe")
int on_exit(struct registers *registers)
{
	u32 tid = current_pid_tgid();
	struct cpu *cpu = hit();

	if (!cpu)
		return STAYS;
	struct call *open = map_lookup(&calls, &tid);
	if (!open || registers->sp != open->sp)
		return STAYS;
	if (return_address(registers) != open->return_address)
		return STAYS;
	cpu->returned++;
	struct call call = *open;
	map_delete(&calls, &tid);
	u64 block = registers->result;
	if (call.place) {
		/* The result is an error, and the block where the caller wanted it. */
		if (block || read_user(&block, sizeof(block), call.place))
			return STAYS;
	}
	if (block)
		given(registers, tid, &call, block);
	return STAYS;
}
