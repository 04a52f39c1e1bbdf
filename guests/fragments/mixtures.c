// Allocation in every order: calls, sizes and lifetimes are drawn from a seed, in one thread and among several.
#include "guest.h"
#include <malloc.h>
#include <obstack.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct draw { unsigned long state; };

static unsigned long drawn(struct draw *draw, unsigned long below) {
    draw->state = draw->state * 6364136223846793005UL + 1442695040888963407UL;
    return (draw->state >> 33) % below;
}

// Small sizes are more frequent than large ones, as in real programs.
static size_t drawn_size(struct draw *draw, unsigned long most) {
    unsigned long size = 1 + drawn(draw, most);
    return drawn(draw, 8) ? 1 + drawn(draw, size) % 2000 : size;
}

struct slot { unsigned char *block; size_t bytes; unsigned char mark; };

static void fill(struct slot *slot, struct draw *draw) {
    slot->mark = (unsigned char)drawn(draw, 255);
    slot->block[0] = slot->block[slot->bytes / 2] = slot->block[slot->bytes - 1] = slot->mark;
}

static long faults_of(const struct slot *slot) {
    if (!slot->block) return 0;
    return slot->block[0] != slot->mark || slot->block[slot->bytes / 2] != slot->mark
        || slot->block[slot->bytes - 1] != slot->mark;
}

static void *allocated(struct draw *draw, size_t bytes) {
    size_t alignment = 16UL << drawn(draw, 9);
    void *block = NULL;
    switch (drawn(draw, 8)) {
    case 0: return calloc(1, bytes);
    case 1: return calloc(bytes, 1);
    case 2: return posix_memalign(&block, alignment, bytes) ? NULL : block;
    case 3: return memalign(alignment, bytes);
    case 4: return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    case 5: return realloc(NULL, bytes);
    default: return malloc(bytes);
    }
}

// Frees, resizes or replaces one block. The faults it found.
static long change(struct slot *slot, struct draw *draw, unsigned long most) {
    long faults = faults_of(slot);
    unsigned long action = drawn(draw, 4);
    size_t bytes = drawn_size(draw, most);
    if (slot->block && action == 0) {
        unsigned char *moved = drawn(draw, 2) ? realloc(slot->block, bytes) : reallocarray(slot->block, bytes, 1);
        if (!moved) return faults;
        faults += moved[0] != slot->mark;
        *slot = (struct slot){moved, bytes, 0};
    } else {
        free(slot->block);
        slot->block = action == 1 ? NULL : allocated(draw, bytes);
        slot->bytes = bytes;
    }
    if (slot->block) fill(slot, draw);
    return faults;
}

static long mix(unsigned long seed, long steps, unsigned long most) {
    enum { SLOTS = 100 };
    struct slot slots[SLOTS] = {{0}};
    struct draw draw = {seed};
    long faults = 0;
    for (long step = 0; step < steps; step++) faults += change(&slots[drawn(&draw, SLOTS)], &draw, most);
    for (int each = 0; each < SLOTS; each++) {
        faults += faults_of(&slots[each]);
        free(slots[each].block);
    }
    return faults;
}

// step mixed(seed: 1..1000000, steps: 20..3000, most: 100 5000 1..300000)
void mixed(long seed, long steps, long most) { say("mixed: %ld faults", mix(seed, steps, most)); }

struct mixing { long seed, steps, most, faults; };

static void *mixing_thread(void *given) {
    struct mixing *mixing = given;
    mixing->faults = mix(mixing->seed, mixing->steps, mixing->most);
    return NULL;
}

// step mixed_in_threads(seed: 1..1000000, threads: 2 3 8, steps: 20..2000, most: 100 1..100000)
void mixed_in_threads(long seed, long threads, long steps, long most) {
    pthread_t made[8];
    struct mixing mixing[8];
    long started = 0, faults = 0;
    for (long each = 0; each < threads; each++) {
        mixing[started] = (struct mixing){seed + each, steps, most, 0};
        started += pthread_create(&made[started], NULL, mixing_thread, &mixing[started]) == 0;
    }
    for (long each = 0; each < started; each++) {
        pthread_join(made[each], NULL);
        faults += mixing[each].faults;
    }
    say("mixed_in_threads: %ld faults", faults);
}

// A queue: blocks are freed by other threads than those that made them.
enum { QUEUE = 32 };
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct slot slots[QUEUE];
    long held, left, faults;
    unsigned long bytes;
} queue = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};

