// archive checker: maps one large file read-only and goes through it from front to back
#define _GNU_SOURCE
#include "work.h"
#include <fcntl.h>
#include <sys/mman.h>
int main(void) {
    size_t n = 420l << 20;
    char name[64], block[4096];
    snprintf(name, sizeof name, "scratch/archive-%d", getpid());
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || ftruncate(fd, n))
        return 1;
    unlink(name);
    memset(block, 'a', sizeof block);
    for (size_t at = 0; at < n; at += 1 << 20) /* sparse: a page in each MB is real */
        if (pwrite(fd, block, sizeof block, at) < 0)
            return 1;
    const volatile unsigned char *map = mmap(0, n, PROT_READ, MAP_PRIVATE, fd, 0);
    double t0 = now();
    unsigned sum = 0;
    size_t at = 0;
    while (now() - t0 < RUN_LIMIT) {
        for (; at < (size_t)((now() - t0) * 2.7e6) && at < n; at += 512)
            sum = sum * 33 + map[at];
        bystanders(60);
        truth();
        nap(10);
    }
    return sum == 1;
}
