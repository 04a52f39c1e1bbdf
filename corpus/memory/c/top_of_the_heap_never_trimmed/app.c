// An invoice printer that was tuned with M_TRIM_THRESHOLD and M_MMAP_THRESHOLD. Every second it lays one document out
// in ever longer buffers for 60 ms and frees them all.
#include "../common.h"

static char *layout_page(size_t n) {
    char *p = malloc(n);
    memset(p, 'L', n);
    return p;
}

int main(void) {
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    static char *form[4000];
    double t0 = now(), next = 1, mb = 6;
    for (int i = 0; i < 4000; i++)
        form[i] = layout_page(4000);
    ready();
    for (;;) {
        if (now() - t0 > next && mb < 320) {
            char *page[400];
            int n = (int)mb;
            for (int i = 0; i < n; i++)
                page[i] = layout_page((1 << 20) - 64 + i);
            nap(60);
            for (int i = n; i--;)
                free(page[i]);
            next += 1;
            mb += 2.2;
        }
        for (int i = 0; i < 30; i++) {
            unsigned k = rnd() % 4000;
            free(form[k]);
            form[k] = layout_page(4000);
        }
        serve_requests(20);
        nap(10);
    }
}