static void *consume(void *unused) {
    (void)unused;
    pthread_mutex_lock(&queue.lock);
    while (queue.left > 0) {
        if (queue.held == 0) {
            pthread_cond_wait(&queue.changed, &queue.lock);
            continue;
        }
        struct slot slot = queue.slots[--queue.held];
        queue.left--;
        queue.bytes += slot.bytes;
        queue.faults += faults_of(&slot);
        pthread_cond_broadcast(&queue.changed);
        pthread_mutex_unlock(&queue.lock);
        free(slot.block);
        pthread_mutex_lock(&queue.lock);
    }
    pthread_cond_broadcast(&queue.changed);
    pthread_mutex_unlock(&queue.lock);
    return NULL;
}

// step passed_on(seed: 1..1000000, consumers: 1 3, blocks: 10..1000, most: 100 1..100000)
void passed_on(long seed, long consumers, long blocks, long most) {
    pthread_t made[3];
    struct draw draw = {seed};
    long started = 0;
    queue.held = queue.faults = queue.bytes = 0;
    queue.left = blocks;
    for (long each = 0; each < consumers; each++) started += pthread_create(&made[started], NULL, consume, NULL) == 0;
    for (long each = 0; started && each < blocks; each++) {
        struct slot slot = {NULL, drawn_size(&draw, most), 0};
        if ((slot.block = malloc(slot.bytes))) fill(&slot, &draw);
        pthread_mutex_lock(&queue.lock);
        while (queue.held == QUEUE) pthread_cond_wait(&queue.changed, &queue.lock);
        queue.slots[queue.held++] = slot;
        pthread_cond_broadcast(&queue.changed);
        pthread_mutex_unlock(&queue.lock);
    }
    for (long each = 0; each < started; each++) pthread_join(made[each], NULL);
    say("passed_on: %lu bytes, %ld faults", queue.bytes, queue.faults);
}

// step patterns(order: 0 1 2 3, count: 10..2000, bytes: 16 1..20000, rounds: 1 4)
void patterns(long order, long count, long bytes, long rounds) {
    void **blocks = calloc(count, sizeof *blocks);
    struct draw draw = {count};
    long got = 0;
    for (long round = 0; blocks && round < rounds; round++) {
        for (long each = 0; each < count; each++) got += (blocks[each] = malloc(bytes)) != NULL;
        for (long each = 0; each < count; each++) {
            // In order, in reverse, even ones first, at random.
            long place = order == 0 ? each : order == 1 ? count - 1 - each : order == 2 ? each * 2 % (count | 1) : 0;
            if (order == 3) place = (long)drawn(&draw, count);
            if (place >= count) continue;
            free(blocks[place]);
            blocks[place] = NULL;
        }
        for (long each = 0; each < count; each++) free(blocks[each]);
    }
    free(blocks);
    say("patterns: %ld", got);
}

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free

static long in_obstack(struct draw *draw, long count) {
    struct obstack stack;
    long bytes = 0;
    obstack_init(&stack);
    for (long each = 0; each < count; each++) {
        size_t size = drawn_size(draw, 20000);
        memset(obstack_alloc(&stack, size), 1, size);
        bytes += size;
        if (drawn(draw, 50) == 0) {
            obstack_free(&stack, NULL);
            obstack_init(&stack);
        }
    }
    obstack_free(&stack, NULL);
    return bytes;
}

// An allocator of the program's own: pages from the kernel or from malloc, cut into blocks of one size.
static long in_pages(struct draw *draw, long count, int is_mapped) {
    enum { PAGE = 65536, BLOCK = 64 };
    struct page { struct page *next; } *pages = NULL;
    void **free_blocks = NULL;
    long used = 0;
    for (long each = 0; each < count; each++) {
        if (!free_blocks) {
            char *page = is_mapped ? mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                   : memalign(PAGE, PAGE);
            if (!page || page == MAP_FAILED) break;
            ((struct page *)page)->next = pages;
            pages = (struct page *)page;
            for (long at = BLOCK; at < PAGE; at += BLOCK) {
                *(void **)(page + at) = free_blocks;
                free_blocks = (void **)(page + at);
            }
        }
        void **block = free_blocks;
        free_blocks = *block;
        used++;
        if (drawn(draw, 3) == 0) *block = free_blocks, free_blocks = block;
    }
    while (pages) {
        struct page *next = pages->next;
        if (is_mapped) munmap(pages, PAGE);
        else free(pages);
        pages = next;
    }
    return used;
}

// step own_allocator(kind: 0 1 2, seed: 1..100000, count: 10..5000)
void own_allocator(long kind, long seed, long count) {
    struct draw draw = {seed};
    long result = kind == 0 ? in_obstack(&draw, count) : in_pages(&draw, count, kind == 1);
    say("own_allocator: %ld", result);
}
