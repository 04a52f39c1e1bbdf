/* The edges of the interface: sizes that cannot be, realloc, calloc, early and late use. */
#include "probes.h"

static const size_t impossible[] = {SIZE_MAX, SIZE_MAX - 4096, (size_t)1 << 63,
                                    (size_t)PTRDIFF_MAX + 1};

/* What cannot be had must be refused: a small block in its place is memory corruption to come. */
void probe_oversize(void) {
    doing("sizes that cannot be had are asked for");
    for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++) {
        size_t size = hidden(impossible[i]);
        if (malloc(size)) DEFECT("malloc(%#zx) returned a block", size);
        if (calloc(1, size)) DEFECT("calloc(1, %#zx) returned a block", size);
        if (memalign(64, size)) DEFECT("memalign(64, %#zx) returned a block", size);
        void *block = malloc(100), *moved = realloc(block, size);
        if (moved) DEFECT("realloc to %#zx bytes returned a block", size);
        free(block);
        if (!posix_memalign(&block, 64, size))
            DEFECT("posix_memalign(64, %#zx) returned a block", size);
    }
    static const size_t pairs[][2] = {
        {SIZE_MAX, 2},
        {2, SIZE_MAX},
        {(size_t)1 << 32, (size_t)1 << 32},
        {SIZE_MAX / 16 + 2, 16},
        {((size_t)1 << 63) + 1, 2},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        size_t count = hidden(pairs[i][0]), size = hidden(pairs[i][1]);
        if (calloc(count, size))
            DEFECT("calloc(%#zx, %#zx) overflowed and returned a block", count, size);
        if (reallocarray(NULL, count, size))
            DEFECT("reallocarray(NULL, %#zx, %#zx) overflowed and returned a block", count, size);
    }
}

/* POSIX: who refuses, says ENOMEM. */
void probe_errno(void) {
    doing("sizes that cannot be had are asked for");
    for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++) {
        size_t size = hidden(impossible[i]);
        errno = 0;
        if (!malloc(size) && errno != ENOMEM)
            DEFECT("malloc(%#zx) refused with errno %d", size, errno);
        errno = 0;
        if (!calloc(size, 2) && errno != ENOMEM)
            DEFECT("calloc(%#zx, 2) refused with errno %d", size, errno);
        void *block = malloc(10);
        errno = 0;
        if (!realloc(block, size) && errno != ENOMEM)
            DEFECT("realloc to %#zx bytes refused with errno %d", size, errno);
        free(block);
    }
    void *block = (void *)1;
    errno = 7;
    int answer = posix_memalign(&block, 24, 100);
    if (answer != EINVAL)
        DEFECT("posix_memalign with an alignment of 24 answered %d, not EINVAL", answer);
}

/* Small, middle and large sizes in turn, a few of them in the megabytes. */
static size_t any_size(uint64_t *random, unsigned i) {
    if (i % 200 == 199) return (size_t)1 + below(random, (size_t)8 << 20);
    switch (below(random, 3)) {
    case 0: return 1 + below(random, 200);
    case 1: return 1 + below(random, 5000);
    default: return 1 + below(random, 150000);
    }
}

/* Sixteen blocks grow and shrink in turn, so that a move has neighbours to spoil. */
static void move_blocks(void) {
    static unsigned char *blocks[16];
    static size_t sizes[16];
    uint64_t random = seed;
    for (unsigned i = 0; i < 4000; i++) {
        unsigned at = (unsigned)below(&random, 16);
        size_t had = sizes[at], wanted = any_size(&random, i);
        unsigned char *moved = realloc(blocks[at], wanted);
        if (!moved) DEFECT("realloc to %zu bytes gave nothing", wanted);
        if (!filled(moved, had < wanted ? had : wanted, at))
            DEFECT("realloc from %zu to %zu bytes lost data", had, wanted);
        if (malloc_usable_size(moved) < wanted) DEFECT("realloc to %zu bytes gave fewer", wanted);
        if ((uintptr_t)moved % (wanted >= 16 ? 16 : 8))
            DEFECT("realloc to %zu bytes gave a misaligned block", wanted);
        blocks[at] = moved, sizes[at] = wanted;
        fill(moved, wanted, at);
    }
    for (unsigned at = 0; at < 16; at++) {
        if (!filled(blocks[at], sizes[at], at)) DEFECT("realloc of one block changed another");
        free(blocks[at]);
    }
}

