// A campaign mailer: every 7 s a campaign, each larger than the last, is built in 1.5 s and freed. 1 of 64 blocks
// takes the place of an older one in a fixed table.
#include "../common.h"

enum { KEPT = 4000, MOST = 400000 };
static char *kept[KEPT], *batch[MOST];

NOINLINE char *build_item(size_t n) {
    char *p = malloc(n);
    memset(p, 'i', n);
    return p;
}

static void keep_item(char *p) {
    unsigned k = rnd() % KEPT;
    free(kept[k]);
    kept[k] = p;
}

int main(void) {
    double t0 = now(), next = 2;
    long goal = 20l << 20;
    for (int i = 0; i < 12000; i++)
        keep_item(build_item(rng(300, 3000)));
    ready();
    for (;;) {
        if (now() - t0 > next && goal < 200l << 20) {
            long done = 0;
            unsigned m = 0;
            for (int step = 1; step <= 100; step++) {
                for (; done < goal / 100 * step && m < MOST; m++) {
                    size_t n = rng(300, 3000);
                    batch[m] = build_item(n);
                    done += n;
                }
                serve_requests(30);
                nap(15);
            }
            for (unsigned i = 0; i < m; i++)
                if (i % 64 == 63 || i + 3 > m)
                    keep_item(batch[i]);
                else
                    free(batch[i]);
            next += 7;
            goal += 10l << 20;
        }
        serve_requests(30);
        nap(10);
    }
}
