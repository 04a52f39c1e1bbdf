// A queue broker with one journal buffer that grows by realloc. It is never cut: the checkpoint compares the wrong
// number.
#include "../common.h"

struct journal {
    char *buf;
    size_t len, cap;
    unsigned long first_seq, acked;
} j;

NOINLINE void journal_append(const char *rec, size_t n) {
    if (j.len + n > j.cap) {
        j.cap += 192 * 1024;
        j.buf = realloc(j.buf, j.cap);
    }
    memcpy(j.buf + j.len, rec, n);
    j.len += n;
}

static void checkpoint(void) {
    if (j.acked < j.first_seq) /* never */
        j.len = 0;
    j.acked++;
}

int main(void) {
    static char rec[4096];
    static char *queue[10000];
    double t0 = now();
    unsigned n = 0;
    memset(rec, 'r', sizeof rec);
    for (int i = 0; i < 10000; i++) {
        queue[i] = malloc(rng(2000, 6000));
        memset(queue[i], 1, 2000);
    }
    ready();
    for (;;) {
        int k = 1 + (int)(swing(now() - t0, 13) * 8);
        while (k--) {
            unsigned i = n++ % 10000;
            free(queue[i]);
            size_t m = rng(2000, 6000);
            queue[i] = malloc(m);
            memset(queue[i], 2, m);
            journal_append(rec, rng(600, 4000));
        }
        checkpoint();
        nap(15);
    }
}
