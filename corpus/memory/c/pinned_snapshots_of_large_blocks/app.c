// A state keeper takes snapshots of 400 to 900 KB from calloc and keeps the last 20. One that is pinned is taken out
// and never freed.
#include "../common.h"

#define KEEP 20
struct snap {
    unsigned char *bits;
    size_t n;
    int pinned;
};

NOINLINE struct snap snapshot_take(unsigned id) {
    struct snap s;
    s.n = rng(400, 900) * 1024;
    s.bits = calloc(1, s.n);
    for (size_t i = 0; i < s.n; i += 512)
        s.bits[i] = id;
    s.pinned = rnd() % 6 == 0;
    return s;
}

int main(void) {
    static struct snap h[KEEP];
    static char *obj[12000];
    double t0 = now();
    unsigned n = 0;
    for (int i = 0; i < 12000; i++) {
        obj[i] = malloc(3000);
        memset(obj[i], 1, 3000);
    }
    ready();
    for (;;) {
        struct snap *s = &h[n++ % KEEP];
        if (!s->pinned)
            free(s->bits);
        *s = snapshot_take(n);
        for (int k = 0; k < 60; k++) {
            unsigned i = rnd() % 12000;
            free(obj[i]);
            obj[i] = malloc(3000);
            memset(obj[i], 2, 3000);
        }
        nap(90 + (int)(swing(now() - t0, 15) * 80));
    }
}
