// Every function of the malloc family, with blocks kept and given back, and odd sizes.
#define _GNU_SOURCE
#include "truth.h"
#include <errno.h>
#include <stdint.h>
#include <wchar.h>

static void *kept[64];
static int count;

static void keep(void *block) {
    MUST(block);
    memset(block, 0xa5, malloc_usable_size(block));
    kept[count++] = took(block);
}

int main(void) {
    mark();
    for (int round = 0; round < 3; round++) {
        keep(malloc(100));
        keep(calloc(10, 100));
        keep(realloc(NULL, 100));
        keep(reallocarray(NULL, 100, 10));
        keep(memalign(64, 100));
        keep(aligned_alloc(256, 512));
        void *aligned = NULL;
        MUST(posix_memalign(&aligned, 4096, 5000) == 0 && (uintptr_t)aligned % 4096 == 0);
        keep(aligned);
        keep(valloc(100));
        keep(strdup("a string that is copied"));
        keep(wcsdup(L"a wide one"));
        char *line = NULL;
        MUST(asprintf(&line, "%d bottles and %s", 99, "a long enough text to grow over") > 0);
        keep(line);
        keep(malloc(3 << 20));
    }
    void *none = malloc(0);
    free(none);
    free(NULL);
    void *grown = took(malloc(10));
    for (int bytes = 10; bytes < 100000; bytes = bytes * 3 / 2) {
        gives(grown);
        grown = took(realloc(grown, bytes));
        MUST(grown);
    }
    errno = 77;
    free(gives(grown));
    MUST(errno == 77);
    for (int at = 0; at < count; at += 2) {
        free(gives(kept[at]));
    }
    mark();
    return 0;
}
