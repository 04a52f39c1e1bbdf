// Blocks outlive the threads that made them: nobody else gets them, and any thread may free them.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef ROUNDS
#define ROUNDS 2000
#endif
#define SLOTS 1024

struct block {
    size_t size, self;
    unsigned char data[];
};

static struct block *slots[SLOTS];

static void look(struct block *block) {
    int whole = block->self == (size_t)block && block->size < 60000;
    for (size_t i = 0; whole && i < block->size; i++)
        whole = block->data[i] == (unsigned char)block->self;
    if (whole) return;
    printf("the block at %p was changed by somebody else while it was live\n", (void *)block);
    fflush(stdout);
    _Exit(1);
}

static void *brief(void *number) {
    unsigned random = (unsigned)(size_t)number;
    for (int i = 0; i < 64; i++) {
        random = random * 1664525u + 1013904223u;
        size_t size = (random >> 8) % (i % 16 ? 512 : 50000);
        struct block *block;
        if (i % 8) block = malloc(sizeof *block + size);
        else if (posix_memalign((void **)&block, 64, sizeof *block + size)) return NULL;
        block->size = size, block->self = (size_t)block;
        memset(block->data, (unsigned char)block->self, size);
        block = __atomic_exchange_n(&slots[(random >> 10) % SLOTS], block, __ATOMIC_ACQ_REL);
        if (!block) continue;
        look(block);
        block->self = 0;
        free(block);
    }
    return NULL;
}

int main(void) {
    for (size_t round = 0; round < ROUNDS; round++) {
        pthread_t threads[4];
        for (size_t i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, brief, (void *)(round * 4 + i + 1));
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    }
    return 0;
}
