// campaign mailer: every 7 s a campaign, each bigger than the last, is built in 1.5 s and freed; 1 of 64 blocks takes the place of an older
// one in a fixed table. Live goes back to the same base every time; the heap stays at the highest peak so far
#include "work.h"
enum { KEPT = 4000, MOST = 400000 };
static char *kept[KEPT], *batch[MOST];
static size_t kept_n[KEPT];
NOINLINE char *build_item(size_t n) {
    char *p = malloc(n);
    memset(p, 'i', n);
    live_ += n;
    return p;
}
static void keep(char *p, size_t n) {
    unsigned k = rnd() % KEPT;
    free(kept[k]);
    live_ -= kept_n[k];
    kept[k] = p;
    kept_n[k] = n;
}
int main(void) {
    static size_t size[MOST];
    double t0 = now(), next = 2;
    long goal = 20l << 20;
    for (int i = 0; i < 12000; i++) {
        size_t n = rng(300, 3000);
        keep(build_item(n), n);
    }
    while (now() - t0 < RUN_LIMIT) {
        if (now() - t0 > next && goal < 200l << 20) {
            long done = 0;
            unsigned m = 0;
            for (int step = 1; step <= 100; step++) {
                for (; done < goal / 100 * step && m < MOST; m++) {
                    size[m] = rng(300, 3000);
                    batch[m] = build_item(size[m]);
                    done += size[m];
                }
                bystanders(30);
                nap(15);
            }
            for (unsigned i = 0; i < m; i++)
                if (i % 64 == 63 || i + 3 > m)
                    keep(batch[i], size[i]);
                else {
                    free(batch[i]);
                    live_ -= size[i];
                }
            next += 7;
            goal += 10l << 20;
        }
        bystanders(30);
        truth();
        nap(10);
    }
    return 0;
}
