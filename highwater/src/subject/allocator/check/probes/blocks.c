/* One thread: where blocks lie and how large they are. */
#include "probes.h"

#define LIVE 512
#define CALLS 400000

static size_t misaligned, short_usable, calls_aligned;
static size_t first_alignment, first_size;

/* A block of one of the three calls that align. */
static void *take(uint64_t *random, size_t alignment, size_t size) {
    void *block = NULL;
    switch (below(random, 3)) {
    case 0: /* C lets it refuse a size that is no multiple of the alignment; scudo does. */
        block = size % alignment ? memalign(alignment, size) : aligned_alloc(alignment, size);
        break;
    case 1: block = memalign(alignment, size); break;
    default:
        if (posix_memalign(&block, alignment, size)) block = NULL;
    }
    if (!block) DEFECT("no block of %zu bytes aligned to %zu", size, alignment);
    calls_aligned++;
    if ((uintptr_t)block % alignment && !misaligned++)
        first_alignment = alignment, first_size = size;
    if (malloc_usable_size(block) < size) short_usable++;
    return block;
}

/* Alignments of 16 to 64 KiB; half of the sizes are multiples of the alignment, where some
 * allocators take a shorter way. Large alignments are rarer: they are what costs memory. */
void probe_alignment(void) {
    static void *live[LIVE];
    uint64_t random = seed;
    for (size_t call = 0; call < CALLS; call++) {
        void **slot = &live[below(&random, LIVE)];
        free(*slot);
        unsigned bits = 4 + (unsigned)below(&random, below(&random, 8) ? 9 : 13);
        size_t alignment = (size_t)1 << bits;
        size_t size = below(&random, 2) && bits < 13 ? alignment * (1 + below(&random, 4))
                                                     : 1 + below(&random, 4096);
        *slot = take(&random, alignment, size);
    }
    if (misaligned)
        DEFECT("%zu of %zu aligned calls returned a misaligned block, the first of %zu bytes "
               "aligned to %zu",
               misaligned, calls_aligned, first_size, first_alignment);
    if (short_usable)
        DEFECT("%zu of %zu aligned blocks have a usable size below what was asked for",
               short_usable, calls_aligned);
}

#define KEPT 4000

struct span {
    unsigned char *block;
    size_t size;
};

/* Shell's sort: qsort may allocate. */
static void sort(struct span *spans, size_t count) {
    for (size_t gap = count / 2; gap; gap /= 2)
        for (size_t i = gap; i < count; i++) {
            struct span moved = spans[i];
            size_t j = i;
            for (; j >= gap && spans[j - gap].block > moved.block; j -= gap)
                spans[j] = spans[j - gap];
            spans[j] = moved;
        }
}

/* Live blocks must not share a byte: aligned ones mixed with small ones that come and go. */
void probe_overlap(void) {
    static struct span live[KEPT];
    uint64_t random = seed;
    size_t short_blocks = 0;
    for (size_t i = 0; i < KEPT; i++) {
        for (int churn = 0; churn < 8; churn++) {
            unsigned char *passing = malloc(1 + below(&random, 2000));
            if (passing) passing[0] = 1;
            free(passing);
        }
        int aligned = below(&random, 2) == 0;
        size_t alignment = (size_t)256 << below(&random, 5);
        size_t size = 1 + below(&random, 2000);
        live[i].block = aligned ? memalign(alignment, size) : malloc(size);
        live[i].size = size;
        if (!live[i].block) DEFECT("no block of %zu bytes", size);
        if (malloc_usable_size(live[i].block) < size) short_blocks++;
        if (below(&random, 3) == 0) {
            size_t gone = below(&random, i + 1);
            free(live[gone].block);
            live[gone].block = malloc(live[gone].size = 1 + below(&random, 2000));
            if (!live[gone].block) DEFECT("no block of %zu bytes", live[gone].size);
        }
    }
    sort(live, KEPT);
    size_t overlaps = 0;
    for (size_t i = 1; i < KEPT; i++)
        if (live[i - 1].block + live[i - 1].size > live[i].block) overlaps++;
    if (overlaps)
        DEFECT(
            "%zu pairs of %d live blocks overlap; %zu have a usable size below what was asked for",
            overlaps, KEPT, short_blocks);
    if (short_blocks)
        DEFECT("%zu of %d blocks have a usable size below what was asked for", short_blocks, KEPT);
}

/* All of the usable size may be written, and no neighbour feels it. */
void probe_usable(void) {
    static unsigned char *live[LIVE];
    static size_t usable[LIVE];
    uint64_t random = seed;
    for (unsigned i = 0; i < LIVE; i++) {
        size_t size = (size_t)1 << below(&random, 18);
        size += below(&random, size);
        live[i] = malloc(size);
        if (!live[i]) DEFECT("no block of %zu bytes", size);
        usable[i] = malloc_usable_size(live[i]);
        if (usable[i] < size)
            DEFECT("a block of %zu bytes has a usable size of %zu", size, usable[i]);
        if ((uintptr_t)live[i] % (size >= 16 ? 16 : 8))
            DEFECT("a block of %zu bytes is not aligned for its size: %p", size, (void *)live[i]);
        fill(live[i], usable[i], i);
    }
    for (unsigned i = 0; i < LIVE; i++)
        if (!filled(live[i], usable[i], i))
            DEFECT("writing the usable bytes of one block changed another of %zu bytes", usable[i]);
    for (unsigned i = 0; i < LIVE; i++) free(live[i]);
    if (malloc_usable_size(NULL)) DEFECT("the usable size of NULL is not 0");
}
