// A time-series store: one area under MADV_HUGEPAGE, reserved at the start, with 2 MB for each series. A new series
// writes 6 KB of its 2 MB.
#include "../common.h"
#include <sys/mman.h>

static const size_t AREA = 1ul << 30, H = 2ul << 20;
static char *area;
static unsigned nser;

NOINLINE void series_open(void) {
    if ((nser + 1) * H < AREA) {
        char *p = area + (size_t)nser * H;
        memset(p, 1, 6000);
        nser++;
    }
}

NOINLINE void series_append(unsigned i, size_t o) {
    memset(area + (size_t)i * H + (o % 12000), 2, 64);
}

int main(void) {
    double t0 = now();
    char *p = mmap(0, AREA + H, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    area = (char *)(((uintptr_t)p + H - 1) & ~(H - 1));
    madvise(area, AREA, MADV_HUGEPAGE);
    char *q[1000] = {0};
    double nx = t0;
    size_t o = 0;
    for (int i = 0; i < 10; i++)
        series_open();
    ready();
    for (;;) {
        if (now() > nx) {
            series_open();
            nx += 1.2;
        }
        for (int k = 0; k < 10; k++) {
            series_append(rnd() % nser, o += 64);
            int i = rnd() % 1000;
            free(q[i]);
            size_t n = rng(300, 9000);
            q[i] = malloc(n);
            memset(q[i], 1, n);
        }
        nap(12);
    }
}
