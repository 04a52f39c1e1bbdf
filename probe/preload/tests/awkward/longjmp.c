// Leaves frames by longjmp over and over with blocks allocated in between, and swaps to stacks made by hand.
#include "truth.h"
#include <setjmp.h>
#include <ucontext.h>

static jmp_buf out;
static ucontext_t here, there;
static void *kept[20000];
static int count;

static void deep(int depth) {
    char room[200];
    memset(room, depth, sizeof room);
    kept[count++] = took(malloc(4000 + room[7]));
    if (depth == 0) longjmp(out, 1);
    deep(depth - 1);
}

static void on_another_stack(void) {
    for (int round = 0; round < 500; round++) {
        kept[count++] = took(malloc(8000));
        swapcontext(&there, &here);
    }
}

int main(void) {
    mark();
    for (volatile int round = 0; round < 500; round++) {
        if (setjmp(out) == 0) deep(20);
    }
    // Small, in the middle of other memory, with nothing readable behind it but by chance.
    static char stack[32768];
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = sizeof stack;
    there.uc_link = &here;
    makecontext(&there, on_another_stack, 0);
    for (int round = 0; round < 500; round++) swapcontext(&here, &there);
    for (int at = 0; at < count; at += 3) free(gives(kept[at]));
    mark();
    return 0;
}
