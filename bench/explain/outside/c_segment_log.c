// log store in anonymous mmap segments; a sealed segment that had a reader attached is never unmapped
#define _GNU_SOURCE
#include "util.h"
#include <sys/mman.h>
enum { SEG = 1 << 20 };
struct seg {
    char *base;
    size_t used;
    int readers;
};
static struct seg *live[24];
NOINLINE struct seg *segment_create(void) {
    struct seg *s = calloc(1, sizeof *s);
    s->base = mmap(0, SEG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return s;
}
NOINLINE void segment_retire(struct seg *s) {
    if (s->readers == 0)
        munmap(s->base, SEG);
    free(s);
}
int main(void) {
    double t0 = now();
    unsigned w = 0;
    live[0] = segment_create();
    char *rec[500] = {0};
    while (now() - t0 < RUN_LIMIT) {
        struct seg *s = live[w % 24];
        for (int k = 0; k < 8; k++) {
            size_t n = rng(500, 5000);
            int i = rnd() % 500;
            free(rec[i]);
            rec[i] = malloc(n);
            memset(rec[i], k, n);
            if (s->used + n > SEG) {
                s->readers = rnd() % 3 == 0;
                w++;
                if (live[w % 24])
                    segment_retire(live[w % 24]);
                live[w % 24] = s = segment_create();
            }
            memcpy(s->base + s->used, rec[i], n);
            s->used += n;
        }
        nap(12);
    }
    return 0;
}
