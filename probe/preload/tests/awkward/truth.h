// The program's own truth: every block that it takes and gives back, counted by itself, and the points at which the test
// looks at the probe and compares.
#ifndef TRUTH_H
#define TRUTH_H
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long truth_blocks, truth_bytes;

__attribute__((unused)) static void *took(void *block) {
    if (block) {
        __atomic_fetch_add(&truth_blocks, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&truth_bytes, (long)malloc_usable_size(block), __ATOMIC_RELAXED);
    }
    return block;
}

__attribute__((unused)) static void *gives(void *block) {
    if (block) {
        __atomic_fetch_sub(&truth_blocks, 1, __ATOMIC_RELAXED);
        __atomic_fetch_sub(&truth_bytes, (long)malloc_usable_size(block), __ATOMIC_RELAXED);
    }
    return block;
}

// Prints "mark BLOCKS BYTES PID" without allocating, and waits for a line: the test looks meanwhile.
__attribute__((unused)) static void mark(void) {
    char line[96];
    int bytes = snprintf(line, sizeof line, "mark %ld %ld %d\n", truth_blocks, truth_bytes, (int)getpid());
    if (write(1, line, bytes) != bytes || read(0, line, 1) != 1) _exit(99);
}

// A condition that must hold; the test sees the exit code and the line.
#define MUST(condition)                                                                 \
    do {                                                                                \
        if (!(condition)) {                                                             \
            dprintf(2, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);          \
            _exit(98);                                                                  \
        }                                                                               \
    } while (0)
#endif
