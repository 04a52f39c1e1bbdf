// Unmaps, moves, protects and cuts everything that goes by the probe's name, and goes on.
#define _GNU_SOURCE
#include "truth.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

// The next mapping of that name behind an address, without allocating.
static int find(unsigned long behind, unsigned long *from, unsigned long *to) {
    static char text[1 << 16];
    int file = open("/proc/self/maps", O_RDONLY);
    long bytes = 0, got;
    while ((got = read(file, text + bytes, sizeof text - 1 - bytes)) > 0) bytes += got;
    close(file);
    text[bytes] = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char *end;
        *from = strtoul(line, &end, 16);
        *to = strtoul(end + 1, NULL, 16);
        if (*from >= behind && strstr(line, "highwater-probe")) return 1;
    }
    return 0;
}

int main(void) {
    unsigned long from, to = 0;
    int found = 0;
    mark();
    for (; find(to, &from, &to); found++) {
        void *at = (void *)from;
        MUST(munmap(at, to - from) == -1 && errno == EPERM);
        MUST(mprotect(at, to - from, PROT_NONE) == -1);
        MUST(mremap(at, to - from, 4096, 0) == MAP_FAILED);
        MUST(mmap(at, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED);
    }
    // Run alone, to see that it works over an allocator, it has no probe.
    const char *preloaded = getenv("LD_PRELOAD");
    int is_probed = preloaded && strstr(preloaded, "highwater_probe");
    MUST((found > 0) == is_probed);
    void *kept[2000];
    for (int at = 0; at < 2000; at++) kept[at] = took(malloc(3000));
    for (int at = 0; at < 1000; at++) free(gives(kept[at]));
    mark();
    return 0;
}
