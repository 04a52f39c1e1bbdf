/* One thread: where blocks lie, how large they are, whether they come back. */
#include "probes.h"

#define LIVE 512
#define CALLS 400000

/* Who frees a block must have made it: an allocator that leaves one of these calls to libc frees
 * blocks that it never gave. pvalloc is left out: sound allocators lack it, and nobody calls it. */
void probe_symbols(void) {
    static const char *const family[] = {"free",          "calloc",         "realloc",
                                         "memalign",      "posix_memalign", "aligned_alloc",
                                         "valloc",        "malloc_usable_size"};
    Dl_info libc, base, other;
    void *answers = dlsym(RTLD_DEFAULT, "malloc"), *system = dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
    if (!answers || !system || !dladdr(answers, &base) || !dladdr(system, &libc))
        CANNOT("the loader does not say where malloc leads");
    for (size_t i = 0; i < sizeof family / sizeof family[0]; i++) {
        void *found = dlsym(RTLD_DEFAULT, family[i]);
        if (!found || !dladdr(found, &other)) DEFECT("nobody answers %s", family[i]);
        if (other.dli_fbase == libc.dli_fbase && base.dli_fbase != libc.dli_fbase)
            DEFECT("%s is missing: it leads into %s, and malloc into %s", family[i], other.dli_fname,
                   base.dli_fname);
    }
}

/* Every size up to 4 KiB, then ever larger ones: the first and last bytes can be written. */
void probe_sizes(void) {
    for (size_t size = 0; size < (size_t)64 << 20; size += size < 4096 ? 1 : size / 5) {
        doing("blocks of every size are taken and given back");
        unsigned char *block = malloc(hidden(size));
        if (!block && size) DEFECT("malloc(%zu) returned nothing", size);
        size_t edge = size < 64 ? size : 64;
        if (block) fill(block, edge, 1), fill(block + size - edge, edge, 2);
        unsigned char *other = malloc(hidden(size));
        if (!other && size) DEFECT("a second malloc(%zu) returned nothing", size);
        if (other) memset(other, 0, edge), memset(other + size - edge, 0, edge);
        if (block && size >= 128 && !filled(block, edge, 1))
            DEFECT("writing one block of %zu bytes changed another", size);
        if (block && !filled(block + size - edge, edge, 2))
            DEFECT("writing one block of %zu bytes changed another", size);
        free(block), free(other);
    }
    free(NULL);
}

static size_t misaligned, short_usable, calls;
static size_t first_alignment, first_size;
static const char *first_call;

/* A block of one of the calls that align; one in eight is a plain block, aligned for any type. */
static void *take(uint64_t *random, size_t alignment, size_t size) {
    void *block = NULL;
    const char *call = "memalign";
    switch (below(random, 8)) {
    case 0:
    case 1: /* C lets it refuse a size that is no multiple of the alignment; scudo does. */
        if (size % alignment == 0) call = "aligned_alloc";
        block = size % alignment ? memalign(alignment, size) : aligned_alloc(alignment, size);
        break;
    case 2:
    case 3: call = "posix_memalign";
        if (posix_memalign(&block, alignment, size)) block = NULL;
        break;
    case 4: call = "malloc", block = malloc(size), alignment = size < 16 ? 8 : 16; break;
    case 5: call = "calloc", block = calloc(1, size), alignment = size < 16 ? 8 : 16; break;
    default: block = memalign(alignment, size);
    }
    if (!block) DEFECT("%s gave no block of %zu bytes aligned to %zu", call, size, alignment);
    calls++;
    if ((uintptr_t)block % alignment && !misaligned++)
        first_alignment = alignment, first_size = size, first_call = call;
    if (malloc_usable_size(block) < size) short_usable++;
    return block;
}

static void align_pages(void) {
    void *page = valloc(100);
    if (!page) DEFECT("valloc gave no block");
    if ((uintptr_t)page % (size_t)sysconf(_SC_PAGESIZE)) DEFECT("valloc is not aligned to a page");
    free(page);
}

/* Alignments of 16 to 64 KiB; half of the sizes are multiples of the alignment, where some
 * allocators take a shorter way. Large alignments are rarer: they are what costs memory. */
