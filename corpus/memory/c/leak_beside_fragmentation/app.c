// A tracker. The main thread's table of peers loses IPv6 peers when they expire; a second thread fragments its own
// arena at a third of the pace.
#include "../common.h"

#define PEERS 9000
#define TABLE 14000
struct peer {
    char addr[64];
    int v6;
    size_t n;
    char state[];
};

NOINLINE struct peer *remember_peer(unsigned id) {
    size_t n = rng(300, 1100);
    struct peer *p = calloc(1, sizeof *p + n);
    p->n = sizeof *p + n;
    p->v6 = rnd() % 3 == 0;
    snprintf(p->addr, sizeof p->addr, p->v6 ? "fe80::%x" : "10.0.%u.1", id);
    memset(p->state, id, n);
    return p;
}

static void *indexer(void *a) {
    static char *tab[TABLE], *tmp[60];
    unsigned at = 0;
    size_t scratch = 1800;
    for (int i = 0; i < TABLE; i++)
        memset(tab[i] = malloc(4000), 1, 4000);
    for (;;) {
        for (int i = 0; i < 60; i++) {
            char **s = &tab[at++ % TABLE];
            free(*s);
            memset(tmp[i] = malloc(scratch), 1, scratch);
            memset(*s = malloc(4000), 2, 4000);
        }
        for (int i = 0; i < 60; i++)
            free(tmp[i]);
        scratch = scratch + 16 > 3900 ? 1800 : scratch + 16;
        nap(700);
    }
    return a;
}

int main(void) {
    static struct peer *ring[PEERS];
    double t0 = now();
    unsigned n = 0;
    pthread_t t;
    pthread_create(&t, 0, indexer, 0);
    ready();
    for (;;) {
        int k = 15 + (int)(swing(now() - t0, 10) * 30);
        while (k--) {
            struct peer **p = &ring[n++ % PEERS];
            if (*p && !(*p)->v6) /* expiry walks the IPv4 list only */
                free(*p);
            *p = remember_peer(n);
        }
        nap(20);
    }
}
