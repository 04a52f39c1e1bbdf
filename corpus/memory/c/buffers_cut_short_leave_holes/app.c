// A document indexer parses into a buffer and keeps a small summary, cut out of the buffer by realloc. A summary
// takes the place of the oldest of 60,000. The documents grow slowly, so that they never fit the holes.
#include "../common.h"

enum { N = 60000 };
static char *sum[N];

struct doc {
    char *b;
    int slot;
};
static struct doc fly[64];

NOINLINE char *parse_document(size_t n) {
    char *b = malloc(n);
    memset(b, 'd', n);
    return b;
}

NOINLINE char *summarise(char *b) {
    char *s = realloc(b, 72);
    s[71] = 0;
    return s;
}

int main(void) {
    double sz = 900;
    char *q[100] = {0};
    unsigned qi = 0, f = 0;
    int filled = 0;
    ready();
    for (;;) {
        int m = filled < N ? N : 5;
        for (int k = 0; k < m; k++) {
            int i = filled++ % N;
            struct doc *d = &fly[f++ % 64];
            if (d->b) {
                char *s = summarise(d->b);
                free(sum[d->slot]);
                sum[d->slot] = s;
            }
            d->b = parse_document(m == N ? 80 : (size_t)sz);
            d->slot = i;
        }
        free(q[qi]);
        q[qi] = malloc(rng(20000, 60000));
        memset(q[qi], 2, 20000);
        qi = (qi + 1) % 100;
        sz += 0.4;
        nap(10);
    }
}
