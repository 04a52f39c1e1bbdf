// A log shipper with a ring of 512 KB from mmap for each client. When a client leaves, only the length of the header
// is unmapped.
#include "../common.h"
#include <sys/mman.h>

#define RING (512 * 1024)
struct ring {
    uint64_t head, tail;
    char pad[4096 - 16];
    char data[];
};

NOINLINE struct ring *ring_attach(void) {
    struct ring *r = mmap(0, RING, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (r == MAP_FAILED)
        abort();
    r->head = r->tail = 0;
    return r;
}

NOINLINE void ring_detach(struct ring *r) {
    munmap(r, sizeof *r);
}

static void ring_write(struct ring *r, size_t n) {
    while (n--) {
        r->data[r->head % (RING - sizeof *r)] = n;
        r->head += 128;
    }
}

int main(void) {
    static struct ring *cl[12];
    static char *line[20000];
    double t0 = now(), next = 0;
    unsigned n = 0;
    for (int i = 0; i < 12; i++)
        cl[i] = ring_attach();
    ready();
    for (;;) {
        for (int i = 0; i < 12; i++)
            ring_write(cl[i], 60);
        if (now() - t0 > next) {
            next += 0.35 + swing(now() - t0, 15) * 0.2;
            struct ring **r = &cl[n++ % 12];
            ring_write(*r, RING / 128);
            ring_detach(*r);
            *r = ring_attach();
        }
        for (int k = 0; k < 40; k++) {
            unsigned i = rnd() % 20000;
            free(line[i]);
            line[i] = malloc(rng(100, 1200));
            memset(line[i], 1, 100);
        }
        nap(20);
    }
}
