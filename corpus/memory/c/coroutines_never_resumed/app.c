// A server with coroutines (ucontext) whose stacks come from the heap. One request in four waits for an answer that
// never comes: its coroutine is not resumed, and its stack not freed.
#include "../common.h"
#include <ucontext.h>

static ucontext_t scheduler;

static void run_request(int n) {
    char local[3000];
    memset(local, n, sizeof local);
    use(local);
    if (n % 4 == 0)
        swapcontext(&(ucontext_t){0}, &scheduler);
}

NOINLINE static void start_coroutine(int n) {
    char *stack = malloc(20000);
    ucontext_t *self = malloc(sizeof *self);
    getcontext(self);
    self->uc_stack.ss_sp = stack;
    self->uc_stack.ss_size = 20000;
    self->uc_link = &scheduler;
    makecontext(self, (void (*)(void))run_request, 1, n);
    swapcontext(&scheduler, self);
    if (n % 4) {
        free(stack);
        free(self);
    }
}

int main(void) {
    ready();
    for (int n = 0;; n++) {
        start_coroutine(n);
        serve_requests(20);
        nap(25);
    }
}
