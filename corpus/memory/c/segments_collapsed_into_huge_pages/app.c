// A column store: 240 segments of 2 MB, reserved at the start with a few used pages each. An optimiser asks the
// kernel to collapse one after the other into a huge page (MADV_COLLAPSE): the unused rest becomes resident.
#include "../common.h"
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
enum { N = 240 };
static const size_t huge = 2 << 20;

int main(void) {
    char *base = mmap(0, (N + 1) * huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    base = (char *)(((uintptr_t)base + huge - 1) & ~(huge - 1));
    madvise(base, N * huge, MADV_NOHUGEPAGE);
    for (int s = 0; s < N; s++)
        for (int k = 0; k < 5; k++)
            base[s * huge + (rnd() % 512) * 4096] = 1;
    madvise(base, N * huge, MADV_HUGEPAGE);
    double t0 = now(), next = 1;
    int s = 0;
    volatile int sum = 0;
    ready();
    for (;;) {
        if (now() - t0 > next && s < N) {
            if (madvise(base + s++ * huge, huge, MADV_COLLAPSE))
                perror("MADV_COLLAPSE");
            next += 0.9;
        }
        for (int i = 0; i < 20; i++)
            sum += base[(rnd() % N) * huge + 8];
        serve_requests(50);
        nap(10);
    }
}