/* Contents survive every move; NULL and 0 behave as C says. */
void probe_realloc(void) {
    doing("blocks grow and shrink by realloc");
    move_blocks();
    doing("aligned blocks grow by realloc");
    for (size_t alignment = 64; alignment <= 65536; alignment *= 4) {
        unsigned char *aligned = memalign(alignment, 500);
        if (!aligned) DEFECT("no block aligned to %zu", alignment);
        fill(aligned, 500, 9);
        aligned = realloc(aligned, 100000);
        if (!aligned || !filled(aligned, 500, 9))
            DEFECT("realloc of a block aligned to %zu lost data", alignment);
        free(aligned);
    }
    doing("realloc is asked for what cannot be had, and for 0");
    unsigned char *block = malloc(3000);
    if (!block) DEFECT("no block of 3000 bytes");
    fill(block, 3000, 4);
    unsigned char *unchanged = realloc(block, hidden(SIZE_MAX));
    if (!unchanged && !filled(block, 3000, 4)) DEFECT("a refused realloc changed the block");
    if (!unchanged) free(realloc(block, hidden(0)));
}

/* A block of `size` bytes as some number of equal parts. */
static unsigned char *zeroed(uint64_t *random, size_t *size) {
    size_t parts = below(random, 2) ? 1 : 1 + below(random, 64);
    size_t each = *size / parts + 1;
    *size = parts * each;
    return below(random, 2) ? calloc(parts, each) : calloc(each, parts);
}

/* Zero, also where dirty blocks were freed before; two blocks of 0 bytes are not the same. */
void probe_calloc(void) {
    uint64_t random = seed;
    doing("zeroed blocks are taken where dirty ones were");
    for (int i = 0; i < 4000; i++) {
        size_t size = 1 + below(&random, below(&random, 50) ? 4000 : 500000);
        if (i % 500 == 499) size = (size_t)1 + below(&random, (size_t)4 << 20);
        unsigned char *dirty = malloc(size + 64);
        if (!dirty) DEFECT("no block of %zu bytes", size);
        memset(dirty, 0xA5, size + 64);
        free(dirty);
        unsigned char *clean = zeroed(&random, &size);
        if (!clean) DEFECT("no zeroed block of %zu bytes", size);
        for (size_t at = 0; at < size; at++)
            if (clean[at])
                DEFECT("calloc of %zu bytes is not zero: byte %zu is %#x", size, at, clean[at]);
        memset(clean, 0x5A, size);
        if (i % 8) free(clean);
    }
    void *one = malloc(hidden(0)), *two = malloc(hidden(0));
    if (one && one == two) DEFECT("malloc(0) returned the same block twice");
    free(one), free(two), free(NULL);
}

static unsigned char *early_block;
static int early_kept;

static void before_all(void) {
    early_block = malloc(1000);
    if (early_block) fill(early_block, 1000, 5);
    void *gone = malloc(50);
    free(gone);
}
/* Runs before the constructors of every library, the allocator's among them. */
__attribute__((section(".preinit_array"), used)) static void (*at_preinit)(void) = before_all;

__attribute__((constructor)) static void before_main(void) {
    early_kept = early_block && filled(early_block, 1000, 5);
}

static void at_the_end(void) {
    unsigned char *late = malloc(1000);
    if (!late) DEFECT("no block after main");
    free(late);
}

/* Blocks of before the first constructor stay whole and can be freed in main; exit may allocate. */
void probe_early(void) {
    doing("blocks of before main are used");
    if (!early_kept) DEFECT("a block of before the first constructor was lost or changed");
    early_block = realloc(early_block, 5000);
    if (!early_block || !filled(early_block, 1000, 5)) DEFECT("an early block could not grow");
    free(early_block);
    atexit(at_the_end);
}

/* A library that comes late shares the heap: its blocks are freed here, ours there. */
void probe_dlopen(void) {
    doing("a library is opened, used and closed");
    for (int i = 0; i < 20; i++) {
        void *library = dlopen("./plugin.so", RTLD_NOW | RTLD_LOCAL);
        if (!library) CANNOT("the plug-in cannot be opened: %s", dlerror());
        unsigned char *(*give)(size_t) = (unsigned char *(*)(size_t))dlsym(library, "give");
        int (*take)(unsigned char *, size_t) =
            (int (*)(unsigned char *, size_t))dlsym(library, "take");
        if (!give || !take) CANNOT("the plug-in lacks its functions");
        unsigned char *theirs = give(3000), *ours = malloc(3000);
        if (!theirs || !ours) DEFECT("no block beside an opened library");
        memset(ours, 7, 3000);
        for (int at = 0; at < 3000; at++)
            if (theirs[at] != 3) DEFECT("a block of an opened library changed");
        if (take(ours, 3000)) DEFECT("a block changed on its way into an opened library");
        free(theirs);
        dlclose(library);
    }
}
