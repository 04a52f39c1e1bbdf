/* The edges of the interface: sizes that cannot be, realloc, calloc, early and late use. */
#include "probes.h"

static const size_t impossible[] = {SIZE_MAX, SIZE_MAX - 4096, (size_t)1 << 63,
                                    (size_t)PTRDIFF_MAX + 1};

/* What cannot be had must be refused: a small block in its place is memory corruption to come. */
void probe_oversize(void) {
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

/* Contents survive every move; NULL and 0 behave as C says. */
void probe_realloc(void) {
    uint64_t random = seed;
    size_t size = 1;
    unsigned char *block = realloc(NULL, size);
    if (!block) DEFECT("realloc(NULL, 1) gave nothing");
    fill(block, size, 1);
    for (unsigned i = 2; i < 3000; i++) {
        size_t wanted = below(&random, 3) ? 1 + below(&random, 5000) : 1 + below(&random, 300000);
        unsigned char *moved = realloc(block, wanted);
        if (!moved) DEFECT("realloc to %zu bytes gave nothing", wanted);
        if (!filled(moved, size < wanted ? size : wanted, i - 1))
            DEFECT("realloc from %zu to %zu bytes lost data", size, wanted);
        if (malloc_usable_size(moved) < wanted) DEFECT("realloc to %zu bytes gave fewer", wanted);
        block = moved, size = wanted;
        fill(block, size, i);
    }
    for (size_t alignment = 64; alignment <= 65536; alignment *= 4) {
        unsigned char *aligned = memalign(alignment, 500);
        if (!aligned) DEFECT("no block aligned to %zu", alignment);
        fill(aligned, 500, 9);
        aligned = realloc(aligned, 100000);
        if (!aligned || !filled(aligned, 500, 9))
            DEFECT("realloc of a block aligned to %zu lost data", alignment);
        free(aligned);
    }
    unsigned char *unchanged = realloc(block, hidden(SIZE_MAX));
    if (!unchanged && !filled(block, size, 2999)) DEFECT("a refused realloc changed the block");
    free(realloc(block, hidden(0)));
}

/* Zero, also where dirty blocks were freed before; two blocks of 0 bytes are not the same. */
void probe_calloc(void) {
    uint64_t random = seed;
    for (int i = 0; i < 4000; i++) {
        size_t size = 1 + below(&random, below(&random, 50) ? 4000 : 500000);
        unsigned char *dirty = malloc(size);
        if (!dirty) DEFECT("no block of %zu bytes", size);
        memset(dirty, 0xA5, size);
        free(dirty);
        unsigned char *clean = calloc(1, size);
        if (!clean) DEFECT("no zeroed block of %zu bytes", size);
        for (size_t at = 0; at < size; at++)
            if (clean[at]) DEFECT("byte %zu of calloc(1, %zu) is %#x", at, size, clean[at]);
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
    if (!early_kept) DEFECT("a block of before the first constructor was lost or changed");
    early_block = realloc(early_block, 5000);
    if (!early_block || !filled(early_block, 1000, 5)) DEFECT("an early block could not grow");
    free(early_block);
    atexit(at_the_end);
}

/* A library that comes late shares the heap: its blocks are freed here, ours there. */
void probe_dlopen(void) {
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
