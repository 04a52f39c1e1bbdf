// Functions of an allocator that are left by another way than their return: "throw", "jump" (longjmp) or "switch" (another
// stack, on which the call ends). The program is right to do so, and prints how often it did.
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <ucontext.h>
#include <unistd.h>

static const int BLOCKS = 64;
static char arena[BLOCKS][1024];
static int used;
static const char *way;
static bool may_leave;
static jmp_buf out;
static ucontext_t outer, inner;
static char stack[256 << 10];
static void *taken[BLOCKS];
static void *kept[1 << 16];
static long left, caught;

extern "C" __attribute__((noinline)) void *mi_malloc(size_t bytes) {
    if (used == BLOCKS) {
        left++;
        if (*way == 't') throw std::bad_alloc();
        if (*way == 'j') longjmp(out, 1);
        swapcontext(&inner, &outer);
        used--;
    }
    memset(arena[used], 1, bytes < 1024 ? bytes : 1024);
    return arena[used++];
}

extern "C" __attribute__((noinline)) void mi_free(void *) { used--; }

__attribute__((noinline)) void *operator new(size_t bytes) {
    if (may_leave && used == BLOCKS) {
        left++;
        throw std::bad_alloc();
    }
    return malloc(bytes);
}
__attribute__((noinline)) void operator delete(void *block) noexcept { free(block); }
__attribute__((noinline)) void operator delete(void *block, size_t) noexcept { free(block); }

// Whole, until the allocator leaves the call.
__attribute__((noinline)) static void fill() {
    for (int at = 0; at <= BLOCKS; at++) {
        void *block = mi_malloc(1000);
        if (at < BLOCKS) taken[at] = block;
    }
}

static void fill_on_stack() {
    fill();
    swapcontext(&inner, &outer);
}

__attribute__((noinline)) static void round_of(int number) {
    if (*way == 't') {
        try { fill(); } catch (std::bad_alloc &) { caught++; }
        may_leave = true;
        try { delete new char; } catch (std::bad_alloc &) { caught++; }
        may_leave = false;
    } else if (*way == 'j') {
        if (!setjmp(out)) fill();
        else caught++;
    } else {
        getcontext(&inner);
        inner.uc_stack.ss_sp = stack;
        inner.uc_stack.ss_size = sizeof stack;
        inner.uc_link = nullptr;
        makecontext(&inner, fill_on_stack, 0);
        swapcontext(&outer, &inner);
        // It stands within the allocator; this goes on on the first stack, and comes back to it.
        caught++;
        mi_free(taken[BLOCKS - 1]);
        taken[BLOCKS - 1] = mi_malloc(1000);
        swapcontext(&outer, &inner);
    }
    while (used) mi_free(taken[used - 1]);
    kept[number & 0xffff] = arena[0];
}

int main(int count, char **words) {
    way = words[1];
    int rounds = count > 2 ? atoi(words[2]) : 1000;
    printf("begins\n");
    fflush(stdout);
    for (int number = 0; number < rounds; number++) {
        round_of(number);
        usleep(2000);
    }
    printf("%ld left, %ld caught\n", left, caught);
}
