/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * Each hit of a uprobe: when, by which thread, some registers, and the stack where that is wanted.
 * crates/bpf/src/uprobes/hits.rs reads them.
 */
#include "bpf.h"

enum constants {
	/* Comes back in the hits of these probes. */
	KIND,
	/* The kernel steps the probed instruction, which costs more than a hit alone. */
	IS_STEPPED,
	/* So many of the registers are recorded, and so many frames of the stack. */
	REGISTERS,
	FRAMES,
};

/* The kernel's struct pt_regs: those that the reader chose. */
struct registers {
	u64 first, second, third, fourth;
} VIEW;

/* Numbers of each CPU. */
struct cpu {
	u64 hits;
	/* Of the hits, those for which the kernel made a step of its own. */
	u64 stepped;
	/* Of the hits, those that did not fit the ring. */
	u64 lost;
};

struct hit {
	u64 at_ns;
	u32 kind, tid;
	u64 registers[4];
	/* Of the frames that follow; below zero where the kernel could not walk the stack. */
	s64 stack_bytes;
};

MAP(cpus, PERCPU_ARRAY, u32, struct cpu, 1);
RING(ring, struct hit);

/* Before Linux 6.13 a 1 would take the probe away. */
enum { STAYS = 0 };

SEC("uprobe")
int on_hit(struct registers *registers)
{
	struct cpu *cpu = only(&cpus);

	if (!cpu)
		return STAYS;
	cpu->hits++;
	if (CONSTANT(IS_STEPPED))
		cpu->stepped++;
	struct hit *hit = ring_reserve(&ring, sizeof(*hit) + 8 * CONSTANT(FRAMES), 0);
	if (!hit) {
		cpu->lost++;
		return STAYS;
	}
	hit->at_ns = ktime_ns();
	hit->kind = CONSTANT(KIND);
	hit->tid = current_pid_tgid();
	hit->registers[0] = CONSTANT(REGISTERS) > 0 ? registers->first : 0;
	hit->registers[1] = CONSTANT(REGISTERS) > 1 ? registers->second : 0;
	hit->registers[2] = CONSTANT(REGISTERS) > 2 ? registers->third : 0;
	hit->registers[3] = CONSTANT(REGISTERS) > 3 ? registers->fourth : 0;
	hit->stack_bytes = 0;
	if (CONSTANT(FRAMES) > 0)
		hit->stack_bytes = get_stack(registers, hit + 1, 8 * CONSTANT(FRAMES), USER_STACK);
	ring_submit(hit, NO_WAKEUP);
	return STAYS;
}
