/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only */
/*
 * What the registers of the current thread had when it entered the kernel. Linux gives them since 5.15
 * (bpf_task_pt_regs); before, they are read where the kernel keeps them, at the end of the thread's
 * kernel stack (task_pt_regs in arch/x86/include/asm/processor.h and of arm64).
 * The loader says which (crates/bpf/src/registers.rs).
 */
#pragma once
#include "bpf.h"

/* Of `enum constants`, beside those of the source that includes this (CO-RE drops what is behind ___). */
enum constants___registers {
	GIVES_REGISTERS,
	/* Of the kernel's struct task_struct, the pointer to its kernel stack. */
	TASK_STACK,
	/* Of that stack. */
	STACK_REGISTERS,
};
#define REGISTERS(name) __builtin_preserve_enum_value(*(enum constants___registers *)name, 1)

/* The kernel's struct pt_regs, by what system calls keep there. */
struct user_registers {
	s32 number;
	u64 pc, sp, fp, link, first, second, third, fourth;
} VIEW;

static u64 (*const current_task)(void) = (void *)35;
static long (*const read_kernel)(void *into, u32 bytes, u64 from) = (void *)113;
static void *(*const current_task_known)(void) = (void *)158;
static void *(*const task_registers)(void *task) = (void *)175;

static always_inline struct user_registers *registers_of_current(void)
{
	u64 stack = 0;

	if (REGISTERS(GIVES_REGISTERS))
		return task_registers(current_task_known());
	read_kernel(&stack, sizeof(stack), current_task() + REGISTERS(TASK_STACK));
	return (void *)(stack + REGISTERS(STACK_REGISTERS));
}

/* One of them; 0 where it cannot be read. */
#define REGISTER(registers, name)                                                          \
	({                                                                                 \
		__typeof__((registers)->name) value = 0;                                   \
		if (REGISTERS(GIVES_REGISTERS))                                            \
			value = (registers)->name;                                         \
		else                                                                       \
			read_kernel(&value, sizeof(value), (u64)&(registers)->name); \
		value;                                                                     \
	})
