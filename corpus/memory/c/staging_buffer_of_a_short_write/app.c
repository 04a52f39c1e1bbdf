// A block store with aligned staging buffers. After a short write the block is staged again, and the first buffer is
// not freed.
#include "../common.h"

#define INFLIGHT 160
#define CACHE 8000
struct io {
    void *buf;
    size_t n;
};
static void *cache[CACHE];

NOINLINE void *stage_block(size_t n) {
    void *p = 0;
    if (posix_memalign(&p, 4096, n))
        abort();
    memset(p, 0x11, n);
    return p;
}

NOINLINE void *cache_block(void) {
    char *p = malloc(4096);
    memset(p, 1, 4096);
    return p;
}

NOINLINE void submit_block(struct io *io) {
    io->n = rng(4, 20) * 4096;
    io->buf = stage_block(io->n);
    if (rnd() % 4 == 0) /* short write: the tail goes again from the start */
        io->buf = stage_block(io->n);
}

int main(void) {
    static struct io q[INFLIGHT];
    double t0 = now();
    unsigned n = 0;
    for (int i = 0; i < CACHE; i++)
        cache[i] = cache_block();
    ready();
    for (;;) {
        struct io *io = &q[n++ % INFLIGHT];
        free(io->buf);
        submit_block(io);
        for (int k = 0; k < 5; k++) {
            unsigned i = rnd() % CACHE;
            free(cache[i]);
            cache[i] = cache_block();
        }
        nap(15 + (int)(swing(now() - t0, 16) * 20));
    }
}
