/* As OpenSSL's hashes: a leaf that aligns its stack, and keeps where its frame ends in it. It waits 1 ms at a time, and
 * uses the frame pointer for something else. Prints where its two callers begin. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>

void leaf(struct timespec *for_so_long);

__asm__(".text\n.globl leaf\n.type leaf,@function\nleaf:\n"
        ".cfi_startproc\n"
        "mov %rsp, %rax\n.cfi_def_cfa_register %rax\n"
        "push %rbp\n.cfi_offset %rbp, -16\n"
        "push %rbx\n.cfi_offset %rbx, -24\n"
        "sub $1312, %rsp\n"
        "and $-2048, %rsp\n"
        "mov %rax, 152(%rsp)\n"
        /* DW_CFA_def_cfa_expression: DW_OP_breg7 152, DW_OP_deref, DW_OP_plus_uconst 8 */
        ".cfi_escape 0x0f, 0x06, 0x77, 0x98, 0x01, 0x06, 0x23, 0x08\n"
        "xor %ebp, %ebp\n"
        "mov $35, %eax\n"
        "xor %esi, %esi\n"
        "syscall\n"
        "mov 152(%rsp), %rdx\n.cfi_def_cfa %rdx, 8\n"
        "mov -16(%rdx), %rbx\n"
        "mov -8(%rdx), %rbp\n"
        "lea (%rdx), %rsp\n.cfi_def_cfa_register %rsp\n"
        "ret\n"
        ".cfi_endproc\n.size leaf,.-leaf\n");

static volatile int rounds;

__attribute__((noinline)) static void inner(void) {
    struct timespec millisecond = {0, 1000000};
    leaf(&millisecond);
    rounds++;
}

__attribute__((noinline)) static void outer(void) {
    inner();
    rounds++;
}

int main(void) {
    printf("%lx %lx\n", (unsigned long)inner, (unsigned long)outer);
    fflush(stdout);
    for (;;) {
        outer();
    }
}
