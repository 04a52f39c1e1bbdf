/* Misuse, done on purpose. Who survives it to the end has no protection against it (exit code 0);
 * who is stopped by a signal has. */
#include "probes.h"

static void *volatile keep;

/* Other blocks in between, so that the cheapest test (the same pointer on top) does not decide. */
void protect_double_free(void) {
    void *blocks[64];
    for (int i = 0; i < 64; i++) blocks[i] = malloc(48);
    void *twice = blocks[20];
    free(twice);
    for (int i = 21; i < 30; i++) free(blocks[i]);
    free(twice);
    for (int i = 0; i < 200; i++) keep = malloc(48);
}

/* A write after free into where free lists are kept; then enough blocks to follow the link. */
void protect_free_list(void) {
    void *blocks[64];
    for (int i = 0; i < 64; i++) blocks[i] = malloc(64);
    for (int i = 10; i < 40; i++) free(blocks[i]);
    static char target[4096];
    uintptr_t fake = (uintptr_t)(target + 2048) & ~(uintptr_t)63;
    for (int i = 10; i < 40; i++)
        for (int word = 0; word < 2; word++) ((volatile uintptr_t *)blocks[i])[word] = fake;
    for (int i = 0; i < 4000; i++) {
        char *block = malloc(64);
        /* The attacker has won: the allocator handed out memory of the attacker's choice. */
        if (block >= target && block < target + sizeof target) _exit(0);
        keep = block;
        /* Some look only when a block leaves their quarantine, which frees move along. */
        for (int churn = 0; churn < 8; churn++) {
            void *passing = malloc(64);
            keep = passing;
            free(passing);
        }
    }
}

/* One word past the usable size, then the block and its neighbours are freed. */
void protect_overrun(void) {
    char *blocks[64];
    for (int i = 0; i < 64; i++) blocks[i] = malloc(40);
    for (int i = 8; i < 56; i++) {
        size_t end = malloc_usable_size(blocks[i]);
        volatile char *past = blocks[i] + end;
        for (int at = 0; at < 8; at++) past[at] = 0x5A;
    }
    for (int i = 0; i < 64; i++) free(blocks[i]);
    for (int i = 0; i < 500; i++) keep = malloc(40);
}

/* Free of what malloc never gave. */
void protect_invalid_free(void) {
    char *block = malloc(256);
    keep = block;
    free((char *)keep + 32);
    for (int i = 0; i < 200; i++) keep = malloc(256);
}

/* Not misuse: whether the next address can be foretold. Exit code 0 when it can. */
void protect_order(void) {
    uintptr_t before = (uintptr_t)malloc(64), steps[64];
    for (int i = 0; i < 64; i++) {
        uintptr_t block = (uintptr_t)malloc(64);
        steps[i] = block - before;
        before = block;
    }
    int same = 0;
    for (int i = 1; i < 64; i++) same += steps[i] == steps[i - 1];
    /* 63 steps; a page or a slab may end now and then. */
    if (same >= 48) return;
    DEFECT("order");
}