void probe_alignment(void) {
    static void *live[LIVE];
    uint64_t random = seed;
    doing("aligned blocks are taken and given back");
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
        DEFECT("%zu of %zu calls returned a misaligned block, the first by %s of %zu bytes aligned "
               "to %zu",
               misaligned, calls, first_call, first_size, first_alignment);
    if (short_usable)
        DEFECT("%zu of %zu aligned blocks have a usable size below what was asked for",
               short_usable, calls);
    align_pages();
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
    doing("aligned and plain blocks are mixed");
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

/* A block by one of four ways, and how that way is called. */
static unsigned char *any_way(uint64_t *random, size_t size, const char **call) {
    switch (below(random, 4)) {
    case 0: *call = "calloc"; return calloc(1, size);
    case 1: *call = "realloc"; return realloc(malloc(1 + below(random, 200)), size);
    case 2: *call = "memalign"; return memalign(64, size);
    default: *call = "malloc"; return malloc(size);
    }
}

/* All of the usable size may be written, and no neighbour feels it. */
void probe_usable(void) {
    static unsigned char *live[LIVE];
    static size_t usable[LIVE];
    uint64_t random = seed;
    doing("all of the usable size of each block is written");
    for (unsigned i = 0; i < LIVE; i++) {
        size_t size = (size_t)1 << below(&random, 18);
        size += below(&random, size);
        const char *call = "";
        live[i] = any_way(&random, size, &call);
        if (!live[i]) DEFECT("no block of %zu bytes from %s", size, call);
        usable[i] = malloc_usable_size(live[i]);
        if (usable[i] < size)
            DEFECT("a block of %zu bytes from %s has a usable size of %zu", size, call, usable[i]);
        if ((uintptr_t)live[i] % (size >= 16 ? 16 : 8))
            DEFECT("a block of %zu bytes from %s is misaligned: %p", size, call, (void *)live[i]);
        fill(live[i], usable[i], i);
    }
    for (unsigned i = 0; i < LIVE; i++)
        if (!filled(live[i], usable[i], i))
            DEFECT("writing the usable size of one block changed another, of %zu bytes", usable[i]);
    doing("blocks whose usable size was written are freed");
    for (unsigned i = 0; i < LIVE; i++) free(live[i]);
    if (malloc_usable_size(NULL)) DEFECT("the usable size of NULL is not 0");
}

/* Pages of this process in RAM. */
static size_t resident_bytes(void) {
    static char text[200];
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file) CANNOT("/proc/self/statm cannot be read");
    size_t whole = 0, resident = 0;
    if (!fgets(text, sizeof text, file) || sscanf(text, "%zu %zu", &whole, &resident) != 2)
        CANNOT("/proc/self/statm cannot be read");
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

#define MIB ((size_t)1 << 20)
#define ROUND (2 * MIB)

/* Takes and frees 2 MiB in blocks of one size. */
static void pass(size_t size) {
    static unsigned char *kept[50000];
    size_t count = ROUND / size;
    for (size_t i = 0; i < count; i++) {
        if (!(kept[i] = malloc(size))) DEFECT("no block of %zu bytes, with all others freed", size);
        memset(kept[i], 1, size);
    }
    for (size_t i = 0; i < count; i++) free(kept[i]);
}

/* 64 MiB of each size pass through, 2 MiB at a time: what keeps 48 MiB of them hands nothing out
 * again; the sound ones, quarantines included, keep less than 8. Four rounds tell enough where nothing
 * grows: an allocator that asks the kernel for each block is slow. */
void probe_reuse(void) {
    static const size_t sizes[] = {48, 700, 5000, 40000, 300000, 2000000};
    doing("blocks are freed and taken again");
    for (size_t kind = 0; kind < sizeof sizes / sizeof sizes[0]; kind++) {
        pass(sizes[kind]);
        size_t before = resident_bytes();
        for (int round = 2; round <= 32; round++) {
            pass(sizes[kind]);
            size_t now = resident_bytes();
            if (now > before + 48 * MIB)
                DEFECT("free gives nothing back: %zu MiB more are resident after %d MiB of blocks of "
                       "%zu bytes were taken and freed",
                       (now - before) / MIB, round * 2, sizes[kind]);
            if (round >= 4 && now < before + MIB) break;
        }
    }
}
