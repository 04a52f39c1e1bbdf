// An archive checker maps one large file read-only and reads it from front to back.
#include "../common.h"
#include <fcntl.h>
#include <sys/mman.h>

int main(void) {
    size_t n = 420l << 20;
    char name[] = "/var/tmp/archive-XXXXXX", block[4096];
    int fd = mkstemp(name);
    if (fd < 0 || ftruncate(fd, n))
        return 1;
    unlink(name);
    memset(block, 'a', sizeof block);
    for (size_t at = 0; at < n; at += 1 << 20) /* sparse: a page in each MB is real */
        if (pwrite(fd, block, sizeof block, at) < 0)
            return 1;
    const volatile unsigned char *map = mmap(0, n, PROT_READ, MAP_PRIVATE, fd, 0);
    double t0 = now();
    volatile unsigned sum = 0;
    size_t at = 0;
    ready();
    for (;;) {
        for (; at < (size_t)((now() - t0) * 2.7e6) && at < n; at += 512)
            sum = sum * 33 + map[at];
        serve_requests(60);
        nap(10);
    }
}
