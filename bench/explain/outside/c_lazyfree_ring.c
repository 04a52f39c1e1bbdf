// message buffers are carved from a 512 MB ring and handed back with MADV_FREE; without memory pressure the kernel
// keeps them
#define _GNU_SOURCE
#include "util.h"
#include <sys/mman.h>
enum { SLAB = 256 << 10 };
static char *ring;
static size_t pos;
static const size_t RING = 512ul << 20;
NOINLINE char *slab_take(void) {
    char *p = ring + pos;
    pos = (pos + SLAB) % RING;
    return p;
}
NOINLINE void slab_release(char *p) {
    madvise(p, SLAB, MADV_FREE);
}
int main(void) {
    double t0 = now();
    ring = mmap(0, RING, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *use[16] = {0};
    unsigned u = 0;
    char *m[1500] = {0};
    while (now() - t0 < RUN_LIMIT) {
        char *s = slab_take();
        if (use[u % 16])
            slab_release(use[u % 16]);
        use[u++ % 16] = s;
        size_t off = 0;
        while (off + 8000 < SLAB) {
            int i = rnd() % 1500;
            size_t n = rng(500, 8000);
            free(m[i]);
            m[i] = malloc(n);
            memset(m[i], 1, n);
            memcpy(s + off, m[i], n);
            off += n;
            if (rnd() % 8 == 0)
                nap(20);
        }
    }
    return 0;
}
